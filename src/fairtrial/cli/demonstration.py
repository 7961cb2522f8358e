"""The demonstration: a real clinical trial, decided by a proven rule, explained and audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial import plots, subpopulations
from fairtrial.cli.display import reporter
from fairtrial.cli.running import Interruption, drive
from fairtrial.cli.sources import EnvironmentRewards
from fairtrial.core import Progress, run_policy
from fairtrial.data import actg175
from fairtrial.errors import MissingExtra, StudyNotFound
from fairtrial.presentation.sources import replay_actor
from fairtrial.report import write_report
from fairtrial.study import Study, Verification
from fairtrial.study.pull_loop import Ending

if TYPE_CHECKING:
    from fairtrial.subpopulations import Complexity, Problem, ReplayEnvironment

__all__ = ["ACTOR", "PATIENTS", "Demonstration", "Variant", "demonstrate", "variants"]

PATIENTS = 2139
ARMS = ("zdv", "zdv_ddi", "zdv_ddc", "ddi")
STRATA = {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394}

ACTOR = replay_actor(f"{PATIENTS:,} rows of the ACTG 175 trial")

_NAME = "actg175"
_FILES = (
    *("study.db" + end for end in ("", "-wal", "-shm", "-head")),
    "actg175.png",
    "actg175.html",
)


@dataclass(frozen=True)
class Demonstration:
    """The results of the demonstration's study.

    Parameters
    ----------
    ending : {"stopped", "limit", "interrupted"}
        Why it ended.
    progress : Progress
        The answer and all estimates.
    complexity : Complexity
        Complexity of the trial's own records, with their true spread.
    lower_bound : float
        Mean number of pulls that no equally reliable rule beats, for Gaussian rewards with the
        same spread.
    best : object
        The right answer in these records.
    verification : Verification or None
        Audit of the study's log; None after an interruption.
    picture, report : Path or None
        Files written: none after an interruption, and no picture without matplotlib.
    """

    ending: Ending
    progress: Progress
    complexity: Complexity
    lower_bound: float
    best: Any
    verification: Verification | None = None
    picture: Path | None = None
    report: Path | None = None


@dataclass(frozen=True)
class Variant:
    """A harder question: the rule's result if the data do not suffice, or no arm is acceptable.

    Parameters
    ----------
    floor : float
        Share of patients without an event that every stratum must reach.
    budget : int or None
        Number of patients that may be used; None for no limit.
    progress : Progress
        The final progress of the rule.
    lower_bound : float
        Mean number of pulls that no equally reliable rule beats, for Gaussian rewards with the
        same spread.
    """

    floor: float
    budget: int | None
    progress: Progress
    lower_bound: float

    def to_dict(self) -> dict[str, Any]:
        """Return the variant as JSON's own types."""
        return {
            "floor": self.floor,
            "budget": self.budget,
            "lower_bound": self.lower_bound,
            "told": self.progress.told,
            "recommendation": self.progress.recommendation.to_dict(),
        }


def demonstrate(folder: Path, *, seed: int, delta: float, keep: bool) -> Demonstration:
    """Run the trial as a study on disk until its proven stop, and write picture and report.

    Parameters
    ----------
    folder : Path
        Folder for the study, the picture and the report.
    seed : int
        Seed of the study; another seed replays other patients.
    delta : float
        Accepted probability of a wrong answer.
    keep : bool
        Continue the study in the folder instead of starting again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = _trial("cd4", floors=0.0, reward_range=(-1.0, 1.0))
    needed = subpopulations.complexity(environment)
    lower_bound = needed.lower_bound(delta)
    with _study(folder, environment.problem, seed=seed, delta=delta, keep=keep) as study:
        ending = _run(study, environment)
        progress = study.progress()
        result = Demonstration(ending, progress, needed, lower_bound, environment.truth.best)
        if ending == "interrupted":
            return result
        facts = _facts(progress, lower_bound)
        return replace(
            result,
            verification=study.verify(),
            picture=_draw(study, folder, needed),
            report=_write_report(study, folder, needed, facts),
        )


def variants(*, seed: int, delta: float) -> list[Variant]:
    """Return the rule's results for survival without an event, with three floors."""
    return [
        _variant(floor, budget, seed=seed, delta=delta)
        for floor, budget in ((0.70, PATIENTS), (0.75, PATIENTS), (0.78, None))
    ]


def _variant(floor: float, budget: int | None, *, seed: int, delta: float) -> Variant:
    environment = _trial("event_free", floors=floor, reward_range=(0.0, 1.0))
    policy = subpopulations.BlockBetting(
        environment.problem, delta=delta, max_pulls=budget, seed=seed
    )
    run_policy(policy, environment, np.random.default_rng(seed))
    bound = subpopulations.complexity(environment).lower_bound(delta)
    return Variant(floor, budget, policy.progress(), bound)


def _trial(outcome: Any, **limits: Any) -> ReplayEnvironment:
    problem = subpopulations.Problem(arms=ARMS, groups=STRATA, **limits)
    return subpopulations.ReplayEnvironment(problem, actg175(outcome), group="stratum")


def _study(folder: Path, problem: Problem, *, seed: int, delta: float, keep: bool) -> Study:
    storage = _storage(folder)
    if keep:
        try:
            return Study.open(storage, _NAME)
        except StudyNotFound:
            pass
    else:
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
    policy = subpopulations.BlockBetting(problem, delta=delta)
    # It need not survive a power cut: its seed reproduces it.
    return Study.create(
        problem,
        policy,
        storage=storage,
        name=_NAME,
        seed=seed,
        durability="process",
        secret=str(seed),
    )


def _storage(folder: Path) -> str:
    return f"sqlite:///{(folder / 'study.db').absolute()}"


def _run(study: Study, environment: ReplayEnvironment) -> Ending:
    source = EnvironmentRewards(environment, study.seed)
    with Interruption() as interruption, reporter(_NAME) as display:
        return drive(study, source, display, interruption, None, ACTOR)


def _facts(progress: Progress, lower_bound: float) -> Mapping[str, object]:
    return {
        "Data": (
            f"{PATIENTS:,} patients of the ACTG 175 trial (Hammer et al. 1996), replayed: each "
            "pull draws one patient of its arm and stratum, with replacement"
        ),
        "Reward": (
            "CD4 cells gained in 20 weeks, in units of 200 per cubic millimetre, clipped to [-1, 1]"
        ),
        "Pulls": f"{progress.told:,}; the trial had {PATIENTS:,} patients",
        "Yardstick": (
            f"{lower_bound:,.0f} pulls on average: every rule that is right as often needs at "
            "least that many if rewards are Gaussian with the same spread"
        ),
    }


def _draw(study: Study, folder: Path, needed: Complexity) -> Path | None:
    try:
        figure = plots.overview(study, optimal=needed.allocation)
    except MissingExtra:
        return None
    path = folder / f"{_NAME}.png"
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.15)
    return path


def _write_report(
    study: Study, folder: Path, needed: Complexity, facts: Mapping[str, object]
) -> Path:
    return write_report(
        study,
        folder / f"{_NAME}.html",
        title="ACTG 175, decided by block betting",
        facts=facts,
        optimal=needed.allocation,
    )
