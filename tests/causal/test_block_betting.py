"""Block betting on interventions: the best fair arm, with a proven stop."""

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial import simulate
from fairtrial.causal import (
    BlockBetting,
    BudgetInfeasible,
    CausalModel,
    Density,
    ModelError,
    NetworkEnvironment,
    NoInformation,
    PlugIn,
    Problem,
    chain,
    complexity,
)
from fairtrial.causal._functionals import Functionals
from fairtrial.causal._kernels import betting, betting_plans
from fairtrial.core.run import run_policy
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.block_betting import play_with_losses
from tests.causal.betting_instances import HARD_NULLS, TINY, direct, region, small, three, tiny
from tests.causal.slow import diamond, without_overlap
from tests.causal.slow_betting import Beliefs, Instance, Rule, exact_mean, freeze, multipliers
from tests.effort import pairs, runs, tolerated
from tests.messages import raises, warns

# --------------------------------------------------------------------- reference values

G = np.array(list(TINY.values()))
SHARES = np.array([0.4, 0.6])
MEANS = np.einsum("u,kux->kx", SHARES, G)
ACTIONS = np.concatenate([np.stack([MEANS[k], *G[k]]) for k in range(3)])
GAPS = np.stack([G[:, 0] - G[:, 1], G[:, 1] - G[:, 0]], axis=1)
COUNTS = np.array([2.0, 0, 1, 3, 1, 0, 0, 2, 1])
ONE = np.zeros(3, dtype=np.int64)
ROWS = [0, 0, 0, 1, 1, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 0, 1, 1, 1, 1]
BELIEFS = Beliefs(
    np.array([0.2, 0.3, 0.8]), np.array([0.1, 0.2, 0.15]), np.array([20.0, 15, 25]), np.ones(3)
)

# Functional, null, effect, standard error, log wealth: with a known law of the cells, with a
# constant centre of .45, and with the best combination of known totals.
FROZEN = [
    (MEANS[1] - MEANS[2], 0.0, 0.1, 0.019140411, 1.5353155009, 1.8846226186, 1.5354703514),
    (GAPS[2, 0], 0.2, 0.09, 0.048786354, 0.4328726050, 0.4785274084, 0.4333940084),
    (-GAPS[1, 0], -0.2, 0.26, 0.010373236, 6.7758239876, 6.7703018916, 6.7761540462),
    (
        MEANS[1] - MEANS[2] + 0.5 * GAPS[2, 0],
        0.1,
        0.145,
        0.042078518,
        1.0355052984,
        1.1809731109,
        1.0360987882,
    ),
]


def instance_of(knowledge):
    basis = G.reshape(6, 3)
    return Instance(
        knowledge,
        ACTIONS,
        MEANS,
        GAPS,
        np.arange(3),
        ONE,
        ONE,
        np.ones(1),
        basis,
        np.ones(6),
        0.2,
    )


def widened(bet, counts, null):
    """Return the standard error if the centre leaves a part of the outcome unpredicted."""
    den = counts @ ACTIONS
    noise = den @ (bet.slope**2 * BELIEFS.variance)
    spread = noise + den @ (bet.slope * BELIEFS.mean - bet.offset) ** 2
    return bet.deviation * math.sqrt(max(1.0, (spread - bet.estimate**2 / counts.sum()) / noise))


@pytest.mark.parametrize("row", range(len(FROZEN)))
def test_slow_bets_have_the_reference_values(row):
    functional, null, estimate, deviation, known, constant, span = FROZEN[row]
    bet = freeze(instance_of("cells"), functional, null, COUNTS, BELIEFS)
    assert (bet.estimate, bet.deviation) == pytest.approx((estimate, deviation), abs=1e-9)
    assert bet.log_wealth(*ROWS) == pytest.approx(known, abs=1e-9)
    flat = bet._replace(offset=0.45 * bet.slope + null / COUNTS.sum())
    error = widened(flat, COUNTS, null)
    instance = instance_of("ratios")
    found = freeze(instance, functional, null, COUNTS, BELIEFS, error, flat.offset)
    assert found.log_wealth(*ROWS) == pytest.approx(constant, abs=1e-9)
    # The published value does not say how the ridge of the span is scaled.
    found = freeze(instance, functional, null, COUNTS, BELIEFS, bet.deviation)
    assert found.log_wealth(*ROWS) == pytest.approx(span, abs=1e-4)


def test_slow_bets_with_unknown_covariates_have_the_reference_value():
    g = np.array([[0.2, 0.8, 0.6, 0.4], [0.7, 0.3, 0.5, 0.5]])
    strata = np.array([0, 0, 1, 1])
    zero = np.zeros(4, dtype=np.int64)
    instance = Instance(
        "covariates",
        g,
        g,
        np.zeros((2, 0, 4)),
        np.arange(4),
        strata,
        zero,
        np.ones(1),
        np.zeros((0, 4)),
        np.zeros(0),
        1.0,
    )
    beliefs = Beliefs(
        np.array([0.3, 0.6, 0.2, 0.7]), np.full(4, 0.2), np.ones(4), np.array([0.4, 0.4, 0.6, 0.6])
    )
    bet = freeze(instance, g[0] - g[1], 0.0, np.array([4.0, 6.0]), beliefs, 0.1)
    rows = [0, 0, 1, 1, 2, 2, 3, 3, 3, 3], [0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert bet.estimate == pytest.approx(0.03, abs=1e-9)
    assert bet.offset == pytest.approx([-0.045, 0.045, 0.008703704, -0.010217391], abs=1e-9)
    assert bet.log_wealth(*rows) == pytest.approx(0.0304876344, abs=1e-9)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0.1, 0.05, 2, -0.5, 1), (0.071428571, 0.085714286, 0.011428571)),
        ((0.1, -0.05, 2, -1.5, 1.5), (0.1, 0.066666667, 0.006666667)),
        ((-0.1, 0.05, 2, 0.5, 1), (0.0, 0.05, 0.0025)),
    ],
)
def test_multipliers_have_the_reference_values(given, expected):
    assert multipliers(*given) == pytest.approx(expected, abs=1e-9)
    compiled = betting_plans.multipliers(*map(float, given))
    assert compiled == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------------- whole blocks

INSTANCES = {
    "tiny": tiny,
    "tiny-none": lambda: tiny(0.05),
    "small": small,
    "three": three,
    "region": region,
    "parent of the outcome": direct,
}


def slow_rule(problem, knowledge, delta):
    known = Functionals(problem, knowledge)
    # Groups only matter if the law of covariates is estimated within them.
    groups = known.group_of_stratum[known.strata]
    shares = known.group_shares if knowledge == "covariates" else np.ones(1)
    instance = Instance(
        knowledge,
        known.actions,
        known.means,
        known.gaps,
        known.classes,
        known.strata,
        groups,
        shares,
        known.basis,
        known.totals,
        problem.bound,
    )
    return Rule(instance, delta, known.breakable)


def ledgers_of(policy, rule):
    """Return the policy's ledgers in the order of the slow rule's names."""
    arms, limits = rule.arms, rule.limits
    names = [("own", k) for k in range(arms)]
    names += [("pair", k, b) for b in range(arms) for k in range(arms)]
    names += [("limit", b, limit) for b in range(arms) for limit in range(limits)]
    return dict(zip(names, policy._blocks.state.book.ledgers.tolist(), strict=True))


def block_of(policy, environment, generator):
    """Ask for all pulls of the next block, tell their outcomes, and return the rows."""
    rows, tags = [], []
    while True:
        pull = policy.ask()
        outcome = environment.sample(pull, generator)
        rows.append((pull.action, *policy._told(pull, outcome)))
        before = policy._blocks.state.blocks.first[0]
        policy.tell(pull, outcome)
        tags.append(pull.tag)
        if policy._blocks.state.blocks.first[0] > before:
            return rows, tags


@pytest.mark.parametrize(("name", "knowledge"), pairs(INSTANCES, ["cells", "covariates", "ratios"]))
def test_the_policy_agrees_with_the_slow_rule_block_by_block(name, knowledge):
    problem, environment = INSTANCES[name]()
    policy = BlockBetting(problem, delta=0.1, knowledge=knowledge, seed=3)
    rule = slow_rule(problem, knowledge, 0.1)
    generator = np.random.default_rng(8)
    rule.pay({}, block_of(policy, environment, generator)[0])
    for _ in range(runs(15, whole=90)):
        if policy.stopped:
            break
        counts, bets = rule.plan()
        rows, tags = block_of(policy, environment, generator)
        assert np.bincount([row[0] for row in rows], minlength=len(counts)) == pytest.approx(counts)
        assert (max(tags) >= 0) == bool(bets)
        rule.pay(bets, rows)
        agree(policy, rule)
    assert any(rule.ledgers.values())


def agree(policy, rule):
    for ledger, wealth in ledgers_of(policy, rule).items():
        assert wealth == pytest.approx(rule.ledgers.get(ledger, 0.0), abs=1e-6), ledger
    live = [rule.arms if answer == rule.NONE else answer for answer in rule.live]
    assert np.flatnonzero(policy._blocks.state.book.rejected == 0).tolist() == sorted(live)


@pytest.mark.parametrize(
    ("knowledge", "lost_rows"), pairs(["cells", "covariates", "ratios"], [1, 2])
)
def test_lost_late_and_corrected_rows_count_as_in_the_slow_rule(knowledge, lost_rows):
    problem, environment = three()
    policy = BlockBetting(problem, delta=1e-9, knowledge=knowledge, seed=3)
    rule = slow_rule(problem, knowledge, 1e-9)
    generator = np.random.default_rng(8)
    told = []
    for _ in range(runs(8, whole=60)):
        counts, bets = rule.plan() if rule.rows else (np.bincount([0] * 20), {})
        pulls = policy.ask(int(counts.sum()))
        rows = []
        lost = set(generator.choice(len(pulls), size=lost_rows, replace=False)) if bets else set()
        late = min(lost, default=None)
        for place in [*generator.permutation(len(pulls)), *([late] if lost else [])]:
            pull = pulls[place]
            outcome = environment.sample(pull, generator)
            if place in lost and len(rows) < len(pulls):
                policy.fail(pull)
                rows.append([place, pull.action, 0, math.nan, None, pull])
                if place == late:
                    # The outcome arrives after all, while its block is open.
                    policy.tell(pull, outcome)
                    rows[-1] = [place, pull.action, *policy._told(pull, outcome), outcome, pull]
            elif place not in lost:
                policy.tell(pull, outcome)
                rows.append([place, pull.action, *policy._told(pull, outcome), outcome, pull])
        rule.pay(bets, [tuple(row[1:4]) for row in rows])
        told.append(rows)
        agree(policy, rule)
        block = int(generator.integers(len(told)))
        place = int(generator.integers(len(told[block])))
        _, action, _, _, old, pull = told[block][place]
        if old is not None:
            new = environment.sample(pull, generator)
            policy.amend(pull, old, new)
            told[block][place][4] = new
            rule.correct(block, place, (action, *policy._told(pull, new)))
            agree(policy, rule)
    assert policy.guarantee.proven
    assert any(rule.ledgers.values())


def test_where_many_rows_are_lost_nothing_is_bet_and_a_warning_says_so():
    problem, environment = small()
    policy = BlockBetting(problem, delta=0.1, seed=0)
    generator = np.random.default_rng(0)
    for number in range(500):
        pull = policy.ask()
        if number % 4 == 3:
            policy.fail(pull)
        else:
            policy.tell(pull, environment.sample(pull, generator))
    assert any("too many rows are lost" in warning for warning in policy.warnings())
    assert not policy.stopped
    assert policy._wealth.min() > -10.0


@pytest.mark.parametrize("make", [small, tiny, three])
def test_before_the_first_plan_nothing_is_said_of_what_losses_hide(make):
    problem, environment = make()
    policy = BlockBetting(problem, delta=0.1, seed=0)
    generator = np.random.default_rng(0)
    policy.fail(policy.ask())
    while policy._blocks.planned == 1:
        assert not any("too many rows are lost" in warning for warning in policy.warnings())
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))


def separate():
    """Return three arms that never reach the same cell, with means .2, .6 and .5."""
    arms = {name: [row, row] for name, row in zip(("old", "new", "third"), np.eye(3), strict=True)}
    return chain(0.5, arms, [0.2, 0.6, 0.5], 0.2)


def loses_all_of(arm, after):
    """Return a rule by which all rows of an arm are lost, after the first of each action."""
    return lambda pull, outcome, earlier: pull.arm == arm and earlier >= after


@pytest.mark.parametrize("arm", ["k0", "k1", "k2"])
def test_an_arm_that_loses_everything_is_judged_by_the_rows_of_others(arm):
    problem, environment = tiny()
    policy = BlockBetting(problem, delta=0.1, seed=0)
    play_with_losses(policy, environment, loses_all_of(arm, 3), seed=0, most=300)
    assert policy.recommend().arm == environment.truth.best
    assert policy.guarantee.proven


@pytest.mark.parametrize("after", [0, 3])
def test_an_arm_that_loses_everything_does_not_keep_others_from_being_compared(after):
    problem, environment = separate()
    policy = BlockBetting(problem, delta=0.05, seed=0)
    play_with_losses(policy, environment, loses_all_of("third", after), seed=0, most=600)
    assert policy.recommend().candidates == ("new", "third")
    assert policy.guarantee.proven
    assert policy.progress().remaining is None
    assert any("too many rows are lost" in warning for warning in policy.warnings())


def until_compared(names, means, seed, share):
    """Return the rows until at most one of "a", "b" and "c" is left; "lossy" loses this share."""
    arms = {name: [row, row] for name, row in zip(names, np.eye(len(names)), strict=True)}
    problem, environment = chain(0.5, arms, means, 0.2)
    policy, rng = BlockBetting(problem, delta=0.1, seed=seed), np.random.default_rng([2, seed])
    others = {"a", "b", "c"}
    while len(others.intersection(policy.recommend().candidates)) > 1 and policy.asked < 3_000:
        pull = policy.ask()
        outcome = environment.sample(pull, rng)
        if pull.arm == "lossy" and rng.random() < share:
            policy.fail(pull)
        else:
            policy.tell(pull, outcome)
    return policy.asked


def test_a_leader_that_losses_make_slow_does_not_delay_other_comparisons():
    # With its losses as the worst outcomes, "lossy" is hardly better than "b": its mean is .52.
    alone = sum(until_compared("abc", [0.3, 0.5, 0.7], seed, 0.0) for seed in range(4))
    names, means = ["lossy", *"abc"], [0.95, 0.3, 0.5, 0.7]
    assert sum(until_compared(names, means, seed, 0.45) for seed in range(4)) < 5 * alone


@pytest.mark.parametrize("make", [tiny, separate])
@pytest.mark.parametrize("knowledge", ["cells", "covariates", "ratios"])
def test_a_broken_arm_changes_every_ledger_as_in_the_slow_rule(make, knowledge):
    problem, environment = make()
    policy = BlockBetting(problem, delta=1e-9, knowledge=knowledge, seed=3)
    rule = slow_rule(problem, knowledge, 1e-9)
    generator = np.random.default_rng(8)
    broken = problem.arm_labels[2]
    for number in range(runs(8, whole=40)):
        counts, bets = rule.plan() if rule.rows else (np.bincount([0] * 20), {})
        rows = []
        for pull in policy.ask(int(counts.sum())):
            outcome = environment.sample(pull, generator)
            if pull.arm == broken and number > 0:
                policy.fail(pull)
                rows.append((pull.action, 0, math.nan))
            else:
                policy.tell(pull, outcome)
                rows.append((pull.action, *policy._told(pull, outcome)))
        rule.pay(bets, rows)
        agree(policy, rule)
    assert any(rule.ledgers.values())


@pytest.mark.parametrize("make", [small, three, separate])
def test_a_lost_row_never_counts_more_than_a_row_of_its_action_can(make):
    problem, environment = make()
    policy = BlockBetting(problem, delta=1e-9, seed=3)
    generator = np.random.default_rng(8)
    known, checked = Functionals(problem, policy.knowledge), 0
    for _ in range(8):
        pulls = policy.ask(10)
        state = policy._blocks.state
        slot = pulls[-1].tag % len(state.target)
        for pull in pulls[-1:]:
            before = policy.get_state()
            policy.fail(pull)
            lost = state.bets.products[slot].copy()
            for cell in np.flatnonzero(known.actions[pull.action] > 0):
                for outcome in (0.0, 1.0):
                    policy.set_state(before)
                    betting.tell(
                        policy._blocks.arrays, pull.action, pull.tag, (int(cell), outcome), -1
                    )
                    assert (lost <= state.bets.products[slot] * (1 + 1e-12)).all()
                    checked += 1
            policy.set_state(before)
        for pull in pulls:
            policy.tell(pull, environment.sample(pull, generator))
    assert checked > 8


def test_rows_that_are_only_open_are_not_called_lost():
    problem, environment = tiny()
    policy, generator = BlockBetting(problem, delta=0.1, seed=0), np.random.default_rng(0)
    wait, overdue = [], False
    for number in range(300):
        pull = policy.ask()
        if number % 2:
            wait.append(pull)
        else:
            policy.tell(pull, environment.sample(pull, generator))
        overdue |= bool(policy.open_as_worst())
        assert not any("lost" in warning for warning in policy.warnings())
    assert overdue
    for pull in wait:
        policy.fail(pull)
    assert any("too many rows are lost" in warning for warning in policy.warnings())


def test_rows_lost_by_chance_alone_are_drawn_again():
    problem, environment = small()
    policy = BlockBetting(problem, delta=0.1, losses="ignorable", seed=0)
    generator = np.random.default_rng(0)
    number = 0
    late = []
    while not policy.stopped:
        number += 1
        pull = policy.ask()
        outcome = environment.sample(pull, generator)
        if number % 4 == 3:
            policy.fail(pull)
            late.append((pull, outcome))
        else:
            policy.tell(pull, outcome)
        if number % 40 == 0:
            policy.tell(*late.pop())
    assert policy.recommend().arm == environment.truth.best
    assert policy.guarantee.proven
    assert any("nothing to do with its cell" in text for text in policy.guarantee.assumptions)


@pytest.mark.parametrize("knowledge", ["cells", "ratios"])
def test_a_finished_experiment_is_read_in_blocks_that_its_assignments_alone_make(knowledge):
    problem, environment = three()
    generator = np.random.default_rng(6)
    assigned = generator.integers(problem.n_actions, size=400)
    policy = BlockBetting(problem, delta=1e-9, knowledge=knowledge, assigned=assigned)
    rule = slow_rule(problem, knowledge, 1e-9)
    rows, block = [], 20
    bets = {}
    for number, action in enumerate(assigned):
        pull = policy.ask()
        assert pull.action == action
        outcome = environment.sample(pull, generator)
        policy.tell(pull, outcome)
        rows.append((pull.action, *policy._told(pull, outcome)))
        if len(rows) == block:
            rule.pay(bets, rows)
            agree(policy, rule)
            rows, block = [], max(math.ceil(0.04 * (number + 1)), 10)
            following = assigned[number + 1 : number + 1 + block]
            if len(following) == block:
                counts = np.bincount(following, minlength=problem.n_actions).astype(float)
                bets = rule.bets_on(counts)
    assert any(rule.ledgers.values())
    answer = policy.recommend()
    assert answer.status == "undecided"
    assert "all 400 units of the experiment are used" in answer.reason
    assert any("nothing to do with its own cell" in text for text in answer.guarantee.assumptions)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"assigned": [0, 99]}, "assigned"),
        ({"assigned": [0] * 50, "max_pulls": 30}, "assigned"),
    ],
)
def test_assignments_are_refused_where_they_do_not_fit(options, name):
    with raises(InvalidArgument, name):
        BlockBetting(tiny()[0], **options)


# ------------------------------------------------------------------------ the guarantee


@pytest.mark.parametrize("knowledge", ["cells", "covariates", "ratios"])
def test_no_block_pays_more_than_it_takes_on_average(knowledge):
    generator = np.random.default_rng(5)
    for _ in range(runs(15, whole=100)):
        instance, law = random_instance(knowledge, generator)
        means = generator.random(4)
        counts = generator.multinomial(runs(3, whole=4), np.ones(3) / 3).astype(float)
        functional = instance.means[0] - instance.means[1]
        functional = np.where(counts @ instance.actions > 0, functional, 0.0)
        if not functional.any():
            continue
        beliefs = Beliefs(
            generator.random(4),
            0.01 + 0.24 * generator.random(4),
            np.full(4, 5.0),
            believed_law(knowledge, instance, generator),
            0.5,
            counts @ instance.actions + 1.0,
        )
        null = float(functional @ (law * means))
        bet = freeze(instance, functional, null, counts, beliefs, 0.05 + generator.random())
        assert exact_mean(bet, instance, counts, law, means) <= 1.0 + 1e-10


def believed_law(knowledge, instance, generator):
    if knowledge == "cells":
        return np.ones(4)
    if knowledge == "ratios":
        return 0.1 + generator.random(4)
    return generator.dirichlet(np.ones(2))[instance.strata]


def random_instance(knowledge, generator):
    """Return three actions on four cells: two values of a covariate, two of the intervened node."""
    share = generator.random()
    parts = generator.random((3, 2))
    # Some actions never produce some cells.
    parts = np.where(generator.random((3, 2)) < 0.3, np.round(parts), parts)
    g = np.stack([parts[:, 0], 1 - parts[:, 0], parts[:, 1], 1 - parts[:, 1]], axis=1)
    law = np.array([share, share, 1 - share, 1 - share])
    zero = np.zeros(4, dtype=np.int64)
    strata = np.array([0, 0, 1, 1]) if knowledge == "covariates" else zero
    if knowledge == "cells":
        g, law = g * law, np.ones(4)
    basis = g if knowledge == "ratios" else np.zeros((0, 4))
    return (
        Instance(
            knowledge,
            g,
            g,
            np.zeros((3, 0, 4)),
            np.arange(4),
            strata,
            zero,
            np.ones(1),
            basis,
            np.ones(len(basis)),
            1.0,
        ),
        law,
    )


# -------------------------------------------------------------------------- stopping times

# Instance, knowledge, mean rows at delta .1, its standard error, and the runs behind it.
MEASURED = [
    ("tiny", "cells", 43, 0.3, 1000),
    ("tiny-none", "cells", 95, 1.3, 1000),
    ("small", "cells", 225, 5.1, 500),
    ("three", "cells", 368, 9.3, 500),
    ("region", "cells", 1297, 52, 300),
    ("tiny-none", "ratios", 100, 3.4, 200),
    ("small", "ratios", 273, 11, 200),
    ("three", "ratios", 381, 15, 200),
    ("region", "ratios", 2444, 130, 200),
    ("region", "covariates", 2767, 154, 200),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "knowledge", "rows", "error", "number"), MEASURED)
def test_stopping_times_are_those_measured_by_an_independent_rule(
    name, knowledge, rows, error, number
):
    problem, environment = INSTANCES[name]()
    made = runs(30, whole=number)
    policy = BlockBetting(problem, delta=0.1, knowledge=knowledge)
    result = simulate(policy, environment, replications=made, seed=4)
    spread = error**2 * number
    tolerance = 4.0 * math.sqrt(error**2 + spread / made)
    assert abs(result.stopping_time.mean() - rows) <= tolerance
    assert result.error_rate == 0.0


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "knowledge"), pairs(HARD_NULLS, ["cells", "ratios"]))
def test_the_right_answer_is_hardly_ever_rejected_where_little_makes_it_right(name, knowledge):
    problem, environment = HARD_NULLS[name]()
    number = runs(20, whole=2000 if knowledge == "cells" else 1000)
    rejected = 0
    for seed in range(number):
        policy = BlockBetting(problem, delta=0.1, knowledge=knowledge, seed=seed)
        policy.compiled_run(environment, np.random.default_rng([seed, 5]), runs(600, whole=2000))
        rejected += environment.truth.best not in policy.recommend().candidates
    assert rejected / number <= tolerated(0.1, number)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "knowledge"),
    pairs(["two best arms tied", "best arm unfair by nothing"], ["cells", "ratios"]),
)
def test_hostile_losses_seldom_rule_out_a_right_answer(name, knowledge):
    problem, environment = HARD_NULLS[name]()
    number = runs(8, whole=1000)
    first, best = problem.arm_labels[0], environment.truth.best

    def loses(pull, outcome, earlier):
        # One arm is broken after three rows of each action; one success in four of the best is
        # withheld.
        if pull.arm == first and first != best:
            return earlier >= 3
        good = policy._told(pull, outcome)[1] > 0.5
        return pull.arm == best and good and earlier % 4 == 0

    wrong = 0
    for seed in range(number):
        policy = BlockBetting(problem, delta=0.1, knowledge=knowledge, seed=seed)
        play_with_losses(policy, environment, loses, seed, 300)
        wrong += best not in (policy.recommend().candidates or ())
    assert wrong / number <= tolerated(0.1, number)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "rows", "spent"), [("small", 340, 0.027), ("three", 489, 0.017)])
def test_a_mean_budget_is_kept(name, rows, spent):
    """The first arm is free, all others cost 1; the means are those of an independent rule."""
    problem, _ = INSTANCES[name]()
    costs = np.append(0.0, np.ones(problem.n_arms - 1))
    problem = problem.clone(costs=costs, mean_budget=0.1)
    made = runs(60, whole=200)
    result = simulate(
        BlockBetting(problem, delta=0.1), NetworkEnvironment(problem), made, seed=2, progress=False
    )
    assert result.error_rate == 0.0
    per_row = result.metrics["cost"] / result.stopping_time
    # Rows are integers, so each action can be off by a part of a row.
    assert (per_row * result.stopping_time <= 0.1 * result.stopping_time + problem.n_actions).all()
    assert per_row.mean() <= 0.1 + 0.01
    assert result.stopping_time.mean() < 1.5 * rows


# ------------------------------------------------------------------------------ the answer


def test_the_answer_and_its_evidence_are_reported():
    problem, environment = tiny()
    policy = BlockBetting(problem, delta=0.05, seed=2)
    assert policy.recommend().status == "running"
    assert policy.recommend().leader is None
    run_policy(policy, environment, np.random.default_rng(1))
    found = policy.progress()
    assert found.recommendation.arm == "k1"
    assert found.recommendation.candidates == ("k1",)
    assert found.evidence_scale == "log_e_value"
    assert found.evidence >= found.threshold == pytest.approx(math.log(20))
    assert found.details["knowledge"] == "cells"
    truth = environment.truth
    assert [arm.mean for arm in found.arms] == pytest.approx(truth.means, abs=0.15)
    for pair, gaps in truth.gaps.items():
        assert found.details["gaps"][" | ".join(pair)] == pytest.approx(gaps, abs=0.1)
    rejected = {one.answer: one.rejected for one in found.answers}
    assert rejected == {"k0": True, "k1": False, "k2": True, None: True}


def test_that_no_arm_is_fair_is_an_answer():
    problem, environment = tiny(0.05)
    policy = BlockBetting(problem, delta=0.1, seed=2)
    run_policy(policy, environment, np.random.default_rng(1))
    answer = policy.recommend()
    assert (answer.status, answer.arm) == ("decided", None)
    assert "no arm is fair" in answer.reason


def test_small_outcomes_may_be_good_and_have_any_range():
    """The same problem with losses instead of gains, a hundred times as large."""
    problem, environment = tiny()
    model = problem.model
    losses = problem.clone(
        outcome=("Y", {"0": 300.0, "1": 200.0}),
        outcome_range=(200.0, 300.0),
        direction="minimize",
        fairness_bound=20.0,
        model=model,
    )
    mirrored = NetworkEnvironment(losses)
    first = BlockBetting(problem, delta=0.1, seed=4)
    second = BlockBetting(losses, delta=0.1, seed=4)
    one = run_policy(first, environment, np.random.default_rng(3))
    other = run_policy(second, mirrored, np.random.default_rng(3))
    assert (one.answer, one.pulls.tolist()) == (other.answer, other.pulls.tolist())
    means = [arm.mean for arm in second.progress().arms]
    assert means == pytest.approx([300 - 100 * arm.mean for arm in first.progress().arms])


def test_one_arm_is_fair_or_not():
    for bound, expected in ((0.5, "a"), (0.1, None)):
        problem, environment = chain(0.5, {"a": [[0.3, 0.7], [0.6, 0.4]]}, [0.0, 1.0], bound)
        policy = BlockBetting(problem, delta=0.1, seed=1)
        run = run_policy(policy, environment, np.random.default_rng(0), horizon=5000)
        assert (run.status, run.answer) == ("decided", expected)


def test_an_arm_that_cannot_be_unfair_rules_out_that_none_is_fair():
    problem, environment = chain(
        0.5, {"a": [[0.3, 0.7]] * 2, "b": [[0.1, 0.9], [0.6, 0.4]]}, [0.1, 0.9], 0.2
    )
    policy = BlockBetting(problem, delta=0.1, seed=1)
    assert None not in policy.recommend().candidates
    run = run_policy(policy, environment, np.random.default_rng(0))
    assert run.answer == "a"


def test_without_a_path_from_the_attribute_the_best_mean_counts():
    model = CausalModel(
        [("S", "B"), ("V", "Y")],
        {"S": 2, "B": 2, "V": 2, "Y": 2},
        {"S": [0.5, 0.5], "B": [[0.5, 0.5]] * 2, "Y": [[0.8, 0.2], [0.1, 0.9]]},
    )
    problem = Problem(model, "S", "V", "Y", {"a": [0.5, 0.5], "b": [0.1, 0.9]}, 0.1)
    policy = BlockBetting(problem, delta=0.1, seed=1)
    run = run_policy(policy, NetworkEnvironment(problem), np.random.default_rng(0))
    assert run.answer == "b"


def test_equal_arms_take_part_as_one():
    arms = {"now": [[0.5, 0.5], [0.4, 0.6]], "a": [[0.1, 0.9]] * 2, "b": [[0.1, 0.9]] * 2}
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
    policy = BlockBetting(problem, delta=0.1, seed=1)
    run = run_policy(policy, environment, np.random.default_rng(0))
    assert (run.status, run.answer) == ("decided", "a")
    progress = policy.progress()
    assert progress.details["equal_arms"] == [["a", "b"]]
    assert [one.answer for one in progress.answers] == ["now", "a", None]
    means = {arm.labels["arm"]: arm.mean for arm in policy.progress().arms}
    assert means["a"] == means["b"]


def test_two_equally_good_arms_are_left_when_rows_run_out():
    problem, environment = HARD_NULLS["two best arms tied"]()
    policy = BlockBetting(problem, delta=0.01, max_pulls=800, seed=1)
    run_policy(policy, environment, np.random.default_rng(0))
    answer = policy.recommend()
    assert answer.status == "undecided"
    assert {"k0", "k1"} <= set(answer.candidates)


# ---------------------------------------------------------------------------- the promise


def test_the_guarantee_says_what_has_to_be_right():
    problem = region()[0]
    promise = BlockBetting(problem, delta=0.05).guarantee
    assert promise.proven
    assert "at most 0.05" in promise.statement
    assumed = "; ".join(promise.assumptions)
    for part in ("every outcome lies in [0, 1]", "the distribution of R", "X, V and of S"):
        assert part in assumed, part
    unknown = BlockBetting(problem, knowledge="covariates").guarantee
    assert "need not be known" in "; ".join(unknown.assumptions)
    only = BlockBetting(problem, knowledge="ratios").guarantee
    assert only.proven
    assert len(only.assumptions) < len(unknown.assumptions)


def test_nothing_is_promised_of_estimated_tables():
    problem, environment = tiny()
    log = environment.table([0] * 500, np.random.default_rng(0))
    fitted = problem.clone(model=problem.model.fit(log, ["S"]))
    policy = BlockBetting(fitted, delta=0.1, seed=0)
    run_policy(policy, NetworkEnvironment(fitted), np.random.default_rng(1), horizon=500)
    assert not policy.guarantee.proven
    assert "estimated from data" in policy.guarantee.statement


def test_it_is_the_default_where_it_is_proven():
    problem, environment = tiny()
    log = environment.table([0] * 500, np.random.default_rng(0))
    assert problem.default_policy == "BlockBetting"
    assert problem.clone(outcome_range=None).default_policy == PlugIn.__name__
    fitted = problem.clone(model=problem.model.fit(log, ["S"]))
    assert fitted.default_policy == PlugIn.__name__


# ----------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, "small"])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with raises(InvalidArgument, "delta", given=delta):
        BlockBetting(tiny()[0], delta=delta)


def test_outcomes_without_a_range_are_refused():
    with raises(InvalidArgument, "problem"):
        BlockBetting(tiny()[0].clone(outcome_range=None))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"knowledge": "everything"}, "knowledge"),
        ({"batch": 0}, "batch"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"randomize": "sometimes"}, "randomize"),
    ],
)
def test_other_arguments_are_refused_by_name(options, name):
    with raises(InvalidArgument, name):
        BlockBetting(tiny()[0], **options)


def test_a_problem_of_another_family_is_refused():
    other = ft.linear.Problem([[1, 0], [0, 1]], reward_range=(0, 1))
    with raises(InvalidArgument, "problem"):
        BlockBetting(other)


def test_cells_that_cannot_be_listed_are_refused():
    model = CausalModel([("S", "V"), ("V", "Y")], {"S": 2, "Y": 2}, {"S": [0.5, 0.5]})
    normal = Density(lambda v, given: -0.5 * v**2 - 0.5 * math.log(2 * math.pi))
    problem = Problem(model, "S", "V", "Y", {"a": normal, "b": normal}, 0.1)
    with raises(ModelError, "problem"):
        BlockBetting(problem)
    assert problem.default_policy == "PlugIn"


def test_how_frequent_the_values_are_has_to_be_known():
    model = CausalModel([("S", "V"), ("V", "Y")], {"S": 2, "V": 2, "Y": 2}, {})
    problem = Problem(model, "S", "V", "Y", {"a": [[0.5, 0.5], [0.1, 0.9]]}, 0.1)
    with raises(ModelError, "problem"):
        BlockBetting(problem)
    assert problem.default_policy == "PlugIn"


def refusals(policy, pull, *rows):
    before = {key: value.copy() for key, value in policy.get_state().items()}
    for row in rows:
        with raises(InvalidOutcome):
            policy.tell(pull, row)
    after = policy.get_state()
    for key, value in before.items():
        np.testing.assert_array_equal(value, after[key])


def test_rows_that_cannot_be_are_refused_and_change_nothing():
    arms = {"a": [[1.0, 0.0], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, _ = chain(0.4, arms, [0.1, 0.9], 0.2)
    policy = BlockBetting(problem, seed=0)
    pull = problem.pull(arm="a", sensitive="s")
    refusals(
        policy,
        pull,
        {"S": "s", "V": 1, "Y": 1},  # arm "a" never produces V = 1 if S = s
        {"S": "s'", "V": 0, "Y": 1},  # another value than was forced
        {"S": "s", "V": 0, "Y": 1.5},
        {"S": "s", "V": 0, "Y": math.nan},
        {"S": "s", "V": 7, "Y": 1},
        {"S": "s", "Y": 1},
    )


def test_arms_that_no_affordable_row_tells_of_are_named():
    arms = {"a": [[1.0, 0.0], [1.0, 0.0]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2, costs=[[0, 0, 0], [math.inf] * 3])
    with warns(NoInformation):
        policy = BlockBetting(problem, delta=0.1, max_pulls=300, seed=0)
    run = run_policy(policy, environment, np.random.default_rng(0))
    assert run.status == "undecided"
    assert run.pulls[3:].sum() == 0


def test_a_gap_between_groups_that_share_no_cell_is_told_by_cells_joined_with_theirs():
    problem = without_overlap(cause_leads_to_outcome=False, bound=0.75)
    environment = NetworkEnvironment(problem)
    assert environment.truth.gaps["0", "1"] == pytest.approx([-0.7])
    policy = BlockBetting(problem, delta=0.05, seed=0)
    policy.compiled_run(environment, np.random.default_rng(0), 5_000)
    assert policy.recommend().arm == "apart"
    assert policy.progress().details["gaps"]["0 | 1"] == pytest.approx([-0.7], abs=0.1)


@pytest.mark.parametrize("knowledge", ["cells", "covariates", "ratios"])
@pytest.mark.parametrize("bound", [0.2, 0.75])
def test_a_gap_made_of_cells_that_never_come_is_never_decided(knowledge, bound):
    problem = without_overlap(cause_leads_to_outcome=True, bound=bound)
    environment = NetworkEnvironment(problem)
    with warns(NoInformation):
        policy = BlockBetting(problem, knowledge=knowledge, seed=0)
    policy.compiled_run(environment, np.random.default_rng(0), 3_000)
    assert policy.recommend().status == "running"
    assert all(answer.log_wealth in (0.0, None) for answer in policy.progress().answers)
    assert complexity(environment).value == math.inf
    assert "no row that can be drawn falls" in complexity(environment).reason


def test_a_budget_below_the_cheapest_row_is_refused():
    with raises(BudgetInfeasible):
        tiny()[0].clone(costs=[2.0, 3.0, 4.0], mean_budget=1.0)


# -------------------------------------------------------------------------------- studies


class InBatches(NetworkEnvironment):
    """A network whose rows come from NumPy, block by block."""

    row_source = None


@pytest.mark.parametrize(
    ("environment", "knowledge"),
    [
        (tiny()[1], "cells"),
        (three()[1], "ratios"),
        (region()[1], "covariates"),
        (NetworkEnvironment(diamond(0, attributes=2).clone(outcome_range=(0, 1))), "ratios"),
    ],
)
def test_a_run_in_compiled_code_draws_the_rows_of_the_environment(environment, knowledge):
    found = []
    for world in (environment, InBatches(environment.problem)):
        policy = BlockBetting(environment.problem, delta=1e-3, knowledge=knowledge, seed=3)
        generator = np.random.default_rng(4)
        policy.compiled_run(world, generator, 500)
        found.append((policy.get_state(), generator.bit_generator.state))
    assert found[0][1] == found[1][1]
    for key, value in found[0][0].items():
        np.testing.assert_array_equal(value, found[1][0][key])


def test_a_run_refuses_rows_that_cannot_be_by_the_problems_model():
    def model(first):
        tables = {"S": [0.4, 0.6], "X": [first, [0.4, 0.6]], "Y": [[0.9, 0.1], [0.1, 0.9]]}
        edges = [("S", "X"), ("X", "V"), ("V", "Y")]
        return CausalModel(edges, dict.fromkeys("SXVY", 2), tables)

    problem = Problem(
        model([1.0, 0.0]),
        "S",
        "V",
        ("Y", {"0": 0.0, "1": 1.0}),
        {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]},
        0.2,
        outcome_range=(0, 1),
    )
    environment = NetworkEnvironment(problem, model([0.5, 0.5]))
    policy = BlockBetting(problem, seed=0)
    with raises(InvalidOutcome, "row 4"):
        policy.compiled_run(environment, np.random.default_rng(0), 100)


def test_a_study_continues_where_it_was_closed(tmp_path):
    problem, environment = small()
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    policy = BlockBetting(problem, delta=0.2, seed=5)
    study = ft.Study.create(problem, policy, storage=storage, name="fair")
    generator = np.random.default_rng(2)
    rows = 0
    while not study.recommend().decided:
        pull = study.ask()
        if rows in (25, 47):
            study.fail(pull)
        else:
            outcome = environment.sample(pull, generator)
            study.tell(pull, outcome)
            if rows == 40:
                study.amend(pull, environment.sample(pull, generator), reason="misread")
        rows += 1
        if rows in (10, 33, 90):
            study.close()
            study = ft.Study.open(storage, "fair")
    assert study.recommend().arm == environment.truth.best
    assert study.verify().ok


def test_saved_at_any_moment_it_decides_as_one_that_was_not():
    problem, environment = small()
    plain = BlockBetting(problem, delta=0.1, knowledge="ratios", seed=5)
    saved = BlockBetting(problem, delta=0.1, knowledge="ratios", seed=5)
    one, other = np.random.default_rng(2), np.random.default_rng(2)
    while not plain.stopped:
        pull = plain.ask()
        plain.tell(pull, environment.sample(pull, one))
        fresh = BlockBetting(problem, delta=0.1, knowledge="ratios", seed=5)
        fresh.set_state(saved.get_state())
        saved = fresh
        again = saved.ask()
        assert again == pull
        saved.tell(again, environment.sample(again, other))
    assert saved.recommend() == plain.recommend()


def test_covariates_and_mediators_are_taken_in_every_way():
    problem = diamond(3, intervened_is_carrier=True).clone(fairness_bound=0.3)
    environment = NetworkEnvironment(problem)
    for knowledge in ("cells", "covariates", "ratios"):
        policy = BlockBetting(problem, delta=0.1, knowledge=knowledge, seed=0)
        run = run_policy(policy, environment, np.random.default_rng(1), horizon=20_000)
        assert run.answer in environment.truth.acceptable
