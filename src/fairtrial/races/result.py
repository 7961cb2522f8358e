"""The result of a race: the answer, its guarantee, and what it cost."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial import plots
from fairtrial.core.frames import Library
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.tables import as_frame
from fairtrial.core.wording import listed, or_within, plural
from fairtrial.delayed import PairedRacing
from fairtrial.presentation.words import says_no_more
from fairtrial.report import write_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from fairtrial.study import Study

__all__ = ["RaceResult"]


class RaceResult:
    """The result of a race.

    Parameters
    ----------
    study : Study
        The study, with all scores in its log.
    costs : mapping or None
        Cost of an evaluation by candidate.
    n_items : int
        Number of items.
    uncompared : sequence of str
        What may have changed since the race began, because its content could not be compared.
    is_known : ndarray of bool, shape (items, candidates), optional
        The scores that an earlier race has paid.
    library : {"pandas", "polars", "pyarrow"}, optional
        The library of the items, if they are a data frame.

    Examples
    --------
    >>> from fairtrial.races import race
    >>> scores = {"a": [0.1] * 60, "b": [0.9] * 60}
    >>> result = race(["a", "b"], range(60), scores, reward_range=(0, 1), cost=0.5)
    >>> result.best, result.status, result.evaluations, result.cost
    ('b', 'decided', 12, 6.0)
    """

    def __init__(
        self,
        study: Study,
        costs: Mapping[str, float] | None,
        n_items: int,
        uncompared: Sequence[str] = (),
        is_known: NDArray[np.bool_] | None = None,
        library: Library | None = None,
    ) -> None:
        self._library = library
        self._is_known = is_known
        self.study = study
        self._uncompared = uncompared
        self._costs = costs
        self._n_items = n_items

    @property
    def _policy(self) -> PairedRacing:
        policy = self.study.policy
        assert isinstance(policy, PairedRacing)
        return policy

    @property
    def status(self) -> str:
        """``"decided"``, ``"undecided"``, or ``"running"`` if a limit has ended the call."""
        return self.study.status

    @property
    def best(self) -> str | None:
        """The best candidate; None if that is not decided."""
        return _label(self.study.recommend().arm)

    @property
    def leader(self) -> str | None:
        """The best candidate so far."""
        return _label(self.study.recommend().leader)

    @property
    def shortfall(self) -> float | None:
        """How much worse than the best the leader may be, with confidence ``1 - delta``.

        None if no candidate is left, or if the control failed.
        """
        return self._policy.shortfall

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about `best`, and under which assumptions."""
        guarantee = self.study.recommend().guarantee
        assert guarantee is not None
        if not self._uncompared:
            return guarantee
        assumption = (
            f"only the names or types of {listed(self._uncompared)} were compared in calls of the "
            "same race; their contents did not change"
        )
        return replace(guarantee, assumptions=(*guarantee.assumptions, assumption))

    @property
    def states(self) -> dict[str, str]:
        """The state of each candidate.

        ``"best"``, ``"equal"`` (exactly as good as the best on all items), ``"undecided"``,
        ``"rejected"`` (worse than the best), ``"set aside"`` (better than the leader by at most the
        tolerance), ``"waiting"`` (out as soon as the leader is known to keep its limits), or
        ``"withdrawn"`` (its evaluation failed).
        """
        policy, best = self._policy, self.best
        states = dict(zip(policy.problem.arms, policy.states, strict=True))
        if best is None:
            return states
        return {**states, **dict.fromkeys(policy.equal_arms, "equal"), best: "best"}

    @property
    def candidates(self) -> tuple[str, ...]:
        """The candidates that may still be the answer."""
        left = ("best", "undecided", "set aside", "waiting") if self.best is None else ("best",)
        return tuple(label for label, state in self.states.items() if state in left)

    @property
    def evaluations(self) -> int:
        """Number of evaluations so far, without those that an earlier race has paid."""
        return self._policy.told - self.reused

    @property
    def reused(self) -> int:
        """Number of scores that an earlier race has paid (`extends`)."""
        return sum(self._reused_by_arm())

    def _reused_by_arm(self) -> list[int]:
        policy = self._policy
        if self._is_known is None:
            return [0] * len(policy.problem.arms)
        are_told = np.isfinite(policy.listed_scores)
        return [int(number) for number in (are_told & self._is_known).sum(axis=0)]

    @property
    def saved(self) -> int | None:
        """Number of evaluations that the answer did not need; None until the race is decided."""
        return None if self.best is None else self._evaluations_of_all - self._policy.told

    @property
    def _evaluations_of_all(self) -> int:
        """Number of evaluations of all candidates on all items."""
        return self._n_items * len(self._policy.problem.arms)

    @property
    def remaining(self) -> float | None:
        """A forecast of the evaluations until the race is decided; None if nothing can be forecast.

        It lets the items left be like those so far. The race may need fewer or more.
        """
        if self.status != "running":
            return 0.0
        expected = self._expected
        return None if expected is None else float(expected.sum())

    @property
    def remaining_at_most(self) -> int:
        """The evaluations until all items are used up, without repeated attempts."""
        return int(self._may_be_paid.sum())

    @property
    def _may_be_paid(self) -> NDArray[np.bool_]:
        """Whether an evaluation may still have to be paid, by item and candidate."""
        may_come = self._policy.may_come
        assert may_come is not None
        return may_come if self._is_known is None else may_come & ~self._is_known

    @property
    def _expected(self) -> NDArray[np.float64] | None:
        """The forecast of evaluations by candidate, without those that are paid already."""
        expected, may_come = self._policy.expected_pulls, self._policy.may_come
        if expected is None or may_come is None:
            return None
        share = self._may_be_paid.sum(axis=0) / np.maximum(1, may_come.sum(axis=0))
        return np.asarray(expected * share)

    @property
    def cost(self) -> float | None:
        """Cost of the evaluations so far, without failed ones; None if no cost was stated."""
        if self._costs is None:
            return None
        arms = zip(
            self._policy.problem.arms,
            self.study.progress().arms,
            self._reused_by_arm(),
            strict=True,
        )
        return math.fsum(self._costs[label] * (arm.pulls - free) for label, arm, free in arms)

    @property
    def cost_of_all(self) -> float | None:
        """Cost of the evaluations of all candidates on all items."""
        return None if self._costs is None else self._n_items * math.fsum(self._costs.values())

    @property
    def explained_by_judge(self) -> float | None:
        """The share of the variance of differences that the judge explains; None without a judge.

        It is that of the leader and of the candidate that was compared with it on most items. If
        stakes are not limited by the range, a race with a judge needs this share fewer items.
        """
        return self._policy.explained_by_judge

    def table(self, library: Library | None = None) -> Any:
        """Return a row for each candidate, the best first, as a table.

        Columns: the state, number of evaluations, how many of them count because their turn has
        come, the mean score of these, after how many items it left, and by how much the leader was
        better on average over them.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the table; by default that of the items if they are a data frame, or
            else the first of these that is installed.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return as_frame(columns, "the table of a race", library or self._library)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `table`, with None for what is unknown."""
        states = self.states
        arms = zip(self.study.progress().arms, self._policy.departures, strict=True)
        rows = [
            {
                "candidate": label,
                "state": states[label],
                "evaluations": arm.pulls,
                "counted": arm.counted,
                "mean": arm.mean,
                "left_after": None if left is None else left.blocks,
                "behind": None if left is None else left.behind,
            }
            for label, (arm, left) in zip(states, arms, strict=True)
        ]
        return sorted(rows, key=lambda row: (row["candidate"] != self.leader, -row["evaluations"]))

    def plot(self) -> Figure:
        """Return a figure of the study; it needs the extra ``plots``."""
        return plots.overview(self.study)

    def write_report(self, path: str | Path) -> Path:
        """Write one HTML page about the study, and return its path."""
        return write_report(self.study, path)

    def in_words(self) -> str:
        """Return the state of the race in one sentence."""
        spent = f"{plural(self.evaluations, 'evaluation')} of {self._evaluations_of_all:,}"
        if self.reused:
            spent += f" and {self.reused:,} known before"
        if self.cost is not None and self.cost_of_all is not None:
            spent += f", cost {self.cost:.4g} of {self.cost_of_all:.4g}"
        if (explained := self.explained_by_judge) is not None:
            spent += f" (the judge explains {explained:.0%} of the differences)"
        if self.best is not None:
            return f"{self._answer_in_words(self.best)} after {spent}"
        if self.leader is None:
            return f"no candidate is left after {spent}"
        left = plural(len(self.candidates), "candidate")
        state = f"{self.leader!r} leads, {left} left, after {spent}"
        if self.status == "undecided":
            return f"undecided, because {self.study.recommend().reason}: {state}"
        return f"{state}; {self._left_in_words()}"

    def _left_in_words(self) -> str:
        expected, may_be_paid = self._expected, self._may_be_paid.sum(axis=0)
        most = f"at most {self._with_cost(may_be_paid, 'evaluation')} left"
        if expected is None or not np.ceil(expected).any():
            return most
        if says_no_more(float(expected.sum()), float(may_be_paid.sum())):
            return most
        return f"about {self._with_cost(np.ceil(expected))} more expected, {most}"

    def _with_cost(self, evaluations: NDArray[Any], noun: str = "") -> str:
        total = float(evaluations.sum())
        number = plural(total, noun) if noun else f"{total:,.0f}"
        if self._costs is None:
            return number
        cost = math.fsum(evaluations * np.array(list(self._costs.values())))
        return f"{number} (cost {cost:.4g})"

    def _answer_in_words(self, best: str) -> str:
        if self._policy.is_unopposed:
            return f"{best!r} is the only candidate left, because all others failed,"
        equal = [repr(label) for label in self._policy.equal_arms]
        if equal:
            others = f"{listed(equal)} {'is' if len(equal) == 1 else 'are'} exactly equal to it"
            return f"{best!r} is the best, and {others} on these items,"
        near = or_within(float(self._policy.problem.tolerance))
        return f"{best!r} is the best{near + ',' if near else ''}"

    def __repr__(self) -> str:
        return f"<RaceResult: {self.in_words()}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        lines = [_line("th", rows[0]), *(_line("td", row.values()) for row in rows)]
        sentences = [self.in_words(), f"{self.guarantee.label}: {self.guarantee.statement}"]
        first, last = (f"<p>{html.escape(text)}.</p>" for text in sentences)
        return f"{first}<table>{''.join(lines)}</table>{last}"


def _line(tag: str, values: Iterable[Any]) -> str:
    cells = (f"<{tag}>{html.escape(_shown(value))}</{tag}>" for value in values)
    return f"<tr>{''.join(cells)}</tr>"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _label(answer: Any) -> str | None:
    label = answer[0] if isinstance(answer, tuple) else answer
    return None if label is None else str(label)
