"""A planned end with a largest number of lost pulls that are made again."""

import copy

import numpy as np
import pytest

from fairtrial.core import Losses
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.run import run_policy
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations import BernoulliEnvironment, BlockBetting, Problem
from tests import effort
from tests.messages import raises

PLAIN = Problem(["a", "b", "c"], ["x", "y"], floors=None, reward_range=(0, 1))
MEASURED = Problem(
    ["a", "b", "c"],
    ["x", "y"],
    measures={"cure": (0, 1), "harm": (0, 1)},
    objective="cure",
    ceilings={"harm": 0.6},
)
END = 120


def policy_of(problem, most, **options):
    known = {"max_pulls": END, "planned_end": True, "losses": "ignorable", "delta": 1e-9}
    return BlockBetting(problem, max_replacements=most, **known, **options)


def restored(policy):
    fresh = BlockBetting(policy.problem, seed=policy.seed, **policy.get_params())
    fresh.set_state(policy.get_state())
    return fresh


def outcome_of(problem, rng):
    """Return an outcome; one of measures may lack a value."""
    if not problem.measures:
        return float(rng.random() < 0.5)
    cure = None if rng.random() < 0.1 else float(rng.random() < 0.5)
    return {"cure": cure, "harm": float(rng.random() < 0.2)}


def disturbed(policy, rng):
    """Carry a study out until it stops: pulls get lost, come late, and are corrected."""
    problem, flight, lost, told = policy.problem, [], [], []
    for _ in range(5000):
        if policy.stopped:
            break
        kind = rng.random()
        if kind < 0.5:
            flight += policy.ask(1, group="x" if rng.random() < 0.6 else "y")
        elif kind < 0.6 and flight:
            pull = flight.pop(rng.integers(len(flight)))
            policy.fail(pull)
            lost.append(pull)
        elif kind < 0.65 and flight and problem.measures:
            pull = flight[rng.integers(len(flight))]
            if policy.reported(pull) is None:
                policy.report(pull, {"harm": float(rng.random() < 0.2)})
        elif kind < 0.92 and flight:
            pull, outcome = flight.pop(rng.integers(len(flight))), outcome_of(problem, rng)
            if policy.reported(pull) is not None:
                outcome["harm"] = float(policy.reported(pull)[1])
            policy.tell(pull, outcome)
            told.append((pull, outcome))
        elif kind < 0.94 and lost:
            pull, outcome = lost.pop(rng.integers(len(lost))), outcome_of(problem, rng)
            if problem.measures and policy.reported(pull) is not None:
                outcome["harm"] = float(policy.reported(pull)[1])
            policy.tell(pull, outcome)
            told.append((pull, outcome))
        elif kind > 0.97 and told:
            place = rng.integers(len(told))
            pull, old = told[place]
            told[place] = pull, outcome_of(problem, rng)
            policy.amend(pull, old, told[place][1])
        if rng.random() < 0.1:
            policy = restored(policy)
        yield policy


def assert_losses_add_up(policy):
    """Every lost pull is in one of the numbers, and these agree with the pulls that were made."""
    blocks = policy._blocks
    losses = Losses("", **policy._how_lost_count(), limit_reached=blocks.limit_reached)
    numbers = [losses.made_again, losses.to_make_again, losses.as_worst, losses.partly]
    numbers.append(losses.in_no_bet)
    assert min(numbers) >= 0
    assert losses.pulls == sum(numbers) == len(policy._lost)
    assert losses.made_again + losses.to_make_again <= blocks.replaced
    assert losses.to_make_again <= blocks.state.blocks.to_issue.sum()
    assert (losses.limit_reached is None) == (blocks.replaced < blocks.max_replacements)


@pytest.mark.parametrize("problem", [PLAIN, MEASURED], ids=["plain", "measured"])
@pytest.mark.parametrize("most", [1, 4, 15])
@pytest.mark.parametrize("seed", range(effort.runs(1, whole=3)))
def test_a_study_asks_for_no_more_than_its_end_and_the_replacements(problem, most, seed):
    policy = policy_of(problem, most, seed=seed)
    for now in disturbed(policy, np.random.default_rng([seed, most])):
        blocks = now._blocks
        assert now.asked <= END + most
        assert 0 <= blocks.replaced <= most
        assert_losses_add_up(now)
        state = blocks.state.blocks
        for name in ("waiting", "unissued", "to_issue", "losses", "results", "came", "lost"):
            assert (getattr(state, name) >= 0).all(), name
        if problem.measures:
            for name in ("absent", "present", "was_absent", "was_present", "awaited"):
                assert (getattr(blocks.state, name) >= 0).all(), name
    assert now.stopped
    assert now.recommend().status == "undecided"
    assert f"planned end of {END} pulls is reached" in now.recommend().reason


def at_the_limit(problem):
    """Return a policy that has made a lost pull again, and a pull that bets are placed on."""
    policy, rng = policy_of(problem, 1, seed=3), np.random.default_rng(3)
    has_failed = False
    while policy.told < 70:
        pull = policy.ask()
        if pull.tag > 0 and not has_failed:
            policy.fail(pull)
            has_failed = True
        else:
            policy.tell(pull, outcome_of(problem, rng) if not problem.measures else full(rng))
    assert policy._blocks.replaced == 1
    while True:
        pull = policy.ask()
        if pull.tag > 0:
            return policy, pull
        policy.tell(pull, outcome_of(problem, rng) if not problem.measures else full(rng))


def lost_again(problem, most, rng, arm="b"):
    """Return a policy with as many lost pulls of an arm, which wait to be made again."""
    policy, failed = policy_of(problem, most, seed=3), []
    while len(failed) < most:
        pull = policy.ask()
        if pull.tag > 0 and pull.arm == arm:
            policy.fail(pull)
            failed.append(pull)
            # Its block has other pulls left, of which some are handed out before.
            continue
        policy.tell(pull, full(rng) if problem.measures else outcome_of(problem, rng))
    return policy


def made_until_the_end(policy, rng):
    """Carry on without losses until the end; return the number of pulls in bets."""
    while not policy.stopped:
        policy.tell(policy.ask(), full(rng) if policy.problem.measures else outcome_of(PLAIN, rng))
    return policy.asked


@pytest.mark.parametrize("problem", [PLAIN, MEASURED], ids=["plain", "measured"])
def test_a_closed_arm_gives_back_the_places_of_pulls_that_are_not_made_again(problem):
    rng = np.random.default_rng(5)
    policy = lost_again(problem, 4, rng)
    losses = Losses("", **policy._how_lost_count())
    assert policy._blocks.replaced == 4
    assert losses.to_make_again > 0
    policy.close_arm("b")
    # Places are used for pulls that were made again, and for no others.
    assert policy._blocks.replaced == losses.made_again
    given_back = 4 - losses.made_again
    policy = restored(policy)
    again = 0
    while again < given_back:
        pull = policy.ask()
        if pull.tag > 0:
            policy.fail(pull)
            again += 1
        else:
            policy.tell(pull, full(rng) if problem.measures else outcome_of(problem, rng))
    assert policy._blocks.replaced == 4
    assert policy._blocks.unreplaced == []
    assert Losses("", **policy._how_lost_count()).to_make_again > 0
    assert made_until_the_end(policy, rng) <= END + 4
    assert_losses_add_up(policy)


@pytest.mark.parametrize("problem", [PLAIN, MEASURED], ids=["plain", "measured"])
@pytest.mark.parametrize("most", [1, 4, 15])
@pytest.mark.parametrize("seed", range(effort.runs(1, whole=3)))
def test_the_places_are_never_used_twice(problem, most, seed):
    rng = np.random.default_rng([seed, most])
    policy, closes = policy_of(problem, most, seed=seed), int(rng.integers(30, 100))
    for step, now in enumerate(disturbed(policy, rng)):
        if now.asked >= closes and not now.closed_arms and not now.stopped:
            now.close_arm("b")
        assert now.asked <= END + most, step
        assert 0 <= now._blocks.replaced <= most
        assert_losses_add_up(now)


def full(rng):
    return {"cure": float(rng.random() < 0.5), "harm": float(rng.random() < 0.2)}


def carried_on(policy, held):
    """Carry on until the block of a pull is paid, with results that do not depend on it."""
    while policy._blocks.state.blocks.first[0] <= held.tag:
        pull = policy.ask()
        rng = np.random.default_rng([9, pull.number])
        policy.tell(pull, float(rng.random() < 0.5) if not policy.problem.measures else full(rng))
    return policy._blocks.state.book.ledgers.copy()


@pytest.mark.parametrize("problem", [PLAIN, MEASURED], ids=["plain", "measured"])
def test_beyond_them_a_lost_pull_counts_as_its_worst(problem):
    policy, pull = at_the_limit(problem)
    outcomes = [0.0, 1.0]
    if problem.measures:
        outcomes = [{"cure": cure, "harm": harm} for cure in (0.0, 1.0) for harm in (0.0, 1.0)]
    found = []
    for outcome in outcomes:
        one = copy.deepcopy(policy)
        one.tell(pull, outcome)
        found.append(carried_on(one, pull))
    policy.fail(pull)
    asked = policy.asked
    worst = carried_on(restored(policy), pull)
    assert policy.asked == asked
    assert policy._blocks.unreplaced == [pull.number]
    assert (worst <= np.min(found, axis=0) + 1e-9).all()
    said = "the limit of 1 replacement is reached: further lost pulls count as their worst"
    assert said in policy.remarks()
    # A result that comes after all replaces the worst value, in an open block and in a paid one.
    for outcome, expected in zip(outcomes, found, strict=True):
        early, late = copy.deepcopy(policy), copy.deepcopy(policy)
        early.tell(pull, outcome)
        assert carried_on(early, pull) == pytest.approx(expected)
        carried_on(late, pull)
        late.tell(pull, outcome)
        assert late._blocks.state.book.ledgers == pytest.approx(expected)
        assert late.progress().never_counted == {}


def test_beyond_them_a_pull_without_a_value_counts_it_as_its_worst():
    policy, pull = at_the_limit(MEASURED)
    found = []
    for cure in (0.0, 1.0):
        one = copy.deepcopy(policy)
        one.tell(pull, {"cure": cure, "harm": 0.0})
        found.append(carried_on(one, pull))
    lacking = copy.deepcopy(policy)
    lacking.tell(pull, {"cure": None, "harm": 0.0})
    worst = carried_on(lacking, pull)
    assert (worst <= np.min(found, axis=0) + 1e-9).all()
    assert lacking.progress().never_counted == {}
    for cure, expected in zip((0.0, 1.0), found, strict=True):
        one = copy.deepcopy(lacking)
        one.amend(pull, {"cure": None, "harm": 0.0}, {"cure": cure, "harm": 0.0})
        assert one._blocks.state.book.ledgers == pytest.approx(expected)


def test_a_simulated_run_keeps_to_them_as_a_live_study_does():
    problem = Problem(["a", "b"], ["x"], reward_range=(0, 1), floors=None)
    world = LossyEnvironment(BernoulliEnvironment(problem, [[0.5], [0.5]]), 0.3)
    policy = policy_of(problem, 7)
    horizon = policy.horizon_for(END)
    assert horizon == END + 7
    run = run_policy(policy, world, np.random.default_rng(1), horizon=horizon, parallel=10)
    assert run.status == "undecided"
    assert run.pulls.sum() == END + 7


def test_the_promise_stays_proven_beyond_them():
    policy, pull = at_the_limit(PLAIN)
    policy.fail(pull)
    assert policy.guarantee.proven


@pytest.mark.parametrize(
    "options",
    [
        {"max_replacements": 0},
        {"max_replacements": 5, "losses": "informative"},
        {"max_replacements": 5, "planned_end": False},
    ],
)
def test_a_number_that_would_be_ignored_is_refused(options):
    given = {"max_pulls": END, "planned_end": True, "losses": "ignorable"} | options
    with raises(InvalidArgument):
        BlockBetting(PLAIN, **given)


def test_where_nothing_counts_as_worst_no_number_is_taken():
    noise = Problem(["a", "b"], ["x"], floors=None, noise_std=1.0)
    with raises(InvalidArgument):
        policy_of(noise, 5)
    predicted = Problem(["a", "b"], ["x"], floors=None, reward_range=(0, 1), prediction=(0, 1))
    with raises(NotSupported):
        policy_of(predicted, 5)
