"""Shares of runs, with exact intervals."""

from __future__ import annotations

from dataclasses import dataclass

from fairtrial.simulation.summary import error_interval

__all__ = ["Proportion"]


@dataclass(frozen=True, slots=True)
class Proportion:
    """The share of runs with some property, with an exact interval for its probability.

    Parameters
    ----------
    count, runs : int
        Number of runs with the property, and of all runs.
    lower, upper : float
        Clopper-Pearson interval of the probability.

    Examples
    --------
    >>> found = Proportion.of(5, 100)
    >>> found.rate, round(found.lower, 4), round(found.upper, 4)
    (0.05, 0.0164, 0.1128)
    """

    count: int
    runs: int
    lower: float
    upper: float

    @classmethod
    def of(cls, count: int, runs: int, level: float = 0.95) -> Proportion:
        """Return the proportion with its interval at that confidence."""
        return cls(count, runs, *error_interval(count, runs, level))

    @property
    def rate(self) -> float:
        """The share of the runs."""
        return self.count / self.runs

    def to_dict(self) -> dict[str, float]:
        """Return rate, interval and counts."""
        return {
            "rate": self.rate,
            "lower": self.lower,
            "upper": self.upper,
            "count": self.count,
            "runs": self.runs,
        }
