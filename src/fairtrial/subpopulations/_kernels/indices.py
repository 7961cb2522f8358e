"""Numbers of sampling rules and stopping tests, for kernels and policies.

They are plain integers, so that a policy can name them without loading the compiler.
"""

BALANCED, PAPER, EXACT, PLAIN, UNIFORM, ROUND_ROBIN, STATIC = range(7)
"""Sampling rules; round robin always pulls the cell with the fewest pulls."""

STYLISED, STYLISED_WITHOUT_HALF, MIXTURE, ITERATED_LOGARITHM = range(4)
"""Stopping tests."""

ANY_GROUP = -1
"""The group if none has arrived by itself."""
