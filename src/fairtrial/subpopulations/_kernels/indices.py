"""What kernels and policies call by number: sampling rules and stopping tests.

Plain integers, so that a policy can name them without loading the compiler.
"""

BALANCED, PAPER, EXACT, PLAIN, UNIFORM, ROUND_ROBIN, STATIC = range(7)
"""Sampling rules; round robin is nothing but the least drawn cell, again and again."""

STYLISED, STYLISED_WITHOUT_HALF, MIXTURE, ITERATED_LOGARITHM = range(4)
"""Stopping tests."""

ANY_GROUP = -1
"""The group when none has arrived by itself."""
