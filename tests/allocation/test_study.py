"""With many deciders and one quota, the shares hold in the order of the log."""

import multiprocessing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import FairLearn, Learner, Problem, Thompson
from fairtrial.errors import InvalidArgument
from fairtrial.study import Study
from tests import effort
from tests.allocation.adversaries import quotas, starving
from tests.allocation.slow import SlowQuotas
from tests.messages import raises

pytestmark = pytest.mark.filterwarnings("ignore:the shares take every pull")

ASKS = effort.runs(400, whole=5000)
PROBLEM = Problem(["a", "b", "c"], [0.2, 0.3, 0.25])


def serve(url, seed):
    """Ask in small batches, tell random results, lose one pull in fifty."""
    rng = np.random.default_rng(seed)
    with Study.open(url, "shop", durability="process") as study:
        for _ in range(ASKS // 50):
            pulls = study.ask(50)
            study.tell_many([(pull, float(rng.random() < 0.5)) for pull in pulls])


def test_two_processes_keep_every_share_in_the_order_of_the_log(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    policy = FairLearn(PROBLEM, Thompson())
    with Study.create(PROBLEM, policy, storage=url, name="shop", seed=1, durability="process"):
        pass
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=serve, args=(url, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=240)
        assert worker.exitcode == 0
    with Study.open(url, "shop") as study:
        actions = [event.action for event in study.events() if event.kind == "ask"]
        assert len(actions) == 2 * ASKS
        owed = [0, 0, 0]
        for action in actions:
            for arm, share in enumerate(PROBLEM.shares):
                owed[arm] += share
            owed[action] -= 1
            assert max(credit // 1 for credit in owed) <= 0
        assert study.policy.metrics()["floored_violation"] == 0


@settings(max_examples=20)
@given(shares=quotas(), servers=st.integers(2, 5), seed=st.integers(0, 2**32))
def test_servers_that_know_nothing_of_each_other_are_behind_by_less_than_their_number(
    shares, servers, seed
):
    rng, all_of_them = np.random.default_rng(seed), SlowQuotas(shares)
    problem = Problem(len(shares), shares)
    learner = lambda t, c, s, allowed: starving(all_of_them)(allowed)  # noqa: E731
    policies = [FairLearn(problem, learner) for _ in range(servers)]
    traffic = rng.dirichlet([0.5] * servers)
    for _ in range(100):
        pull = policies[rng.choice(servers, p=traffic)].ask()
        all_of_them.pull(pull.action, False)
    assert all_of_them.worst // 1 <= servers - 1


def test_four_servers_may_leave_an_arm_three_pulls_behind():
    problem = Problem(2, ["99/100", 0])
    policies = [FairLearn(problem, lambda t, counts, sums, allowed: 1) for _ in range(4)]
    pulls = [policy.ask().action for policy in policies]
    assert problem.shares[0] * 4 // 1 - pulls.count(0) == 3


class LeastRewarded(Learner):
    def choose(self, t, counts, sums, allowed):
        return min(allowed, key=lambda arm: sums[arm])


def test_a_study_with_a_learner_of_ones_own_is_reopened_and_keeps_the_shares(tmp_path):
    url, own = f"sqlite:///{tmp_path / 'study.db'}", [LeastRewarded]
    policy = FairLearn(PROBLEM, LeastRewarded())
    Study.create(PROBLEM, policy, storage=url, name="shop", seed=1, policies=own).close()
    counts, t = [0, 0, 0], 0
    for _ in range(3):
        with Study.open(url, "shop", policies=own) as study:
            for _ in range(20):
                pull = study.ask()
                study.tell(pull, float(pull.action != 2))
                counts[pull.action] += 1
                t += 1
                owed = [share * t // 1 for share in PROBLEM.shares]
                assert all(o <= n for o, n in zip(owed, counts, strict=True))
    # The learner, which avoids the best arms, decided in the free rounds.
    assert counts[2] > owed[2] + 10


def test_a_study_knows_its_learner_when_made_and_says_what_it_needs_when_opened(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    policy = FairLearn(PROBLEM, LeastRewarded())
    with Study.create(PROBLEM, policy, storage=url, name="shop", seed=1) as study:
        study.ask()
        study.export(tmp_path / "shop.jsonl")
    for open_it in (
        lambda **own: Study.open(url, "shop", **own),
        lambda **own: Study.import_log(tmp_path / "shop.jsonl", storage="memory://", **own),
    ):
        with raises(InvalidArgument, "policies"):
            open_it()
        with open_it(policies=[LeastRewarded]) as study:
            assert study.progress().asked == 1
