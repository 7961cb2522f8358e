"""Check the table of a finished experiment: the shares of its arms, its order, and single units.

Nothing is removed because of a check. What is found is said, and people decide.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.confidence.loss_test import losses_differ
from fairtrial.confidence.share_test import FALSE_ALARM, log_evidence_against_shares
from fairtrial.core.cells import is_blank
from fairtrial.core.noted import MISSING_OUTCOMES, PROBLEM_OF_TABLE, SAMPLE_RATIO
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument

__all__ = [
    "ArmUnits",
    "OddUnit",
    "RepetitiveColumn",
    "Stretches",
    "TableCheck",
    "beyond_median",
    "crowded_units",
    "notes_on_checks",
    "outlying_units",
    "planned_shares",
    "refuse_sorted_by_outcome",
    "repetitive_column",
    "require_no_outcomes",
    "stretches",
]

NAMED = 10
"""Number of odd units that a message names."""

_FEW_CHANGES = 0.5
"""Part of the expected changes between rows below which a table looks sorted."""

_FAR = 3.1
"""Standard deviations below the expected changes: 1 in 1,000 tables in random order."""

_ENOUGH_CHANGES = 10.0
"""Expected changes from which on their number is normal enough to be tested."""

_NO_CHANCE = math.log(1e6)
"""Log of the number of equally likely orders from which on a sorted one is no chance."""

_CROWDED, _TIMES_USUAL = 20, 10.0
"""Rows of a crowded unit: at least so many, and so many times those of 99 % of the units."""

_FEWEST_DIFFERENT, _DIFFERENT = 100, 0.1
"""Different values of a column that may name units: their least number, and per row."""

_ZEROS = frozenset({"0", "0.0"})

_FRACTION = re.compile(r"[-+]?\d*[.,](?!0+$)\d+")
"""Matches a number with a fraction, as a text."""

_OUTCOME_ITSELF, _FEWEST_TO_CORRELATE = 0.999, 10
"""Correlation with the outcome, in at least so many rows, above which nothing is a prediction."""

_OUTLYING, _SHARE_OF_SQUARES = 10.0, 0.01
"""Distance of an outlying value from the mean in standard deviations, and its part in them."""


@dataclass(frozen=True)
class ArmUnits:
    """The units of an arm.

    Parameters
    ----------
    arm : str
        The arm.
    units, missing : int
        Number of its units, and of those without an outcome.
    planned : float or None
        The planned share of the units; None if no share is planned.
    """

    arm: str
    units: int
    missing: int
    planned: float | None = None


@dataclass(frozen=True)
class Stretches:
    """A column whose equal values stand together, as in a table that was sorted by it.

    Parameters
    ----------
    column : str
        What stands together.
    changes : int
        How often a row differs from the row before it.
    expected : float
        The mean of this number in a random order.
    """

    column: str
    changes: int
    expected: float


@dataclass(frozen=True)
class OddUnit:
    """A unit with implausibly many rows, or with an extreme outcome.

    Parameters
    ----------
    unit : str
        Its name, or the place of its row.
    value : float
        The number of its rows, or its outcome.
    """

    unit: str
    value: float


@dataclass(frozen=True)
class RepetitiveColumn:
    """A column that may name units, with values that stand in implausibly many rows.

    Parameters
    ----------
    column : str
        The column.
    values : tuple of OddUnit
        These values; the one with most rows is first.
    usual_rows : int
        The number of rows that 99 % of the column's values do not exceed.
    """

    column: str
    values: tuple[OddUnit, ...]
    usual_rows: int


@dataclass(frozen=True)
class TableCheck:
    """What was found in the table of a finished experiment.

    Parameters
    ----------
    arms : tuple of ArmUnits
        The units of every arm, without those that were left out.
    sorted_by : tuple of Stretches
        The columns by which the table looks sorted.
    crowded, outlying : tuple of OddUnit
        Units with implausibly many rows, and with extreme outcomes; the most extreme are first.
    usual_rows : int
        The number of rows that 99 % of the units do not exceed.
    repetitive : tuple of RepetitiveColumn
        If no column of units was given: columns that may be it, with implausibly frequent values.
    cells : tuple of tuple of ArmUnits
        The units by arm within each group, or by action, if that says more than `arms`: of each
        group one tuple.
    """

    arms: tuple[ArmUnits, ...] = ()
    sorted_by: tuple[Stretches, ...] = ()
    crowded: tuple[OddUnit, ...] = ()
    outlying: tuple[OddUnit, ...] = ()
    usual_rows: int = 1
    repetitive: tuple[RepetitiveColumn, ...] = ()
    cells: tuple[tuple[ArmUnits, ...], ...] = ()

    @property
    def log_evidence_of_ratio(self) -> float | None:
        """The log of the e-value against the planned shares; None if no shares are planned."""
        planned = [one.planned for one in self.arms if one.planned is not None]
        if len(planned) < len(self.arms) or not planned:
            return None
        return log_evidence_against_shares([one.units for one in self.arms], planned)

    @property
    def ratio_differs(self) -> bool:
        """Whether the units per arm contradict the planned shares; by chance 1 in 1,000."""
        evidence = self.log_evidence_of_ratio
        return evidence is not None and evidence >= -math.log(FALSE_ALARM)

    @property
    def losses_differ(self) -> bool:
        """Whether some arms lack more outcomes than others; by chance 1 in 1,000.

        They may also do so within a group: losses of several groups can look equal together.
        """
        return self._arms_differ or self._cells_differ

    @property
    def _arms_differ(self) -> bool:
        return _differ((self.arms,), self._tests)

    @property
    def _cells_differ(self) -> bool:
        return bool(self.cells) and _differ(self.cells, self._tests)

    @property
    def _tests(self) -> int:
        return 2 if self.cells else 1

    def by_topic(self) -> dict[str, str]:
        """Return what was found, by the topic of the problem."""
        found = {}
        if self.ratio_differs:
            found[SAMPLE_RATIO] = _of_ratio(self.arms)
        if self.losses_differ:
            cells = sorted(chain(*self.cells), key=lambda one: -one.missing / max(1, one.units))
            found[MISSING_OUTCOMES] = _of_losses(self.arms if self._arms_differ else cells)
        if self.sorted_by:
            found["order"] = "; ".join(map(_of_stretches, self.sorted_by))
        if self.crowded:
            found["rows of a unit"] = _of_crowded(self.crowded, self.usual_rows)
        if self.repetitive:
            found["rows of a value"] = "; ".join(map(_of_repetitive, self.repetitive))
        if self.outlying:
            found["extreme outcomes"] = _of_outlying(self.outlying)
        return found

    def in_words(self) -> list[str]:
        """Return what was found, one text for each topic."""
        return [f"{topic}: {said}" for topic, said in self.by_topic().items()]

    def to_dict(self) -> dict[str, Any]:
        """Return this as data; of odd units only the most extreme ones."""
        return {
            "arms": [asdict(one) for one in self.arms],
            "sample_ratio": {
                "log_e_value": self.log_evidence_of_ratio,
                "differs": self.ratio_differs,
            },
            "losses_differ": self.losses_differ,
            "sorted_by": [asdict(one) for one in self.sorted_by],
            "crowded": _as_data(self.crowded),
            "outlying": _as_data(self.outlying),
            "repetitive": {one.column: _as_data(one.values) for one in self.repetitive},
        }


def _differ(groups: Sequence[Sequence[ArmUnits]], tests: int) -> bool:
    """Return whether in some group some arms lack more outcomes than others."""
    came = np.array([[one.units - one.missing for one in group] for group in groups])
    lost = np.array([[one.missing for one in group] for group in groups])
    return losses_differ(came.T, lost.T, tests)


def notes_on_checks(check: TableCheck) -> dict[str, str]:
    """Return what a study keeps of the checks of its table, by topic.

    Examples
    --------
    >>> notes_on_checks(TableCheck())
    {'checks of the table': 'no problem found'}
    """
    found = {f"{PROBLEM_OF_TABLE}{topic}": said for topic, said in check.by_topic().items()}
    return found or {"checks of the table": "no problem found"}


def _as_data(odd: Sequence[OddUnit]) -> dict[str, Any]:
    return {"number": len(odd), "most_extreme": [asdict(one) for one in odd[:NAMED]]}


def _of_ratio(arms: Sequence[ArmUnits]) -> str:
    total = sum(one.units for one in arms)
    each = ", ".join(
        f"{one.arm} {one.units:,} ({one.units / total:.2%}, planned {one.planned:.2%})"
        for one in arms[:NAMED]
    )
    return (
        f"the units per arm contradict the planned shares: {each}. By chance this "
        "happens in fewer than 1 of 1,000 experiments. Units of an arm are missing from the "
        "table, or were assigned otherwise: find out why before you use the answer. If other "
        "shares were planned, state them"
    )


def _of_losses(arms: Sequence[ArmUnits]) -> str:
    each = ", ".join(
        f"{one.arm} {one.missing:,} of {one.units:,} ({one.missing / max(1, one.units):.1%})"
        for one in arms[:NAMED]
    )
    return (
        f"some arms lack far more than others (missing, of all units of the arm): {each}. By "
        "chance this happens in fewer than 1 of 1,000 experiments: what makes an arm lose outcomes "
        "may depend on their values, too. If mostly outcomes of one kind get lost, such as "
        "conversions, a small share of all units can be a large share of these: compare with their "
        "number"
    )


def _of_stretches(found: Stretches) -> str:
    return (
        f"the table looks sorted by {found.column}: it changes {found.changes:,} times from one "
        f"row to the next, where a random order has about {found.expected:,.0f}. The guarantee "
        "needs the order of assignment: give the column with its time"
    )


def _of_crowded(odd: Sequence[OddUnit], usual: int) -> str:
    named = ", ".join(f"{one.unit!r} {one.value:,.0f}" for one in odd[:NAMED])
    return (
        f"{plural(len(odd), 'unit')} with implausibly many, perhaps bots or tests (99 % of the "
        f"units have at most {usual:,}): {named}{_more(odd)}. At most one row of each counts"
    )


def _of_repetitive(found: RepetitiveColumn) -> str:
    named = ", ".join(f"{one.unit!r} {one.value:,.0f}" for one in found.values[:NAMED])
    return (
        f"in the column {found.column!r}, {plural(len(found.values), 'value')} with implausibly "
        f"many, perhaps a bot or a test (99 % of its values have at most {found.usual_rows:,}): "
        f"{named}{_more(found.values)}. Every row counts as a unit of its own: if this column "
        "names the units, give it as their column (unit)"
    )


def _of_outlying(odd: Sequence[OddUnit]) -> str:
    named = ", ".join(f"{one.unit}: {one.value:g}" for one in odd[:NAMED])
    return (
        f"{plural(len(odd), 'outcome')} more than {_OUTLYING:g} standard deviations from the mean: "
        f"{named}{_more(odd)}. They were treated like all others"
    )


def _more(odd: Sequence[OddUnit]) -> str:
    return f" and {len(odd) - NAMED:,} more" if len(odd) > NAMED else ""


# ------------------------------------------------------------------------------- shares


def planned_shares(arms: Sequence[str], shares: Mapping[str, float]) -> list[float]:
    """Return the planned share of every arm, from numbers of any sum.

    Raises
    ------
    InvalidArgument
        If an arm has no share, a name is no arm, or a share is not a positive number.

    Examples
    --------
    >>> planned_shares(["a", "b"], {"a": 3, "b": 1})
    [0.75, 0.25]
    """
    for name in shares:
        if name not in arms:
            raise InvalidArgument("shares", f"must name arms: {', '.join(arms)}", name)
    for arm in arms:
        if arm not in shares:
            raise InvalidArgument("shares", "must have a share for every arm", list(shares))
    try:
        given = [float(shares[arm]) for arm in arms]
    except (TypeError, ValueError):
        raise InvalidArgument("shares", "must be numbers above 0", dict(shares)) from None
    if not all(0.0 < share < math.inf for share in given):
        raise InvalidArgument("shares", "must be numbers above 0", dict(shares))
    largest = max(given)
    relative = [share / largest for share in given]
    return [share / sum(relative) for share in relative]


# -------------------------------------------------------------------------------- order


def stretches(column: str, codes: NDArray[np.int64]) -> Stretches | None:
    """Return how a table looks sorted by a column; None if it does not.

    Parameters
    ----------
    column : str
        What the values are.
    codes : array of int
        The values from 0, in the order of the rows.

    Notes
    -----
    Given how often every value occurs, the number of changes between neighbours has a known mean
    and variance if all orders are equally likely. Source: Mood (1940), The distribution theory of
    runs. Fewer than half of the expected changes are reported, if they are also fewer than in 999
    of 1,000 random orders: a weak trend over time is none of that.

    Examples
    --------
    >>> stretches("arm", np.array([0, 1] * 50)) is None
    True
    >>> stretches("arm", np.array([0] * 50 + [1] * 50))
    Stretches(column='arm', changes=1, expected=50.0)
    """
    number = float(len(codes))
    counts = np.bincount(codes).astype(np.float64)
    second, third = float((counts**2).sum()), float((counts**3).sum())
    expected = number - second / number if number else 0.0
    if expected < _ENOUGH_CHANGES:
        return None
    variance = second * (second + number * (number + 1.0)) - 2.0 * number * third - number**3
    deviation = math.sqrt(max(0.0, variance / (number**2 * (number - 1.0))))
    changes = int(np.count_nonzero(codes[1:] != codes[:-1]))
    if changes >= _FEW_CHANGES * expected or changes > expected - _FAR * deviation:
        return None
    return Stretches(column, changes, expected)


def beyond_median(outcomes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return 1 for outcomes above their median, or below it if none is above, and 0 for others.

    Examples
    --------
    >>> beyond_median(np.array([0.0, 0.0, 0.0, 7.0])).tolist()
    [0, 0, 0, 1]
    """
    middle = np.median(outcomes) if outcomes.size else 0.0
    above = outcomes > middle
    return np.asarray(above if above.any() else outcomes < middle, dtype=np.int64)


def refuse_sorted_by_outcome(
    order: str, arms: NDArray[np.int64], outcomes: NDArray[np.float64]
) -> None:
    """Refuse rows that are sorted by outcome, in the table or within every arm.

    Parameters
    ----------
    order : str
        What the caller gave as the order.
    arms : array of int
        The arm of every row with an outcome.
    outcomes : array
        The outcomes, in the same order.

    Raises
    ------
    InvalidArgument
        If within every arm outcomes never decrease, or never increase, and fewer than one of a
        million orders are like that.
    """
    orders, rises, falls = 0.0, True, True
    for arm in np.unique(arms):
        own = outcomes[arms == arm]
        steps = np.diff(own)
        rises, falls = rises and not (steps < 0).any(), falls and not (steps > 0).any()
        if not (rises or falls):
            return
        _, ties = np.unique(own, return_counts=True)
        logs = scipy.special.gammaln(ties + 1.0).sum()
        orders += float(scipy.special.gammaln(own.size + 1.0) - logs)
    if orders > _NO_CHANCE:
        accepted = (
            "must give the order of assignment; the outcomes never "
            f"{'decrease' if rises else 'increase'} from row to row of any arm, as in a table that "
            "was sorted by outcome, and in such an order nothing is guaranteed"
        )
        raise InvalidArgument("order", accepted, order)


def require_no_outcomes(
    column: str, outcomes: NDArray[np.float64], predictions: NDArray[np.float64]
) -> None:
    """Refuse predictions that are the outcomes, or could only be computed from them.

    Parameters
    ----------
    column : str
        The column of the predictions.
    outcomes, predictions : array
        Both in the same order; NaN if missing.

    Raises
    ------
    InvalidArgument
        If the correlation of the two is above .999 in ten rows or more.

    Examples
    --------
    >>> require_no_outcomes("score", np.arange(20.0), np.sin(np.arange(20.0)))
    """
    known = ~np.isnan(outcomes + predictions)
    if known.sum() < _FEWEST_TO_CORRELATE:
        return
    offs = []
    for values in (outcomes[known], predictions[known]):
        # Squares of very large or small numbers would leave a float's range.
        scaled = values / max(float(np.abs(values).max()), np.finfo(float).tiny)
        offs.append(scaled - scaled.mean())
    both, first, second = offs[0] @ offs[1], offs[0] @ offs[0], offs[1] @ offs[1]
    if abs(both) > _OUTCOME_ITSELF * math.sqrt(first * second) > 0.0:
        accepted = (
            "must be known before the outcome: its correlation with the outcome is above "
            f"{_OUTCOME_ITSELF:g}, so it looks like the outcome itself"
        )
        raise InvalidArgument("prediction", accepted, column)


# ---------------------------------------------------------------------------- odd units


def crowded_units(rows_of: Counter[str]) -> tuple[tuple[OddUnit, ...], int]:
    """Return units with implausibly many rows, and how many rows 99 % of the units have at most.

    Examples
    --------
    >>> rows = Counter({"bot": 500}) + Counter(f"user {number}" for number in range(1000))
    >>> crowded_units(rows)
    ((OddUnit(unit='bot', value=500),), 1)
    """
    usual = int(np.quantile(list(rows_of.values()), 0.99, method="inverted_cdf"))
    least = max(_CROWDED, _TIMES_USUAL * usual)
    odd = sorted(
        (item for item in rows_of.items() if item[1] >= least), key=lambda item: (-item[1], item[0])
    )
    return tuple(OddUnit(unit, rows) for unit, rows in odd), usual


def repetitive_column(name: str, cells: Sequence[Any]) -> RepetitiveColumn | None:
    """Return a column that may name units and has implausibly frequent values, or None.

    It may name units if it has many different values, a tenth of the number of rows or more, none
    of which has a fraction. Blank cells and zeros are not counted: they stand for "none".

    Examples
    --------
    >>> visitors = ["bot"] * 500 + [f"user {number}" for number in range(1000)]
    >>> repetitive_column("visitor", visitors)
    RepetitiveColumn(column='visitor', values=(OddUnit(unit='bot', value=500),), usual_rows=1)
    >>> repetitive_column("country", ["fr", "de", "it"] * 500) is None
    True
    """
    rows_of = Counter(map(str, cells))
    for text in [text for text in rows_of if is_blank(text) or text in _ZEROS]:
        del rows_of[text]
    if len(rows_of) < max(_FEWEST_DIFFERENT, _DIFFERENT * len(cells)):
        return None
    if any(map(_FRACTION.fullmatch, rows_of)):
        return None
    found, usual = crowded_units(rows_of)
    return RepetitiveColumn(name, found, usual) if found else None


def outlying_units(outcomes: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return extreme outcomes: far from the mean, and with a large part in the spread.

    Parameters
    ----------
    outcomes : array
        The outcomes; none of them is extreme if fewer than three differ.

    Returns
    -------
    list of (int, float)
        Index and value of each; the most extreme is first.

    Examples
    --------
    >>> outlying_units(np.array([1.0, 2.0, 3.0] * 100 + [5000.0]))
    [(300, 5000.0)]
    """
    largest = float(np.abs(outcomes).max(initial=0.0))
    if largest == 0.0 or len(np.unique(outcomes)) < 3:
        return []
    # In units of the largest outcome no square overflows.
    off = outcomes / largest
    squares = (off - off.mean()) ** 2
    total = float(squares.sum())
    least = max(_OUTLYING**2 * total / len(squares), _SHARE_OF_SQUARES * total)
    odd = np.flatnonzero(squares > least)
    odd = odd[np.argsort(-squares[odd], kind="stable")]
    return [(int(place), float(outcomes[place])) for place in odd]
