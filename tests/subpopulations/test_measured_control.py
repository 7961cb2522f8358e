"""Limits of measures against a control: rows over three arms, ledgers, and whole runs."""

import math

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from fairtrial.core.draws import VectorSource
from fairtrial.subpopulations import (
    OVERALL,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    complexity,
)
from fairtrial.subpopulations._kernels.measures.bets import _known_noise_gain
from fairtrial.subpopulations._kernels.measures.model import OBJECTIVE
from fairtrial.subpopulations._kernels.measures.model import OVERALL as ALL_GROUPS
from fairtrial.subpopulations._kernels.measures.state import opened
from fairtrial.subpopulations.fixed_design import fixed_design
from fairtrial.subpopulations.scenarios import harms
from tests import effort
from tests.subpopulations.block_views import serial_of
from tests.subpopulations.slow_measures import Condition, nearest
from tests.subpopulations.test_measure_blocks import (
    Mirror,
    check_data,
    count_open_pulls,
    play,
    told,
    wealth_of,
)
from tests.subpopulations.test_measure_items import model_with, solved

LEADER, RIVAL, CONTROL, NOBODY = 0, 1, 2, 3

# --------------------------------------------------------------------------- inner problem


def random_case(rng, *, scale=1.0, control=CONTROL):
    """Three arms: a leader, a rival, and a control (which may be the leader)."""
    groups, measures = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    q = rng.dirichlet(np.ones(groups))
    g = rng.normal(size=measures) if rng.random() < 0.4 else np.eye(measures)[0]
    limits, relative = [], []
    for m in range(measures):
        sign = rng.choice([-1, 1])
        for place in (*range(groups), None):
            limits += [(m, place, sign)] if rng.random() < 0.3 else []
            relative += [(m, place, sign)] if rng.random() < 0.4 else []
    relative += [(OBJECTIVE, None, 1)] if rng.random() < 0.3 else []
    rows = [*limits, *relative]
    bounds = scale * rng.normal(size=(3, len(rows)))
    bounds[control, len(limits) :] = -math.inf
    model = model_with(q, g, rows, bounds, 3)._replace(
        relative=np.array([0.0] * len(limits) + [1.0] * len(relative)), control=control
    )
    means = scale * rng.normal(size=(3, groups, measures))
    roots = rng.normal(size=(3, groups, measures, measures))
    covariances = scale**2 * (roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(measures))
    return model, means, covariances, 10.0 ** rng.uniform(-2, 3, (3, groups))


def limit_of(model, k, r):
    """Return limit r of arm k as a condition on the means of all arms."""
    arms, groups = model.costs.shape
    alpha = (
        model.weights if model.group_of[r] == ALL_GROUPS else np.eye(groups)[int(model.group_of[r])]
    )
    measure = int(model.measure_of[r])
    form = model.objective if measure == OBJECTIVE else np.eye(model.objective.size)[measure]
    coefficients = np.zeros((arms, groups, model.objective.size))
    coefficients[k] = np.outer(alpha, model.signs[r] * form)
    if model.relative[r]:
        coefficients[model.control] = -coefficients[k]
    return Condition(coefficients, float(model.bounds[k, r]))


def conditions_of(model, item, leader):
    """Return the conditions under which a rival is right."""
    found = []
    arms, groups = model.costs.shape
    if leader < arms:
        better = np.zeros((arms, groups, model.objective.size))
        better[item] = np.outer(model.weights, model.objective)
        better[leader] = -better[item]
        found.append(Condition(better, 0.0))
    rows = range(model.signs.size)
    return [*found, *(limit_of(model, item, r) for r in rows if model.bounds[item, r] > -math.inf)]


def agree(conditions, shape, scale):
    """Return whether some means satisfy all conditions: a problem without any is refused."""
    least = [-one.coefficients.ravel() for one in conditions]
    bounds = [-one.bound / scale for one in conditions]
    found = linprog(np.zeros(shape).ravel(), least or None, bounds or None, bounds=(None, None))
    return found.status == 0


def solver_value(means, covariances, pulls, conditions):
    """Return the value by a conic solver; None if no means satisfy all conditions."""
    cells = [np.array(place) for place in np.ndindex(*pulls.shape)]
    lam = [cp.Variable(means.shape[2]) for _ in cells]
    apart = []
    for place, own in zip(cells, lam, strict=True):
        root = np.linalg.cholesky(np.linalg.inv(covariances[tuple(place)]))
        apart.append(np.sqrt(pulls[tuple(place)]) * (root.T @ (means[tuple(place)] - own)))
    limits = [
        sum(one.coefficients[tuple(c)] @ own for c, own in zip(cells, lam, strict=True))
        >= one.bound
        for one in conditions
    ]
    problem = cp.Problem(cp.Minimize(sum(cp.sum_squares(part) for part in apart)), limits)
    found = problem.solve(solver=cp.CLARABEL)
    return found if problem.status == cp.OPTIMAL else None


@pytest.mark.parametrize("scale", [1e-70, 1.0, 1e70])
@pytest.mark.parametrize("control", [LEADER, CONTROL])
def test_values_and_derivatives_are_those_of_all_active_sets(scale, control):
    rng, compared = np.random.default_rng(0), 0
    for _ in range(effort.runs(20, whole=400)):
        model, means, covariances, pulls = random_case(rng, scale=scale, control=control)
        for leader in (LEADER, NOBODY):
            conditions = conditions_of(model, RIVAL, leader)
            if len(conditions) > 9 or not agree(conditions, means.shape, scale):
                continue
            wanted, _, slopes = nearest(means, covariances, pulls, conditions)
            value, _, gradient = solved(model, means, covariances, pulls, RIVAL, leader)
            assert value == pytest.approx(wanted, rel=1e-7, abs=1e-11)
            assert gradient * pulls == pytest.approx(slopes * pulls, rel=1e-5, abs=1e-5 * wanted)
            compared += 1
    assert compared > effort.runs(15, whole=300)


def test_values_are_those_of_a_conic_solver():
    rng, compared = np.random.default_rng(1), 0
    for _ in range(effort.runs(20, whole=200)):
        model, means, covariances, pulls = random_case(rng, control=int(rng.choice([0, 2])))
        for leader in (LEADER, NOBODY):
            wanted = solver_value(means, covariances, pulls, conditions_of(model, RIVAL, leader))
            if wanted is not None:
                value, *_ = solved(model, means, covariances, pulls, RIVAL, leader)
                assert value == pytest.approx(wanted, rel=1e-5, abs=1e-6)
                compared += 1
    assert compared > 20


def test_a_limit_of_the_leader_is_an_item_of_one_row():
    rng = np.random.default_rng(2)
    for _ in range(40):
        model, means, covariances, pulls = random_case(rng)
        for r in range(model.signs.size):
            own = limit_of(model, LEADER, r)
            kept = Condition(-own.coefficients, -own.bound)
            broken = own if (own.coefficients * means).sum() < own.bound else kept
            wanted, _, slopes = nearest(means, covariances, pulls, [broken])
            value, _, gradient = solved(model, means, covariances, pulls, 3 + r, LEADER)
            assert value == pytest.approx(wanted, rel=1e-9)
            assert gradient == pytest.approx(slopes, rel=1e-9)


def test_a_limit_needs_pulls_of_the_control():
    model = model_with([1.0], [1.0, 0.0], [(1, 0, -1)], [[-0.1], [-0.1], [-math.inf]], 3)
    model = model._replace(relative=np.ones(1), control=CONTROL)
    means = np.array([[[0.6, 0.1]], [[0.7, 0.5]], [[0.4, 0.3]]])
    covariances = np.broadcast_to(0.25 * np.eye(2), (3, 1, 2, 2)).copy()
    pulls = np.array([[10.0], [20.0], [0.0]])
    assert solved(model, means, covariances, pulls, RIVAL, NOBODY)[0] == 0.0
    assert solved(model, means, covariances, pulls, 3, LEADER)[0] == 0.0
    pulls[CONTROL] = 5.0
    value, _, gradient = solved(model, means, covariances, pulls, RIVAL, NOBODY)
    assert value == pytest.approx(0.1**2 / (0.25 / 20 + 0.25 / 5))
    assert (gradient * pulls).sum() == pytest.approx(value)


# ------------------------------------------------------------------------ bets, side by side

UNIT = {"effect": (0, 1), "harm": (0, 1)}
RATES = [(0.3, 0.2), (0.4, 0.2), (0.7, 0.2), (0.6, 0.1), (0.8, 0.7), (0.9, 0.6)]


def question(noise, **more):
    known = {
        "ranges": {"measures": UNIT},
        "covariance": {"measures": list(UNIT), "noise_cov": [[0.25, 0.1], [0.1, 0.25]]},
        "scales": {"measures": list(UNIT), "noise_std": dict.fromkeys(UNIT, 0.5)},
    }
    asked = {
        "objective": "effect", "direction": {"harm": "minimize"}, "control": "0",
        "margin": {"harm": 0.3, ("effect", "y"): 0.1, ("harm", OVERALL): 0.2},
    }  # fmt: skip
    return Problem(3, {"x": 0.6, "y": 0.4}, **known[noise], **asked | more)


def coins():
    points = np.broadcast_to(np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]]), (6, 4, 2))
    chances = [[(1 - p) * (1 - r), (1 - p) * r, p * (1 - r), p * r] for p, r in RATES]
    return VectorSource.points(points, np.array(chances))


@pytest.mark.parametrize("noise", ["ranges", "covariance", "scales"])
@pytest.mark.parametrize(
    "more",
    effort.first(
        1,
        [
            {
                "objective": {"effect": 1, "harm": -0.5},
                "superiority": 0.05,
                "floors": {"effect": 0},
            },
            {"superiority": 0.05},
            {},
        ],
    ),
)
def test_bets_pay_what_the_slow_ones_do(noise, more):
    problem, source = question(noise, **more), coins()
    policy, rng = BlockBetting(problem, delta=0.05, seed=1), np.random.default_rng(0)
    mirror = Mirror(policy)
    blocks_paid, beside = 0, 0.0
    while not policy.stopped and policy.told < effort.runs(250, whole=600):
        pull = policy.ask()
        mirror.follow()
        values = source.draw(pull.action, rng)
        mirror.tell(serial_of(pull), pull.number, pull.action, values)
        policy.tell(pull, told(problem, values))
        if policy._blocks.state.blocks.first[0] > blocks_paid:
            blocks_paid = int(policy._blocks.state.blocks.first[0])
            mirror.compare()
            assert policy._wealth == pytest.approx(wealth_of(policy))
            beside += np.abs(policy._blocks.state.coefficients[:, :, 2]).sum()
    assert blocks_paid > 3
    assert beside > 0.0


@pytest.mark.parametrize("noise", ["ranges", "covariance", "scales"])
def test_ledgers_survive_missing_early_late_lost_and_corrected_values(noise):
    problem = question(noise, superiority=0.05, floors={"effect": 0.2})
    pulls = effort.runs(500, whole=3000)
    policy, mirror, history, lost, waiting = play(problem, coins(), 3, pulls)
    assert policy._blocks.state.blocks.first[0] > 3
    count_open_pulls(policy, mirror, waiting)
    mirror.compare()
    check_data(policy, history, lost, waiting)


@pytest.mark.parametrize("noise", ["ranges", "covariance", "scales"])
def test_the_effect_of_a_bet_is_at_most_zero_where_its_hypothesis_holds(noise):
    """Of a pair: the rival is right, and the target keeps its limits. Of a limit: it is broken."""
    problem, source, rng = question(noise, superiority=0.05), coins(), np.random.default_rng(5)
    policy = BlockBetting(problem, delta=1e-4, seed=4)
    mirror, checked = Mirror(policy), 0
    while policy.told < effort.runs(200, whole=400):
        before = mirror.known
        pull = policy.ask()
        mirror.follow()
        if mirror.known > before:
            checked += check_effects(problem, mirror.blocks[before], rng, noise)
        policy.tell(pull, told(problem, source.draw(pull.action, rng)))
    assert checked > effort.runs(80, whole=200)


def check_effects(problem, block, rng, noise):
    """Check the effects of a block's bets at random means; return how many hypotheses held."""
    arms, groups = problem.shape
    planned = block["planned"].reshape(arms, groups)
    checked = 0
    for _ in range(60):
        means = rng.random((arms, groups, 2))
        quality = problem.sign * problem.quality(means)
        feasible = problem.feasible(means)
        for bet in range(block["number"]):
            ledger = block["ledger"][bet]
            if ledger < 0:
                continue
            if bet < arms:
                holds = feasible[bet]
                if block["target"] < arms:
                    holds &= quality[bet] >= quality[block["target"]]
            else:
                row = problem.limit_rows[bet - arms]
                holds = row.distances(means, problem.shares)[block["target"]] < 0.0
            if not holds:
                continue
            effect = block["constant"][bet]
            for role, arm in enumerate((block["target"], bet, 0)):
                for group in range(groups):
                    own = block["coefficients"][bet, role, group]
                    if own.any():
                        scale = planned[arm, group] if noise == "ranges" else 1.0
                        effect += scale * own @ means[arm, group]
            assert effect <= 1e-9 * (1 + abs(block["constant"][bet]))
            checked += 1
    return checked


def test_evidence_against_a_rival_of_a_leading_arm_is_in_the_pair():
    """No bet of a block with an arm as its target goes to the rival's own ledger."""
    problem, source, rng = question("ranges"), coins(), np.random.default_rng(5)
    policy = BlockBetting(problem, delta=1e-4, seed=4)
    mirror = Mirror(policy)
    while policy.told < 600:
        pull = policy.ask()
        mirror.follow()
        policy.tell(pull, told(problem, source.draw(pull.action, rng)))
    arms = len(problem.arms)
    targets = [block["target"] for block in mirror.blocks.values() if block["number"]]
    own = [
        (block["ledger"][:arms] < arms) & (block["ledger"][:arms] >= 0)
        for block in mirror.blocks.values()
        if block["number"] and block["target"] < arms
    ]
    assert min(targets) < arms
    assert not np.any(own)


def test_a_bet_without_noise_under_a_singular_covariance_pays_nothing():
    """The two measures have the same noise, so their difference has none: rounding decides."""
    problem = Problem(
        2, 1, measures=["a", "b"], objective="a", direction={"b": "minimize"}, control="0",
        margin={"a": 0.5, "b": 0.5}, noise_cov=np.ones((2, 2)),
    )  # fmt: skip
    policy = BlockBetting(problem, seed=1)
    while not policy._blocks.state.bets.number.any():
        pull = policy.ask()
        policy.tell(pull, {"a": 0.3 + pull.action, "b": 0.1})
    (model, _), state = opened(policy._blocks.arrays)
    slot = int(state.bets.number.argmax())
    state.coefficients[slot] = 0.0
    state.coefficients[slot, 1, 0, 0] = 0.1, -0.1
    state.pairs[slot] = 7.0
    state.values[slot] = 3.0
    state.target[slot], state.bets.variance[slot, 1] = 0, 1e-17
    assert _known_noise_gain(model, state, slot, 1) == 0.0


# ------------------------------------------------------------------------------- what is shown


def test_limits_are_shown_with_differences_from_the_control_in_the_users_units():
    """In a range far from zero, the kernels shift means; a difference has no shift."""
    problem = Problem(
        2, 1, measures={"sold": (0, 1), "load": (1000, 1002)}, objective="sold",
        direction={"load": "minimize"}, control="0", margin={"load": 1.0},
    )  # fmt: skip
    policy, rng = BlockBetting(problem, delta=1e-30, seed=1), np.random.default_rng(1)
    values = {0: [], 1: []}
    while policy.told < 200:
        pull = policy.ask()
        load = 1000.0 + 2.0 * float(rng.random() < (0.3, 0.4)[pull.action])
        values[pull.action].append(load)
        policy.tell(pull, {"sold": float(rng.random() < 0.3 + 0.5 * pull.action), "load": load})
    (limit,) = policy.progress().measure_limits
    assert (limit.arm, limit.measure, limit.kind, limit.bound) == ("1", "load", "ceiling", 1.0)
    assert limit.control == "0"
    assert limit.estimate == pytest.approx(np.mean(values[1]) - np.mean(values[0]), abs=0.1)
    assert limit.lower < limit.estimate < limit.upper
    assert limit.upper - limit.lower > 0.5
    assert [effect.upper_limit for effect in policy.progress().effects] == [None]


@pytest.mark.parametrize("unit", [1e-120, 1e-9, 1.0, 1e9, 1e120])
def test_units_change_no_decision(unit):
    """Also the limit on the objective is in its units."""

    def asked(scale):
        return Problem(
            3, 2, measures={"a": (0, scale), "b": (0, 1)}, objective={"a": 1.0, "b": -0.5 * scale},
            control="0", superiority=0.1 * scale, margin={"a": 0.1 * scale, "b": 0.2},
        )  # fmt: skip

    policies = [BlockBetting(asked(scale), delta=0.1, seed=2) for scale in (1.0, unit)]
    rng = np.random.default_rng(3)
    for _ in range(150):
        pulls = [policy.ask() for policy in policies]
        assert pulls[0].action == pulls[1].action
        a, b = (float(rng.random() < rate) for rate in (0.2 + 0.1 * pulls[0].action, 0.4))
        policies[0].tell(pulls[0], {"a": a, "b": b})
        policies[1].tell(pulls[1], {"a": a * unit, "b": b})
    assert policies[0]._wealth == pytest.approx(policies[1]._wealth, rel=1e-9, abs=1e-9)


# ----------------------------------------------------------------------------------- planning

ONE = {"control": "0", "margin": 0.2, "superiority": 0.05}
LEVELS = [[0.2, 0.5], [0.5, 0.4], [0.9, 0.1]]


@pytest.mark.parametrize("best", ["1", "0"])
def test_one_measure_by_name_is_as_hard_as_one_without(best):
    means = np.array(LEVELS)
    if best == "0":
        means[1] -= 0.4
    groups = {"x": 0.6, "y": 0.4}
    plain = Problem(3, groups, noise_std=1.0, **ONE)
    named = Problem(
        3, groups, measures=["y"], noise_std={"y": 1.0}, **ONE | {"margin": {"y": 0.2}}
    )  # fmt: skip
    wanted = complexity(GaussianEnvironment(plain, means), tol=0.1)
    found = complexity(GaussianEnvironment(named, means[..., np.newaxis]), tol=0.1)
    assert found.answer == wanted.answer == best
    assert found.lower <= wanted.upper
    assert wanted.lower <= found.upper


def test_an_answer_on_a_limit_against_the_control_has_no_bound():
    problem = question("covariance", margin={"harm": 0.3})
    means = {"effect": [[0.3] * 2, [0.5] * 2, [0.4] * 2], "harm": [[0.1] * 2, [0.4] * 2, [0.1] * 2]}
    environment = GaussianEnvironment(problem, means)
    found = complexity(environment)
    assert math.isinf(found.value)
    assert environment.truth.best == "1"
    assert "harm" in found.reason
    design = fixed_design(environment)
    assert design is None or design.size(0.05, 0.9) is None


def test_scenarios_put_the_answer_beyond_its_limit_against_the_control():
    problem = question("covariance")
    means = {"effect": [[0.3] * 2, [0.5] * 2, [0.2] * 2], "harm": [[0.1] * 2, [0.2] * 2, [0.1] * 2]}
    environment = GaussianEnvironment(problem, means)
    assert environment.truth.best == "1"
    (harmed,) = harms(environment)
    assert not problem.feasible(harmed.environment.cell_means)[1]
    assert harmed.environment.truth.best == "0"


def test_measures_of_an_objective_move_beyond_its_limit_alike_in_all_units():
    moved = []
    for unit in (1.0, 1e-3):
        problem = Problem(
            ["now", "new"], {"x": 0.3, "y": 0.7}, measures=["sold", "load"],
            objective={"sold": 1.0, "load": -2e-4 / unit}, control="now", superiority=0.02,
            noise_cov=np.diag([0.09, (300 * unit) ** 2]),
        )  # fmt: skip
        means = {
            "sold": [[0.1, 0.1], [0.2, 0.2]],
            "load": np.array([[1e3] * 2, [900.0] * 2]) * unit,
        }
        environment = GaussianEnvironment(problem, means)
        (harmed,) = harms(environment)
        assert harmed.environment.truth.best == "now"
        new = harmed.environment.cell_means[1]
        assert new[0].tolist() == new[1].tolist()
        moved.append(new[0] / [1.0, unit])
        assert problem.quality(harmed.environment.cell_means) == pytest.approx([-0.1, -0.09])
    assert moved[0] == pytest.approx(moved[1])
    assert moved[0] == pytest.approx([0.2 - 0.11 * 0.09 / 0.0936, 900 + 0.11 * 18 / 0.0936])


def test_where_the_range_of_a_measure_ends_the_others_move_further():
    problem = Problem(
        ["now", "new"], 1, measures={"good": (0, 1), "bad": (0, 1)},
        objective={"good": 1.0, "bad": -1.0}, control="now", superiority=0.0,
    )  # fmt: skip
    means = {"good": [[0.02], [0.1]], "bad": [[0.9], [0.55]]}
    (harmed,) = harms(BernoulliEnvironment(problem, means))
    assert harmed.environment.cell_means[1, 0] == pytest.approx([0.0, 0.55 + 0.43 * 1.1 - 0.1])
    assert harmed.environment.truth.best == "now"
    nowhere = {"good": [[0.0], [0.1]], "bad": [[1.0], [0.55]]}
    assert list(harms(BernoulliEnvironment(problem, nowhere))) == []
