"""How many runs costly tests make: enough to fail if the code is clearly wrong, or all."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")

long = False
"""Whether pytest was called with `--long`; set before tests are collected."""


def runs(short: int, *, whole: int) -> int:
    """Return how many runs or examples a test makes: `short`, or `whole` under `--long`."""
    return whole if long else short


def pairs(first: Iterable[First], second: Sequence[Second]) -> list[tuple[First, Second]]:
    """Return the pairs of values for which a test runs: all of them under `--long`.

    Otherwise each of the first values comes once, with one of the second values in turn.
    """
    if long:
        return list(itertools.product(first, second))
    return list(zip(first, itertools.cycle(second), strict=False))


def covering(*parameters: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the combinations of values for which a test runs: all of them under `--long`.

    Otherwise they are a few in which every two values of two parameters come together at least
    once: most faults of a combination need no more than two values.

    Notes
    -----
    The next combination is the first of those that have the most pairs that were not there yet.
    So the same parameters always give the same combinations.
    """
    combinations = list(itertools.product(*parameters))
    if long:
        return combinations
    missing = {pair for combination in combinations for pair in _pairs_of(combination)}
    chosen = []
    while missing:
        most = max(combinations, key=lambda found: len(missing.intersection(_pairs_of(found))))
        chosen.append(most)
        missing.difference_update(_pairs_of(most))
    return chosen


def _pairs_of(combination: Sequence[Any]) -> Iterator[tuple[tuple[int, Any], ...]]:
    """Yield every two values of a combination, with the places of their parameters."""
    return itertools.combinations(enumerate(combination), 2)


def first(number: int, items: Sequence[First]) -> Sequence[First]:
    """Return that many of the first items, as values of a parameter; under `--long` all."""
    return items[: runs(number, whole=len(items))]


def alternate(
    items: Sequence[First], kind: Callable[[First], Any], *, second: bool = False
) -> list[First]:
    """Return every second item of each kind, as values of a parameter; under `--long` all.

    Two tests, of which one begins with the `second` item, have all items together. The only item
    of its kind is in both.
    """
    if long:
        return list(items)
    alike: dict[Any, list[First]] = {}
    for item in items:
        alike.setdefault(kind(item), []).append(item)
    chosen = [own[second and len(own) > 1 :: 2] for own in alike.values()]
    return list(itertools.chain.from_iterable(chosen))


def tolerated(probability: float, number: int) -> float:
    """Return the largest share of `number` runs that is still consistent with that probability.

    It is three standard errors above, so a correct test fails for at most one seed in 700.
    """
    return probability + 3.0 * math.sqrt(probability * (1.0 - probability) / number)
