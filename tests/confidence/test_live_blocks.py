"""The live part of block betting is the same in every family that bets on blocks."""

import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.core import Policy, Pull

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
    """Tell results until four pulls of a block with bets are in flight; return these."""
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
    assert "1 pull got lost for reasons unrelated" in policy.guarantee.assumptions[-1]


def test_a_late_result_takes_its_loss_back_while_its_block_is_open(make):
    policy = make(None)
    lost, *_ = in_a_bet(policy)
    label = policy.guarantee
    policy.fail(lost)
    assert policy.guarantee != label
    policy.tell(lost, 0.25)
    assert policy.guarantee == label
