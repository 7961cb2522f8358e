"""What the results of several measures contradict: ranges, noise, losses, and drift."""

import math
from typing import Any

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.confidence.loss_test import UNEQUAL_LOSSES
from fairtrial.errors import InvalidOutcome
from fairtrial.study.assumption_checks import BLINDED
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.messages import raises

TWO = {"effect": (0, 1), "harm": (0, 1)}


def bounded(**more: Any) -> BlockBetting:
    problem = Problem(["a", "b"], 1, measures=TWO, objective="effect", ceilings={"harm": 0.9})
    return BlockBetting(problem, delta=1e-12, seed=1, **more)


def of_normal(names: list[str], *, covariance: bool = False) -> BlockBetting:
    noise: dict[str, Any] = {"noise_std": dict.fromkeys(names, 1.0)}
    if covariance:
        noise = {"noise_cov": np.eye(len(names))}
    problem = Problem(
        ["a", "b"], 1, measures=names, objective=names[0], floors={names[0]: -9.0}, **noise
    )
    return BlockBetting(problem, delta=1e-12, seed=1)


def carry_out(policy: Any, answer: Any, pulls: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    for index in range(pulls):
        pull = policy.ask()
        policy.tell(pull, answer(pull, index / pulls, rng))
    return policy


def coin(rng: np.random.Generator, chance: float) -> float:
    return float(rng.random() < chance)


# ------------------------------------------------------------------------------- ranges


@pytest.mark.parametrize("value", [1.0000001, -0.1, math.inf, math.nan, 1e300, "1", True + 1])
def test_a_value_beyond_its_range_is_refused_and_no_value_of_the_pull_is_taken(value):
    policy = bounded()
    pull = policy.ask()
    before = {name: own.tolist() for name, own in policy.get_state().items()}
    with raises(InvalidOutcome, "outcome: harm", given=value):
        policy.tell(pull, {"effect": 1, "harm": value})
    after = {name: own.tolist() for name, own in policy.get_state().items()}
    assert str(before) == str(after)
    policy.tell(pull, {"effect": 1, "harm": 0})
    assert policy.told == 1


# -------------------------------------------------------------------------------- noise


@pytest.mark.parametrize("covariance", [False, True])
def test_noise_that_is_larger_than_stated_is_found_and_its_measure_named(covariance):
    policy = of_normal(["load", "rate"], covariance=covariance)
    carry_out(policy, lambda _p, _t, rng: {"load": rng.normal(), "rate": 2 * rng.normal()}, 300)
    stated = "noise_cov" if covariance else "noise_std"
    (warning,) = policy.warnings()
    assert f"contradict the stated {stated} of rate: they spread 2 times" in warning
    assert policy.guarantee.label == "heuristic"
    assert policy.progress().intervals == "approximate"


def test_equal_measures_count_as_one_piece_of_evidence_against_the_noise():
    """Eight copies of values that spread slightly too widely prove no more than one of them."""
    one, names = of_normal(["m0"]), [f"m{i}" for i in range(8)]
    eight = of_normal(names)
    carry_out(one, lambda _p, _t, rng: {"m0": 1.15 * rng.normal()}, 200)
    carry_out(eight, lambda _p, _t, rng: dict.fromkeys(names, 1.15 * rng.normal()), 200)
    assert eight._contradiction is None
    assert eight.guarantee.label == one.guarantee.label == "proven"


@pytest.mark.statistical
def test_a_true_noise_is_never_contradicted_however_measures_depend_on_each_other():
    runs = effort.runs(30, whole=500)
    names = [f"m{i}" for i in range(8)]
    for seed in range(runs):
        policy = of_normal(names)
        carry_out(policy, lambda _p, _t, rng: dict.fromkeys(names, rng.normal()), 40, seed)
        assert policy.guarantee.label == "proven"


# ------------------------------------------------------------------------------- losses


@pytest.mark.parametrize(("losses", "label"), [("informative", "proven"), ("ignorable", None)])
def test_a_measure_that_one_arm_loses_more_often_is_found(losses, label):
    policy = bounded(losses=losses)

    def loses_harms_of_b(pull, _time, rng):
        lost = pull.arm == "b" and rng.random() < 0.3
        return {"effect": coin(rng, 0.4), "harm": None if lost else coin(rng, 0.2)}

    carry_out(policy, loses_harms_of_b, 500)
    assert UNEQUAL_LOSSES in policy.warnings()
    assert policy.guarantee.label == (label or "heuristic")


@pytest.mark.parametrize(("rate", "warns"), [(0.3, True), (0.0, False)])
def test_values_that_one_arm_misses_after_the_last_block_are_found_when_no_pull_is_open(
    rate, warns
):
    policy, rng = bounded(), np.random.default_rng(1)
    opened = policy.ask(400)
    for pull in opened[:-1]:
        lost = pull.arm == "b" and rng.random() < rate
        values = {"effect": coin(rng, 0.4), "harm": None if lost else coin(rng, 0.2)}
        policy.tell(pull, values)
    assert UNEQUAL_LOSSES not in policy.warnings()
    policy.tell(opened[-1], {"effect": 0.0, "harm": 0.0})
    assert (UNEQUAL_LOSSES in policy.warnings()) == warns


def test_equal_losses_of_a_measure_are_no_finding():
    policy = bounded()
    carry_out(
        policy,
        lambda _p, _t, rng: {
            "effect": coin(rng, 0.4),
            "harm": None if rng.random() < 0.2 else coin(rng, 0.2),
        },
        500,
    )
    assert UNEQUAL_LOSSES not in policy.warnings()


# -------------------------------------------------------------------------------- drift


def study_of(policy: Any) -> Any:
    return ft.Study.create(policy.problem, policy, storage="memory://", name="trial", seed=3)


def rising_harm(pull: Any, time: float, rng: np.random.Generator) -> dict[str, float]:
    harm = 0.1 + 0.8 * (time > 0.5) if pull.arm == "b" else 0.4
    return {"effect": coin(rng, 0.4), "harm": coin(rng, harm)}


def test_a_measure_that_drifts_is_named_with_its_arm_and_one_that_stays_is_not():
    with study_of(bounded()) as study:
        carry_out(study, rising_harm, 600)
        (warning,) = study.health()["warnings"]
        assert warning.startswith("harm: the results of 'b'")
        assert "'a'" not in warning
        assert "effect" not in warning
        assert study.health(blinded=True)["warnings"] == []
        assert study.warnings_to_send() == [BLINDED]


def test_steady_measures_do_not_drift_though_values_are_missing_or_come_early():
    rng = np.random.default_rng(4)
    with study_of(bounded()) as study:
        for index in range(300):
            pull = study.ask()
            if index % 3:
                study.report(pull, {"effect": coin(rng, 0.4)})
                rest = {"harm": None if rng.random() < 0.1 else coin(rng, 0.2)}
            else:
                rest = {"effect": coin(rng, 0.4), "harm": coin(rng, 0.2)}
            if index % 50 == 7:
                study.fail(pull, "left")
            else:
                study.tell(pull, rest)
        assert study.health()["warnings"] == []


def test_a_corrected_measure_counts_as_corrected():
    rng = np.random.default_rng(5)
    with study_of(bounded()) as study:
        told = []
        for index in range(240):
            told.append(study.ask())
            study.tell(told[-1], {"effect": coin(rng, 0.4), "harm": float(index >= 120)})
        assert any(one.startswith("harm") for one in study.health()["warnings"])
        for pull in told:
            study.amend(pull, {"harm": coin(rng, 0.3)}, "read from the wrong column")
        assert not any("another distribution" in one for one in study.health()["warnings"])


def test_harms_in_flight_of_bad_cases_do_not_look_like_drift():
    """Late in the study the harm of a bad case is still unknown, while its effect is reported."""
    rng = np.random.default_rng(6)
    with study_of(bounded()) as study:
        for pull in study.ask(500):
            effect, harm = coin(rng, 0.4), coin(rng, 0.5)
            if pull.number < 250 or harm == 0.0:
                study.tell(pull, {"effect": effect, "harm": harm})
            else:
                study.report(pull, {"effect": effect})
        assert not any("another distribution" in one for one in study.health()["warnings"])
