"""The live part of block betting is the same in every family that bets on blocks."""

import numpy as np
import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.core import Policy, Pull
from fairtrial.errors import InvalidArgument
from tests.messages import raises

FAMILIES = {
    "subpopulations": lambda most: subpopulations.BlockBetting(
        subpopulations.Problem(2, 1, floors=None, noise_std=1.0), max_pulls=most
    ),
    "linear": lambda most: linear.BlockBetting(
        linear.Problem([[1, 0], [0, 1]], noise_std=1.0), max_pulls=most
    ),
    "delayed": lambda most: delayed.BlockBetting(delayed.Problem(2, noise_std=1.0), max_pulls=most),
}


def unsolicited(policy: Policy) -> Pull:
    return policy.problem.pull(**policy.problem.labels(0))


def in_a_bet(policy: Policy) -> list[Pull]:
    """Tell results until four pulls of a block with bets are in flight; return the pulls."""
    pull = policy.ask()
    while pull.tag <= 0:
        policy.tell(pull, pull.action + pull.number % 3 / 4)
        pull = policy.ask()
    return [pull, *policy.ask(3)]


@pytest.fixture(params=FAMILIES)
def make(request):
    return FAMILIES[request.param]


def test_pulls_called_back_after_the_stop_change_neither_evidence_nor_label(make):
    policy = make(60)
    flying = in_a_bet(policy)
    while not policy.stopped:
        policy.tell(unsolicited(policy), 0.5)
    before, label = policy.recommend().to_dict(), policy.guarantee
    waiting = policy._blocks.state.blocks.waiting.tolist()
    for pull in flying:
        policy.fail(pull, "cancelled")
    policy.tell(flying[0], 0.25)
    assert policy.guarantee == label
    assert label.proven
    assert policy.recommend().to_dict()["candidates"] == before["candidates"]
    assert policy._blocks.state.blocks.waiting.tolist() == waiting


def test_a_loss_while_it_runs_weakens_a_label_that_rests_on_the_noise(make):
    policy = make(None)
    policy.fail(in_a_bet(policy)[0])
    assert not policy.guarantee.proven
    assert (
        "1 pull got lost, for reasons assumed to be unrelated" in policy.guarantee.assumptions[-1]
    )


def test_a_late_result_takes_its_loss_back_while_its_block_is_open(make):
    policy = make(None)
    lost, *_ = in_a_bet(policy)
    label = policy.guarantee
    policy.fail(lost)
    assert policy.guarantee != label
    policy.tell(lost, 0.25)
    assert policy.guarantee == label


@pytest.mark.parametrize(
    "policy",
    [
        subpopulations.BlockBetting(
            subpopulations.Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0), seed=1
        ),
        delayed.BlockBetting(delayed.Problem(["a", "b"], noise_std=1.0), seed=1),
        linear.BlockBetting(
            linear.Problem([[1.0, 0.0], [0.0, 1.0]], arms=["a", "b"], noise_std=1.0), seed=1
        ),
    ],
    ids=["groups", "delayed", "linear"],
)
def test_results_that_wait_for_an_earlier_block_are_named_and_so_is_what_it_lacks(policy):
    def waits():
        return [one for one in policy.warnings() if "of an earlier block" in one]

    for _ in range(60):
        policy.tell(policy.ask(), 0.5)
    held = [policy.ask(), policy.ask()]
    policy.fail(held.pop(), "lost")
    for number in range(400):
        policy.tell(policy.ask(), 0.5)
        if number == 20:
            assert not waits()
            assert policy.progress().no_forecast == ""
    (said,) = waits()
    (missing,) = held
    unknown = f"nothing can be forecast until pull {missing.number} is told or failed"
    assert policy.progress().no_forecast == unknown
    assert policy.progress().remaining is None
    assert f"{' / '.join(missing.labels.values())} (1)" in said
    assert "after 1 result of" in said
    policy.fail(missing, "lost")
    assert not waits()
    assert policy.progress().no_forecast == ""


def test_what_has_to_come_before_a_forecast_is_named_open_or_not_asked_for_yet():
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=None, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem, losses="ignorable", seed=1)

    def make(pulls):
        for _ in range(pulls):
            pull = policy.ask()
            policy.tell(pull, 0.4 + 0.1 * pull.action / 3)

    def said():
        progress = policy.progress()
        assert (progress.remaining is None) == bool(progress.no_forecast)
        return progress.no_forecast.removeprefix("nothing can be forecast until ")

    make(60)
    held = policy.ask(2)
    assert said() == ""
    make(6)
    # With so many pulls in flight, later ones may well be told first.
    flying = policy.ask(40)
    make(104)
    first, second = (pull.number for pull in held)
    assert said() == f"pulls {first}, {second} are told or failed"
    policy.fail(held[0], "lost")
    assert said() == f"pulls {second} and 1 more that is not asked for yet are told or failed"
    policy.fail(held[1], "lost")
    assert said() == "2 pulls of an earlier block that are not asked for yet are told or failed"
    make(2)
    for pull in flying:
        policy.tell(pull, 0.5)
    assert said() == ""


def test_where_no_more_pulls_are_made_nothing_is_left_to_forecast():
    policy = FAMILIES["subpopulations"](500)
    for _ in range(60):
        policy.tell(policy.ask(), 0.5)
    policy.ask()
    while not policy.stopped:
        policy.tell(unsolicited(policy), 0.5)
    progress = policy.progress()
    assert (progress.remaining, progress.no_forecast) == (0.0, "")


def test_a_loss_of_an_initial_pull_weakens_such_a_label_until_its_result_comes(make):
    policy = make(None)
    label = policy.guarantee
    lost, *others = policy.ask(30)
    policy.fail(lost)
    for pull in others:
        policy.tell(pull, pull.number % 3 / 4)
    assert not policy.guarantee.proven
    policy.tell(lost, 0.25)
    assert policy.guarantee == label


@pytest.mark.parametrize("family", ["subpopulations", "delayed"])
def test_a_late_result_of_an_initial_pull_enters_effects_and_the_noise_test(family):
    late, in_time = FAMILIES[family](None), FAMILIES[family](None)
    pulls = late.ask(10)
    in_time.set_state(late.get_state())
    late.fail(pulls[0])
    for pull in pulls:
        in_time.tell(pull, pull.number**2 % 7 / 4)
    for pull in [*pulls[1:], pulls[0]]:
        late.tell(pull, pull.number**2 % 7 / 4)
    assert late._blocks.state.blocks.first[0] > 0
    found, expected = (policy._blocks.state.settled_noise for policy in (late, in_time))
    assert found == pytest.approx(expected)
    assert late.progress().effects == in_time.progress().effects


@pytest.mark.parametrize("buffer", ["_blocks.floats", "_blocks.integers"])
def test_a_state_with_another_layout_is_refused(make, buffer):
    policy = make(60)
    in_a_bet(policy)
    state = policy.get_state()
    # One number more or less, as of a version with other arrays.
    for other in (state[buffer][:-1], np.append(state[buffer], state[buffer][-1:])):
        with raises(InvalidArgument) as caught:
            make(60).set_state({**state, buffer: other})
        assert caught.value.name == "state"
