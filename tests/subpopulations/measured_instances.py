"""Questions on several measures with known pulls, answers and complexities."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fairtrial.data import actg175 as patients
from fairtrial.subpopulations import OVERALL, BlockBetting, Problem, ReplayEnvironment

DOSES = [(0.10, 0.04), (0.25, 0.08), (0.40, 0.12), (0.55, 0.18), (0.60, 0.42)]
UNIT = {"effect": (0, 1), "harm": (0, 1)}


class Measured(NamedTuple):
    """A question with its answer, its complexity, and mean pulls at delta .1 with their error."""

    environment: Any
    answer: str | None
    complexity: float
    mean: float
    error: float
    median: float


def pairs(problem: Problem, cells: list[Any], rho: float) -> ReplayEnvironment:
    """Return an environment of 2,000 rows of two coins for every cell."""
    rows: dict[str, list[Any]] = {name: [] for name in ("arm", "group", *problem.measures)}
    for labels, (p, r) in zip(problem.action_labels, cells, strict=True):
        number = 2000
        first, second = round(number * p), round(number * r)
        both = round(number * (p * r + rho * math.sqrt(p * (1 - p) * r * (1 - r))))
        both = min(max(both, first + second - number, 0), first, second)
        values = np.zeros((number, 2))
        values[:first, 0] = 1.0
        values[:both, 1] = values[first : first + second - both, 1] = 1.0
        _add_rows(rows, problem, labels, values)
    return ReplayEnvironment(problem, rows)


def _add_rows(rows: Any, problem: Problem, labels: Any, values: np.ndarray) -> None:
    for name in ("arm", "group"):
        rows[name] += [labels[name]] * len(values)
    for name, column in zip(problem.measures, values.T, strict=True):
        rows[name] += column.tolist()


def dose1() -> Measured:
    problem = Problem(5, 1, measures=UNIT, objective="effect", ceilings={"harm": 0.3})
    return Measured(pairs(problem, DOSES, 0.2), "3", 126.2, 635, 13, 595)


def dose3() -> Measured:
    moves = [(0.05, -0.02), (0.0, 0.0), (-0.08, 0.05)]
    cells = [(max(0.02, e + de), t + dt) for e, t in DOSES for de, dt in moves]
    problem = Problem(
        5,
        {"x": 0.5, "y": 0.3, "z": 0.2},
        measures=UNIT,
        objective="effect",
        floors={"effect": 0.2},
        ceilings={"harm": 0.3},
    )
    return Measured(pairs(problem, cells, 0.2), "3", 169.3, 1178, 18, 1118)


def overall() -> Measured:
    cells = [
        *[(0.30, 0.03), (0.35, 0.05), (0.40, 0.04)],
        *[(0.40, 0.06), (0.45, 0.10), (0.35, 0.08)],
        *[(0.50, 0.12), (0.45, 0.20), (0.50, 0.12)],
        *[(0.25, 0.02), (0.30, 0.02), (0.30, 0.03)],
    ]
    problem = Problem(
        4,
        {"x": 0.4, "y": 0.4, "z": 0.2},
        measures=UNIT,
        objective="effect",
        floors={"effect": 0.2},
        ceilings={("harm", OVERALL): 0.11},
    )
    return Measured(pairs(problem, cells, 0.1), "1", 548.8, 2866, 53, 2706)


def none() -> Measured:
    cells = [(0.50, 0.42), (0.40, 0.25), (0.40, 0.15), (0.12, 0.15), (0.30, 0.36), (0.28, 0.38)]
    problem = Problem(
        3,
        2,
        measures=UNIT,
        objective="effect",
        floors={"effect": 0.22},
        ceilings={"harm": 0.34, ("harm", OVERALL): 0.32},
    )
    return Measured(pairs(problem, cells, 0.2), None, 283.6, 2315, 107, 1601)


def web() -> Measured:
    problem = Problem(
        3,
        {"x": 0.6, "y": 0.4},
        measures={"conversion": (0, 1), "bounce": (0, 1), "load": (0, 1)},
        objective="conversion",
        ceilings={"bounce": 0.5, ("load", OVERALL): 0.30},
    )
    cells = [
        *[(0.040, 0.42, 0.26), (0.050, 0.38, 0.22)],
        *[(0.052, 0.44, 0.31), (0.062, 0.40, 0.22)],
        *[(0.060, 0.56, 0.30), (0.070, 0.44, 0.24)],
    ]
    rows: dict[str, list[Any]] = {name: [] for name in ("arm", "group", *problem.measures)}
    for labels, (conversion, bounce, load) in zip(problem.action_labels, cells, strict=True):
        values = []
        for u in np.arange(0.005, 1.0, 0.01):
            t = 3 * load * u * u
            bounces = round(200 * (bounce + 0.5 * (t - load)))
            values += [[0.0, float(i < bounces), t] for i in range(200)]
        table = np.array(values)
        stays = np.flatnonzero(table[:, 1] == 0.0)
        cumulated = np.arange(len(stays) + 1) * round(conversion * 20000) / len(stays)
        table[stays, 0] = np.diff(np.floor(cumulated + 0.5))
        _add_rows(rows, problem, labels, table)
    return Measured(ReplayEnvironment(problem, rows), "1", 2758.4, 11606, 567, 9946)


def actg175() -> Measured:
    cells, events = patients(), patients("event_free")
    strata, sizes = np.unique(cells["stratum"], return_counts=True)
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        dict(zip(strata.tolist(), sizes.tolist(), strict=True)),
        measures={"cd4": (-1, 1), "event_free": (0, 1)},
        objective="cd4",
        floors={"cd4": 0.0, "event_free": 0.6},
    )
    rows = {
        "arm": cells["arm"],
        "group": cells["stratum"],
        "cd4": cells["reward"],
        "event_free": events["reward"],
    }
    return Measured(ReplayEnvironment(problem, rows), "zdv_ddi", 208.0, 1246, 28, 1112)


MEASURED: dict[str, Callable[[], Measured]] = {
    "dose1": dose1,
    "dose3": dose3,
    "web": web,
    "actg175": actg175,
    "overall": overall,
    "none": none,
}


# ---------------------------------------------------------------------------- separate tests


def pulls_of_separate_tests(environment: Any, delta: float, seed: int, most: int) -> int:
    """Return after how many pulls separate tests decide, each at its own level.

    The blocks come from a rule that needs more than the smallest of these levels.
    """
    problem = environment.problem
    tests = _SeparateTests(problem)
    policy = BlockBetting(problem, delta=delta / (4 * tests.number), seed=seed)
    rng = np.random.default_rng([seed, 2])
    settled = 0
    while policy.told < most and not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, rng))
        now = int(policy._blocks.state.blocks.first[0])
        if now > settled:
            settled = now
            if tests.decide(policy, delta):
                break
    return policy.told


class _SeparateTests:
    """Whether every claim that an answer depends on has been tested separately."""

    def __init__(self, problem: Problem) -> None:
        rows = problem.limit_rows
        arms = len(problem.arms)
        measures = {row.measure for row in rows}
        self._parts = 1 + len(measures)
        self._tests = {
            m: sum(int(np.isfinite(row.bounds).sum()) for row in rows if row.measure == m)
            for m in measures
        }
        self._rows = rows
        self._arms = arms
        self._most = max(self._tests.values(), default=1)

    @property
    def number(self) -> int:
        """The ratio of delta to the smallest level."""
        return self._parts * max(self._most, self._arms - 1)

    def decide(self, policy: BlockBetting, delta: float) -> bool:
        """Return whether the leader's limits, and every rival's exclusion, are settled."""
        leader = policy._answer
        if leader is None or policy._measured is None:
            return False
        ledgers = policy._blocks.state.book.ledgers
        own, pairs, _ = np.split(ledgers, [self._arms, self._arms + self._arms**2])
        limits = policy._measured.limit_evidence()
        level = math.log(self._parts / delta)
        for rival in range(self._arms):
            if rival == leader:
                continue
            pair = -math.inf if leader == self._arms else pairs[leader * self._arms + rival]
            is_out = pair >= level + math.log(max(1, self._arms - 1))
            if not is_out and own[rival] < level + math.log(self._most):
                return False
        if leader == self._arms:
            return True
        return all(
            limits[leader, r] >= level + math.log(self._tests[row.measure])
            for r, row in enumerate(self._rows)
            if np.isfinite(row.bounds[leader])
        )
