import numpy as np
import pytest

from fairtrial.core import run_policy
from fairtrial.subpopulations import BlockBetting
from papers.baics.cache import (
    SimulationCache,
    WatchedBlockBetting,
    same_share,
    tracker,
)
from papers.baics.instances import E1, TRAP
from papers.report import keeps_level
from tests import effort


def test_simulation_is_made_once():
    cache = SimulationCache(quick=True, seed=1)
    policy = tracker("round robin", E1, 0.1, "stylised")
    first = cache.simulate(E1, policy, (50, 3), horizon=100)
    assert cache.simulate(E1, policy.clone(), (50, 3), horizon=100) is first
    assert first.replications == 3
    assert cache.simulate(E1, policy, (50, 3), horizon=50) is not first


def test_static_rule_tracks_the_optimal_shares():
    policy = tracker("static w*", E1, 0.1, "stylised")
    for _ in range(3_000):
        pull = policy.ask()
        policy.tell(pull, E1.environment.cell_means.flat[pull.action])
        if policy.stopped:
            break
    pulls = np.array([estimate.pulls for estimate in policy.progress().actions])
    assert abs(pulls / pulls.sum() - E1.complexity().allocation.ravel()).max() < 0.02


def test_watching_changes_nothing_and_sees_every_wrong_stop():
    watched, plain = (
        [_run(policy, seed) for seed in range(60)] for policy in (WatchedBlockBetting, BlockBetting)
    )
    wrong = []
    for run, reference in zip(watched, plain, strict=True):
        assert (run.answer, run.stopping_time) == (reference.answer, reference.stopping_time)
        wrong.append(run.status == "decided" and run.answer != TRAP.environment.truth.best)
        assert run.metrics["true_answer_rejected"] >= wrong[-1]
    assert 0 < sum(wrong) < 30


def _run(policy, seed):
    return policy(TRAP.problem, delta=0.3, seed=seed).compiled_run(
        TRAP.environment, np.random.default_rng(seed), 1_000
    )


def test_watched_policy_rejects_what_the_ask_and_tell_loop_rejects():
    seen = set()
    for seed in range(effort.runs(12, whole=24)):
        policy = WatchedBlockBetting(TRAP.problem, delta=0.3, seed=seed)
        loop = run_policy(policy, TRAP.environment, np.random.default_rng(seed), horizon=1_000)
        answers = {one.answer: one.rejected for one in policy.progress().answers}
        compiled = _run(WatchedBlockBetting, seed)
        assert compiled.stopping_time == loop.stopping_time
        assert compiled.metrics["true_answer_rejected"] == answers["arm 2"]
        seen.add(answers["arm 2"])
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("ours", "runs", "reference", "same"),
    [(290, 1000, 0.31, True), (200, 1000, 0.31, False), (0, 100, 0.0, True), (9, 60, 0.0, False)],
)
def test_shares_are_the_same_within_four_pooled_errors(ours, runs, reference, same):
    assert same_share(ours, runs, reference, 1000) is same


@pytest.mark.parametrize(("hits", "keeps"), [(129, True), (131, False)])
def test_level_is_kept_up_to_three_errors(hits, keeps):
    # .1 + 3 sqrt(.1 / 1000) = .13
    assert keeps_level(hits, 1000, 0.1) is keeps
