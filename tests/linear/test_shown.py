"""What is shown of the results of linear arms: which of them count."""

import numpy as np
import pytest

from fairtrial.linear import BlockBetting, LazyTrackAndStop, LinGapE, Problem
from fairtrial.presentation.counted import counted_note

FEATURES = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.2]]


@pytest.mark.parametrize(
    "known", [{"noise_std": 1.0, "direction": "minimize"}, {"reward_range": (-9.0, 9.0)}]
)
def test_own_means_are_those_of_the_results_that_count(known):
    """Nothing gets lost and blocks are issued in order, so the first pulls count.

    Those before the first block are told in order.
    """
    policy = BlockBetting(Problem(FEATURES, **known), seed=0, batch=6, initial_pulls=4)
    # Blocks wait for all their results, also with a range.
    policy._blocks.has_worst_values = False
    rng, pulls, values = np.random.default_rng(0), [], {}
    notes = set()
    for step in range(50):
        while len(policy.outstanding()) < (9 if pulls and pulls[-1].tag >= 0 else 1):
            pulls += policy.ask(1)
        waiting = policy.outstanding()
        pull = waiting[rng.integers(len(waiting))]
        values[pull.number] = float(rng.normal(pull.action, 1.0))
        policy.tell(pull, values[pull.number])
        if step % 5:
            continue
        progress = policy.progress()
        for place, one in enumerate(progress.actions):
            own = [one.number for one in pulls if one.action == place]
            counted = [values[number] for number in own if number < progress.settled]
            told = [values[number] for number in own if number in values]
            assert (one.counted, one.pulls) == (len(counted), len(told))
            shown = counted or told
            assert one.own_mean == (pytest.approx(np.mean(shown)) if shown else None)
            if told and not counted:
                notes.add("own mean" in counted_note(progress))
    assert progress.settled < progress.told
    assert notes <= {True}


@pytest.mark.parametrize("rule", [LazyTrackAndStop, LinGapE])
def test_no_candidate_is_shown_as_ruled_out_before_the_first_comparison(rule):
    policy = rule(Problem(FEATURES, noise_std=0.1), seed=0)
    waits, *others = policy.ask(4)
    for pull in others:
        policy.tell(pull, float(pull.action))
    policy.fail(waits)
    while not policy.stopped and len(policy.recommend().candidates) == 4:
        progress = policy.progress()
        assert not any(one.rejected for one in progress.answers)
        policy.tell(policy.ask(), 0.1)
        if policy.told == 20:
            break


def test_progress_is_shown_before_results_count_also_where_empty_matrices_have_no_rank(monkeypatch):
    """As in NumPy before 2.2."""
    rank = np.linalg.matrix_rank

    def old_rank(matrix):
        if not np.size(matrix):
            raise ValueError("zero-size array to reduction operation")
        return rank(matrix)

    monkeypatch.setattr(np.linalg, "matrix_rank", old_rank)
    policy = BlockBetting(Problem(np.eye(2), noise_std=1.0), seed=0)
    for pull in policy.ask(6)[1:]:
        policy.tell(pull, float(pull.action))
    assert [estimate.mean for estimate in policy.progress().arms] == pytest.approx([0.0, 1.0])
