"""What both races share: the parameters, and whole runs from compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.run import Run
from fairtrial.delayed._kernels import books, runs
from fairtrial.delayed.environments import TimedEnvironment, draw_key
from fairtrial.delayed.policies._listening import ListeningPolicy

__all__ = ["DelayedPolicy"]

Floats = NDArray[np.float64]


class DelayedPolicy(ListeningPolicy):
    """What both races share; see `InformationRacing` and `Racing`.

    Parameters
    ----------
    problem : Problem
        What is known and wanted.
    delta : float
        Probability of a wrong answer that is accepted.
    parallel : int, optional
        Most pulls in flight; by default as many as are asked for.
    per_arm : int, optional
        Most pulls of one arm in flight; by default no limit.
    truncate : int or "auto", optional
        Readings after which a pull is called back; by default it runs to its end.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.
    """

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code, with that many pulls in flight at most."""
        if not isinstance(environment, TimedEnvironment) or not environment.compiled:
            return None
        if self.asked or self._has_heard_anything() or self.truncate == "auto":
            return None
        if self.problem.feedback == "incremental" and self.problem.duration is None:
            return None
        return self._run(environment, draw_key(generator), horizon, parallel)

    def _has_heard_anything(self) -> bool:
        return bool(self._control[books.ROWS])

    def _run(
        self,
        environment: TimedEnvironment,
        key: NDArray[np.int64],
        horizon: int | None,
        parallel: int,
    ) -> Run:
        places = parallel if self.parallel is None else min(parallel, self.parallel)
        clock, limits = np.zeros(runs.CLOCKS), self._limits(places, horizon)
        rest: Any = (*environment.stage(key, places), clock, limits)
        while runs.run(*self._book, *rest) == runs.NEEDS_ROOM:
            self._make_room()
        self.pass_time(float(clock[runs.NOW]))
        self.asked = int(self._control[books.ROWS])
        self.told = int(self._control[books.RESULTS])
        if limits[runs.FAILURE] != runs.STUCK:
            self._dropped = [-1] * int(clock[runs.LOSSES])
        elif not self._capped:
            self._unresolved = self._stopped_rows()
            self._control[books.HALTED] = len(self._unresolved)
        pulls = self._arms[:, books.STARTED].astype(np.int64)
        return Run(
            answer=self._best() if self._decided else None,
            status=self._status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(clock[runs.NOW]),
            metrics={**self.metrics(), **environment.metrics(pulls)},
            cancelled=int(clock[runs.CANCELLED]),
        )

    def _stopped_rows(self) -> list[int]:
        """Return the pulls without outcome on arms that survive."""
        rows = self._pulls[: int(self._control[books.ROWS])]
        survives = self._arms[rows[:, books.ARM].astype(int), books.STATUS] == books.SURVIVES
        stopped: list[int] = np.flatnonzero(
            survives & (rows[:, books.STATE] != books.DONE)
        ).tolist()
        return stopped

    def _limits(self, places: int, horizon: int | None) -> Floats:
        problem = self.problem
        limits = np.zeros(runs.LIMITS)
        limits[runs.SLOTS] = places
        limits[runs.MOST_PULLS] = math.inf if horizon is None else horizon
        limits[runs.MOST_RESULTS] = math.inf if self.max_pulls is None else self.max_pulls
        limits[runs.MOST_READ] = math.inf if self.max_reports is None else self.max_reports
        limits[runs.MOST_TIME] = math.inf if self.max_time is None else self.max_time
        limits[runs.CUT] = self._cut_at
        limits[runs.SIGN] = self._inward
        limits[runs.SKIP] = not self._uses_readings
        limits[runs.FAILURE] = runs.STOP_IT
        by_outcome = self._depends_on_outcome("lost")
        if by_outcome and problem.failure_value is not None:
            limits[runs.FAILURE] = runs.COUNT_IT
            limits[runs.FAILURE_VALUE] = self._inward * problem.failure_value
        elif by_outcome or problem.delay_depends_on_outcome:
            limits[runs.FAILURE] = runs.STUCK
        return limits
