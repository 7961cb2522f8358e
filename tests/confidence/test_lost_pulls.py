"""How each lost pull counts: the numbers, at every step of a disturbed study."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.confidence.test_replacements import (
    MEASURED,
    PLAIN,
    assert_losses_add_up,
    full,
    outcome_of,
    restored,
)

NOISE = Problem(["a", "b", "c"], ["x", "y"], floors=None, noise_std=1.0)
SETTINGS = {
    "replaced": (PLAIN, {"losses": "ignorable", "max_pulls": 150, "planned_end": True}),
    "limited": (
        PLAIN,
        {"losses": "ignorable", "max_pulls": 150, "planned_end": True, "max_replacements": 5},
    ),
    "endless": (PLAIN, {"losses": "ignorable"}),
    "worst": (PLAIN, {"max_pulls": 150}),
    "measured": (MEASURED, {"losses": "ignorable", "max_pulls": 150, "planned_end": True}),
    "measured worst": (MEASURED, {}),
    "noise": (NOISE, {"max_pulls": 150}),
    "noise left out": (NOISE, {"losses": "ignorable"}),
}


def numbers(policy):
    return {name: number for name, number in policy._how_lost_count().items() if number}


def full_outcome(policy, pull, rng):
    outcome = outcome_of(policy.problem, rng)
    if policy.problem.measures and policy.reported(pull) is not None:
        outcome["harm"] = float(policy.reported(pull)[1])
    return outcome


def disturbed(policy, rng):
    """Yield a study after each event: losses, closings, corrections, late results, restarts."""
    problem, flight, lost, told, after = policy.problem, [], [], [], 0
    shift = {"a": 0.0, "b": 0.2, "c": 0.4}
    for _ in range(300):
        kind, stopped = rng.random(), policy.stopped
        after += stopped
        if after > 60:
            return
        if kind < 0.45 and not stopped:
            groups = [name for name in "xy" if name not in policy.closed_groups]
            flight += policy.ask(1, group=groups[rng.integers(len(groups))])
        elif kind < 0.6 and flight:
            pull = flight.pop(rng.integers(len(flight)))
            policy.fail(pull)
            lost.append(pull)
        elif kind < 0.65 and flight and problem.measures:
            pull = flight[rng.integers(len(flight))]
            if policy.reported(pull) is None:
                policy.report(pull, {"harm": float(rng.random() < 0.2)})
        elif kind < 0.9 and flight:
            pull = flight.pop(rng.integers(len(flight)))
            outcome = full_outcome(policy, pull, rng)
            if not problem.measures:
                outcome = float(rng.random() < 0.3 + shift[pull.arm])
            policy.tell(pull, outcome)
            told.append((pull, outcome))
        elif kind < 0.93 and lost:
            pull = lost.pop(rng.integers(len(lost)))
            outcome = full_outcome(policy, pull, rng)
            policy.tell(pull, outcome)
            told.append((pull, outcome))
        elif kind < 0.97 and told:
            place = rng.integers(len(told))
            pull, old = told[place]
            told[place] = pull, outcome_of(problem, rng)
            policy.amend(pull, old, told[place][1])
        elif kind < 0.975 and not stopped and policy.asked > 40:
            if not policy.closed_arms:
                policy.close_arm("abc"[rng.integers(3)])
            elif not policy.closed_groups:
                policy.close_group("xy"[rng.integers(2)])
        if rng.random() < 0.05:
            policy = restored(policy)
        yield policy


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seed", range(effort.runs(1, whole=2)))
def test_the_numbers_add_up_to_the_lost_pulls_after_every_event(setting, seed):
    problem, options = SETTINGS[setting]
    policy = BlockBetting(problem, delta=0.2, seed=seed, **options)
    seen = set()
    for now in disturbed(policy, np.random.default_rng([seed, 77])):
        assert_losses_add_up(now)
        seen |= set(numbers(now))
        if setting.startswith("noise"):
            assert set(numbers(now)) <= {"in_no_bet"}
        elif "losses" not in options:
            assert not {"made_again", "to_make_again"} & set(numbers(now))
        if now.stopped:
            assert "to_make_again" not in numbers(now)
        if now.asked % 20 == 0:
            assert numbers(restored(now)) == numbers(now)
    shown = now.progress().losses
    assert {name: getattr(shown, name) for name in seen} == {
        name: now._how_lost_count().get(name, 0) for name in seen
    }
    assert seen


def of_one_arm(policy, number):
    """Return this many pulls that bets are placed on, of the same arm and group."""
    found = {}
    while True:
        pull = policy.ask()
        if pull.tag < 1:
            policy.tell(pull, 0.5)
            continue
        mine = found.setdefault((pull.action, pull.tag), [])
        mine.append(pull)
        if len(mine) == number:
            return mine


def test_pulls_are_made_again_until_the_limit_and_count_as_their_worst_after_it():
    options = SETTINGS["limited"][1] | {"max_replacements": 2}
    policy = BlockBetting(PLAIN, delta=1e-9, seed=1, **options)
    pulls = [*of_one_arm(policy, 1), *policy.ask(3)]
    assert min(pull.tag for pull in pulls) > 0
    policy.fail(pulls[0])
    assert numbers(policy) == {"to_make_again": 1}
    assert policy.progress().losses.limit_reached is None
    for pull in pulls[1:]:
        policy.fail(pull)
    assert numbers(policy) == {"to_make_again": 2, "as_worst": 2}
    assert policy.progress().losses.limit_reached == 2
    while "to_make_again" in numbers(policy):
        policy.ask()
    assert numbers(policy) == {"made_again": 2, "as_worst": 2}
    # A result of one that counts as its worst takes it out of the numbers.
    policy.tell(pulls[3], 1.0)
    assert numbers(policy) == {"made_again": 2, "as_worst": 1}


def test_a_pull_of_a_closed_arm_is_not_made_again_but_counts_as_its_worst():
    policy = BlockBetting(PLAIN, delta=1e-9, seed=1, **SETTINGS["replaced"][1])
    before, after = of_one_arm(policy, 2)
    policy.fail(before)
    assert numbers(policy) == {"to_make_again": 1}
    policy.close_arm(before.arm)
    assert numbers(policy) == {"as_worst": 1}
    policy.fail(after)
    assert numbers(policy) == {"as_worst": 2}


def test_a_pull_of_a_closed_group_is_not_said_to_be_made_again():
    policy = BlockBetting(PLAIN, delta=1e-9, seed=1, **SETTINGS["replaced"][1])
    (pull,) = of_one_arm(policy, 1)
    policy.fail(pull)
    policy.close_group(pull.group)
    assert numbers(policy) == {"in_no_bet": 1}


def test_a_pull_counts_with_the_values_that_it_gave_if_no_bet_needs_the_others():
    policy, rng = BlockBetting(MEASURED, delta=1e-9, seed=1), np.random.default_rng(1)
    for _ in range(300):
        pull = policy.ask()
        if pull.tag > 0:
            break
        policy.tell(pull, full(rng))
    policy.report(pull, {"harm": 1.0})
    policy.fail(pull)
    assert pull.tag > 0
    assert numbers(policy) == {"partly": 1}


def test_pulls_in_flight_when_the_study_decides_are_in_no_bet():
    policy = BlockBetting(PLAIN, delta=0.2, seed=1)
    flight = []
    while not policy.stopped:
        flight += policy.ask(8)
        while len(flight) > 4:
            pull = flight.pop(0)
            policy.tell(pull, float(pull.arm == "a"))
    for pull in flight:
        policy.fail(pull)
    assert numbers(policy) == {"in_no_bet": len(flight)}


def test_what_nothing_stands_for_is_in_no_bet_if_only_the_noise_is_known():
    policy = BlockBetting(NOISE, seed=1)
    policy.fail(policy.ask())
    assert numbers(policy) == {"in_no_bet": 1}


@pytest.mark.parametrize("seed", range(3))
def test_as_many_are_made_again_as_there_are_replacements(seed):
    policy = BlockBetting(PLAIN, delta=1e-9, seed=seed, **SETTINGS["limited"][1])
    rng = np.random.default_rng(seed)
    while not (policy.stopped or policy.why_no_pull()):
        pull = policy.ask()
        if rng.random() < 0.15:
            policy.fail(pull)
        else:
            policy.tell(pull, float(rng.random() < 0.5))
    number = len(policy._lost)
    assert number > 5
    assert numbers(policy) == {"made_again": 5, "as_worst": number - 5}


@pytest.mark.parametrize("name", [name for name in SETTINGS if "planned_end" in SETTINGS[name][1]])
@pytest.mark.parametrize("seed", range(effort.runs(1, whole=2)))
def test_at_most_as_many_results_are_forecast_as_can_come_and_never_fewer_than_open_pulls(
    name, seed
):
    problem, options = SETTINGS[name]
    policy = BlockBetting(problem, seed=seed, **options)
    for _ in disturbed(policy, np.random.default_rng(seed)):
        most = policy.progress().remaining_at_most
        if policy.stopped:
            assert most is None
            continue
        in_blocks = sum(tag >= 0 for _action, tag in policy._outstanding.values())
        assert most >= in_blocks
        if policy._has_handed_out_all() and not policy.closed_groups:
            assert most == in_blocks


def test_open_pulls_that_count_as_their_worst_are_results_that_can_still_come():
    """Of 20 results that are still out when all pulls are handed out, 12 are of forgotten forms."""
    policy = BlockBetting(PLAIN, delta=1e-9, max_pulls=150, planned_end=True, seed=0)
    forgotten = policy.ask(12)
    for number in range(130):
        policy.tell(policy.ask(), float(number % 2))
    last = policy.ask(8)
    assert policy._has_handed_out_all()
    assert set(policy.open_as_worst()) == {pull.number for pull in forgotten}
    assert policy.progress().remaining_at_most == len(forgotten) + len(last)
