"""Values that come after their block was settled, or never: what is shown is as if told at once."""

import numpy as np
import pytest

from fairtrial.confidence.loss_test import UNEQUAL_LOSSES
from fairtrial.subpopulations import BlockBetting, Problem

KNOWN = {
    "scales": {"noise_std": {"effect": 1.0, "harm": 1.0}},
    "covariance": {"noise_cov": [[1.0, 0.3], [0.3, 1.0]]},
    "ranges": {},
}


def study(known="scales", **options):
    measures = {"effect": (-9, 9), "harm": (-9, 9)} if known == "ranges" else ["effect", "harm"]
    problem = Problem(
        ["a", "b"],
        1,
        measures=measures,
        objective="effect",
        ceilings={"harm": 3.0},
        control="a",
        **KNOWN[known],
    )
    return BlockBetting(problem, **{"delta": 0.05, "initial_pulls": 40, "seed": 3} | options)


def values_of(pulls, seed=1):
    """Return two values for each pull: of the effect and of the harm."""
    return dict(zip(pulls, np.random.default_rng(seed).normal(size=(len(pulls), 2)), strict=True))


def is_good(pull, effect):
    return (effect > 0.0) == (pull.arm == "b")


def tell(policy, pull, effect, harm):
    policy.tell(pull, {"effect": float(effect), "harm": float(harm)})


def held_back(policy, values):
    """Tell good effects at once, and only the harm of other pulls; return these."""
    held = []
    for pull, (effect, harm) in values.items():
        if is_good(pull, effect):
            tell(policy, pull, effect, harm)
        else:
            policy.report(pull, {"harm": float(harm)})
            held.append(pull)
    return held


def effect_of(policy):
    found = policy.progress().effects
    return found[0] if found and found[0].lower is not None else None


def started(known):
    """Return two equal studies, and the values of their initial pulls."""
    first, second = study(known), study(known)
    pulls = first.ask(80)
    assert second.ask(80) == pulls
    return first, second, values_of(pulls)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("reports", [False, True])
def test_effects_and_the_noise_test_are_those_of_values_told_at_once(known, reports):
    together, later, values = started(known)
    for pull, row in values.items():
        tell(together, pull, *row)
    held = held_back(later, values)
    assert later._blocks.state.blocks.first[0] == 1
    for pull in held[::-1]:
        if reports:
            later.report(pull, {"effect": float(values[pull][0])})
        later.tell(pull, {} if reports else {"effect": float(values[pull][0])})
    kept, shown = (policy._measured.in_paid_blocks for policy in (together, later))
    for path in ("complete", "values", "pairs", "absent", "present", "blocks.sums"):
        np.testing.assert_allclose(shown(path), kept(path), rtol=1e-12, err_msg=path)
    before, now = effect_of(together), effect_of(later)
    assert [now.lower, now.upper] == pytest.approx([before.lower, before.upper])
    np.testing.assert_allclose(later._spreads(), together._spreads(), rtol=1e-12)
    assert later.guarantee == together.guarantee


@pytest.mark.parametrize("known", KNOWN)
def test_while_the_objective_is_awaited_it_counts_as_the_worst_or_its_block_does_not(known):
    together, later, values = started(known)
    for pull, row in values.items():
        tell(together, pull, *row)
    held_back(later, values)
    if known == "ranges":
        assert effect_of(later).lower < effect_of(together).lower
        assert effect_of(later).upper > effect_of(together).upper
    else:
        assert effect_of(later) is None
    assert later.guarantee.proven


def test_the_noise_test_counts_a_measure_once_no_earlier_block_awaits_it():
    policy = study("covariance")
    held = held_back(policy, values_of(policy.ask(80)))
    for pull, row in values_of([policy.ask() for _ in range(20)], seed=2).items():
        tell(policy, pull, *row)
    assert policy._blocks.state.blocks.first[0] > 1
    *others, only_harm = sorted(float(record[:, 0].sum()) for record in policy._spreads())
    assert set(others) == {0.0}
    assert only_harm > 80.0
    for pull in held:
        policy.tell(pull, {"effect": 0.0})
    assert len({record[:, 0].sum() for record in policy._spreads()}) == 1


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("how", ["none", "fail"])
@pytest.mark.parametrize("stopped", [False, True])
def test_values_that_never_come_after_their_block_was_settled_weaken_the_label(known, how, stopped):
    policy = study(known, max_pulls=90 if stopped else None)
    held = held_back(policy, values_of(policy.ask(80)))
    before = effect_of(policy)
    while stopped and not policy.stopped:
        tell(policy, policy.problem.pull(arm="a", group="0"), 0.0, 0.0)
    for pull in held:
        if how == "none":
            policy.tell(pull, {"effect": None})
        else:
            policy.fail(pull)
    assert policy.guarantee.proven is (known == "ranges")
    assert policy._measured.missing.sum() == len(held)
    if known == "ranges":
        assert effect_of(policy) == before
    for pull in held:
        if how == "fail":
            policy.tell(pull, {"effect": 0.5})
    if how == "fail":
        assert policy.guarantee.proven
        # Without a bet, what was lost stays the worst value of its range.
        counted = policy._measured.in_paid_blocks("complete").sum()
        assert counted == 80.0 - len(held) * (known == "ranges")


def test_values_that_take_long_are_not_lost_and_lost_ones_of_one_arm_are():
    quick, lossy = study("ranges"), study("ranges")
    rng = np.random.default_rng(5)
    for policy in (quick, lossy):
        for pull in policy.ask(80):
            if rng.random() < 0.25:
                policy.tell(pull, {"effect": None, "harm": 0.0})
            elif pull.arm == "a":
                tell(policy, pull, 0.0, 0.0)
            else:
                policy.report(pull, {"harm": 0.0})
        assert policy._blocks.state.is_late[0]
        assert UNEQUAL_LOSSES not in policy.warnings()
    for pull in quick.outstanding():
        quick.tell(pull, {"effect": 0.0})
    for pull in lossy.outstanding():
        lossy.tell(pull, {"effect": None})
    assert UNEQUAL_LOSSES not in quick.warnings()
    assert UNEQUAL_LOSSES in lossy.warnings()


def test_the_state_is_saved_while_values_are_awaited():
    policy = study()
    held = held_back(policy, values_of(policy.ask(80)))
    other = study()
    other.set_state(policy.get_state())
    for pull in held:
        for one in (policy, other):
            one.tell(pull, {"effect": 0.1})
    assert effect_of(other) == effect_of(policy)
    np.testing.assert_array_equal(other._spreads(), policy._spreads())


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
def test_a_measure_without_a_limit_whose_bad_values_come_last_has_no_wrong_interval(losses):
    problem = Problem(2, 1, measures={"fast": (0, 1), "slow": (0, 1)}, objective="fast")
    policy = BlockBetting(problem, delta=0.1, losses=losses, seed=1)
    for fast, slow in np.random.default_rng(2).integers(0, 2, (600, 2)):
        pull = policy.ask()
        if slow:
            policy.tell(pull, {"fast": float(fast), "slow": 1.0})
        else:
            policy.report(pull, {"fast": float(fast)})
    shown = [one for one in policy.progress().actions if one.labels["measure"] == "slow"]
    assert len(shown) == 2
    for mean in shown:
        assert mean.lower < 0.5 < mean.upper


def with_one_form_that_never_came(losses):
    """Return a study in which all values came but one, and the pull of that one."""
    problem = Problem(
        2, 1, measures={"effect": (0, 1), "harm": (0, 1)}, objective="effect", control="0"
    )
    policy = BlockBetting(problem, delta=0.05, losses=losses, seed=1)
    forgotten = policy.ask()
    policy.report(forgotten, {"harm": 0.0})
    for effect in np.random.default_rng(0).integers(0, 2, 200):
        tell(policy, policy.ask(), effect, 0.0)
    return policy, forgotten


def test_one_form_that_never_comes_hides_neither_effects_nor_intervals():
    shown = {}
    for losses in ("informative", "ignorable"):
        policy, _ = with_one_form_that_never_came(losses)
        assert policy._blocks.state.is_late[0]
        progress = policy.progress()
        counted = sum(one.counted for one in progress.actions if one.labels["measure"] == "effect")
        assert counted > 100
        shown[losses] = effect_of(policy), progress.actions
    # While a value may still come, it counts as its worst, whatever is assumed about losses.
    assert shown["ignorable"] == shown["informative"]


@pytest.mark.parametrize("ends", ["told", "failed"])
def test_when_the_last_form_comes_or_is_lost_by_chance_nothing_counts_as_its_worst(ends):
    policy, forgotten = with_one_form_that_never_came("ignorable")
    before = effect_of(policy)
    if ends == "told":
        policy.tell(forgotten, {"effect": 0.0})
    else:
        policy.fail(forgotten)
    settled = policy._settled_measures(policy._measured)
    assert settled.missing.sum() == 0.0
    # It is of the control, for which 0 is the worst value at the upper end.
    assert effect_of(policy).upper <= before.upper
    assert effect_of(policy).lower > before.lower


def test_pulls_that_still_wait_for_measures_are_not_counted_as_settled_results():
    problem = Problem(2, 1, measures={"fast": (0, 1), "slow": (0, 1)}, objective="fast")
    policy = BlockBetting(problem, delta=0.1, seed=1)
    for fast in np.random.default_rng(0).integers(0, 2, 200):
        policy.report(policy.ask(), {"fast": float(fast)})
    progress = policy.progress()
    assert progress.told == 0
    assert progress.settled is None


@pytest.mark.parametrize("known", KNOWN)
def test_pulls_whose_values_so_far_count_are_not_named_as_those_that_a_forecast_waits_for(known):
    policy = study(known, initial_pulls=10)
    *others, missing = policy.ask(20)
    for pull in others[:12]:
        # The initial pulls have no bets: any value of a pull is enough.
        policy.report(pull, {"harm": 0.5})
    for pull in others[12:]:
        tell(policy, pull, 0.1 * pull.action, 0.5)
    for _ in range(110):
        pull = policy.ask()
        tell(policy, pull, 0.1 * pull.action, 0.5)
    wanted = f"nothing can be forecast until pull {missing.number} is told or failed"
    if known == "ranges":
        # Nothing waits for it, because it counts as its worst; the others do not.
        wanted = ""
        assert policy._blocks.overdue[:, 0].tolist() == [missing.number]
    assert policy.progress().no_forecast == wanted


def test_the_results_of_an_arm_are_those_of_its_objective():
    policy, _ = with_one_form_that_never_came("informative")
    progress = policy.progress()
    results = {one.labels["arm"]: one.pulls for one in progress.arms}
    assert sum(results.values()) == progress.told == 200
    own = [one for one in policy.progress().actions if one.labels["measure"] == "effect"]
    assert {one.labels["arm"]: one.pulls for one in own} == results
