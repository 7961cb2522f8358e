"""The races of the paper's section 5, and recorded learning curves.

The paper states the shapes of the means; their constants, and the noise, are those of the public
code of its experiments. Its battery simulator is not public; ours has the same numbers of arms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from fairtrial.data import learning_curves
from fairtrial.delayed import CurveEnvironment, Problem, SimulatedEnvironment

__all__ = [
    "ARMS",
    "DELAYS",
    "RELIABILITIES",
    "TASKS",
    "Curves",
    "Race",
    "batteries",
    "bounded",
    "curves",
    "free",
]

Floats = NDArray[np.float64]

ARMS = (10, 20, 50, 100)
"""Numbers of arms of Figures 1a and 1b, as in the public code."""

DELAYS = (10, 20, 50, 100, 200, 500, 1000)
"""Delays of Figure 1c, as in the public code."""

RELIABILITIES = (0.25, 1.0, 4.0, 16.0, 64.0)
"""Deviations of a reading in Figure 2, divided by that of an outcome."""


@dataclass(frozen=True)
class Race:
    """Arms with normal outcomes, and unbiased readings at every step before them.

    Parameters
    ----------
    name : str
        Its name in the tables.
    means : tuple of float
        Mean outcomes, the best first.
    top : int
        Number of arms to find.
    std, reading_std : float
        Deviation of an outcome about its mean, and of a reading about its outcome.
    delay : tuple of float
        Steps from start to outcome, by arm.
    """

    name: str
    means: tuple[float, ...]
    top: int
    std: float
    reading_std: float
    delay: tuple[float, ...]

    @cached_property
    def problem(self) -> Problem:
        """The problem."""
        return Problem(
            len(self.means),
            top=self.top,
            noise_std=self.std,
            feedback="unbiased",
            reading_std=self.reading_std,
        )

    def environment(self, order: NDArray[np.int64]) -> SimulatedEnvironment:
        """Return the environment with reordered arms, so that their numbers say nothing."""
        means, delay = np.array(self.means)[order], np.array(self.delay)[order]
        return SimulatedEnvironment(self.problem, means, delay=delay)

    def with_delay(self, delay: float) -> Race:
        """Return the same race with another delay of all arms."""
        return replace(self, name=f"{self.name}, D {delay:g}", delay=(delay,) * len(self.means))

    def __hash__(self) -> int:
        return hash((self.name, self.means, self.std, self.reading_std, self.delay))


@cache
def bounded(arms: int) -> Race:
    """Return means in the same range for any number of arms: 5 - (i/n)^.6; D = 50."""
    means = 5.0 - (np.arange(arms) / arms) ** 0.6
    return Race(f"bounded, n {arms}", tuple(means.tolist()), arms // 5, 0.03, 0.03, (50.0,) * arms)


@cache
def free(arms: int) -> Race:
    """Return means with distance one for any number of arms: 2n - i; D = 100."""
    means = 2.0 * arms - np.arange(arms)
    return Race(f"free, n {arms}", tuple(means.tolist()), arms // 5, 0.5, 0.25, (100.0,) * arms)


@cache
def batteries(std: float, reliability: float) -> Race:
    """Return 40 charging policies whose lives are 20 cycles apart, 480 to 1,260 cycles.

    Testing a cell takes its policy's mean life, with a forecast of its life at every tenth cycle; a
    step is ten cycles.
    """
    lives = 1260.0 - 20.0 * np.arange(40)
    return Race(
        f"batteries, {std:g} cycles, forecasts {reliability:g} times as uncertain",
        tuple(lives.tolist()),
        1,
        std,
        reliability * std,
        tuple((lives / 10.0).tolist()),
    )


# ------------------------------------------------------------------------ learning curves

TASKS = ("letter", "mfeat-factors", "mfeat-fourier")
"""The recorded tasks."""

_LEARNERS = "20 classifiers"


@dataclass(frozen=True, eq=False)
class Curves:
    """One task's recorded curves, as a table and as arrays.

    Parameters
    ----------
    name : str
        The task.
    arms : tuple of str
        The classifiers.
    noise_std : tuple of float
        Deviation of the final accuracy, by arm.
    table : dict of str to list
        One row per point of a curve.
    """

    name: str
    arms: tuple[str, ...]
    noise_std: tuple[float, ...]
    table: dict[str, list[float]]

    def environment(
        self, feedback: str = "full", reading_std: Floats | None = None
    ) -> CurveEnvironment:
        """Return the race on these curves, with their points as this kind of reading."""
        problem = Problem(
            list(self.arms),
            noise_std=list(self.noise_std),
            feedback=feedback,
            reading_std=None if feedback == "full" else reading_std,
        )
        return CurveEnvironment(problem, self.table)

    @cached_property
    def points(self) -> list[tuple[Floats, Floats]]:
        """Accuracy and elapsed time by arm, each of shape (splits, sizes)."""
        sizes = len(set(self.table["size"]))
        names = np.array(self.table["arm"])
        columns = np.array([self.table["value"], self.table["elapsed"]])
        return [
            (columns[0, own].reshape(-1, sizes), columns[1, own].reshape(-1, sizes))
            for own in (names == arm for arm in self.arms)
        ]

    @cached_property
    def early_errors(self) -> Floats:
        """Root mean square distance of an early accuracy from its split's last, by arm."""
        return np.array(
            [np.sqrt(np.mean((value[:, :-1] - value[:, -1:]) ** 2)) for value, _ in self.points]
        )

    @cached_property
    def means(self) -> Floats:
        """Mean final accuracy by arm."""
        return np.array([value[:, -1].mean() for value, _ in self.points])

    @cached_property
    def everything(self) -> float:
        """Seconds to train every classifier on every split."""
        return float(sum(elapsed[:, -1].sum() for _, elapsed in self.points))


@cache
def curves(task: str) -> Curves:
    """Return the recorded curves of a task."""
    found = learning_curves(task)  # type: ignore[arg-type]
    return Curves(
        task,
        tuple(found["problem"]["arms"]),
        tuple(found["problem"]["noise_std"]),
        found["table"],
    )
