"""What many runs came to: arrays by replication, their summary, and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Environment, Policy, Problem, Run, Truth
from fairtrial.core.parameters import plain
from fairtrial.core.validation import check_array, check_probability
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, MissingExtra, NotSupported

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Simulation", "Statistics", "Summary"]

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SHOWN_ACTIONS = 12


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean, its standard error, and quantiles of one number per run.

    Parameters
    ----------
    mean : float
        The mean over the runs.
    standard_error : float or None
        Of the mean; None for a single run.
    median : float
        The median over the runs.
    quantiles : mapping of float to float
        Quantile by probability.

    Examples
    --------
    >>> Statistics.of(np.array([1.0, 2.0, 3.0]), [0.5]).quantiles
    {0.5: 2.0}
    """

    mean: float
    standard_error: float | None
    median: float
    quantiles: Mapping[float, float]

    @classmethod
    def of(cls, values: NDArray[Any], probabilities: Sequence[float] = _QUANTILES) -> Self:
        """Return the statistics of one number per run."""
        number = values.size
        return cls(
            mean=float(values.mean()),
            standard_error=float(values.std(ddof=1) / math.sqrt(number)) if number > 1 else None,
            median=float(np.median(values)),
            quantiles={p: float(np.quantile(values, p)) for p in probabilities},
        )

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {_number(self.standard_error)}"
        spread = ""
        if self.quantiles:
            low, high = min(self.quantiles), max(self.quantiles)
            ends = f"{_number(self.quantiles[low])} to {_number(self.quantiles[high])}"
            spread = f", {100 * low:g} % to {100 * high:g} %: {ends}"
        return f"{_number(self.mean)}{error}, median {_number(self.median)}{spread}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a simulation that one reports; `print` gives them as text.

    Parameters
    ----------
    policy : str
        The policy and its parameters.
    replications : int
        Number of runs.
    stopping_time : Statistics
        Results received until the end; runs that the horizon cut short count with it.
    elapsed : Statistics
        Simulated time until the end.
    undecided, wrong : int
        Runs that ended without an answer, and with a wrong one; `wrong` is None if the
        environment does not know the truth.
    undecided_rate, error_rate : float
        Their shares of all runs.
    error_interval : tuple of float
        Clopper-Pearson interval of the error rate (Clopper and Pearson 1934): it covers the
        true rate with probability `level` at least, whatever the rate is.
    level : float
        The interval's confidence.
    pulls : mapping of str to float
        Mean number of pulls issued, by action.
    lower_bound : float or None
        The mean stopping time that no policy can beat.
    ratio : float or None
        Mean stopping time over the lower bound.
    extra : mapping of str to float
        Means of what the family adds.
    endless : bool
        Whether the policy never decides: the horizon ended every run.
    """

    policy: str
    replications: int
    stopping_time: Statistics
    elapsed: Statistics
    undecided: int
    undecided_rate: float
    wrong: int | None
    error_rate: float | None
    error_interval: tuple[float, float] | None
    level: float
    pulls: Mapping[str, float]
    lower_bound: float | None
    ratio: float | None
    extra: Mapping[str, float]
    endless: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON's own types."""
        data: dict[str, Any] = plain(asdict(self))
        return data

    def __str__(self) -> str:
        rows = [
            ("stopping time", str(self.stopping_time)),
            ("elapsed", None if self.elapsed == self.stopping_time else str(self.elapsed)),
            ("lower bound", self._bound_text()),
            ("wrong", None if self.endless else self._error_text()),
            ("undecided", None if self.endless else f"{self.undecided} of {self.replications}"),
            ("mean pulls", self._pulls_text()),
            *((name, _number(mean)) for name, mean in self.extra.items()),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name:<{width}}  {text}" for name, text in rows if text is not None]
        if self.stopping_time.standard_error is not None:
            lines.append("  (after ± stands the standard error of the mean)")
        return "\n".join([f"{plural(self.replications, 'run')} of {self.policy}", *lines])

    def _bound_text(self) -> str | None:
        if self.lower_bound is None:
            return None
        return f"{_number(self.lower_bound)}; the mean is {self.ratio:.3g} times as large"

    def _error_text(self) -> str:
        if self.error_rate is None or self.error_interval is None:
            return "unknown: the environment does not know the truth"
        low, high = self.error_interval
        return (
            f"{self.wrong} of {self.replications}: {100 * self.error_rate:.3g} % "
            f"({100 * self.level:g} % interval {100 * low:.3g} % to {100 * high:.3g} %)"
        )

    def _pulls_text(self) -> str:
        most = sorted(self.pulls.items(), key=lambda pair: -pair[1])[:_SHOWN_ACTIONS]
        shown = ", ".join(f"{name} {_number(mean)}" for name, mean in most)
        more = len(self.pulls) - len(most)
        return f"{shown}, and {more} more" if more else shown


@dataclass(frozen=True, eq=False)
class Simulation:
    """Many runs of one policy in one world; every array has one entry per replication.

    Parameters
    ----------
    stopping_time : ndarray of int, shape (replications,)
        Results received until the end.
    answer : ndarray of object, shape (replications,)
        The recommended label; None for "no arm" where `status` says decided, else for no answer.
    status : ndarray of str, shape (replications,)
        ``"decided"``, ``"undecided"``, or ``"running"`` where the horizon ended the run.
    correct : ndarray of bool, shape (replications,), or None
        Whether the run decided on an answer that is right; None if the environment does not
        know the truth.
    pulls : ndarray of int, shape (replications, n_actions)
        Pulls issued, by action.
    elapsed : ndarray of float, shape (replications,)
        Simulated time until the end; the stopping time where nothing takes time.
    cancelled : ndarray of int, shape (replications,)
        Pulls called back before their outcome came.
    extra : mapping of str to ndarray of float, shape (replications,)
        What the family adds; NaN where a run has no such number.
    problem : Problem
        What was known and wanted.
    policy : str
        The policy and its parameters.
    truth : Truth or None
        What the environment knew.
    seed : int
        Source of all randomness.
    horizon : int or None
        Most pulls of one run.
    parallel : int
        Most pulls in flight at once.
    lower_bound : float or None
        The mean stopping time that no policy can beat.
    seconds : float
        Time that the simulation took.
    endless : bool
        Whether the policy never stops by itself.
    """

    stopping_time: NDArray[np.int64]
    answer: NDArray[np.object_]
    status: NDArray[np.str_]
    correct: NDArray[np.bool_] | None
    pulls: NDArray[np.int64]
    elapsed: NDArray[np.float64]
    cancelled: NDArray[np.int64]
    extra: Mapping[str, NDArray[np.float64]]
    problem: Problem
    policy: str
    truth: Truth | None
    seed: int
    horizon: int | None
    parallel: int
    lower_bound: float | None
    seconds: float
    endless: bool = False

    @classmethod
    def from_runs(
        cls,
        runs: Sequence[Run],
        *,
        policy: Policy,
        environment: Environment,
        seed: int,
        horizon: int | None,
        parallel: int,
        lower_bound: float | None,
        seconds: float,
    ) -> Self:
        """Return the simulation that these runs, in their order, make up."""
        truth = _truth(environment)
        return cls(
            stopping_time=_column(runs, "stopping_time", np.int64),
            answer=_objects([run.answer for run in runs]),
            status=_column(runs, "status", np.str_),
            correct=None if truth is None else _correct(runs, truth),
            pulls=_column(runs, "pulls", np.int64),
            elapsed=_column(runs, "elapsed", np.float64),
            cancelled=_column(runs, "cancelled", np.int64),
            extra=_extra(runs),
            problem=policy.problem,
            policy=repr(policy),
            truth=truth,
            seed=seed,
            horizon=horizon,
            parallel=parallel,
            lower_bound=lower_bound,
            seconds=seconds,
            endless=policy.endless,
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
        """Whether each run decided on an answer that is not right.

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
        """Share of the runs that decided wrongly.

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

    def summary(self, level: float = 0.95, quantiles: Sequence[float] = _QUANTILES) -> Summary:
        """Return means with standard errors, quantiles, the error rate with an exact interval.

        Parameters
        ----------
        level : float
            Confidence of the error rate's interval.
        quantiles : sequence of float in [0, 1]
            Probabilities of the quantiles wanted.

        Returns
        -------
        Summary
        """
        level = check_probability("level", level)
        probabilities = _probabilities(quantiles)
        wrong = None if self.correct is None else int(self.wrong.sum())
        mean_time = float(self.stopping_time.mean())
        return Summary(
            policy=self.policy,
            replications=self.replications,
            stopping_time=Statistics.of(self.stopping_time, probabilities),
            elapsed=Statistics.of(self.elapsed, probabilities),
            undecided=int((~self.decided).sum()),
            undecided_rate=self.undecided_rate,
            wrong=wrong,
            error_rate=None if wrong is None else self.error_rate,
            error_interval=None if wrong is None else _interval(wrong, self.replications, level),
            level=level,
            pulls=dict(zip(self._actions, self.pulls.mean(axis=0).tolist(), strict=True)),
            lower_bound=self.lower_bound,
            ratio=None if self.lower_bound is None else mean_time / self.lower_bound,
            extra={name: float(values.mean()) for name, values in self.extra.items()},
            endless=self.endless,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table of one row per replication, its pulls in columns ``pulls a/x``.

        Raises
        ------
        MissingExtra
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("to_frame", "data") from None
        columns = self._columns()
        pulls = {f"pulls {name}": self.pulls[:, i] for i, name in enumerate(self._actions)}
        frame = pd.DataFrame({**columns, **pulls, **self.extra})
        return frame.rename_axis("replication")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types: what was run, the summary, and the columns."""
        return {
            "policy": self.policy,
            "problem": self.problem.to_dict(),
            "truth": None if self.truth is None else _truth_data(self.truth),
            "seed": self.seed,
            "horizon": self.horizon,
            "parallel": self.parallel,
            "seconds": self.seconds,
            "summary": self.summary().to_dict(),
            "runs": plain({**self._columns(), "pulls": self.pulls, "extra": self.extra}),
        }

    @property
    def _actions(self) -> list[str]:
        """Return the name of every action: its labels' values, joined."""
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


def _truth_data(truth: Truth) -> dict[str, Any]:
    return {field.name: plain(getattr(truth, field.name)) for field in fields(truth)}


def _correct(runs: Sequence[Run], truth: Truth) -> NDArray[np.bool_]:
    right = [run.status == "decided" and truth.accepts(run.answer) for run in runs]
    return _read_only(np.array(right, dtype=np.bool_))


def _column(runs: Sequence[Run], name: str, dtype: Any) -> NDArray[Any]:
    return _read_only(np.array([getattr(run, name) for run in runs], dtype=dtype))


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    # Filled one by one: NumPy would make a matrix of answers that are tuples.
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return _read_only(array)


def _extra(runs: Sequence[Run]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for run in runs for name in run.extra)
    return {
        name: _read_only(
            np.array([run.extra.get(name, math.nan) for run in runs], dtype=np.float64)
        )
        for name in names
    }


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _probabilities(values: Sequence[float]) -> list[float]:
    checked: list[float] = check_array("quantiles", values, (None,), axes=("quantiles",)).tolist()
    if any(not 0 <= value <= 1 for value in checked):
        raise InvalidArgument("quantiles", "must be numbers in [0, 1]", values)
    return checked


def _interval(wrong: int, number: int, level: float) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share: quantiles of two beta distributions."""
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = betaincinv(wrong, number - wrong + 1, tail) if wrong else 0.0
    high = betaincinv(wrong + 1, number - wrong, 1 - tail) if wrong < number else 1.0
    return float(low), float(high)


def _number(value: float) -> str:
    """Return a number as one reads it: four digits, or the whole number with commas."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
