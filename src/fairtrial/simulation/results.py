"""The results of many runs: arrays by replication, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Environment, Policy, Problem, Run, Truth
from fairtrial.core.frames import Library
from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.parameters import plain
from fairtrial.core.run import LONGEST_RUN
from fairtrial.core.runs import Runs
from fairtrial.core.tables import as_frame
from fairtrial.core.validation import check_array, check_confidence
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.simulation.summary import QUANTILES, Statistics, Summary, error_interval

if TYPE_CHECKING:
    pass

__all__ = ["NO_ARM", "Simulation", "name_of_answer"]

NO_ARM = "no arm"


@dataclass(frozen=True, eq=False)
class Simulation(ShownInNotebooks):
    """Many runs of one policy in one environment; every array has one entry per replication.

    Parameters
    ----------
    stopping_time : ndarray of int, shape (replications,)
        Results received until the end.
    answer : ndarray of object, shape (replications,)
        The recommended label; None means "no arm" if `status` is decided, otherwise no answer.
    status : ndarray of str, shape (replications,)
        ``"decided"``, ``"undecided"``, or ``"running"`` if the horizon ended the run.
    correct : ndarray of bool, shape (replications,), or None
        Whether the run decided on a right answer; None if the environment does not know the
        truth. If answers tie, none is right, because naming one says that it is better.
    pulls : ndarray of int, shape (replications, n_actions)
        Pulls issued, by action.
    elapsed : ndarray of float, shape (replications,)
        Simulated time until the end; the stopping time if nothing takes time.
    cancelled : ndarray of int, shape (replications,)
        Pulls that were cancelled before their outcome came.
    estimate : ndarray of float, shape (replications,)
        Estimated mean of the answer, if it is one label and `estimates` was set; otherwise NaN.
    interval : ndarray of float, shape (replications, 2)
        The ends of its interval; NaN if there is none.
    difference : ndarray of float, shape (replications,)
        Estimated difference between the answer and the problem's control, if `estimates` was set;
        NaN if there is no control or the control is the answer.
    lost : ndarray of int, shape (replications,)
        Pulls that will have no outcome, without those that were cancelled.
    better : ndarray of bool, shape (replications, arms)
        Arms that were shown to be better than the problem's control by the interval of their
        difference, if `estimates` was set; without a control, the array has no columns.
    within_limits : ndarray of bool, shape (replications, arms)
        Arms each of whose limits was shown to be kept, by its interval, its own bets or the
        answer; without a control or limits, the array has no columns.
    metrics : mapping of str to ndarray of float, shape (replications,)
        Metrics that the family adds; NaN if a run does not have one.
    problem : Problem
        The problem of the runs.
    policy : str
        The policy and its parameters.
    truth : Truth or None
        The truth that the environment knew.
    seed : int
        Source of all randomness.
    horizon : int or None
        Most pulls of one run, as given; `cut_off` counts the runs that reached the default limit.
    parallel : int
        Most pulls in flight at once.
    lower_bound : float or None
        The mean stopping time that no policy can beat.
    seconds : float
        Time that the simulation took.
    endless : bool
        Whether the policy never stops by itself.
    about : str or None
        What a reader must know about runs in this environment: that recorded rows were sampled
        repeatedly, with replacement.
    time_unit : str
        The unit of `elapsed`, such as ``"days"``; empty if it is not known.
    """

    stopping_time: NDArray[np.int64]
    answer: NDArray[np.object_]
    status: NDArray[np.str_]
    correct: NDArray[np.bool_] | None
    pulls: NDArray[np.int64]
    elapsed: NDArray[np.float64]
    cancelled: NDArray[np.int64]
    estimate: NDArray[np.float64]
    interval: NDArray[np.float64]
    difference: NDArray[np.float64]
    lost: NDArray[np.int64]
    better: NDArray[np.bool_]
    within_limits: NDArray[np.bool_]
    metrics: Mapping[str, NDArray[np.float64]]
    problem: Problem
    policy: str
    truth: Truth | None
    seed: int
    horizon: int | None
    parallel: int
    lower_bound: float | None
    seconds: float
    endless: bool = False
    about: str | None = None
    time_unit: str = ""

    @classmethod
    def from_runs(
        cls,
        runs: Runs | Sequence[Run],
        *,
        policy: Policy,
        environment: Environment,
        seed: int,
        horizon: int | None,
        parallel: int,
        lower_bound: float | None,
        seconds: float,
    ) -> Self:
        """Return the simulation that consists of these runs, in this order."""
        truth = _truth(environment)
        columns = (runs if isinstance(runs, Runs) else Runs.of(runs)).read_only()
        return cls(
            stopping_time=columns.stopping_time,
            answer=columns.answer,
            status=columns.status,
            correct=None if truth is None else _correct(columns, truth),
            pulls=columns.pulls,
            elapsed=columns.elapsed,
            cancelled=columns.cancelled,
            estimate=columns.estimate,
            interval=columns.interval,
            difference=columns.difference,
            lost=columns.lost,
            better=columns.better,
            within_limits=columns.within_limits,
            metrics=columns.metrics,
            problem=policy.problem,
            policy=repr(policy),
            truth=truth,
            seed=seed,
            horizon=horizon,
            parallel=parallel,
            lower_bound=lower_bound,
            seconds=seconds,
            endless=policy.endless,
            about=environment.about,
        )

    def __repr__(self) -> str:
        return f"<Simulation: {plural(self.replications, 'run')} of {self.policy}>"

    def __len__(self) -> int:
        return self.replications

    @property
    def replications(self) -> int:
        """Number of runs."""
        return self.stopping_time.size

    @cached_property
    def decided(self) -> NDArray[np.bool_]:
        """Whether each run stopped with an answer, which may be "no arm"."""
        return _read_only(self.status == "decided")

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Whether each run decided on a wrong answer.

        Raises
        ------
        NotSupported
            If the environment does not know the truth.
        """
        if self.correct is None:
            raise NotSupported(
                "the environment does not know the truth, so no answer can be judged"
            )
        return self.decided & ~self.correct

    @property
    def error_rate(self) -> float:
        """Share of the runs that decided on a wrong answer.

        Raises
        ------
        NotSupported
            If the environment does not know the truth.
        """
        return float(self.wrong.mean())

    @property
    def undecided_rate(self) -> float:
        """Share of the runs that ended without an answer."""
        return float(1 - self.decided.mean())

    @property
    def cut_off(self) -> int:
        """Number of runs that ended undecided because they reached the default limit of pulls."""
        if self.horizon is not None:
            return 0
        return int(((self.status == "running") & (self.pulls.sum(axis=1) >= LONGEST_RUN)).sum())

    def summary(self, level: float = 0.95, quantiles: Sequence[float] = QUANTILES) -> Summary:
        """Return means with standard errors, quantiles, the error rate with an exact interval.

        Parameters
        ----------
        level : float
            Confidence of the error rate's interval.
        quantiles : sequence of float in [0, 1]
            Probabilities of the quantiles to return.
        """
        level = check_confidence("level", level)
        probabilities = _probabilities(quantiles)
        wrong = None if self.correct is None else int(self.wrong.sum())
        return Summary(
            policy=self.policy,
            replications=self.replications,
            stopping_time=Statistics.of(self.stopping_time, probabilities),
            elapsed=Statistics.of(self.elapsed, probabilities),
            undecided=int((~self.decided).sum()),
            undecided_rate=self.undecided_rate,
            wrong=wrong,
            error_rate=None if wrong is None else self.error_rate,
            error_interval=None
            if wrong is None
            else error_interval(wrong, self.replications, level),
            level=level,
            pulls=dict(zip(self.action_names, self.pulls.mean(axis=0).tolist(), strict=True)),
            lower_bound=self.lower_bound,
            ratio=self._ratio,
            metrics={name: float(values.mean()) for name, values in self.metrics.items()},
            endless=self.endless,
            answers=self._answers,
            right=self._right,
            tied=self.truth is not None and self.truth.tied,
            about=self.about,
            cut_off=self.cut_off,
            time_unit=self.time_unit,
        )

    @property
    def _ratio(self) -> float | None:
        """Return the ratio of mean stopping time and lower bound, if all runs decided."""
        if self.lower_bound is None or not self.decided.all():
            return None
        return float(self.stopping_time.mean()) / self.lower_bound

    @property
    def _answers(self) -> dict[str, int]:
        """Return how many runs decided on each answer, the most frequent first."""
        return dict(Counter(map(name_of_answer, self.answer[self.decided])).most_common())

    @property
    def _right(self) -> tuple[str, ...]:
        truth = self.truth
        return () if truth is None else tuple(map(name_of_answer, truth.interchangeable))

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a table with one row per replication, its pulls in columns ``pulls a/x``.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the table; by default the first of these that is installed.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        columns = {"replication": np.arange(self.replications), **self._columns()}
        pulls = {f"pulls {name}": self.pulls[:, i] for i, name in enumerate(self.action_names)}
        columns |= {**pulls, **self.metrics}
        return as_frame(columns, "to_frame", library, index="replication")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types: the settings, the summary, and the columns."""
        return {
            "policy": self.policy,
            "problem": self.problem.to_dict(),
            "truth": None if self.truth is None else _truth_data(self.truth),
            "seed": self.seed,
            "horizon": self.horizon,
            "parallel": self.parallel,
            "about": self.about,
            "seconds": self.seconds,
            "summary": self.summary().to_dict(),
            "runs": plain({**self._columns(), "pulls": self.pulls, "metrics": self.metrics}),
        }

    @property
    def action_names(self) -> list[str]:
        """Return the name of every action: the values of its labels, joined."""
        return ["/".join(map(str, labels.values())) for labels in self.problem.action_labels]

    def _columns(self) -> dict[str, NDArray[Any]]:
        judged = {} if self.correct is None else {"correct": self.correct}
        return {
            "status": self.status,
            "answer": self.answer,
            **judged,
            "stopping_time": self.stopping_time,
            "elapsed": self.elapsed,
            "cancelled": self.cancelled,
        }


def _truth(environment: Environment) -> Truth | None:
    try:
        return environment.truth
    except NotSupported:
        return None


def name_of_answer(answer: object) -> str:
    """Return an answer as its label, or its labels sorted."""
    if isinstance(answer, tuple):
        return " and ".join(sorted(map(str, answer)))
    return NO_ARM if answer is None else str(answer)


def _truth_data(truth: Truth) -> dict[str, Any]:
    return {field.name: plain(getattr(truth, field.name)) for field in fields(truth)}


def _correct(runs: Runs, truth: Truth) -> NDArray[np.bool_]:
    accepted: dict[int, bool] = {}
    """By identity: runs share the labels, and an answer need not be hashable."""
    right = np.zeros(len(runs), dtype=np.bool_)
    for index in np.flatnonzero(runs.status == "decided"):
        answer = runs.answer[index]
        if id(answer) not in accepted:
            _require_comparable(answer, truth)
            accepted[id(answer)] = truth.accepts(answer) and not truth.tied
        right[index] = accepted[id(answer)]
    return _read_only(right)


def _require_comparable(answer: object, truth: Truth) -> None:
    """Raise if an answer has another form than the truth: it would always count as wrong."""
    best = truth.best
    if answer is None or best is None:
        return
    if isinstance(best, tuple):
        comparable = isinstance(answer, tuple | frozenset | set | list) or len(best) == 1
    else:
        comparable = not isinstance(answer, tuple)
    if not comparable:
        accepted = f"must give answers that can be compared with the truth, {best!r}"
        raise InvalidArgument("policy", accepted, answer)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _probabilities(values: Sequence[float]) -> list[float]:
    checked: list[float] = check_array("quantiles", values, (None,), axes=("quantiles",)).tolist()
    if any(not 0 <= value <= 1 for value in checked):
        raise InvalidArgument("quantiles", "must be numbers in [0, 1]", values)
    return checked
