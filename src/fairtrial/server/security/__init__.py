"""Access control: tokens and sessions, limits, and checks of incoming requests."""
