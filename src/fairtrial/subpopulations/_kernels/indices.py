"""What kernels and policies call by number: planes, entries, rules and stops.

Plain integers, so that a policy can name them without loading the compiler.
"""

COUNTS, PENDING, SUMS, SQUARES, MEANS, PRECISIONS, CREDIT, SHARES = range(8)
"""Planes of a tracker's state array, each of shape (K, L)."""

PLANES = 8

BEST, WEAKEST = range(2)
"""Entries of a tracker's `scan`: the answer and its weakest pitfall when last looked at."""

UNKNOWN = -2
"""What both are before the first reward."""

BALANCED, PAPER, EXACT, PLAIN, UNIFORM, ROUND_ROBIN, STATIC = range(7)
"""Sampling rules; round robin is nothing but the least drawn cell, again and again."""

STYLISED, STYLISED_WITHOUT_HALF, MIXTURE, ITERATED_LOGARITHM = range(4)
"""Stopping tests."""

ANY_GROUP = -1
"""The group when none has arrived by itself."""
