"""Accuracy of three estimators of gaps, and error rates of the answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fairtrial.causal import CausalModel, NetworkEnvironment, Problem, allocate
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._ledger import LedgerRecords, open_ledger
from fairtrial.causal._weighted import Weighted
from fairtrial.causal.allocation import whole_rows
from fairtrial.causal.estimation import best_fair
from fairtrial.data import adult_offer
from papers.causal.instances import BINDING, HEPAR, OWN, TIGHT

Estimator = Callable[[Problem, LedgerRecords], tuple[np.ndarray, np.ndarray]]


def run(*, quick: bool) -> None:
    print(
        "\nestimated gap in per cent of the true one (mean over arms), root mean squared error of"
        "\ngaps, and how often the named arm is wrong. 'Own row' compares a row with a mean of its"
        "\ncell that includes the row; 'cell' excludes it."
    )
    names = [f"{name:^20}" for name in ESTIMATORS]
    print(f"{'environment':<14}{'rows':>8}   " + "".join(names))
    for name, make in ENVIRONMENTS.items():
        for rows in (1_000,) if quick else (300, 1_000, 2_000, 10_000):
            _compare(name, make(rows), rows, runs=20 if quick else 150)


def _compare(name: str, environment: NetworkEnvironment, rows: int, runs: int) -> None:
    problem, truth = environment.problem, environment.truth
    gaps = np.column_stack(list(truth.gaps.values())) / problem.width
    actions = _actions(problem, rows)
    found: dict[str, list[tuple[np.ndarray, bool]]] = {name: [] for name in ESTIMATORS}
    for seed in range(runs):
        ledger = open_ledger(cell_model_of(problem))
        ledger.add(environment.batch(actions, np.random.default_rng([seed, rows])))
        records = ledger.records()
        for estimator, estimate in ESTIMATORS.items():
            means, estimated = estimate(problem, records)
            best = best_fair(problem, means, estimated)[0]
            answer = None if best is None else problem.arm_labels[best]
            found[estimator].append((estimated, not truth.accepts(answer)))
    shown = []
    for results in found.values():
        estimated = np.array([gaps_found for gaps_found, _ in results])
        share = np.nanmean(estimated * np.sign(gaps)) / np.abs(gaps).mean()
        error = math.sqrt(np.nanmean((estimated - gaps) ** 2))
        wrong = np.mean([is_wrong for _, is_wrong in results])
        shown.append(f"{share:5.0%} {error:.4f} {wrong:4.2f}  ")
    print(f"{name:<14}{rows:>8,}   " + " ".join(shown), flush=True)


def _actions(problem: Problem, rows: int) -> np.ndarray:
    """Return the actions that the plug-in rule would draw, ordered by number."""
    budget = problem.mean_budget
    allowance = math.inf if budget is None else budget * rows
    shares = allocate(problem, pool_natural=True).shares.ravel()
    counts = whole_rows(shares, problem.row_costs.ravel(), rows, allowance)
    return np.repeat(np.arange(problem.n_actions), counts)


# ---------------------------------------------------------------------------- estimators


def _weighted(estimator: str) -> Estimator:
    def estimate(problem: Problem, records: LedgerRecords) -> tuple[np.ndarray, np.ndarray]:
        weighted = Weighted(problem, records, estimator)
        return weighted.means, weighted.gaps

    return estimate


def _with_own_row(problem: Problem, records: LedgerRecords) -> tuple[np.ndarray, np.ndarray]:
    """Return `cell` estimates in which a cell's mean includes the rows compared with it."""
    weighted = Weighted(problem, records, "mis")
    cell_model = cell_model_of(problem)
    place = weighted.group * cell_model.n_cells + records.cells
    size = cell_model.n_groups * cell_model.n_cells
    numbers = np.bincount(place, weights=records.number, minlength=size)
    totals = np.bincount(place, weights=records.total, minlength=size)
    overall = records.total.sum() / records.number.sum()
    means = (totals + 0.5 * overall) / (numbers + 0.5)
    outside = cell_model.outside_codes
    parts = []
    for own, group_means in zip(
        numbers.reshape(cell_model.n_groups, -1),
        means.reshape(cell_model.n_groups, -1),
        strict=True,
    ):
        common = np.bincount(outside, weights=own)[outside] / max(own.sum(), 1.0)
        parts.append(np.einsum("kuz,z->ku", cell_model.g, common * group_means))
    residuals = records.total - records.number * means[place]
    effects = np.stack(parts, axis=2) + _by_group(weighted, residuals)
    weighted.__dict__["effects"] = np.where(weighted.informed[:, None, None], effects, np.nan)
    return weighted.means, weighted.gaps


def _by_group(weighted: Weighted, amounts: np.ndarray) -> np.ndarray:
    """Return the sums of amounts times weights, shape (K, values, groups)."""
    groups = [
        np.einsum("n,nku->ku", np.where(weighted.group == group, amounts, 0.0), weighted.weights)
        for group in range(weighted.cell_model.n_groups)
    ]
    return np.stack(groups, axis=2)


ESTIMATORS: dict[str, Estimator] = {
    "sn": _weighted("sn"),
    "own row": _with_own_row,
    "cell": _weighted("cell"),
}


# -------------------------------------------------------------------------------- environments


def _thin(states: int) -> NetworkEnvironment:
    """Return an environment of thousands of cells whose sensitive attribute has a parent.

    A -> S -> X -> Y <- V, B -> X, B -> V <- X, B -> Y <- A, with many states of B. All gaps
    are about .164, and the bound is .13.
    """
    generator = np.random.default_rng(0)
    sizes = {"A": 3, "S": 2, "B": states, "X": 3, "V": 2, "Y": 2}
    edges = [("A", "S"), ("A", "Y"), ("S", "X"), ("B", "X"), ("B", "V"), ("X", "V")]
    edges += [("X", "Y"), ("V", "Y"), ("B", "Y")]
    a, x, v, b = np.ogrid[:3, :3, :2, :states]
    good = 0.1 + 0.3 * generator.random(states)[b] + 0.182 * x + 0.15 * v + 0.05 * a
    good = np.clip(good, 0.02, 0.98)
    tables = {
        "A": generator.dirichlet(np.ones(3)),
        "S": generator.dirichlet(np.ones(2), size=3),
        "B": np.full(states, 1 / states),
        "X": np.broadcast_to([[[0.6, 0.3, 0.1]], [[0.15, 0.3, 0.55]]], (2, states, 3)),
        "Y": np.stack([1 - good, good], axis=-1),
    }
    arms = {f"arm{k}": generator.dirichlet(np.ones(2), size=(states, 3)) for k in range(4)}
    model, outcome = CausalModel(edges, sizes, tables), ("Y", {"0": 0.0, "1": 1.0})
    return NetworkEnvironment(Problem(model, "S", "V", outcome, arms, 0.13, forcing="never"))


def _offers(kind: str) -> NetworkEnvironment:
    question = adult_offer(kind)
    model = CausalModel.from_bif(question.pop("network"))
    return NetworkEnvironment(Problem(model, **question))


ENVIRONMENTS: dict[str, Callable[[int], NetworkEnvironment]] = {
    "thin, 50": lambda _: _thin(50),
    "thin, 400": lambda _: _thin(400),
    "tight 136": TIGHT.instances[0].make,
    "tight 1958": TIGHT.instances[2].make,
    "HEPAR-II": HEPAR.instances[0].make,
    "HEPAR-II, own": OWN.instances[0].make,
    "HEPAR-II, PBC": BINDING.instances[0].make,
    "easy offers": lambda _: _offers("easy"),
    "hard offers": lambda _: _offers("hard"),
}
