"""The stopping tests, compared with a slow implementation of their definition."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import norm

from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.confidence.thresholds import KAPPA_GRID, kaufmann_koolen_constant
from fairtrial.subpopulations._kernels.evidence import evidence_for, is_certain
from fairtrial.subpopulations._kernels.indices import (
    ITERATED_LOGARITHM,
    MIXTURE,
    STYLISED,
    STYLISED_WITHOUT_HALF,
)
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations._kernels.pitfalls import NONE
from fairtrial.subpopulations._kernels.tracker_state import Rules, State
from tests import effort
from tests.subpopulations.exact_pitfalls import exact_best, exact_pair, exact_weakest, model_of

FREE = -math.inf
ONE_KAPPA = np.array([40.0])


class Case(NamedTuple):
    """The input of a stopping test."""

    model: Model
    counts: np.ndarray
    means: np.ndarray
    level: float

    @property
    def precisions(self) -> np.ndarray:
        return self.counts / self.model.variances

    @property
    def best(self) -> int:
        return exact_best(self.means, self.model.weights, self.model.limits)

    @property
    def half_weakest(self) -> float:
        model = self.model
        found = exact_weakest(
            self.best, self.means, self.precisions,
            model.weights, model.own_limits, model.rival_limits, model.tolerance,
        )  # fmt: skip
        return math.inf if found is None else 0.5 * float(found)


def rules_of(kind: int, case: Case, kappas: np.ndarray = KAPPA_GRID, delta: float = 0.1) -> Rules:
    return Rules(
        sampling=0,
        initial_pulls=1.0,
        guard=0.0,
        shares=np.zeros(case.means.shape),
        test=kind,
        delta=delta,
        level=case.level,
        kappas=np.array(kappas),
        prices=prices_of(kind, case),
        estimates_noise=False,
    )


def state_of(case: Case) -> State:
    zeros = np.zeros(case.means.shape)
    return State(
        counts=case.counts,
        pending=zeros,
        sums=case.counts * case.means,
        squares=zeros,
        means=case.means,
        precisions=case.precisions,
        credit=zeros,
        shares=zeros,
        pitfalls=np.array([2.0 * case.half_weakest]),
        best=np.array([case.best]),
        weakest=np.array([0]),
        noise=np.zeros((0, NUMBERED_COLUMNS)),
    )


def compiled(
    kind: int, case: Case, kappas: np.ndarray = KAPPA_GRID, enough: float = -math.inf
) -> float:
    return evidence_for(case.model, rules_of(kind, case, kappas), state_of(case), enough)


def prices_of(kind: int, case: Case) -> np.ndarray:
    cells = 2 * case.model.weights.size
    if kind != ITERATED_LOGARITHM:
        return np.zeros(cells + 1)
    own = kaufmann_koolen_constant(case.level)
    shared = [kaufmann_koolen_constant(case.level / number) for number in range(1, cells + 1)]
    return np.array([own, *shared])


# ------------------------------------------------------------------------- slow and obvious


def slow_cell(kind: int, case: Case, arm: int, cell: int, distance: float, kappas) -> float:
    count = case.counts[arm, cell]
    distance = distance / math.sqrt(case.model.variances[arm, cell])
    if kind == ITERATED_LOGARITHM:
        if distance <= 0.0:
            return -math.inf
        threshold = 2.0 * math.log(4.0 + math.log(count)) + kaufmann_koolen_constant(case.level)
        return count * distance**2 / 2.0 - threshold + case.level
    evalues = []
    for kappa in kappas:
        z = count * distance / math.sqrt(count + kappa)
        shrink = 0.5 * math.log(kappa / (count + kappa))
        evalues.append(math.log(2.0) + shrink + z * z / 2.0 + float(norm.logcdf(z)))
    return float(np.logaddexp.reduce(evalues)) - math.log(len(evalues))


def slow_pair(kind: int, case: Case, b: int, k: int, kappas) -> float:
    model = case.model
    parts = [(b, cell) for cell in range(model.weights.size) if model.weights[cell] > 0.0]
    parts += [
        (k, cell)
        for cell in range(model.weights.size)
        if model.weights[cell] > 0.0 or np.isfinite(model.rival_limits[:, k, cell]).any()
    ]

    def half_distance(precisions: np.ndarray) -> float:
        return 0.5 * float(
            exact_pair(
                case.means[b], precisions[b], case.means[k], precisions[k],
                model.weights, model.rival_limits[:, k], model.tolerance,
            )
        )  # fmt: skip

    if kind == ITERATED_LOGARITHM:
        threshold = sum(2.0 * math.log(4.0 + math.log(case.counts[part])) for part in parts)
        threshold += len(parts) * kaufmann_koolen_constant(case.level / len(parts))
        return half_distance(case.precisions) - threshold + case.level
    results = []
    for kappa in kappas:
        threshold = math.log(len(kappas))
        threshold += sum(0.5 * math.log(1.0 + case.counts[part] / kappa) for part in parts)
        shrunk = case.counts**2 / (case.counts + kappa) / model.variances
        results.append(half_distance(shrunk) - threshold)
    return max(results)


def slow_evidence(kind: int, case: Case, kappas) -> float:
    model, means, best = case.model, case.means, case.best
    tests = []
    if best != NONE:
        for sign, ends in zip((1.0, -1.0), model.own_limits[:, best], strict=True):
            for cell, end in enumerate(ends):
                if math.isfinite(end):
                    distance = sign * (means[best, cell] - end)
                    tests.append(slow_cell(kind, case, best, cell, distance, kappas))
    for k in range(len(means)):
        if k == best:
            continue
        outside = [
            slow_cell(kind, case, k, cell, sign * (end - means[k, cell]), kappas)
            for sign, ends in zip((1.0, -1.0), model.rival_limits[:, k], strict=True)
            for cell, end in enumerate(ends)
            if sign * means[k, cell] < sign * end
        ]
        excluded = max(outside, default=-math.inf)
        if excluded < case.level and best != NONE:
            excluded = max(excluded, slow_pair(kind, case, best, k, kappas))
        tests.append(excluded)
    return min(tests, default=math.inf)


# ------------------------------------------------------------------------------- the cases


@st.composite
def cases(draw: st.DrawFn, most_pulls: int = 3000) -> Case:
    """Return a problem and data: feasible and infeasible arms, free cells, idle groups."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arms, groups = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    weights = generator.dirichlet(np.ones(groups))
    if groups > 1 and draw(st.booleans()):
        weights[int(generator.integers(groups))] = 0.0
    floors = np.where(generator.random((arms, groups)) < 0.3, FREE, 0.0)
    tolerance, floor_tolerance = draw(
        st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.2)])
    )
    ceilings = np.where(generator.random((arms, groups)) < 0.5, 0.8, math.inf)
    if draw(st.booleans()):
        ceilings = np.full((arms, groups), math.inf)
    centre = draw(st.sampled_from([0.3, -0.3]))
    return Case(
        model=model_of(
            weights / weights.sum(),
            floors,
            np.exp(generator.normal(0.0, 0.7, (arms, groups))),
            tolerance,
            floor_tolerance,
            ceilings,
        ),
        counts=generator.integers(1, most_pulls, (arms, groups)).astype(np.float64),
        means=generator.normal(centre, 0.4, (arms, groups)),
        level=draw(st.floats(0.5, 12.0)),
    )


@pytest.mark.parametrize("kind", [MIXTURE, ITERATED_LOGARITHM])
@pytest.mark.parametrize("kappas", [KAPPA_GRID, ONE_KAPPA], ids=["grid", "one kappa"])
@given(case=cases())
@settings(max_examples=effort.runs(40, whole=120))
def test_the_evidence_is_that_of_the_definition(kind: int, kappas, case: Case) -> None:
    wanted = slow_evidence(kind, case, kappas)
    assert compiled(kind, case, kappas) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", [MIXTURE, ITERATED_LOGARITHM])
@given(case=cases())
@settings(max_examples=effort.runs(45, whole=120))
def test_looking_no_further_than_needed_decides_the_same(kind: int, case: Case) -> None:
    whole = compiled(kind, case)
    hurried = compiled(kind, case, enough=case.level)
    certain = is_certain(case.model, rules_of(kind, case), state_of(case))
    assert (hurried >= case.level) == (whole >= case.level) == certain
    if certain:
        assert hurried == whole


@pytest.mark.parametrize("kind", [MIXTURE, ITERATED_LOGARITHM])
@given(case=cases(most_pulls=100_000))
@settings(max_examples=effort.runs(80, whole=200))
def test_no_proven_rule_stops_before_the_free_filter(kind: int, case: Case) -> None:
    assert compiled(kind, case) <= case.half_weakest + math.log(2.0) + 1e-9


def test_the_random_cases_are_on_both_sides_of_the_level() -> None:
    generator = np.random.default_rng(0)
    decided = {False: 0, True: 0}
    for _ in range(200):
        model = model_of(np.full(2, 0.5), np.zeros((3, 2)))
        counts = generator.integers(1, 3000, (3, 2)).astype(np.float64)
        case = Case(model, counts, generator.normal(0.3, 0.4, (3, 2)), 3.0)
        decided[compiled(MIXTURE, case) >= case.level] += 1
    assert min(decided.values()) > 20


# ------------------------------------------------------------------------------ what it means


def test_the_pair_test_is_the_least_evalue_over_all_means_at_which_the_rival_is_better() -> None:
    """The mixture over a centred Gaussian prior, minimised numerically over the closed null."""
    generator = np.random.default_rng(1)
    kappa, groups = 25.0, 2
    for _ in range(12):
        weights = generator.dirichlet(np.ones(groups))
        floors = np.array([[FREE, FREE], [0.1, FREE]])
        counts = generator.integers(20, 400, (2, groups)).astype(np.float64)
        means = np.stack([generator.normal(0.9, 0.2, groups), generator.normal(0.2, 0.2, groups)])
        sigma = generator.uniform(0.5, 1.5, (2, groups))
        # The rival's ceiling keeps it from covering the whole gap alone.
        tops = np.array([[math.inf, math.inf], [math.inf, 0.5]])
        model = model_of(weights, floors, sigma**2, ceilings=tops)
        case = Case(model, counts, means, level=1e9)
        if case.best != 0:
            continue

        def log_evalue(lam: np.ndarray, counts=counts, means=means, sigma=sigma) -> float:
            z = counts * (means - lam.reshape(2, groups)) / sigma / np.sqrt(counts + kappa)
            return float((0.5 * z**2 + 0.5 * np.log(kappa / (counts + kappa))).sum())

        better = LinearConstraint(np.concatenate([-weights, weights]), 0.0)
        found = minimize(
            log_evalue,
            np.full(2 * groups, 0.5),
            method="SLSQP",
            bounds=[(None, None)] * groups + [(0.1, None), (None, 0.5)],
            constraints=[better],
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert slow_pair(MIXTURE, case, 0, 1, [kappa]) == pytest.approx(found.fun, rel=1e-6)
        excluded = found.fun
        for cell, outside in ((0, 0.1 - means[1, 0]), (1, means[1, 1] - 0.5)):
            if outside > 0.0:
                excluded = max(excluded, slow_cell(MIXTURE, case, 1, cell, outside, [kappa]))
        assert compiled(MIXTURE, case, np.array([kappa])) == pytest.approx(excluded, rel=1e-6)


def test_a_group_without_weight_and_floor_costs_nothing_even_undrawn() -> None:
    means = np.array([[1.0, 5.0], [0.0, 9.0]])
    with_idle = Case(
        model_of(np.array([1.0, 0.0]), np.array([[0.0, FREE], [0.0, FREE]])),
        np.array([[50.0, 0.0], [50.0, 0.0]]),
        means,
        3.0,
    )
    alone = Case(
        model_of(np.array([1.0]), np.zeros((2, 1))), np.full((2, 1), 50.0), means[:, :1], 3.0
    )
    for kind in (MIXTURE, ITERATED_LOGARITHM):
        assert compiled(kind, with_idle) == pytest.approx(compiled(kind, alone), rel=1e-12)


def test_more_slack_never_needs_more_evidence() -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        counts = generator.integers(1, 500, (3, 2)).astype(np.float64)
        means = generator.normal(0.4, 0.3, (3, 2))
        weights = np.array([0.4, 0.6])
        found = [
            compiled(
                MIXTURE,
                Case(
                    model_of(weights, np.zeros((3, 2)), 1.0, tolerance, floor_tolerance),
                    counts,
                    means,
                    1e9,
                ),
            )
            for tolerance, floor_tolerance in ((0.0, 0.0), (0.1, 0.0), (0.1, 0.1), (0.3, 0.3))
        ]
        assert (np.diff(found) >= -1e-12).all()


def test_none_needs_every_arm_below_a_floor() -> None:
    floors = np.zeros((2, 2))
    model = model_of(np.array([0.5, 0.5]), floors)
    counts = np.full((2, 2), 400.0)
    clear = Case(model, counts, np.array([[-0.5, 2.0], [2.0, -0.5]]), 3.0)
    unclear = clear._replace(means=np.array([[-0.5, 2.0], [2.0, -0.01]]))
    assert clear.best == unclear.best == NONE
    assert compiled(MIXTURE, clear) >= 3.0
    assert compiled(MIXTURE, unclear) < 3.0


def test_one_arm_without_floors_needs_no_evidence() -> None:
    case = Case(model_of(np.ones(1), np.full((1, 1), FREE)), np.ones((1, 1)), np.zeros((1, 1)), 3.0)
    for kind in (MIXTURE, ITERATED_LOGARITHM):
        assert compiled(kind, case) == math.inf


# ------------------------------------------------------------------------------ heuristics


def test_the_heuristics_hold_z_against_the_stylised_threshold() -> None:
    case = Case(
        model_of(np.ones(1), np.full((2, 1), FREE)),
        np.full((2, 1), 30.0),
        np.array([[0.5], [0.0]]),
        3.0,
    )
    z = 0.5 * 15.0 * 0.25
    assert case.half_weakest == pytest.approx(z)
    assert compiled(STYLISED, case) == pytest.approx(z)
    assert compiled(STYLISED_WITHOUT_HALF, case) == pytest.approx(2.0 * z)
    for kind, evidence in ((STYLISED, z), (STYLISED_WITHOUT_HALF, 2.0 * z)):
        # The delta at which ln((1 + ln t) / delta) equals the evidence.
        turning = (1.0 + math.log(60.0)) * math.exp(-evidence)
        for delta, certain in ((turning * 1.001, True), (turning * 0.999, False)):
            rules = rules_of(kind, case, delta=delta)
            assert certain == is_certain(case.model, rules, state_of(case))


def test_looking_for_a_heuristic_costs_no_proven_test() -> None:
    case = Case(model_of(np.ones(1), np.zeros((2, 1))), np.full((2, 1), 30.0), np.ones((2, 1)), 3.0)
    assert compiled(STYLISED, case, enough=math.inf) == pytest.approx(case.half_weakest)
