"""Means of every measure of every arm over all groups."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem

GROUPS = {"old": 0.3, "young": 0.7}
RANGES = {"cured": (0, 1), "harmed": (0, 1)}
NOISE = {"measures": ["cured", "harmed"], "noise_cov": [[1.0, 0.3], [0.3, 0.5]]}


def told(pulls=200, **options):
    """Return block betting with results of which some are missing, and all of these results."""
    problem = Problem(["a", "b", "c"], GROUPS, objective="cured", **options)
    policy, generator = BlockBetting(problem, delta=1e-6, seed=3), np.random.default_rng(5)
    values = {}
    for _ in range(pulls):
        pull = policy.ask()
        chance = 0.2 + 0.2 * problem.arms.index(pull.arm) + 0.1 * (pull.group == "old")
        outcome = dict(zip(problem.measures, (generator.random(2) < chance) * 1.0, strict=True))
        for measure, value in outcome.items():
            values.setdefault((pull.arm, pull.group, measure), []).append(value)
        policy.tell(pull, outcome)
    return policy, values


@pytest.mark.parametrize("options", [{"measures": RANGES}, NOISE], ids=["range", "noise"])
def test_the_mean_over_all_groups_is_weighted_by_group_and_lies_in_its_interval(options):
    policy, values = told(**options)
    progress = policy.progress()
    found = {(one.labels["arm"], one.labels["measure"]): one for one in progress.overall_measures}
    assert set(found) == {(arm, m) for arm in "abc" for m in ("cured", "harmed")}
    for (arm, measure), one in found.items():
        of_all = sum(w * np.mean(values[arm, group, measure]) for group, w in GROUPS.items())
        assert one.mean_of_all == pytest.approx(of_all)
        assert one.lower <= one.mean <= one.upper
        assert one.pulls == sum(len(values[arm, group, measure]) for group in GROUPS)


@pytest.mark.parametrize("options", [{"measures": RANGES}, NOISE], ids=["range", "noise"])
def test_the_objective_is_the_same_as_in_the_table_of_arms(options):
    progress = told(**options)[0].progress()
    own = [one for one in progress.overall_measures if one.labels["measure"] == "cured"]
    for one, arm in zip(own, progress.arms, strict=True):
        assert (one.mean, one.lower, one.upper) == (arm.mean, arm.lower, arm.upper)


def test_lost_values_widen_the_interval_to_both_sides_of_every_possible_mean():
    """Of values in a range, each that will never be known may be anywhere in it."""
    problem = Problem(["a", "b"], GROUPS, measures=RANGES, objective="cured")
    policy = BlockBetting(problem, delta=0.05, seed=1)
    for number in range(600):
        pull = policy.ask()
        harmed = None if number % 4 == 0 else 0.0
        policy.tell(pull, {"cured": float(number % 2), "harmed": harmed})
        if policy.stopped:
            break
    for one in policy.progress().overall_measures:
        if one.labels["measure"] == "harmed":
            # A quarter may all have been harmed.
            assert one.lower <= 0.01
            assert one.upper >= 0.24


def test_with_one_group_they_are_those_of_the_only_group():
    problem = Problem(["a", "b"], 1, measures=RANGES, objective="cured")
    policy = BlockBetting(problem, seed=0)
    policy.tell(policy.ask(), {"cured": 1.0, "harmed": 0.0})
    assert policy.progress().overall_measures == ()
