"""What is shown of a race: how many results were told, how many count, and their means."""

import numpy as np
import pytest

from fairtrial.delayed import BlockBetting, InformationRacing, PairedRacing, Problem, Racing


def random_events(policy, seed, steps=120):
    """Tell results of open pulls in random order, lose some of them; yield what is known by pull.

    Every pull is yielded as ``(arm, value)``, in the order of issue; the value is None without one.
    """
    rng = np.random.default_rng(seed)
    pulls, known = [], {}
    for _ in range(steps):
        while len(policy.outstanding()) < 6 and not policy.stopped:
            pulls += policy.ask(1)
        if not policy.outstanding():
            return
        waiting = policy.outstanding()
        pull = waiting[rng.integers(len(waiting))]
        known[pull.number] = float(rng.normal(0.2 * pull.action, 1.0))
        policy.tell(pull, known[pull.number])
        yield [(one.action, known.get(one.number), one.tag) for one in pulls]


def prefix(values):
    """Return the values before the first missing one."""
    return values[: values.index(None)] if None in values else values


@pytest.mark.parametrize(
    "make",
    [
        InformationRacing,
        lambda problem: InformationRacing(problem, test="box"),
        lambda problem: Racing(problem, variant="full"),
    ],
)
@pytest.mark.parametrize("known", [{"noise_std": 1.0}, {"noise_std": 1.0, "direction": "minimize"}])
def test_a_race_in_order_says_how_many_results_were_told_and_how_many_count(make, known):
    policy = make(Problem(3, delay_depends_on_outcome=True, **known))
    waited = False
    for pulls in random_events(policy, seed=1):
        progress = policy.progress()
        own = [[value for arm, value, _ in pulls if arm == k] for k in range(3)]
        counts = [prefix(values) for values in own]
        told = [[value for value in values if value is not None] for values in own]
        assert [one.pulls for one in progress.arms] == list(map(len, told))
        assert [one.counted for one in progress.arms] == list(map(len, counts))
        assert progress.settled == sum(map(len, counts))
        assert sum(one.pulls for one in progress.arms) == progress.told
        for one, counted, all_told in zip(progress.arms, counts, told, strict=True):
            shown = counted or all_told
            assert one.mean == (pytest.approx(np.mean(shown)) if shown else None)
            assert (one.lower is None) == (not counted)
        waited |= any(len(a) > 0 == len(b) for a, b in zip(told, counts, strict=True))
    assert waited


def test_a_failed_pull_that_counts_as_a_value_is_no_result_that_was_told():
    policy = InformationRacing(
        Problem(2, noise_std=1.0, delay_depends_on_outcome=True, failure_value=0.0)
    )
    first, second = policy.ask(2)
    assert first.action != second.action
    policy.fail(first, "outcome")
    policy.tell(second, 0.5)
    progress = policy.progress()
    assert (progress.told, progress.settled) == (1, 1)
    assert [one.counted for one in progress.arms] == [1, 1]


@pytest.mark.parametrize("known", [{"reward_range": (0.0, 1.0)}, {"noise_std": 0.5}])
@pytest.mark.parametrize("own", [{}, {"batch": 1, "initial_pulls": 1}])
def test_after_the_stop_every_result_that_was_told_counts_or_is_said_never_to(known, own):
    policy = BlockBetting(Problem(3, failure_value=0.0, **known), max_pulls=90, seed=0, **own)
    generator, failed = np.random.default_rng(1), []
    while not policy.stopped:
        policy.ask(8 - len(policy.outstanding()))
        pulls = policy.outstanding()
        pull = pulls[generator.integers(len(pulls))]
        if generator.random() < 0.2:
            policy.fail(pull)
            failed.append(pull)
        else:
            policy.tell(pull, float(generator.random() < 0.5))
        if failed and generator.random() < 0.05:
            policy.tell(failed.pop(), 1.0)
        progress = policy.progress()
        never = sum(progress.never_counted.values())
        assert progress.settled + never <= progress.told
    assert progress.settled + never == progress.told == 90


def test_what_is_ruled_out_does_not_lead():
    policy = BlockBetting(Problem(3, noise_std=1.0), initial_pulls=1, batch=3, seed=0)
    early = []
    while not any(one.rejected for one in policy.progress().answers):
        pull = policy.ask()
        early += [pull] * (pull.tag < 0)
        policy.tell(pull, [-2.0, 0.5, 0.5][pull.action])
    assert not policy.stopped
    for pull in early:
        # No bet was placed on this pull, so its correction moves the data alone.
        if pull.action == 0:
            policy.amend(pull, -2.0, 2000.0)
    progress = policy.progress()
    assert progress.arms[0].mean > progress.arms[1].mean
    assert progress.recommendation.candidates == ("1", "2")
    assert progress.recommendation.leader == ("1",)


def test_a_mean_is_within_its_interval_also_if_earlier_intervals_exclude_it():
    policy = Racing(Problem(2, noise_std=0.05), running_intersection=True)
    for value in (0.1, 0.1, 1.3):
        policy.tell(policy.ask(), value)
        for one in policy.progress().arms:
            if one.mean is not None:
                assert one.lower <= one.mean <= one.upper
    box = policy._race.arms
    assert (box.lower > box.upper).any()


def test_a_race_in_which_all_results_count_says_nothing_of_turns():
    policy = InformationRacing(Problem(2, noise_std=1.0))
    policy.tell(policy.ask(2)[1], 0.5)
    progress = policy.progress()
    assert progress.settled is None
    assert {one.counted for one in progress.arms} == {None}


@pytest.mark.parametrize("known", [{"reward_range": (-9.0, 9.0)}, {"noise_std": "estimated"}])
def test_a_paired_race_counts_the_results_on_complete_blocks(known):
    policy = PairedRacing(Problem(3, **known), delta=0.3)
    waited = False
    for pulls in random_events(policy, seed=2, steps=60):
        progress = policy.progress()
        complete = policy.blocks
        left = [complete if one is None else one.blocks for one in policy.departures]
        own = [
            {block: value for arm, value, block in pulls if arm == k and value is not None}
            for k in range(3)
        ]
        assert [one.pulls for one in progress.arms] == list(map(len, own))
        assert [one.counted for one in progress.arms] == left
        assert progress.settled == sum(left)
        for one, values, blocks in zip(progress.arms, own, left, strict=True):
            shown = [values[block] for block in range(blocks)] or list(values.values())
            assert one.mean == (pytest.approx(np.mean(shown)) if shown else None)
        waited |= progress.settled < progress.told
    assert waited
