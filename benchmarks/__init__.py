"""How fast fairtrial is: scripts that print figures, and judge nothing."""
