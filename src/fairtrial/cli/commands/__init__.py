"""The subcommands: each says its options, and imports its work when it runs."""
