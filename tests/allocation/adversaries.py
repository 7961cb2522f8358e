"""Random quotas, and learners that do all they can to break them."""

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
    """Pick an arm that is owed least: it helps nobody."""
    return lambda allowed: min(allowed, key=lambda arm: (slow.credits[arm], arm))


def hostile(slow, choices):
    """Read choices off a list; the credits decide what they mean."""

    def pick(allowed):
        kind = next(choices)
        by_credit = sorted(allowed, key=lambda arm: (slow.credits[arm], arm))
        return by_credit[0] if kind < 2 else by_credit[kind % len(by_credit)]

    return pick
