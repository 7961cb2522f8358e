"""The subcommands: a module is imported when a command of it is called."""
