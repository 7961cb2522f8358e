"""The results of a simulation that one reports, and their text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.parameters import plain
from fairtrial.core.run import LONGEST_RUN
from fairtrial.core.wording import listed, plural

__all__ = ["QUANTILES", "TAILS", "Statistics", "Summary", "error_interval"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TAILS = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean, its standard error, and quantiles of one number per run.

    Parameters
    ----------
    mean : float
        The mean over the runs.
    standard_error : float or None
        Standard error of the mean; None for a single run.
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
    def of(cls, values: NDArray[Any], probabilities: Sequence[float] = QUANTILES) -> Self:
        """Return the statistics of one number per run."""
        return cls(
            mean=float(values.mean()),
            standard_error=_standard_error(values) if values.size > 1 else None,
            median=float(np.median(values)),
            quantiles={p: float(np.quantile(values, p)) for p in probabilities},
        )

    def to_dict(self) -> dict[str, float | None]:
        """Return mean, standard error, median and quantiles by name."""
        return {
            "mean": self.mean,
            "standard_error": self.standard_error,
            "median": self.median,
            **{f"quantile_{p:g}": value for p, value in self.quantiles.items()},
        }

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {_number(self.standard_error)}"
        spread = ""
        if self.quantiles:
            low, high = min(self.quantiles), max(self.quantiles)
            ends = f"{_number(self.quantiles[low])} to {_number(self.quantiles[high])}"
            spread = f", {100 * low:g} % to {100 * high:g} %: {ends}"
        return f"{_number(self.mean)}{error}, median {_number(self.median)}{spread}"


@dataclass(frozen=True, slots=True)
class Summary(ShownInNotebooks):
    """The results of a simulation that one reports; `print` shows them as text.

    Parameters
    ----------
    policy : str
        The policy and its parameters.
    replications : int
        Number of runs.
    stopping_time : Statistics
        Results received until the end; runs that the horizon ended count with it.
    elapsed : Statistics
        Simulated time until the end.
    undecided, wrong : int
        Runs that ended without an answer, and with a wrong one; `wrong` is None if the
        environment does not know the truth.
    undecided_rate, error_rate : float
        Their shares of all runs.
    error_interval : tuple of float
        Clopper-Pearson interval of the error rate (Clopper and Pearson 1934): it contains the true
        rate with probability at least `level`, whatever the rate is.
    level : float
        Confidence of the interval.
    pulls : mapping of str to float
        Mean number of pulls issued, by action.
    lower_bound : float or None
        The mean stopping time that no policy can beat.
    ratio : float or None
        Ratio of mean stopping time and lower bound; None if a run ended undecided, because the
        bound is for rules that continue until they decide.
    metrics : mapping of str to float
        Means of the family's metrics.
    endless : bool
        Whether the policy never decides: the horizon ended every run.
    answers : mapping of str to int
        How many runs decided on each answer, the most frequent first.
    right : tuple of str
        Labels that a right answer may name, if several answers are right: arms with equal means,
        or within what the problem accepts. Otherwise empty.
    tied : bool
        Whether these are exactly equally good, so that a run that names one of them is wrong.
    about : str or None
        What a reader must know about runs in this environment.
    cut_off : int
        How many of the undecided runs reached the default limit of pulls.
    time_unit : str
        The unit of `elapsed`, such as ``"days"``; empty if it is not known.
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
    metrics: Mapping[str, float]
    endless: bool = False
    answers: Mapping[str, int] = field(default_factory=dict)
    right: tuple[str, ...] = ()
    tied: bool = False
    about: str | None = None
    cut_off: int = 0
    time_unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON's own types."""
        data: dict[str, Any] = plain(asdict(self))
        return data

    @property
    def title(self) -> str:
        """What was simulated, and how often."""
        return f"{plural(self.replications, 'run')} of {self.policy}"

    def lines(self) -> list[tuple[str, str]]:
        """Return the results as text, each with its name."""
        rows = [
            ("stopping time", str(self.stopping_time)),
            (
                f"elapsed {self.time_unit}".strip(),
                None if self.elapsed == self.stopping_time else str(self.elapsed),
            ),
            ("lower bound", self._bound_text()),
            ("wrong", None if self.endless else self._error_text()),
            ("right answers", None if self.endless else self._right_text()),
            ("answers", None if self.endless else self._answers_text()),
            ("undecided", None if self.endless else self._undecided_text()),
            ("mean pulls", self._pulls_text()),
            *((name, _number(mean)) for name, mean in self.metrics.items()),
        ]
        return [(name, text) for name, text in rows if text is not None]

    def __str__(self) -> str:
        rows = self.lines()
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name:<{width}}  {text}" for name, text in rows]
        if self.stopping_time.standard_error is not None:
            lines.append("  (±: standard error of the mean)")
        return "\n".join([*([self.about] if self.about else []), self.title, *lines])

    def _bound_text(self) -> str | None:
        if self.lower_bound is None:
            return None
        bound = _number(self.lower_bound)
        if self.ratio is None:
            cut_short = plural(self.undecided, "run")
            return f"{bound} for rules that decide; not comparable: {cut_short} ended undecided"
        return f"{bound}; the mean is {self.ratio:.3g} times as large"

    def _undecided_text(self) -> str:
        text = f"{self.undecided} of {self.replications}"
        if not self.cut_off:
            return text
        ended = f"{plural(self.cut_off, 'run')} ended at the default limit"
        return f"{text}; {ended} of {LONGEST_RUN:,} pulls (`horizon` sets another)"

    def _right_text(self) -> str | None:
        if self.tied:
            return f"none to name: {listed(self.right)} are equally good"
        return f"among {listed(self.right)}" if self.right else None

    def _answers_text(self) -> str | None:
        counts = [f"{name} {number:,}" for name, number in self.answers.items()]
        return listed(counts) if counts else None

    def _error_text(self) -> str:
        if self.error_rate is None or self.error_interval is None:
            return "unknown: the environment does not know the truth"
        low, high = self.error_interval
        return (
            f"{self.wrong} of {self.replications}: {100 * self.error_rate:.3g} % "
            f"({100 * self.level:g} % interval {100 * low:.3g} % to {100 * high:.3g} %)"
        )

    def _pulls_text(self) -> str:
        most = sorted(self.pulls.items(), key=lambda pair: -pair[1])
        return listed([f"{name} {_number(mean)}" for name, mean in most])


def error_interval(wrong: int, number: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share: quantiles of two beta distributions."""
    tail = (1 - level) / 2
    low = scipy.special.betaincinv(wrong, number - wrong + 1, tail) if wrong else 0.0
    high = scipy.special.betaincinv(wrong + 1, number - wrong, 1 - tail) if wrong < number else 1.0
    return float(low), float(high)


def _standard_error(values: NDArray[Any]) -> float:
    """Return the standard error of the mean; exactly 0, without rounding, if all are equal."""
    if (values == values[0]).all():
        return 0.0
    return float(values.std(ddof=1) / math.sqrt(values.size))


def _number(value: float) -> str:
    """Return a number in a readable form: four digits, or the whole number with commas."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
