"""Results that are in no bet and never will be: how many, and why."""

import numpy as np
import pytest

from fairtrial.confidence.block_betting.policy import BlockPolicy
from fairtrial.presentation.words import never_counted_in_words, results_that_count
from fairtrial.subpopulations import BlockBetting, Problem
from tests.testing.families import POLICIES, Row

ROWS = [row for row in POLICIES if issubclass(row.policy, BlockPolicy)]
COINS = Problem(["a", "b"], ["x", "y"], floors=None, reward_range=(0, 1))
LEFT_OVER = "of blocks that were not complete when the study ended"


def disturbed(policy, environment, seed, steps=250):
    """Carry out pulls that get lost, come late and in any order, beside unsolicited results."""
    rng = np.random.default_rng(seed)
    run, flight, lost = environment.begin(rng), [], []
    for _ in range(steps):
        kind = rng.random()
        if kind < 0.5 and not policy.stopped:
            pulls = policy.ask(1, **environment.context(rng))
            flight += [(pull, run.trajectory(pull, rng).outcome) for pull in pulls]
        elif kind < 0.9 and flight:
            pull, outcome = flight.pop(rng.integers(len(flight)))
            if outcome is None or kind > 0.85:
                policy.fail(pull)
                lost.append((pull, outcome))
            else:
                policy.tell(pull, outcome)
        elif kind < 0.95 and lost:
            pull, outcome = lost.pop(rng.integers(len(lost)))
            if outcome is not None:
                policy.tell(pull, outcome)
        elif kind > 0.98:
            action = int(rng.integers(policy.problem.n_actions))
            pull = policy.problem.pull(**policy.problem.labels(action))
            policy.tell(pull, run.trajectory(pull, rng).outcome)
    return policy


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_result_counts_or_waits_in_an_open_block_or_never_counts(row: Row) -> None:
    template, environment = row.make()
    policy = disturbed(template.clone(seed=1), environment, seed=1)
    blocks = policy._blocks
    known = int(blocks.state.blocks.came.sum()) + blocks.results_in_open_blocks
    if "opening_counts" in blocks.state._fields:  # the pulls before the first block
        known += int(blocks.state.opening_counts.sum())
    if getattr(policy.problem, "failure_value", None) is not None:  # lost pulls count as results
        known -= len(policy._lost)
    assert policy.told == known + blocks.never_counted.sum()
    restored = template.clone(seed=1)
    restored.set_state(policy.get_state())
    assert restored.progress().never_counted == policy.progress().never_counted


def test_unsolicited_results_never_count():
    policy = BlockBetting(COINS, seed=1)
    policy.tell(COINS.pull(arm="a", group="x"), 1.0)
    assert policy.progress().never_counted == {"not asked for by the study": 1}
    said = "1 result never counts for the decision: 1 not asked for by the study"
    assert never_counted_in_words(policy.progress()) == said
    assert results_that_count(policy.progress()).endswith(f"; {said}")


def test_pulls_that_no_block_had_planned_never_count():
    policy = BlockBetting(COINS, seed=1)
    pulls = [policy.ask(group="x") for _ in range(200)]
    unplanned = [pull for pull in pulls if pull.tag == -1]
    assert unplanned
    for pull in pulls:
        policy.tell(pull, 0.5)
    assert policy.progress().never_counted == {"of pulls that no block had planned": len(unplanned)}


def test_a_pull_that_was_made_again_comes_too_late():
    policy = BlockBetting(COINS, losses="ignorable", seed=1)
    pulls = policy.ask(40)
    policy.fail(pulls[0])
    again = policy.ask()
    for pull in [*pulls[1:], again]:
        policy.tell(pull, 0.5)
    assert policy.progress().never_counted == {}
    policy.tell(pulls[0], 0.5)
    assert policy.progress().never_counted == {"too late for their block": 1}


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
def test_a_result_without_a_value_that_is_made_again_never_counts(losses):
    measured = Problem(
        ["a", "b"],
        ["x"],
        measures={"cure": (0, 1), "harm": (0, 1)},
        objective="cure",
        ceilings={"harm": 0.4},
    )
    policy = BlockBetting(measured, losses=losses, seed=1)
    for pull in policy.ask(20):  # no bets on these
        policy.tell(pull, {"cure": float(pull.arm == "a"), "harm": 0.0})
    policy.tell(policy.ask(), {"cure": None, "harm": 0.0})
    why = "without a value that bets use, whose pulls are made again"
    assert policy.progress().never_counted == ({why: 1} if losses == "ignorable" else {})


def test_results_of_blocks_that_the_end_leaves_open_never_count():
    policy = BlockBetting(COINS, max_pulls=55, seed=1)
    while not policy.stopped:
        assert policy.progress().never_counted == {}
        policy.tell(policy.ask(), 0.5)
    found = policy.progress()
    assert found.never_counted == {LEFT_OVER: found.told - found.settled}
    assert found.never_counted[LEFT_OVER] > 0
