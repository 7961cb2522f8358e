"""Every policy that bets on blocks warns when some arms lose far more results than others."""

import numpy as np
import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.confidence.loss_test import UNEQUAL_LOSSES

RANGE = {"reward_range": (0, 1)}
FAMILIES = {
    "subpopulations": lambda: subpopulations.BlockBetting(
        subpopulations.Problem(["0", "1"], ["x", "y"], **RANGE), delta=1e-12, seed=0
    ),
    "linear": lambda: linear.BlockBetting(
        linear.Problem([[1, 0], [0, 1]], **RANGE), delta=1e-12, seed=0
    ),
    "delayed": lambda: delayed.BlockBetting(
        delayed.Problem(["0", "1"], **RANGE), delta=1e-12, seed=0
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("losing", "warns"), [(["1"], True), (["0", "1"], False), ([], False)])
def test_losses_of_one_arm_alone_are_warned_of_and_those_of_all_are_not(family, losing, warns):
    policy, rng = FAMILIES[family](), np.random.default_rng(1)
    for _ in range(400):
        pull = policy.ask()
        if pull.arm in losing and rng.random() < 0.2:
            policy.fail(pull)
        else:
            policy.tell(pull, float(rng.random() < 0.5))
    assert not policy.stopped
    assert (UNEQUAL_LOSSES in policy.warnings()) == warns
    lost = 400 - policy.told
    said = f"lost pulls by arm: 1 {lost}; no other arm has lost any"
    assert (said in policy.remarks_on_arms()) == warns
