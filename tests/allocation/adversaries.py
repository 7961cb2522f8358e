"""Random quotas, and adversarial learners that try to break them."""

from fractions import Fraction

from hypothesis import strategies as st


@st.composite
def quotas(draw, most=1.0, strict=False):
    arms = draw(st.integers(1, 6))
    unit = draw(st.sampled_from([7, 10, 12, 30, 60, 97]))
    left = unit - (1 if strict else 0)
    parts = []
    for _ in range(arms):
        part = draw(st.integers(0, left))
        parts.append(Fraction(part, unit))
        left -= part
    return draw(st.permutations(parts))


def starving(slow):
    """Pick the arm that is owed the least, which never helps to keep the shares."""
    return lambda allowed: min(allowed, key=lambda arm: (slow.credits[arm], arm))


def hostile(slow, choices):
    """Take choices from a list; their meaning depends on the credits."""

    def pick(allowed):
        kind = next(choices)
        by_credit = sorted(allowed, key=lambda arm: (slow.credits[arm], arm))
        return by_credit[0] if kind < 2 else by_credit[kind % len(by_credit)]

    return pick
