"""The reason for no answer yet, and the leader: stated separately, once each, in every family."""

import numpy as np
import pytest

from fairtrial import causal, linear, subpopulations
from fairtrial.core import Environment, Policy, Recommendation
from fairtrial.presentation.words import because, headline
from tests.testing.families import POLICIES, Row

OF_EACH_POLICY = list({row.policy: row for row in reversed(POLICIES)}.values())


def names(leader: object) -> list[str]:
    """Return the words with which a reason would name a leader."""
    labels = leader if isinstance(leader, tuple) else (leader,)
    return [repr(label) for label in labels if label is not None]


def moments(row: Row) -> list[Recommendation]:
    """Return what a policy recommends after each of its first results."""
    policy, environment = row.make()
    rng = np.random.default_rng(3)
    found = [policy.recommend()]
    for _ in range(24):
        if policy.stopped or not (pulls := policy.ask(1)):
            break
        policy.tell(pulls[0], environment.sample(pulls[0], rng))
        found.append(policy.recommend())
    return found


@pytest.mark.parametrize("row", OF_EACH_POLICY, ids=lambda row: row.name)
def test_a_reason_without_an_answer_does_not_say_who_leads(row: Row) -> None:
    for answer in moments(row):
        if not answer.decided:
            assert answer.reason
            assert not [name for name in names(answer.leader) if name in answer.reason]


def where_no_arm_will_do() -> list[tuple[Policy, Environment | None, str]]:
    floors = subpopulations.Problem(["a", "b"], ["x"], floors=0.9, reward_range=(0, 1))
    limits = linear.Problem([[1.0, 0.0], [1.0, 1.0]], floors=0.9, reward_range=(0, 1))
    unfair = {"k0": [[0.9, 0.1], [0.1, 0.9]], "k1": [[0.8, 0.2], [0.2, 0.8]]}
    network, rows = causal.chain(0.5, unfair, [0.2, 0.9], 0.2)
    return [
        (subpopulations.BlockBetting(floors, seed=1), None, "no arm keeps all its floors so far"),
        (linear.BlockBetting(limits, seed=1), None, "no arm keeps all its limits so far"),
        (causal.BlockBetting(network, seed=1), rows, "no arm seems fair so far"),
    ]


@pytest.mark.parametrize(("policy", "environment", "said"), where_no_arm_will_do())
def test_a_reason_says_why_no_arm_leads(
    policy: Policy, environment: Environment | None, said: str
) -> None:
    rng = np.random.default_rng(3)
    while "so far" not in policy.recommend().reason:
        pull = policy.ask()
        policy.tell(pull, 0.0 if environment is None else environment.sample(pull, rng))
    answer = policy.recommend()
    assert (answer.leader, answer.status) == (None, "running")
    assert headline(answer) == "No decision yet: no arm leads so far"
    assert because(answer) == f"Why: {said}; there is not enough evidence to decide yet."
