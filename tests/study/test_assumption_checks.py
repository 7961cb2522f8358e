"""Evidence in a study's log against its assumptions, as `health` reports it."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fairtrial as ft
from fairtrial import allocation, delayed, linear, subpopulations
from fairtrial.core import Pull
from fairtrial.study.assumption_checks import BLINDED

Means = Callable[[Pull, float], float]
RANGE = {"reward_range": (0, 1)}


def of_groups(**more: Any) -> Any:
    problem = subpopulations.Problem(["a", "b"], {"x": 0.7, "y": 0.3}, **RANGE)
    return subpopulations.BlockBetting(problem, delta=1e-9, **more)


POLICIES = {
    "subpopulations": of_groups,
    "linear": lambda: linear.BlockBetting(
        linear.Problem([[1, 0], [0, 1]], arms=["a", "b"], **RANGE), delta=1e-9
    ),
    "delayed": lambda: delayed.BlockBetting(delayed.Problem(["a", "b"], **RANGE), delta=1e-9),
    "tracking": lambda: subpopulations.TrackAndStop(
        subpopulations.Problem(["a", "b"], ["x", "y"], noise_std=1.0), delta=1e-9
    ),
}


@contextmanager
def study_of(policy):
    with ft.Study.create(
        policy.problem, policy, storage="memory://", name="trial", seed=3
    ) as study:
        yield study


def success(rng: np.random.Generator, probability: float) -> float:
    return float(rng.random() < probability)


def carry_out(study, mean: Means, pulls: int, seed: int = 0, **context: Any) -> None:
    rng = np.random.default_rng(seed)
    for index in range(pulls):
        pull = study.ask(**context)
        study.tell(pull, success(rng, mean(pull, index / pulls)))


def steady(_pull: Pull, _time: float) -> float:
    return 0.4


def rising(pull: Pull, time: float) -> float:
    return 0.1 + 0.8 * (time > 0.5) if pull.arm == "b" else 0.4


@pytest.mark.parametrize("family", POLICIES)
def test_an_arm_whose_results_change_is_named_and_one_that_stays_is_not(family: str) -> None:
    with study_of(POLICIES[family]()) as study:
        carry_out(study, rising, 600)
        (warning,) = study.health()["warnings"]
    assert "'b'" in warning
    assert "'a'" not in warning
    assert "come from another distribution later in the study" in warning
    with study_of(POLICIES[family]()) as study:
        carry_out(study, steady, 600)
        assert study.health()["warnings"] == []


def test_a_paired_race_is_tested_arm_by_arm_as_its_arms_share_their_blocks() -> None:
    problem = delayed.Problem([f"arm {number}" for number in range(20)], **RANGE)
    rng = np.random.default_rng(0)
    hardness = np.repeat([0.3, 0.5], 30) + 0.4 * rng.random(60)
    with study_of(delayed.PairedRacing(problem, delta=1e-9)) as study:
        for _ in range(20 * 60):
            pull = study.ask()
            study.tell(pull, float(hardness[pull.tag]))
        assert study.health()["warnings"] == []


def test_a_blinded_view_says_that_something_was_found_and_not_of_which_arm() -> None:
    with study_of(of_groups()) as study:
        carry_out(study, rising, 600)
        assert study.health(blinded=True)["warnings"] == []
        assert study.warnings_to_send() == [BLINDED]


def test_a_corrected_result_counts_as_corrected() -> None:
    with study_of(of_groups()) as study:
        told = []
        for index in range(400):
            pull = study.ask()
            told.append(pull)
            study.tell(pull, float(index % 2 == 0 if index < 200 else 1.0))
        assert study.health()["warnings"] != []
        rng = np.random.default_rng(1)
        for pull in told:
            study.amend(pull, success(rng, 0.4), "read from the wrong column")
        assert study.health()["warnings"] == []


@pytest.mark.parametrize("is_called_back", [False, True])
def test_good_results_that_come_later_or_never_do_not_look_like_drift(
    is_called_back: bool,
) -> None:
    # In the second half only failures come; the successes are in flight, or called back.
    rng = np.random.default_rng(2)
    with study_of(of_groups()) as study:
        for pull in study.ask(600):
            reward = success(rng, 0.5)
            if pull.number < 300 or reward == 0.0:
                study.tell(pull, reward)
            elif is_called_back:
                study.cancel(pull, "its readings were good enough")
        assert not any("another distribution" in one for one in study.health()["warnings"])


@pytest.mark.parametrize("way", ["late", "corrected"])
def test_the_past_does_not_look_like_drift_because_it_is_complete(way: str) -> None:
    # What has happened to early results happens to later ones in time: half of the failures of the
    # first 300 pulls are known by now, those of the next 300 are not.
    rng = np.random.default_rng(4)
    with study_of(of_groups()) as study:
        late = []
        for number in range(600):
            pull = study.ask()
            reward = success(rng, 0.5)
            if reward == 1.0 or rng.random() < 0.5:
                study.tell(pull, reward)
            elif way == "late":
                study.fail(pull, "left")
                late.append(pull)
            else:
                study.tell(pull, 1.0)
                late.append(pull)
            while late and number < 300:
                after_all = late.pop()
                if way == "late":
                    study.tell(after_all, 0.0)
                else:
                    study.amend(after_all, 0.0, "typing error")
        assert not any("another distribution" in one for one in study.health()["warnings"])


def test_a_drift_is_still_found_after_other_results_were_corrected() -> None:
    with study_of(of_groups()) as study:
        pulls = []
        for index in range(600):
            pulls.append(study.ask())
            study.tell(pulls[-1], rising(pulls[-1], index / 600))
        for pull in pulls[:40]:
            study.amend(pull, 0.5 * rising(pull, 0.0), "typing error")
        assert any("'b' in 'x'" in one for one in study.health()["warnings"])


@pytest.mark.parametrize("drifting", [None, "toxic"])
def test_each_of_several_measures_is_tested_for_drift(drifting: str | None) -> None:
    measures = {"effect": (0, 1), "toxic": (0, 1)}
    problem = subpopulations.Problem(["a", "b"], 1, measures=measures, objective="effect")
    rng = np.random.default_rng(5)
    with study_of(subpopulations.BlockBetting(problem, delta=1e-9)) as study:
        for index in range(500):
            pull = study.ask()
            shift = 0.6 * (index > 250)
            chances = {name: 0.2 + shift * (name == drifting) for name in measures}
            study.tell(pull, {name: success(rng, chance) for name, chance in chances.items()})
        found = [one for one in study.health()["warnings"] if "another distribution" in one]
    assert [one.split(":")[0] for one in found] == ([] if drifting is None else [drifting])


def test_lost_results_and_those_nobody_asked_for_are_no_drift() -> None:
    rng = np.random.default_rng(3)
    with study_of(of_groups()) as study:
        for index in range(600):
            pull = study.ask()
            if rng.random() < 0.2:
                study.fail(pull, "left")
            else:
                study.tell(pull, success(rng, 0.4))
            if index > 300:
                event = study.tell(study.problem.pull(arm="a", group="x"), 0.9)
                study.amend(event.pull_id, 1.0, "rounded")
        assert study.health()["warnings"] == list(study.policy.warnings())


# ------------------------------------------------------------------ pulls passed over


@pytest.mark.parametrize("order", [True, "bernoulli"])
def test_somebody_who_asks_again_until_the_arm_pleases_is_found(order: Any) -> None:
    rng = np.random.default_rng(4)
    with study_of(of_groups(randomize=order)) as study:
        for _ in range(600):
            pull = study.ask()
            if pull.arm == "a":
                study.tell(pull, success(rng, 0.5))
        *others, warning = study.health()["warnings"]
        assert warning.startswith(
            "more results came from 'a' than pulls drawn at random can explain"
        )
        assert " 0 of " in warning
        (still_open,) = [one for one in others if "count as their worst until" in one]
        assert study.health(blinded=True)["warnings"] == [still_open]
        assert sorted(study.warnings_to_send()) == sorted([still_open, BLINDED])


def test_pulls_passed_over_whatever_their_arm_are_none_of_its_business() -> None:
    rng = np.random.default_rng(5)
    with study_of(of_groups()) as study:
        for _ in range(600):
            pull = study.ask()
            if rng.random() < 0.5:
                study.tell(pull, success(rng, 0.5))
        assert not any("pulls drawn at random" in one for one in study.health()["warnings"])


def test_a_plate_may_be_told_arm_by_arm() -> None:
    rng = np.random.default_rng(6)
    with study_of(of_groups()) as study:
        for _ in range(2):
            plate = sorted(study.ask(300), key=lambda pull: pull.arm)
            for pull in plate[:150]:
                study.tell(pull, success(rng, 0.5))
            assert not any("pulls drawn at random" in one for one in study.health()["warnings"])
            for pull in plate[150:]:
                study.tell(pull, success(rng, 0.5))
            assert study.health()["warnings"] == []


def test_pulls_that_are_called_back_are_not_passed_over() -> None:
    rng = np.random.default_rng(7)
    with study_of(of_groups()) as study:
        for _ in range(600):
            pull = study.ask()
            if pull.arm == "b":
                study.cancel(pull, "the policy no longer needs it")
            else:
                study.tell(pull, success(rng, 0.5))
        assert not any("pulls drawn at random" in one for one in study.health()["warnings"])


# --------------------------------------------------------------------------- arrivals


@pytest.mark.parametrize(("share", "warns"), [(0.7, False), (0.5, True)])
def test_groups_that_arrive_in_other_proportions_than_stated_are_shown(
    share: float, warns: bool
) -> None:
    rng = np.random.default_rng(8)
    with study_of(of_groups()) as study:
        for _ in range(300):
            pull = study.ask(group="x" if rng.random() < share else "y")
            study.tell(pull, success(rng, 0.5))
        found = study.health()["warnings"]
        assert found == study.health(blinded=True)["warnings"]
    assert bool(found) == warns
    assert all("instead of 70.0%" in warning for warning in found)


def test_groups_that_the_policy_chooses_are_not_held_against_their_weights() -> None:
    problem = subpopulations.Problem(["a", "b"], {"x": 0.98, "y": 0.02}, floors=0.39, **RANGE)
    with study_of(subpopulations.BlockBetting(problem, delta=1e-9)) as study:
        carry_out(study, steady, 300)
        assert study.health()["warnings"] == []


def test_a_policy_that_never_stops_promises_nothing_that_drift_could_contradict() -> None:
    problem = allocation.Problem(["a", "b"], shares=[0.1, 0.1])
    with study_of(allocation.FairLearn(problem, learner=allocation.UCB1())) as study:
        carry_out(study, rising, 600)
        assert study.health()["warnings"] == []


def test_blinded_readers_are_not_told_what_losses_do_to_the_evidence() -> None:
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem, delta=0.05)
    with ft.Study.create(problem, policy, storage="memory://", name="s", seed=1) as study:
        for _ in range(200):
            pull = study.ask()
            if pull.arm == "a":
                study.fail(pull, "lost")
            else:
                study.tell(pull, 1.0)
        assert any("lose" in warning for warning in study.health()["warnings"])
        assert study.health(blinded=True)["warnings"] == []
        assert study.warnings_to_send() == [BLINDED]
