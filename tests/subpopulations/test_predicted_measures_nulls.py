"""How often the right answer is ruled out if measures of a pull are predicted."""

import math

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort

DELTA = 0.1
RUNS = effort.runs(2, whole=400)
PULLS = 150 if RUNS < 10 else 600

SOLD = {"sold": (0, 1)}
BOTH = {"sold": (0, 1), "harm": (0, 1)}
HARMLESS = {"ceilings": {"harm": 0.3}}
MIXED = {"objective": {"sold": 1.0, "harm": -1.0}, "ceilings": {}}


def useful(unit, **_):
    return unit


def turned_round(unit, **_):
    return {name: 1.0 - chance for name, chance in unit.items()}


def useless(random, **_):
    return {name: float(random.random()) for name in ("sold", "harm")}


def huge(unit, **_):
    return {name: 1e6 * (chance - 0.3) for name, chance in unit.items()}


def swapped(unit, **_):
    return {"sold": unit["harm"], "harm": unit["sold"]}


def changing(unit, policy, **_):
    """Predictions that are made in a way that depends on which arm leads."""
    return unit if policy.recommend().leader == "a" else turned_round(unit)


def kept(outcome, **_):
    return outcome


def harm_of_the_new_arm_hides(outcome, arm, unit, random):
    """Half of the harms of arm b are never known, those of units at risk most often."""
    hides = arm == "b" and outcome["harm"] == 1.0 and random.random() < 0.3 + unit["harm"]
    return {**outcome, "harm": None} if hides else outcome


def good_results_of_the_answer_get_lost(outcome, arm, unit, random):
    """Some good results of arm a get lost, with a probability that depends on the unit."""
    lost = arm == "a" and outcome["sold"] == 1.0 and random.random() < 0.4 * unit["sold"]
    return None if lost else outcome


# Rates of the measures by arm; the prediction; limits; what happens to outcomes; the right answer.
TIED = {"a": (0.3, 0.1), "b": (0.3, 0.1)}
CASES = {
    "tie, useful": (TIED, useful, SOLD, HARMLESS, kept, "a"),
    "tie, useless, slope 1": (TIED, useless, {"sold": False}, HARMLESS, kept, "a"),
    "tie, turned round, slope 1": (TIED, turned_round, {"sold": False}, HARMLESS, kept, "a"),
    "tie, huge": (TIED, huge, SOLD, HARMLESS, kept, "a"),
    "tie of two predicted measures": (
        {"a": (0.3, 0.2), "b": (0.35, 0.25)},
        *(useful, BOTH, MIXED, kept, "a"),
    ),
    "tie, predictions swapped": (
        {"a": (0.3, 0.2), "b": (0.35, 0.25)},
        *(swapped, {"sold": False, "harm": False}, MIXED, kept, "a"),
    ),
    "tie, predictions change": (TIED, changing, BOTH, HARMLESS, kept, "a"),
    "answer on a ceiling without a prediction": (
        {"a": (0.4, 0.3), "b": (0.3, 0.1)},
        *(useful, SOLD, HARMLESS, kept, "a"),
    ),
    "answer on a predicted ceiling": (
        {"a": (0.4, 0.3), "b": (0.3, 0.1)},
        *(useful, BOTH, HARMLESS, kept, "a"),
    ),
    "better arm beyond a predicted ceiling": (
        {"a": (0.3, 0.1), "b": (0.4, 0.3 + 1e-6)},
        *(useful, BOTH, HARMLESS, kept, "a"),
    ),
    "answer on a margin": (
        {"a": (0.3, 0.1), "b": (0.35, 0.2)},
        useful,
        BOTH,
        {"control": "a", "direction": {"harm": "minimize"}, "margin": {"harm": 0.1}},
        *(kept, "b"),
    ),
    "none, every arm beyond": (
        {"a": (0.3, 0.3 + 1e-6), "b": (0.4, 0.3 + 1e-6)},
        *(useful, BOTH, HARMLESS, kept, None),
    ),
    "better arm beyond, its harms hide": (
        {"a": (0.3, 0.1), "b": (0.4, 0.3 + 1e-6)},
        *(useful, BOTH, HARMLESS, harm_of_the_new_arm_hides, "a"),
    ),
    "tie, good results of the answer get lost": (
        TIED,
        *(useful, SOLD, HARMLESS, good_results_of_the_answer_get_lost, "a"),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_the_right_answer_is_seldom_ruled_out(name, record_property):
    """At most delta, within three standard errors of the Monte Carlo share."""
    share = share_ruled_out(name, RUNS, PULLS)
    record_property("ruled out", share)
    assert share <= effort.tolerated(DELTA, RUNS)


def share_ruled_out(name, runs, pulls):
    """Return the share of runs in which the right answer is ever ruled out."""
    _, _, stated, limits, _, _ = CASES[name]
    fits = {key: own if isinstance(own, bool) else True for key, own in stated.items()}
    prediction = {key: {"range": (0, 1), "fit": fit} for key, fit in fits.items()}
    problem = Problem(
        ["a", "b"],
        ["x", "y"],
        measures={"sold": (0, 1), "harm": (0, 1)},
        prediction=prediction,
        **{"objective": "sold", **limits},
    )
    return sum(is_ruled_out(problem, name, seed, pulls) for seed in range(runs)) / runs


def is_ruled_out(problem, name, seed, pulls):
    rates, predict, stated, _, happens, right = CASES[name]
    random = np.random.default_rng(seed)
    policy = BlockBetting(problem, delta=DELTA, seed=seed)
    place = 2 if right is None else problem.arms.index(right)
    while policy.asked < pulls and not policy.stopped:
        group, factor = str(random.choice(["x", "y"])), float(random.choice([0.5, 1.5]))
        unit = {"sold": 0.3 * factor, "harm": 0.2 * (2.0 - factor)}
        known = predict(unit=unit, random=random, policy=policy)
        pull = policy.ask(group=group, prediction={key: known[key] for key in stated})
        sold, harm = rates[pull.arm]
        outcome = {
            "sold": float(random.random() < sold * factor),
            "harm": float(random.random() < harm * (2.0 - factor)),
        }
        told = happens(outcome, arm=pull.arm, unit=unit, random=random)
        if told is None:
            policy.fail(pull)
        else:
            policy.tell(pull, told)
        if policy._rejected[place]:
            return True
    return False


KNOWN = {
    "tie": (
        {"floors": {"safe": -0.5}},
        {"residual_std": 0.6},
        *([[0.0, 0.0], [0.0, 0.0]], 0),
    ),
    "answer on its margin": (
        {"control": "0", "margin": {"gain": 0.25}},
        {"residual_std": 0.6},
        *([[0.0, 0.0], [-0.25, 0.8]], 1),
    ),
    "answer on a floor of known means": (
        {"floors": {"gain": 0.0}},
        {"residual_std": 0.6, "known_mean": {"0": 0.3, "1": 0.3}},
        *([[0.0, 0.5], [0.1, 0.1]], 0),
    ),
    "rival below a floor": (
        {"floors": {"gain": 0.0}},
        {"residual_std": 0.6},
        *([[-1e-6, 0.5], [0.1, 0.1]], 1),
    ),
}
"""Limits, the statement, the means of the first measure, and the right answer's place."""


@pytest.mark.statistical
@pytest.mark.parametrize("name", KNOWN)
def test_with_known_noise_the_right_answer_is_seldom_ruled_out(name, record_property):
    share = share_ruled_out_with_known_noise(name, RUNS, PULLS)
    record_property("ruled out", share)
    assert share <= effort.tolerated(DELTA, RUNS)


def share_ruled_out_with_known_noise(name, runs, pulls):
    """Return the same share for normal measures, the second of which follows the first."""
    limits, stated, means, place = KNOWN[name]
    problem = Problem(
        2,
        2,
        measures=["gain", "safe"],
        noise_std={"gain": 1.0, "safe": 1.0},
        objective="gain",
        prediction={"gain": stated},
        **limits,
    )
    ruled_out = 0
    for seed in range(runs):
        random, policy = np.random.default_rng(seed), BlockBetting(problem, DELTA, seed=seed)
        while policy.asked < pulls and not policy.stopped:
            group, off = str(random.integers(2)), 0.8 * float(random.normal())
            pull = policy.ask(group=group, prediction=0.3 + off)
            noise = off + 0.6 * float(random.normal())
            gain = means[int(pull.arm)][int(group)] + noise
            safe = math.sqrt(0.5) * (noise + float(random.normal()))
            policy.tell(pull, {"gain": gain, "safe": safe})
            if policy._rejected[place]:
                ruled_out += 1
                break
    return ruled_out / runs
