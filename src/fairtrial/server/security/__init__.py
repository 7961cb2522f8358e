"""Who may do what: tokens and sessions, limits, and what comes in over the network."""
