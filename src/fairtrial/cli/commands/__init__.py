"""The subcommands: each declares its options, and imports its code when it runs."""
