"""What is shown beside a decision has its promise: under delays, losses and missing values."""

from collections import defaultdict

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.client.documents import progress_of
from fairtrial.confidence.block_betting import paid
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import BlockResults
from fairtrial.confidence.means import means_in_range
from fairtrial.presentation.guardrails import guardrails
from fairtrial.presentation.limits import Standing, Standings
from fairtrial.subpopulations import BalancedTracking, BlockBetting, Problem
from fairtrial.subpopulations.policies.measured_report import _level

DELTA = 0.1
FIRST = {"delta": DELTA, "initial_pulls": 20, "batch": 40}


def best_first(policy, values, pulls):
    """Keep many pulls open, and tell the best of their results first."""
    waiting = []
    while policy.asked < pulls or waiting:
        while len(waiting) < 30 and policy.asked < pulls:
            waiting += [(values(), pull) for pull in policy.ask(1)]
        waiting.sort(key=lambda one: one[0])
        value, pull = waiting.pop()
        policy.tell(pull, value)
        yield policy.progress()


def contains(estimate, true):
    return estimate.lower is None or estimate.lower <= true <= estimate.upper


@pytest.mark.parametrize("known", [{"reward_range": (0, 1)}, {"noise_std": 0.5}])
def test_intervals_hold_whatever_delays_depend_on(known):
    """The best of many open results comes first; with all that are told, each study misses."""
    rng = np.random.default_rng(0)
    problem = Problem(2, 1, floors=None, **known)
    for seed in range(3):
        policy = BlockBetting(problem, seed=seed, **FIRST)
        for progress in best_first(policy, lambda: float(rng.random() < 0.5), 100):
            assert progress.intervals == "anytime"
            assert all(contains(one, 0.5) for one in progress.actions)
            assert progress.settled == sum(one.counted for one in progress.actions)


def test_a_limit_that_is_missed_is_not_called_met_whatever_gets_lost():
    """True means of .5, a floor of .52, and 30 % of the zeros lost: those that come average .59."""
    problem = Problem(2, 1, floors=0.52, reward_range=(0, 1))
    rng = np.random.default_rng(1)
    policy = BlockBetting(problem, seed=0, delta=DELTA, initial_pulls=1_500, batch=100)
    for _ in range(3_000):
        pull, value = policy.ask(), float(rng.random() < 0.5)
        if value == 0.0 and rng.random() < 0.3:
            policy.fail(pull)
        else:
            policy.tell(pull, value)
    progress = policy.progress()
    assert progress.intervals == "anytime"
    for one in progress.actions:
        assert one.mean > 0.55
        assert one.lower < 0.5 < one.upper
        assert Standings.by(progress).of(one) is not Standing.KEPT


def test_a_guardrail_that_is_missed_is_not_called_met_if_harms_are_not_reported():
    problem = Problem(
        2, 1, measures={"good": (0, 1), "bad": (0, 1)}, objective="good", floors={},
        ceilings={"bad": 0.48},
    )  # fmt: skip
    rng = np.random.default_rng(2)
    policy = BlockBetting(problem, seed=0, delta=DELTA, initial_pulls=800, batch=100)
    for _ in range(1_600):
        bad = float(rng.random() < 0.5)
        told = None if bad and rng.random() < 0.3 else bad
        policy.tell(policy.ask(), {"good": 1.0, "bad": told})
    progress = policy.progress()
    harms = [one for one in progress.actions if one.labels["measure"] == "bad"]
    assert all(one.mean < 0.45 and one.lower < 0.5 < one.upper for one in harms)
    standings = Standings.by(progress)
    assert {standings.of(one) for one in harms} == {Standing.LIKELY_KEPT}
    assert {one.standing for one in guardrails(progress, False)} == {Standing.LIKELY_KEPT}


def guarded(arms=2, **options):
    problem = Problem(
        arms, 1, measures=["good", "bad"], noise_std={"good": 1.0, "bad": 1.0}, objective="good",
        ceilings={"bad": 3.0}, **options,
    )  # fmt: skip
    return BlockBetting(problem, seed=0, delta=DELTA, initial_pulls=5)


def with_evidence(policy, evidence):
    """Give all ledgers of limits this log evidence; return the limits that are shown."""
    arms, _ = policy.problem.shape
    policy._measured.state.book.ledgers[arms + arms**2 :] = evidence
    return policy.progress().measure_limits


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.1}])
def test_bets_settle_a_limit_with_half_of_the_error_and_the_interval_with_the_other_half(options):
    policy, enough = guarded(**options), np.log(2 / DELTA)
    assert [one.needed for one in with_evidence(policy, 0.0)] == pytest.approx([enough] * 2)
    # Together with the interval, 1 / delta would be wrong with probability 2 delta.
    assert {one.met_by_bets for one in with_evidence(policy, enough - 1e-6)} == {False}
    assert {one.met_by_bets for one in with_evidence(policy, enough + 1e-6)} == {True}
    level = _level(DELTA)
    assert level / (2.0 - level) == pytest.approx(DELTA / 2)
    for pull in policy.ask(10):
        policy.tell(pull, {"good": 0.0, "bad": 0.5})
    progress, radius = policy.progress(), NormalMixture().radius(5, level, 1.0)
    _, mean, *_ = progress.actions
    limit, _ = progress.measure_limits
    assert (mean.lower, mean.upper) == (limit.lower, limit.upper)
    assert limit.upper == pytest.approx(0.5 + radius)


@pytest.mark.parametrize(("arms", "kept"), [(1, False), (2, True), (3, True)])
def test_a_ledger_that_is_tested_on_its_own_is_worth_what_settled_it(arms, kept):
    """It is settled at K / delta for K arms, and infinite from then on."""
    limits = with_evidence(guarded(arms, tolerance=0.1), np.inf)
    assert {one.met_by_bets for one in limits} == {kept}


def test_evidence_settles_no_limit_without_the_guarantee():
    policy, rng = guarded(), np.random.default_rng(1)
    for _ in range(60):
        policy.tell(policy.ask(), {"good": rng.normal(), "bad": rng.normal()})
    assert all(one.met_by_bets for one in with_evidence(policy, 9.0))
    policy.tell(policy.ask(), {"good": rng.normal(), "bad": None})
    for _ in range(60):
        policy.tell(policy.ask(), {"good": rng.normal(), "bad": rng.normal()})
    progress = policy.progress()
    assert progress.intervals == "approximate"
    assert not progress.recommendation.guarantee.proven
    assert not any(one.met_by_bets for one in with_evidence(policy, 9.0))
    assert progress.why_approximate == (
        "1 value got lost, for reasons assumed to be unrelated to any value"
    )


@pytest.mark.parametrize("known", [{"reward_range": (0, 1)}, {"noise_std": 0.5}])
def test_blanks_of_a_finished_experiment_settle_nothing(known):
    rng = np.random.default_rng(3)
    values = (rng.random(1_200) < 0.5).astype(float)
    gone = (values == 0.0) & (rng.random(1_200) < 0.3)
    table = {
        "arm": ["0", "1"] * 600,
        "group": ["0"] * 1_200,
        "outcome": [None if lost else value for lost, value in zip(gone, values, strict=True)],
    }
    problem = Problem(2, 1, floors=0.52, **known)
    with ft.analyse(problem, table, DELTA, order="as given") as study:
        progress = study.progress()
    standings = Standings.by(progress)
    assert all(standings.of(one) is not Standing.KEPT for one in progress.actions)
    if "noise_std" in known:
        assert (progress.intervals, bool(progress.why_approximate)) == ("approximate", True)
    else:
        assert all(one.lower < 0.5 < one.upper for one in progress.actions)


def test_with_known_noise_a_loss_makes_intervals_approximate_and_says_why():
    policy = BlockBetting(Problem(2, 1, floors=None, noise_std=1.0), seed=0, **FIRST)
    for number in range(100):
        pull = policy.ask()
        policy.fail(pull) if number == 60 else policy.tell(pull, 0.5)
    progress = policy.progress()
    assert progress.intervals == "approximate"
    assert "1 pull got lost" in progress.why_approximate


def test_differences_and_means_count_the_same_results():
    policy = BlockBetting(Problem(2, 1, floors=None, control="0", noise_std=1.0), seed=0, **FIRST)
    rng = np.random.default_rng(4)
    for pull in policy.ask(70):
        policy.tell(pull, rng.normal(0.1 * pull.action, 1.0))
    progress = policy.progress()
    assert progress.settled == 40 < progress.told == 70
    control, other = progress.actions
    (effect,) = progress.effects
    assert effect.difference == pytest.approx(other.mean - control.mean)


@pytest.mark.parametrize("known", [{"reward_range": (-9, 9)}, {"noise_std": 1.0}])
def test_a_difference_is_that_of_the_means_beside_it_whatever_the_shares_of_blocks(known):
    problem = Problem(3, {"x": 0.3, "y": 0.7}, floors=None, control="0", **known)
    policy = BlockBetting(problem, delta=1e-9, seed=0)
    rng = np.random.default_rng(4)
    while policy.told < 700:
        pull = policy.ask()
        policy.tell(pull, float(np.clip(rng.normal(0.2 * (pull.action % 3), 1.0), -9, 9)))
    progress = policy.progress()
    means = {(None, one.labels["arm"]): one.mean for one in progress.arms}
    means |= {(one.labels["group"], one.labels["arm"]): one.mean for one in progress.actions}
    assert len(policy._blocks.paid) > 5
    assert len(progress.effects) == 6
    for effect in progress.effects:
        own = means[effect.group, effect.arm] - means[effect.group, "0"]
        assert effect.difference == pytest.approx(own)


def test_a_rule_without_blocks_calls_its_intervals_approximate_once_results_overtake():
    policy = BalancedTracking(Problem(2, 1, noise_std=1.0))
    first, second = policy.ask(2)
    policy.tell(second, 0.5)
    assert policy.progress().intervals == "approximate"
    policy.tell(first, 0.5)
    assert policy.progress().intervals == "anytime"
    policy.fail(policy.ask())
    assert policy.progress().intervals == "approximate"
    in_order = BalancedTracking(Problem(2, 1, noise_std=1.0, delay_depends_on_outcome=True))
    first, second = in_order.ask(2)
    in_order.tell(second, 0.5)
    assert (in_order.progress().intervals, in_order.progress().settled) == ("anytime", 1)


@pytest.mark.parametrize("known", [{"reward_range": (-9, 9)}, {"noise_std": 1.0}])
def test_a_rule_in_order_says_how_many_results_were_told_and_how_many_count(known):
    """Results come in random order; of each cell those before its first missing result count."""
    problem = Problem(2, 2, delay_depends_on_outcome=True, control="0", **known)
    policy, rng = BalancedTracking(problem), np.random.default_rng(5)
    pulls, values = [], {}
    for _ in range(80):
        while len(policy.outstanding()) < 8:
            pulls += policy.ask(1)
        waiting = policy.outstanding()
        pull = waiting[rng.integers(len(waiting))]
        values[pull.number] = float(rng.normal(0.1 * pull.action, 1.0))
        policy.tell(pull, values[pull.number])
        told = [
            [values.get(one.number) for one in pulls if one.action == cell] for cell in range(4)
        ]
        counts = [own[: own.index(None)] if None in own else own for own in told]
        told = [[value for value in own if value is not None] for own in told]
        progress = policy.progress()
        assert [one.pulls for one in progress.actions] == list(map(len, told))
        assert [one.counted for one in progress.actions] == list(map(len, counts))
        assert [one.pulls for one in progress.arms] == [
            len(told[2 * arm]) + len(told[2 * arm + 1]) for arm in range(2)
        ]
        assert progress.settled == sum(map(len, counts))
        for one, counted, all_told in zip(progress.actions, counts, told, strict=True):
            shown = counted or all_told
            assert one.mean == (pytest.approx(np.mean(shown)) if shown else None)
            assert (one.lower is None) == (not counted)
        if all(counts):
            effect = next(one for one in progress.effects if one.group == "0")
            own = np.mean(counts[2]) - np.mean(counts[0])
            assert effect.difference == pytest.approx(own)


@pytest.mark.parametrize("measured", [True, False])
def test_means_of_all_results_and_the_results_after_the_decision_are_reported(measured) -> None:
    """Late results count for no bet, but nobody may read their harm as none."""
    ends = {"cured": (0, 1), "harmed": (0, 1)}
    about = (
        {"measures": ends, "objective": "cured", "ceilings": {"harmed": 0.9}}
        if measured
        else {"reward_range": (0, 1)}
    )
    problem = Problem(["a", "b"], {"x": 0.5, "y": 0.5}, **about)
    policy = BlockBetting(problem, delta=0.05, seed=1)
    told: dict[int, list[float]] = defaultdict(list)
    flight, before = policy.ask(40), None

    def tell(pull, reward):
        told[pull.action].append(reward)
        policy.tell(pull, {"cured": reward, "harmed": 0.1} if measured else reward)

    while not policy.stopped:
        before = policy.told
        assert policy.progress().decided_after is None
        pull = flight.pop(0)
        tell(pull, 0.9 if pull.arm == "b" else 0.1)
        flight += [] if policy.stopped else [policy.ask()]
    for pull in flight:
        tell(pull, 0.5)
    found = policy.progress()
    assert found.decided_after == before + 1 == found.told - len(flight)
    shown = [one for one in found.actions if one.labels.get("measure", "cured") == "cured"]
    for action, one in enumerate(shown):
        assert one.counted < one.pulls == len(told[action])
        assert one.mean_of_all == pytest.approx(np.mean(told[action]))
    of_arms = [np.mean([np.mean(told[2 * k + g]) for g in range(2)]) for k in range(2)]
    assert [one.mean_of_all for one in found.arms] == pytest.approx(of_arms)
    restored = BlockBetting(problem, delta=0.05, seed=1)
    restored.set_state(policy.get_state())
    assert restored.progress().decided_after == found.decided_after
    assert progress_of(found.to_dict()).to_dict() == found.to_dict()


# ---------------------------------------------------------------- means from blocks, in a range

OF_MEASURES = {
    "measures": {"good": (0, 1), "load": (20, 30)},
    "objective": "good",
    "ceilings": {"load": 29.0},
}
BLOCKS = {"delta": DELTA, "initial_pulls": 3, "batch": 12}


def chaotic(problem, rng, pulls, *, loses=0.1):
    """Tell results in random order, lose some, correct some, and restore the state every time.

    Yield the policy, the known values by pull, and those in settled blocks when each block began.
    """
    policy, measures = BlockBetting(problem, seed=2, **BLOCKS), problem.measures
    known, number, begun = {}, 0, [{}]
    while number < pulls:
        restored = BlockBetting(problem, seed=2, **BLOCKS)
        restored.set_state(policy.get_state())
        policy = restored
        while len(policy.outstanding()) < 25 and not policy.stopped:
            policy.ask()
            while len(begun) < policy._blocks.planned:
                begun.append(in_settled_blocks(policy, known))
        waiting = policy.outstanding()
        pull = waiting[rng.integers(len(waiting))]
        number += 1
        value = {"good": float(rng.random() < 0.4), "load": float(20 + 2 * rng.random())}
        if rng.random() < loses:
            policy.fail(pull)
        elif not measures:
            policy.tell(pull, value["good"])
            known[pull] = {"good": value["good"]}
        elif rng.random() < 0.5 and pull not in known:
            policy.report(pull, {"load": value["load"]})
            known[pull] = {"load": value["load"]}
        else:
            told = value | known.get(pull, {})
            policy.tell(pull, told)
            known[pull] = told
        told = [one for one, values in known.items() if "good" in values]
        if number % 10 == 0 and told:
            corrected = told[rng.integers(len(told))]
            before = dict(known[corrected])
            known[corrected]["good"] = 1.0 - before["good"]
            old, new = before, known[corrected]
            policy.amend(corrected, *([old, new] if measures else [old["good"], new["good"]]))
        yield policy, known, begun


def in_settled_blocks(policy, known):
    """Return a copy of the values of pulls of settled blocks."""
    settled = len(policy._blocks.paid)
    return {
        pull: dict(values)
        for pull, values in known.items()
        if 0 <= serial_of_tag(pull.tag) < settled
    }


def moments(known, actions, measure, low):
    """Return the number of values of a measure by action, their sums and sums of squares."""
    found = np.zeros((3, actions))
    for pull, values in known.items():
        if measure in values:
            off = values[measure] - low
            found[:, pull.action] += (1.0, off, off * off)
    return found


def settled_blocks(policy, known, begun, measure, low):
    """Return the results of settled blocks from values by pull; what lacks is lost."""
    drawn = policy._blocks.in_paid_blocks("blocks.planned")
    own = np.zeros((3, *drawn.shape))
    for serial in range(len(drawn)):
        of_block = {pull: one for pull, one in known.items() if serial_of_tag(pull.tag) == serial}
        own[:, serial] = moments(of_block, drawn.shape[1], measure, low)
    earlier = [moments(one, drawn.shape[1], measure, low) for one in begun[: len(drawn)]]
    counts, sums, squares = own
    centres = np.full_like(counts, low)
    return BlockResults(counts, drawn - counts, sums, squares, centres, np.stack(earlier, axis=1))


@pytest.mark.parametrize("about", [{"reward_range": (0, 1), "floors": None}, OF_MEASURES])
def test_means_are_those_of_settled_blocks_whatever_is_late_lost_or_corrected(about):
    problem, rng = Problem(["a", "b"], {"x": 0.4, "y": 0.6}, **about), np.random.default_rng(8)
    looks = worst = 0
    for policy, known, begun in chaotic(problem, rng, 200):
        if not policy._blocks.paid or rng.random() < 0.8:
            continue
        looks += 1
        worst += len(policy.open_as_worst()) > 0
        progress = policy.progress()
        for place, (measure, ends) in enumerate({"good": (0.0, 1.0), "load": (20.0, 30.0)}.items()):
            shown = progress.actions[place :: len(problem.measures) or 1]
            if measure == "load" and not problem.measures:
                continue
            results = settled_blocks(policy, known, begun, measure, ends[0])
            means = means_in_range(results, *ends, DELTA)
            for action, one in enumerate(shown):
                assert (one.lower, one.upper) == pytest.approx(means.at(action)[1:], abs=1e-6)
                assert one.counted == results.counts[:, action].sum()
                if one.counted:
                    assert one.mean == pytest.approx(means.at(action)[0])
    assert looks > 15
    assert worst > 0
    assert len(policy._blocks.paid) > 5


def test_if_losses_are_ignorable_only_values_that_are_still_to_come_count_as_the_worst():
    problem = Problem(["a", "b"], 1, **OF_MEASURES)
    policy = BlockBetting(problem, seed=2, losses="ignorable", **BLOCKS)
    rng = np.random.default_rng(9)
    for _ in range(120):
        pull = policy.ask()
        lost = rng.random() < 0.3
        policy.tell(pull, {"good": float(rng.random() < 0.5), "load": None if lost else 21.0})
    results = policy._measured.paid_values(1, losses_count=False)
    assert results.losses.sum() == 0.0
    assert results.counts.sum() < policy._measured.paid_values(0, losses_count=False).counts.sum()
    shown = policy.progress().actions[1]
    found = means_in_range(results, 20.0, 30.0, DELTA)
    assert (shown.mean, shown.lower, shown.upper) == pytest.approx(found.at(0))
    assert shown.upper < 24.0


def test_means_keep_intervals_when_blocks_take_too_much_memory_and_are_dropped(monkeypatch):
    """Those of single cells: half of their bets need no blocks."""
    problem = Problem(["a", "b"], {"x": 0.5, "y": 0.5}, floors=None, reward_range=(0, 1))
    policy, rng = BlockBetting(problem, seed=2, **BLOCKS), np.random.default_rng(9)
    whole = None
    for number in range(300):
        policy.tell(policy.ask(), 0.5 + 0.02 * float(rng.random()))
        if number == 200:
            whole = policy.progress()
            monkeypatch.setattr(paid, "_MOST_NUMBERS", 0)
    progress = policy.progress()
    assert whole is not None
    assert not policy._blocks.paid
    for before, one in zip(whole.actions, progress.actions, strict=True):
        assert one.lower < before.lower < one.mean < before.upper < one.upper
    assert [one.lower for one in progress.arms] == [None, None]
    assert [one.mean for one in progress.arms] == pytest.approx([0.51, 0.51], abs=0.01)


def test_a_guardrail_is_met_once_its_mean_is_known_well_enough_while_the_study_runs():
    """Half of the range as the scale of a rare harm would need ten times as many results."""
    problem = Problem(
        ["a", "b"], 1, measures={"good": (0, 1), "bad": (0, 1)}, objective="good",
        ceilings={"bad": 0.2},
    )  # fmt: skip
    policy, rng = BlockBetting(problem, seed=3, delta=0.05), np.random.default_rng(1)
    for _ in range(300):
        policy.tell(policy.ask(), {"good": float(rng.random() < 0.5), "bad": rng.random() < 0.02})
    limits = guardrails(policy.progress(), False)
    assert {one.standing for one in limits} == {Standing.KEPT}
