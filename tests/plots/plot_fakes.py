"""Studies and simulations with made-up numbers, for testing pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairtrial.core import Estimate, Guarantee, Parametrized, Problem, Progress, Recommendation

PROVEN = Guarantee(
    "block betting",
    proven=True,
    statement="The answer is wrong with probability at most 0.05.",
    assumptions=("Rewards lie in [-1, 1].", "Late results do not depend on their value."),
    source="Wealth processes and Ville's inequality, theorem 2",
)

ARMS = ("zdv", "zdv_ddi", "zdv_ddc", "ddi")
GROUPS = ("naive", "upto52w", "over52w")


class GridProblem(Problem):
    family = "grid"

    def __init__(self, arms, groups, direction="maximize"):
        self.arms, self.groups, self.direction = tuple(arms), tuple(groups), direction
        self._freeze()

    @property
    def action_labels(self):
        if not self.groups:
            return [{"arm": arm} for arm in self.arms]
        return [{"arm": arm, "group": group} for arm in self.arms for group in self.groups]


class BlockBetting(Parametrized):
    def __init__(self, delta=0.05):
        self.delta = delta


class Endless(BlockBetting):
    endless = True


def cell(pulls=100, mean=0.2, half=0.1, limit=0.0, labels=None, upper_limit=None) -> Estimate:
    lower, upper = (None, None) if half is None or mean is None else (mean - half, mean + half)
    return Estimate(
        labels or {"arm": "a", "group": "x"}, pulls, mean, lower, upper, limit, upper_limit
    )


def progress_of_grid(
    arms=ARMS,
    groups=GROUPS,
    *,
    status="decided",
    answer="zdv_ddi",
    told=1322,
    limit=0.0,
    seed=3,
    **changes: Any,
) -> Progress:
    problem = GridProblem(arms, groups)
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(problem.n_actions, 3.0))
    pulls = generator.multinomial(told, shares)
    means = generator.normal(0.15, 0.12, problem.n_actions)
    actions = tuple(
        cell(int(n), float(m), 1.2 / math.sqrt(n), limit, labels)
        if n
        else cell(0, None, None, limit, labels)
        for n, m, labels in zip(pulls, means, problem.action_labels, strict=True)
    )
    overall = tuple(
        cell(told // len(arms), float(m) if told else None, 0.06, None, {"arm": arm})
        for arm, m in zip(arms, means.reshape(len(arms), -1).mean(axis=1), strict=True)
    )
    recommendation = Recommendation(
        arm=answer if status == "decided" else None,
        status=status,
        leader=answer,
        confidence=0.95,
        guarantee=PROVEN,
        reason="Every other answer was rejected." if status == "decided" else "Two are left.",
        evidence={"wealth": 3.1},
    )
    start = Progress(
        recommendation,
        asked=told + 4,
        told=told,
        outstanding=4,
        evidence=3.1,
        threshold=math.log(20),
        remaining=0.0 if status == "decided" else 420.0,
        actions=actions,
        arms=overall if groups else (),
    )
    return replace(start, **changes)


def growing_trace(end: Progress, points: int = 60) -> list[Progress]:
    """Return moments up to `end`: the evidence rises, and the leader changes twice."""
    arms = list(dict.fromkeys(str(action.labels["arm"]) for action in end.actions)) or ["a"]
    moments = []
    for index in range(points):
        share = index / points
        leader = arms[0] if share < 0.2 else arms[-1] if share < 0.35 else end.recommendation.leader
        running = replace(end.recommendation, arm=None, status="running", leader=leader)
        told = round(end.told * share)
        wave = 0.25 * math.sin(9 * share)
        gained = max(0.0, (end.evidence or 0.0) * share**1.5 + wave) if told else 0.0
        moments.append(replace(end, recommendation=running, told=told, asked=told, evidence=gained))
    return [*moments, end]


@dataclass
class FakeStudy:
    end: Progress = field(default_factory=progress_of_grid)
    problem: Problem = field(default_factory=lambda: GridProblem(ARMS, GROUPS))
    name: str = "actg175"
    policy: Any = field(default_factory=BlockBetting)
    seed: int = 7
    notes: Mapping[str, str] = field(default_factory=dict)
    healthy: bool = True
    head_hash: str = "9f" * 32
    has_participants: bool = False

    def progress(self):
        return self.end

    def recommend(self):
        return self.end.recommendation

    def trace(self, points=200):
        return growing_trace(self.end)

    def health(self, *, blinded=False):
        return {"open": 4, "late": 2, "amended": 0, "lost": 1, "expiry": "drop"}

    def weighted_means(self):
        return [None] * self.problem.n_actions

    def verify(self):
        first = None if self.healthy else "event 17: recorded action 3, replayed action 5"
        return SimpleNamespace(ok=self.healthy, events=2650, first_difference=first, skipped=0)

    @property
    def n_events(self):
        return len(self.log)

    def events(self, after=0):
        return self.log[after:]

    def rare_events(self, *kinds):
        return [event for event in self.events() if event.kind in kinds]

    @cached_property
    def log(self):
        return [
            SimpleNamespace(
                seq=n,
                kind="ask" if n % 2 else "tell",
                action=n % self.problem.n_actions,
                outcome=None if n % 2 else 0.25,
                at=datetime(2025, 3, 1, 12, 0, n, 250, tzinfo=UTC),
                hash="ab" * 32,
                pull_id=f"{(n + 1) // 2:032x}",
                actor=None,
                body={},
            )
            for n in range(1, 41)
        ]


@dataclass
class FakeSimulation:
    problem: Problem = field(default_factory=lambda: GridProblem(ARMS, GROUPS))
    mean: float = 1132.0
    runs: int = 500
    lower_bound: float | None = 506.0
    unfinished: int = 0
    seed: int = 0
    policy: str = "BlockBetting(delta=0.05)"

    def __post_init__(self):
        generator = np.random.default_rng(self.seed)
        self.stopping_time = np.round(generator.gamma(9, self.mean / 9, self.runs)).astype(int)
        self.status = np.array(
            ["running"] * self.unfinished + ["decided"] * (self.runs - self.unfinished)
        )
        shares = generator.dirichlet(np.full(self.problem.n_actions, 3.0))
        self.pulls = np.array([generator.multinomial(n, shares) for n in self.stopping_time])
