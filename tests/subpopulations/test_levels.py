"""How much evidence the proven stops require: one test for every way to be wrong."""

from __future__ import annotations

import math

import pytest

from fairtrial.confidence import GaussianMixture, KaufmannKoolen, Stylised
from fairtrial.confidence.thresholds import kaufmann_koolen_constant
from fairtrial.subpopulations import BalancedTracking, Problem
from fairtrial.subpopulations.policies.levels import price_of_order, proven_level

FREE = None
FLOORS = [[0.0, FREE, FREE, FREE], [0.0, 0.0, FREE, 0.0], [FREE] * 4]


def problem(**changes: object) -> Problem:
    return Problem(3, 4, **{"floors": FLOORS, "noise_std": 1.0, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "tests"),
    [
        ({"floors": FREE}, 2),
        ({}, 2 + 3),
        ({"ceilings": 1.0}, 2 + 3 + 4),
        ({"ceilings": [FREE, FREE, FREE, 1.0]}, 2 + 3 + 1),
    ],
    ids=["no limits", "floors", "floors and ceilings", "one ceiling"],
)
def test_delta_is_shared_by_the_rivals_and_the_limits_of_one_arm(
    changes: dict[str, object], tests: int
) -> None:
    level, constants = proven_level(problem(**changes), GaussianMixture(), 0.1, in_order=False)
    assert level == pytest.approx(math.log(tests / 0.1))
    assert constants.tolist() == [0.0] * 9
    policy = BalancedTracking(problem(**changes), delta=0.1)
    assert policy.progress().threshold == pytest.approx(level)


def test_one_arm_with_one_limit_has_one_test() -> None:
    alone = Problem(1, 1, floors=0.0, noise_std=1.0)
    assert proven_level(alone, Stylised(), 0.05, in_order=False)[0] == pytest.approx(math.log(20.0))


def test_constants_of_kaufmann_and_koolen_share_the_level_among_the_cells() -> None:
    level, constants = proven_level(problem(), KaufmannKoolen(), 0.1, in_order=False)
    expected = [kaufmann_koolen_constant(level / cells) for cells in (1, *range(1, 9))]
    assert constants == pytest.approx(expected)


def test_in_order_the_mixture_pays_for_every_number_of_cells() -> None:
    level, constants = proven_level(problem(), GaussianMixture(kappa=40.0), 0.1, in_order=True)
    assert constants[1:] == pytest.approx(price_of_order(8, level, 1))
    assert constants[0] == 0.0
