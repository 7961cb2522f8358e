"""How often the right answer is ruled out, with predictions of every kind."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort

DELTA, PULLS = 0.1, 600
RUNS = effort.runs(3, whole=400)
TIED = {"a": 0.3, "b": 0.3}


def useful(chance, **_):
    return chance


def turned_round(chance, **_):
    return 1.0 - chance


def useless(random, **_):
    return float(random.random())


def huge(chance, **_):
    return 1e6 * (chance - 0.3)


def biased_by_group(chance, group, **_):
    return 0.3 * chance + (0.6 if group == "x" else 0.0)


def changing(chance, policy, **_):
    """A prediction that is made in a way that depends on which arm leads."""
    return chance if policy.recommend().leader == "a" else 1.0 - chance


def of_the_last_result(random, told, **_):
    return told[-1] if told else 0.5


MARGIN = {"control": "a", "margin": 0.1}
ON_MARGIN = {"a": 0.3, "b": {"x": 0.2, "y": 0.45}}
BEYOND = {"a": 0.3, "b": {"x": 0.2 - 1e-6, "y": 0.45}}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("means", "predict", "limits", "fit", "right"),
    [
        (TIED, useful, {}, True, "a"),
        (TIED, turned_round, {}, False, "a"),
        (TIED, useless, {}, False, "a"),
        (TIED, huge, {}, True, "a"),
        (TIED, biased_by_group, {}, True, "a"),
        (TIED, changing, {}, True, "a"),
        (TIED, of_the_last_result, {}, True, "a"),
        (ON_MARGIN, useful, MARGIN, True, "b"),
        (ON_MARGIN, useless, MARGIN, False, "b"),
        (BEYOND, useful, MARGIN, True, "a"),
        (BEYOND, turned_round, MARGIN, True, "a"),
        ({"a": 0.4, "b": 0.3}, useful, {"floors": {"a": 0.4, "b": 0.1}}, True, "a"),
    ],
)
def test_the_right_answer_is_seldom_ruled_out(means, predict, limits, fit, right):
    """At most delta, within three standard errors of the Monte Carlo share."""
    problem = Problem(
        ["a", "b"],
        ["x", "y"],
        reward_range=(0, 1),
        prediction={"range": (0, 1), "fit": fit},
        **(limits or {"floors": None}),
    )
    ruled_out = sum(is_ruled_out(problem, means, predict, right, seed) for seed in range(RUNS))
    assert ruled_out / RUNS <= effort.tolerated(DELTA, RUNS)


def is_ruled_out(problem, means, predict, right, seed):
    random = np.random.default_rng(seed)
    policy, told = BlockBetting(problem, delta=DELTA, seed=seed), []
    place = problem.arms.index(right)
    while policy.asked < (PULLS if RUNS > 10 else 200) and not policy.stopped:
        group, luck = str(random.choice(["x", "y"])), float(random.choice([0.0, 1.0]))
        # Half of the units have a third of the chances of the others.
        factor = 0.5 + luck
        chance = min(1.0, 0.3 * factor)
        known = predict(chance=chance, group=group, random=random, policy=policy, told=told)
        pull = policy.ask(group=group, prediction=known)
        mean = means[pull.arm]
        mean = mean if isinstance(mean, float) else mean[group]
        reward = float(random.random() < mean * factor)
        told.append(reward)
        policy.tell(pull, reward)
        if policy._rejected[place]:
            return True
    return False
