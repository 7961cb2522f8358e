"""Analyse a finished experiment, read from a table, as a study with the same guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Problem
from fairtrial.core.cells import (
    FAILED,
    MISSING,
    NotANumber,
    NumberFormat,
    is_blank,
    odd_cells,
    tidy,
)
from fairtrial.core.collection import without_collection
from fairtrial.core.columns import Columns
from fairtrial.core.compilation import compiled
from fairtrial.core.counted import CountedUnits
from fairtrial.core.counting import Count, counting
from fairtrial.core.family import Family, family_of
from fairtrial.core.frames import library_of
from fairtrial.core.keywords import named_arguments
from fairtrial.core.noted import ABOUT_SEGMENTS, SEGMENT
from fairtrial.core.problem import Outcome
from fairtrial.core.tables import columns_of_measures, columns_of_predictions, open_table
from fairtrial.core.validation import check_choice, check_flag, check_instance
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import listed, plural
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported, TooFewUnits
from fairtrial.study.fitted_predictions import fitted_predictions
from fairtrial.study.location import Storage
from fairtrial.study.segments import SegmentEffects, segment_effects
from fairtrial.study.specification import LONGEST_TEXT, LONGEST_TOPIC
from fairtrial.study.study import Study
from fairtrial.study.table_checks import (
    ArmUnits,
    OddUnit,
    RepetitiveColumn,
    TableCheck,
    beyond_median,
    crowded_units,
    notes_on_checks,
    outlying_units,
    planned_shares,
    refuse_sorted_by_outcome,
    repetitive_column,
    require_no_outcomes,
    stretches,
)
from fairtrial.study.trace import Moments
from fairtrial.study.writer import AssignedUnit

__all__ = [
    "AS_GIVEN",
    "AT_RANDOM",
    "FROM_TABLE",
    "Analysis",
    "RepeatedUnits",
    "analyse",
    "study_of_table",
]

AS_GIVEN = "as given"
"""The value of `order` for rows that are already in the order of assignment."""

AT_RANDOM = "at random"
"""The value of `order` for counts whose order of assignment is not known."""

FROM_TABLE = "from the table"

"""The value of `group_weights` that weighs each group by its number of rows."""

_ABOUT_WEIGHTS = (
    "group_weights: each group has the weight of its share of the rows. If the end of the "
    "experiment, or who was admitted, depended on outcomes, then these weights and so the question "
    "depend on outcomes, and the answer may be wrong more often than stated: state the weights in "
    "the problem instead"
)

_OUTCOME = "outcome"

_NO_OUTCOME_WORDS = (FAILED, MISSING)

_BLANK = "(blank)"

_MOST_NOTED = 500
"""Effects by segment that the study itself keeps."""

_AT_ONCE = 25_000
"""Units of one transaction. Each transaction reads and writes the study's row, and its assignments
are part of it: a million of them are 3 MB."""

_WORTH_COMPILING = 100_000
"""Number of units that the interpreter takes longer to play than kernels take to compile."""


@named_arguments
def analyse(
    problem: Problem,
    table: Any,
    delta: float = 0.05,
    *,
    order: str,
    outcome: str | Mapping[str, str] = _OUTCOME,
    columns: Mapping[str, str] | None = None,
    group_weights: str | None = None,
    unit: str | None = None,
    count: str | None = None,
    successes: str | None = None,
    prediction: str | Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
    losses: str = "informative",
    segments: Sequence[str] = (),
    decimal: str | None = None,
    storage: Storage = "memory://",
    name: str = "analysis",
    progress: bool = True,
) -> Study:
    """Analyse a finished experiment, with the guarantee of a study run by block betting.

    The rows are read in the order of assignment and cut into blocks by their assignments alone.
    The bets on a block are fixed from earlier blocks before its outcomes are looked at. So the
    answer is wrong with probability at most `delta`, if the assignment did not depend on outcomes
    of the same block.

    Parameters
    ----------
    problem : Problem
        The problem, as it was stated before the outcomes were known.
    table : path, pandas.DataFrame or mapping of str to sequence
        One row per assigned unit. An outcome that is blank, ``failed`` or ``missing`` is missing:
        the unit counts as lost. docs/reference/tables.md says which files and numbers are read.
    delta : float
        The accepted probability of a wrong answer.
    order : str
        The column that gives the order of assignment: numbers, or dates such as 2026-11-23. The
        rows are sorted by it; rows with equal values stay in the order of the table, and a warning
        says how many. ``"as given"`` states that the rows are already in that order. With `count`,
        ``"at random"`` states that the order is not known.
    outcome : str, or mapping of str to str
        The column of the outcomes. If the problem has measures: the column of each measure; the
        default is the measure's name, and a blank cell is a missing value. If an outcome is a row
        of fields (family ``causal``), each field is read from the column of its name instead.
    columns : mapping of str to str, optional
        For each label of an action (``"arm"``, ``"group"``), the column that holds it. The default
        is the column of the same name.
    group_weights : str, optional
        ``"from the table"`` weighs each group by its share of the rows; a warning says when these
        weights depend on outcomes. By default the weights are those of the problem.
    unit : str, optional
        The column that names the unit of each row, such as a user, if units may have several rows.
        A unit that appears in several arms is left out. Of a unit with several rows in one arm, the
        first result counts. A warning says how many, and names units with implausibly many rows.
    count : str, optional
        The column that says how many units each row stands for, if the table has counts. All these
        units have the labels and the outcome of the row. Units with equal values in the order
        column are read in random order.
    successes : str, optional
        With `count`, instead of `outcome`: the column that says how many of these units have the
        outcome 1, such as conversions; the others have the outcome 0.
    prediction : str, or mapping of str to str, optional
        If the problem has a prediction: the column with what was known of each unit before its arm
        was drawn. Outcomes of this table must not have been used to compute it. A blank cell is a
        unit without a prediction.
    features : sequence of str, optional
        Instead of `prediction`: columns with numbers that were known of each unit before its arm
        was drawn. Predictions are fitted to them by least squares, again for every block, to the
        outcomes of earlier blocks only. A blank cell counts as the mean.
    shares : mapping of str to float, optional
        The planned share of the units of each arm, such as ``{"old": 0.9, "new": 0.1}``. By default
        they are equal; in the families ``linear`` and ``causal`` none are then assumed.
    losses : {"informative", "ignorable"}
        Whether the value of an outcome may influence whether it is missing (default): then a unit
        without an outcome counts as the worst value. If not, it is left out; the guarantee names
        this assumption, and is weakened if some arms lack more outcomes than others. With measures,
        units without any value are left out. For the families ``subpopulations`` and ``causal``.
    segments : sequence of str, optional
        Columns that were known of each unit before its arm was drawn, such as its country: the arms
        are compared within each value as well, and all these intervals hold together. They are
        notes of the study (`Study.notes`); its report shows them beside the differences.
    decimal : {".", ","}, optional
        The decimal separator of numbers that are written as text. By default each column decides,
        and is refused if it does not show it.
    storage, name
        Where to keep the study, and its name.
    progress : bool
        Show a progress bar on a terminal and in a notebook, otherwise a line on standard error
        every ten seconds.

    Returns
    -------
    Study
        The study gives the answer (`recommend`), the effects and evidence (`progress`), and a log
        in which every row is a pull. `write_report` writes its report.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, the order column cannot be sorted, has the same
        value in all rows, or is one of the labels, the rows are sorted by outcome, an arm has no
        row, or the predictions look like the outcomes themselves.
    InvalidOutcome
        If the problem refuses an outcome; the row is named.
    NotSupported
        If the family does not support this analysis.

    Warns
    -----
    UserWarning
        If units that appear in several rows were left out, if rows have equal values in the order
        column, if the weights of groups are those of the table, or if a check of the table fails:
        the number of units per arm contradicts the planned shares, some arms lack far more outcomes
        than others, the rows look sorted by arm, outcome or prediction, or single units have
        implausibly many rows or extreme outcomes.

    Notes
    -----
    Source and proof: docs/explanation/finished-experiments.md.

    Examples
    --------
    >>> from fairtrial.subpopulations import Problem
    >>> problem = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))
    >>> rows = {"arm": ["old", "new"] * 150, "cured": [0, 1] * 150, "day": range(300)}
    >>> with analyse(problem, rows, order="day", outcome="cured") as study:
    ...     study.recommend().arm
    'new'
    """
    shown = counting("Analysing", "unit") if check_flag("progress", progress) else nullcontext()
    with shown as on_progress:
        found = study_of_table(
            problem,
            open_table(table, decimal),
            delta,
            order=order,
            outcome=outcome,
            columns=columns,
            group_weights=group_weights,
            unit=unit,
            count=count,
            successes=successes,
            prediction=prediction,
            features=features,
            shares=shares,
            losses=losses,
            segments=segments,
            storage=storage,
            name=name,
            on_progress=on_progress,
        )
    found.study.session.library = library_of(table)
    for left_out in found.repeated.in_words():
        warn_caller(f"unit {unit!r}: {left_out}")
    for remark in (*found.remarks, *found.check.in_words()):
        warn_caller(remark)
    return found.study


@dataclass(frozen=True)
class Analysis:
    """An analysed table.

    Parameters
    ----------
    study : Study
        The study; close it after use.
    repeated : RepeatedUnits
        The rows of units that were left out.
    remarks : tuple of str
        What was assumed about the table.
    check : TableCheck
        What the checks of the table found.
    segments : SegmentEffects or None
        The effects by segment, if segments were requested.
    without_outcome : int
        The units that were left out because they have no outcome.
    """

    study: Study
    repeated: RepeatedUnits
    remarks: tuple[str, ...]
    check: TableCheck
    segments: SegmentEffects | None = None
    without_outcome: int = 0


@without_collection()
def study_of_table(
    problem: Problem,
    table: Columns,
    delta: float,
    *,
    order: str,
    outcome: str | Mapping[str, str],
    columns: Mapping[str, str] | None,
    group_weights: str | None,
    unit: str | None,
    count: str | None,
    successes: str | None,
    shares: Mapping[str, float] | None,
    storage: Storage,
    name: str,
    prediction: str | Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    losses: str = "informative",
    segments: Sequence[str] = (),
    points: int | None = None,
    on_progress: Count | None = None,
) -> Analysis:
    """Return the study of `analyse`, what was found in its table, and effects by segment.

    `points` is the number of moments that the study keeps for its charts, so that they need no
    replay. `on_progress` is called with the number of units that were given to the study, and of
    all.
    """
    check_instance("problem", problem, Problem)
    family = family_of(problem.family)
    if not family.offers(Family.analysis):
        raise NotSupported(
            f"finished experiments of the family {problem.family!r} cannot be analysed"
        )
    ignores_losses = check_choice("losses", losses, ["informative", "ignorable"]) == "ignorable"
    if count is None:
        _require_rows_of_units(order, successes)
        rows = _Rows(problem, table, columns or {}, outcome, order)
    else:
        rows = _counted(problem, table, columns or {}, outcome, order, unit, count, successes)
    if features:
        rows.read_features(features, prediction)
    else:
        rows.read_predictions(prediction)
    repeated = RepeatedUnits()
    if unit is not None:
        repeated = rows.keep_first_of(unit)
    elif count is None:
        rows.look_for_units((order, *segments))
    remarks = rows.about_order(order) if count is None else (_about_counts(order),)
    remarks = (*remarks, *rows.about_predictions())
    if group_weights is not None:
        problem = _weighed(problem, rows, group_weights)
        remarks = (*remarks, _ABOUT_WEIGHTS)
    units = list(rows.units())
    rows.refuse_sorted_by_outcome(order)
    check = rows.check(shares)
    without_outcome = 0
    if ignores_losses:
        assigned = len(units)
        units = rows.with_outcomes(units)
        without_outcome = assigned - len(units)
        remarks = (*remarks, _about_losses(without_outcome, assigned))
    effects = rows.segment_effects(segments, units, delta) if segments else None
    actions = [one.action for one in units]
    try:
        policy = family.analysis(problem, actions, delta)
    except TooFewUnits as error:
        raise rows.too_few(error) from None
    if ignores_losses:
        if "losses" not in policy.get_params():
            raise NotSupported(
                f"analyses of the family {problem.family!r} have no losses='ignorable'"
            )
        policy = policy.clone(losses=losses)
    if features:
        units = rows.with_fitted_predictions(units, getattr(policy, "ends_of_blocks", []))
    found = {**_notes_on_table(unit, repeated, remarks, check), **_notes_on_segments(effects)}
    notes = {topic[:LONGEST_TOPIC]: said[:LONGEST_TEXT] for topic, said in found.items()}
    study = Study.create(problem, policy, storage=storage, name=name, seed=0, notes=notes)
    try:
        tier = compiled() if len(units) >= _WORTH_COMPILING else nullcontext()
        with study.session.without_snapshots(), tier:
            _play(study, units, on_progress, points)
    except BaseException:
        study.close()
        raise
    return Analysis(study, repeated, remarks, check, effects, without_outcome)


def _notes_on_table(
    unit: str | None, repeated: RepeatedUnits, remarks: Sequence[str], check: TableCheck
) -> dict[str, str]:
    """Return what a reader of the study must know about its table, by topic."""
    notes = {}
    if unit is not None:
        notes[f"repeated units ({unit})"] = "; ".join(repeated.in_words()) or "none"
    if remarks:
        notes["assumptions about the table"] = "; ".join(remarks)
    return notes | notes_on_checks(check)


def _notes_on_segments(found: SegmentEffects | None) -> dict[str, str]:
    if found is None:
        return {}
    shown = {SEGMENT + one.name: one.in_words() for one in found.effects[:_MOST_NOTED]}
    more = len(found.effects) - len(shown)
    left_out = f". {more:,} more are not noted here" if more else ""
    return {ABOUT_SEGMENTS: found.note + left_out, **shown}


def _require_rows_of_units(order: str, successes: str | None) -> None:
    if successes is not None:
        raise InvalidArgument("successes", "needs count, the column with the units", successes)
    if order == AT_RANDOM:
        accepted = "must be the order of assignment; only a table with count may lack it"
        raise InvalidArgument("order", accepted, order)


def _counted(
    problem: Problem,
    table: Columns,
    columns: Mapping[str, str],
    outcome: Any,
    order: str,
    unit: str | None,
    count: str,
    successes: str | None,
) -> _Rows:
    """Return the units of a table of counts."""
    if unit is not None:
        raise InvalidArgument("unit", "must be left out if the table has counts", unit)
    if order == AS_GIVEN:
        accepted = f"must be a column, or {AT_RANDOM!r}, for a table of counts"
        raise InvalidArgument("order", accepted, order)
    if successes is not None:
        if outcome != _OUTCOME:
            raise InvalidArgument("outcome", "must be left out if successes are given", outcome)
        if problem.measures or problem.outcome_fields:
            accepted = "must be left out if an outcome has several parts"
            raise InvalidArgument("successes", accepted, successes)
        outcome = successes
    units = CountedUnits(table, count, successes)
    return _Rows(problem, units, columns, outcome, AS_GIVEN if order == AT_RANDOM else order)


def _about_losses(number: int, assigned: int) -> str:
    return (
        f"losses: {number:,} of {plural(assigned, 'unit')} without an outcome "
        f"{'is' if number == 1 else 'are'} left out. The guarantee assumes that whether an outcome "
        "is missing does not depend on its value"
    )


def _about_counts(order: str) -> str:
    if order == AT_RANDOM:
        return (
            "order: the table does not show the order of assignment, so its units are read in "
            "random order. The guarantee assumes that the mean of an arm did not change during the "
            "experiment, and no check can see whether it did"
        )
    return (
        f"order: units with the same value in {order!r} are read in random order. The guarantee "
        "assumes that the mean of an arm does not change"
    )


@dataclass(frozen=True)
class RepeatedUnits:
    """What was left out because units have several rows.

    Parameters
    ----------
    several_variants : int
        Units that appear in several variants: none of their rows is used.
    rows_of_them : int
        The number of their rows.
    later_rows : int
        Further rows of units in the same variant: the first result of such a unit is used.
    with_other_results : int
        Those of them with a result that is not the first one of their unit.
    """

    several_variants: int = 0
    rows_of_them: int = 0
    later_rows: int = 0
    with_other_results: int = 0

    def in_words(self) -> list[str]:
        """Return what was left out, one sentence for each kind."""
        found = []
        if self.several_variants:
            found.append(
                f"{plural(self.several_variants, 'unit')} in several variants: none of their "
                f"{self.rows_of_them:,} rows is used"
            )
        if self.later_rows:
            found.append(
                f"{plural(self.later_rows, 'further row')} of units in the same variant: only the "
                "first result of a unit is used"
            )
        if self.with_other_results:
            found.append(
                f"{plural(self.with_other_results, 'further row')} with another result than the "
                "first one of the unit: if the results of a unit belong together, such as its "
                "visits, give one row with their sum or their mean"
            )
        return found


class _Rows:
    """The rows of a table in their order of assignment."""

    def __init__(
        self, problem: Problem, table: Columns, columns: Mapping[str, str], outcome: Any, order: str
    ) -> None:
        self._fields = () if problem.measures else tuple(problem.outcome_fields)
        self._problem = problem
        self._table = table
        names = _outcome_columns(problem, outcome)
        if order in names.values():
            raise InvalidArgument("order", "must not be the column of the outcomes", order)
        sources = _sources_of(problem, columns)
        self._sources = (*sources.values(), *names.values())
        self._columns_of_labels = sources
        self._column_of = names
        self._outcomes = {name: self._results(column) for name, column in names.items()}
        number = len(next(iter(self._outcomes.values())))
        for name, values in self._outcomes.items():
            _require_length(names[name], values, number)
        if number == 0:
            raise InvalidArgument("table", "must have at least one row")
        self.labels = {
            name: _labels_of(problem, table, name, source, number)
            for name, source in sources.items()
        }
        self.order = list(range(number))
        self._places: list[Any] = self.order.copy()
        if order != AS_GIVEN:
            self._places = _numbers_or_times(table, order)
            _require_length(order, self._places, number)
            if order in sources.values():
                raise InvalidArgument("order", "must not be the column of a label", order)
            if number > 1 and len(set(self._places)) == 1:
                raise InvalidArgument("order", "must not have the same value in all rows", order)
            self.order.sort(key=self._places.__getitem__)
        self._prediction: dict[str, str] = {}
        self._features_read: list[str] = []
        self._features: list[list[float | None]] = []
        self._predictions: dict[str, list[float | None]] = {}
        self._units: list[str] | None = None
        self._accepted: dict[float | None, Outcome | None] = {None: None}
        self._crowded: tuple[OddUnit, ...] = ()
        self._repetitive: tuple[RepetitiveColumn, ...] = ()
        self._usual_rows = 1

    def about_order(self, column: str) -> tuple[str, ...]:
        """Return a warning if the order column leaves the order of some rows open."""
        counts = Counter(self._places[row] for row in self.order)
        shared = [count for count in counts.values() if count > 1]
        if not shared:
            return ()
        said = (
            f"order: {sum(shared):,} of {plural(len(self.order), 'row')} have the same value as "
            f"another row in {column!r}; these rows were read in the order of the table. If that "
            "order depends on outcomes, the answer may be wrong more often than stated: give a "
            "column without equal values"
        )
        return (said,)

    def _results(self, column: str) -> list[Any]:
        """Return a column of outcomes: numbers, or fields as they are; None if missing."""
        if self._fields:
            labels = {label.lower() for label in self._problem.labels_of_field(column)}
            words = frozenset(_NO_OUTCOME_WORDS) - labels
            return [
                None if is_blank(cell) or _is_one_of(words, cell) else cell
                for cell in self._table.values(column, words)
            ]
        try:
            return self._table.numbers(column, _NO_OUTCOME_WORDS)
        except InvalidArgument as error:
            if error.name == "table":
                raise
            raise InvalidOutcome(f"table, {error.name}", error.accepted, error.given) from None

    @property
    def _stated(self) -> Mapping[str, Any]:
        """What the problem states about predictions, by measure."""
        stated: Mapping[str, Any] = getattr(self._problem, "predictions", {})
        return stated

    def _outcomes_of(self, measure: str) -> list[Any]:
        """Return the outcomes that are predicted: those of a measure, or the only ones."""
        return self._outcomes[measure if self._problem.measures else ""]

    def read_predictions(self, given: str | Mapping[str, str] | None) -> None:
        """Read the columns of the predictions, if the problem has them."""
        for measure, column in columns_of_predictions(self._problem, given).items():
            found = self._table.numbers(column)
            _require_length(column, found, len(self.order))
            for row in self.order:
                try:
                    self._stated[measure].check_one(found[row])
                except InvalidArgument as error:
                    where = f"{self._table.where(row)}: {column}"
                    accepted = "must be a number, or the problem states missing = 'mean'"
                    raise InvalidArgument(where, accepted, error.given) from None
            if column in self._sources:
                accepted = "must not be the column of a label or an outcome"
                raise InvalidArgument("prediction", accepted, column)
            self._prediction[measure], self._predictions[measure] = column, found

    def read_features(self, columns: Sequence[str], prediction: Any) -> None:
        """Read the columns from which predictions are fitted."""
        if isinstance(columns, str):
            raise InvalidArgument("features", "must be a list of columns", columns)
        if prediction is not None:
            accepted = "must be left out if features are given"
            raise InvalidArgument("prediction", accepted, prediction)
        if not self._stated:
            accepted = "must be left out: the problem has no prediction"
            raise InvalidArgument("features", accepted, list(columns))
        if any(own.range is None for own in self._stated.values()):
            # How widely rewards minus fitted predictions spread changes with every fit.
            accepted = "must be left out with residual_std, which is that of one prediction"
            raise InvalidArgument("features", accepted, list(columns))
        for name in columns:
            if name in self._sources:
                accepted = "must not name the column of a label or an outcome"
                raise InvalidArgument("features", accepted, name)
            found = self._table.numbers(name)
            _require_length(name, found, len(self.order))
            for measure in self._stated:
                outcomes = self._numbers(self._outcomes_of(measure))
                require_no_outcomes(name, outcomes, self._numbers(found))
            self._features_read.append(name)
            self._features.append(found)

    def with_fitted_predictions(
        self, units: Sequence[AssignedUnit], ends: Sequence[int]
    ) -> list[AssignedUnit]:
        """Return the units with predictions that are fitted between the blocks."""
        features = np.stack([self._numbers(column) for column in self._features], axis=1)
        actions = [one.action for one in units]
        found = {}
        for measure in self._stated:
            outcomes = self._numbers(self._outcomes_of(measure))
            found[measure] = fitted_predictions(features, outcomes, actions, ends).tolist()
        return [
            one._replace(prediction=self._of_unit(found, place)) for place, one in enumerate(units)
        ]

    def _of_unit(self, found: Mapping[str, Sequence[float | None]], place: int) -> Any:
        """Return the predictions of a unit: by measure, or the only one."""
        known = {name: column[place] for name, column in found.items()}
        if self._problem.measures:
            return {name: one for name, one in known.items() if one is not None}
        return next(iter(known.values()), None)

    def about_predictions(self) -> tuple[str, ...]:
        """Return what makes predictions useless; refuse those that are the outcomes."""
        found = []
        for measure, column in self._prediction.items():
            known = self._numbers(self._predictions[measure])
            require_no_outcomes(column, self._numbers(self._outcomes_of(measure)), known)
            if np.unique(known[~np.isnan(known)]).size <= 1:
                said = f"prediction: {column!r} is the same in all rows, so it saves nothing"
                found.append(said)
        return tuple(found)

    def look_for_units(self, others: Collection[str]) -> None:
        """Look for columns that may name units, one of which has implausibly many rows.

        `others` are columns whose meaning is known, besides labels, outcomes and predictions.
        """
        known = {*self._sources, *self._prediction.values(), *self._features_read, *others}
        names = self._table.names
        looked = (
            repetitive_column(name, self._table.cells(name))
            for name in names
            if name not in known and names.count(name) == 1
        )
        self._repetitive = tuple(found for found in looked if found is not None)

    def keep_first_of(self, unit: str) -> RepeatedUnits:
        """Drop the rows of units in several variants, and further rows of units in the same one."""
        keys = self._table.labels(unit)
        _require_length(unit, keys, len(self.order))
        rows_of = Counter(keys)
        blank = {key for key in rows_of if is_blank(key)}
        if blank:
            row = next(row for row in self.order if keys[row] in blank)
            raise InvalidArgument(f"{self._table.where(row)}: {unit}", "must name a unit")
        self._units = keys
        self._crowded, self._usual_rows = crowded_units(rows_of)
        several = self._in_several_arms(keys)
        first: dict[str, int] = {}
        kept, in_several, later, others = [], 0, 0, 0
        for row in self.order:
            key = keys[row]
            if key in several:
                in_several += 1
            elif key not in first:
                first[key] = row
                kept.append(row)
            else:
                later += 1
                self._take_if_missing(first[key], row)
                others += self._differs(first[key], row)
        if not kept:
            raise InvalidArgument("unit", "must name units that have only one variant", unit)
        self.order = kept
        return RepeatedUnits(len(several), in_several, later, others)

    def _in_several_arms(self, keys: Sequence[str]) -> set[str]:
        """Return the units that appear in several arms."""
        arm_of: dict[str, str] = {}
        pairs = zip(keys, self._arms, strict=True)
        return {key for key, arm in pairs if arm_of.setdefault(key, arm) != arm}

    def _take_if_missing(self, first: int, later: int) -> None:
        """Give the first row of a unit the result of a later one, if it has none."""
        if all(column[first] is None for column in self._outcomes.values()):
            for column in self._outcomes.values():
                column[first] = column[later]

    def _differs(self, first: int, later: int) -> bool:
        """Return whether a later row of a unit has another result than the first one."""
        pairs = ((column[first], column[later]) for column in self._outcomes.values())
        return any(old is not None and new is not None and new != old for old, new in pairs)

    @cached_property
    def _single(self) -> list[Any] | None:
        """The column of the outcomes; None if an outcome has several parts."""
        return None if self._fields or self._problem.measures else self._outcomes[""]

    @property
    def _arms(self) -> list[str]:
        return self.labels.get("arm", next(iter(self.labels.values())))

    @cached_property
    def _assigned(self) -> NDArray[np.int64]:
        """The arm of every row in its order; each must be one of the problem's."""
        places = {arm: place for place, arm in enumerate(_arms_of(self._problem))}
        arms = self._arms
        return np.array([places[arms[row]] for row in self.order], dtype=np.int64)

    def _numbers(self, column: Sequence[Any]) -> NDArray[np.float64]:
        """Return a column of outcomes in the order of the rows; NaN if missing."""
        return np.array([column[row] for row in self.order], dtype=np.float64)

    def refuse_sorted_by_outcome(self, order: str) -> None:
        """Refuse rows that are sorted by outcome."""
        for column in () if self._fields else self._outcomes.values():
            outcomes = self._numbers(column)
            came = ~np.isnan(outcomes)
            refuse_sorted_by_outcome(order, self._assigned[came], outcomes[came])

    def check(self, shares: Mapping[str, float] | None) -> TableCheck:
        """Check the shares of the arms, the order of the rows, and single units."""
        outlying: list[OddUnit] = []
        looks = [stretches("arm", self._assigned)]
        for name, column in {} if self._fields else self._outcomes.items():
            outcomes = self._numbers(column)
            came = np.flatnonzero(~np.isnan(outcomes))
            looks.append(stretches(name or _OUTCOME, beyond_median(outcomes[came])))
            found = outlying_units(outcomes[came])
            outlying += [OddUnit(self._name(int(came[at])), value) for at, value in found]
        for measure, predictions in self._predictions.items():
            known = self._numbers(predictions)
            what = f"prediction of {measure}" if self._problem.measures else "prediction"
            looks.append(stretches(what, beyond_median(known[~np.isnan(known)])))
        return TableCheck(
            self._arm_units(shares),
            tuple(look for look in looks if look is not None),
            self._crowded,
            tuple(outlying),
            self._usual_rows,
            self._repetitive,
            self._cell_units(),
        )

    def _cell_units(self) -> tuple[tuple[ArmUnits, ...], ...]:
        """Return the units by arm in each group; in `causal`, where there is none, by action.

        Empty if there is only one group: then the units by arm say the same.
        """
        labels = list(self._problem.action_labels)
        if len(labels) == len(_arms_of(self._problem)):
            return ()
        rows = [tuple(column[row] for column in self.labels.values()) for row in self.order]
        units, missing = Counter(rows), Counter(compress(rows, self._lacking.tolist()))
        groups: dict[str, list[ArmUnits]] = {}
        for one in labels:
            key = tuple(str(one[name]) for name in self.labels)
            cell = ArmUnits(" / ".join(key), units[key], missing[key])
            groups.setdefault(str(one.get("group", "")), []).append(cell)
        return tuple(map(tuple, groups.values()))

    @property
    def _lacking(self) -> NDArray[np.bool_]:
        """Which units have no outcome, in the order of assignment."""
        lacking = np.ones(len(self.order), dtype=bool)
        for column in self._outcomes.values():
            lacking &= np.array([column[row] is None for row in self.order])
        return lacking

    def _name(self, place: int) -> str:
        """Return the name of a unit for messages, by its place in the order."""
        row = self.order[place]
        return self._table.where(row) if self._units is None else repr(self._units[row])

    def _arm_units(self, shares: Mapping[str, float] | None) -> tuple[ArmUnits, ...]:
        arms = _arms_of(self._problem)
        planned: Sequence[float | None] = [None] * len(arms)
        if shares is not None:
            planned = planned_shares(arms, shares)
        elif family_of(self._problem.family).arms_are_separate:
            planned = [1.0 / len(arms)] * len(arms)
        units = np.bincount(self._assigned, minlength=len(arms))
        missing = np.bincount(self._assigned[self._lacking], minlength=len(arms))
        return tuple(map(ArmUnits, arms, units.tolist(), missing.tolist(), planned))

    def segment_effects(
        self, segments: Sequence[str], units: Sequence[AssignedUnit], delta: float
    ) -> SegmentEffects:
        """Return the effects in all segments of these columns."""
        if isinstance(segments, str):
            raise InvalidArgument("segments", "must be a list of columns", segments)
        problem = self._problem
        in_range = getattr(problem, "reward_range", None)
        separate = family_of(problem.family).arms_are_separate
        if not separate or problem.measures or in_range is None:
            raise NotSupported(
                "effects by segment need a problem of the family 'subpopulations' or 'delayed' "
                "with a reward_range and without measures"
            )
        columns: dict[str, list[str]] = {}
        for name in segments:
            cells = self._table.labels(name)
            _require_length(name, cells, len(self._arms))
            columns[name] = [cells[row] or _BLANK for row in self.order]
        arms = _arms_of(problem)
        reference = getattr(problem, "control", None) or arms[0]
        outcomes = np.array([one.outcome for one in units], dtype=np.float64)
        return segment_effects(
            columns, arms, str(reference), self._assigned, outcomes, in_range, delta
        )

    def units(self) -> Iterator[AssignedUnit]:
        """Yield the units in the order of assignment."""
        actions: dict[tuple[str, ...], int] = {}
        for row in self.order:
            key = tuple(column[row] for column in self.labels.values())
            action = actions.get(key)
            if action is None:
                action = actions[key] = self._action(row)
            yield AssignedUnit(action, self._outcome(row), self._of_unit(self._predictions, row))

    def too_few(self, error: TooFewUnits) -> InvalidArgument:
        """Return the error that says which rows the table lacks, for units that are too few."""
        if not error.absent:
            return InvalidArgument(
                "table",
                "must have rows that determine the mean of every arm, also "
                f"{error.undetermined!r}. Add rows that do, or leave out of the problem what they "
                "say nothing about",
            )
        absent = [self._problem.action_labels[action] for action in error.absent]
        names = list(self._columns_of_labels.values())
        every = " and ".join(f"{name!r}" for name in names)
        which = "value" if len(names) == 1 else "combination of values"
        return InvalidArgument(
            "table",
            f"must have a row for every {which} of {every} in the problem; there is none with "
            f"{self._said_of_absent(absent)}. Leave out of the problem what was not tried"
            + (", or merge groups" if len(names) > 1 else ""),
        )

    def _said_of_absent(self, absent: Sequence[Mapping[str, Any]]) -> str:
        """Return labels that no row has; if all occur, the first combinations that are absent."""
        for name, column in self._columns_of_labels.items():
            have = set(self.labels[name])
            missing = list(dict.fromkeys(str(one[name]) for one in absent))
            whole = [value for value in missing if value not in have]
            if whole:
                return f"{column} {listed([repr(value) for value in whole])}"
        cells = [
            " and ".join(
                f"{column} {str(one[name])!r}" for name, column in self._columns_of_labels.items()
            )
            for one in absent
        ]
        return listed(cells)

    def with_outcomes(self, units: Sequence[AssignedUnit]) -> list[AssignedUnit]:
        """Leave out the units without an outcome; return the others."""
        left = {unit.action for unit in units if unit.outcome is not None}
        if not left:
            raise InvalidArgument("table", "must have an outcome with losses='ignorable'")
        for action in sorted({unit.action for unit in units} - left):
            name = " / ".join(map(str, self._problem.labels(action).values()))
            accepted = f"must be 'informative': no unit of {name} has an outcome"
            raise InvalidArgument("losses", accepted, "ignorable")
        pairs = zip(self.order, units, strict=True)
        self.order = [row for row, unit in pairs if unit.outcome is not None]
        self.__dict__.pop("_assigned", None)
        return [unit for unit in units if unit.outcome is not None]

    def _action(self, row: int) -> int:
        labels = {name: column[row] for name, column in self.labels.items()}
        try:
            return int(self._problem.action(**labels))
        except InvalidArgument as error:
            where = f"table, {self._table.where(row)}"
            raise InvalidArgument(where, error.accepted, labels) from None

    def _outcome(self, row: int) -> Outcome | None:
        """Return a unit's outcome; None if blank. With measures, each blank one is None."""
        if self._single is not None:
            number = self._single[row]
            # Each number is checked once: the study checks every outcome again.
            if number not in self._accepted:
                self._accepted[number] = self._checked(number, row)
            return self._accepted[number]
        values = {name: column[row] for name, column in self._outcomes.items()}
        outcome: Any
        if self._fields:
            outcome = None if None in values.values() else values
        else:
            known = any(value is not None for value in values.values())
            outcome = values if known else None
        return None if outcome is None else self._checked(outcome, row)

    def _checked(self, outcome: Any, row: int) -> Outcome:
        try:
            checked: Outcome = self._problem.check_outcome(outcome)
        except InvalidOutcome as error:
            where = f"table, {self._table.where(row)}: {self._column_of_refused(error.name)}"
            accepted = f"{error.accepted}{self._others_refused(row)}"
            raise InvalidOutcome(where, accepted, error.given) from None
        # The study expects measures by name, as callers report them.
        return outcome if self._problem.measures else checked

    def _column_of_refused(self, name: str) -> str:
        """Return the column that holds the part of an outcome that an error is about."""
        part = name.rpartition(": ")[2]
        return self._column_of.get(part) or self._column_of.get("", name)

    def _others_refused(self, row: int) -> str:
        """Return how many rows besides this one hold outcomes that are refused as well."""
        others = sum(self._is_refused(other) for other in self.order if other != row)
        return f"; {plural(others, 'other row')} would be refused, too" if others else ""

    def _is_refused(self, row: int) -> bool:
        known = {name: column[row] for name, column in self._outcomes.items()}
        if all(value is None for value in known.values()):
            return False
        is_one_number = self._single is not None
        try:
            self._problem.check_outcome(known[""] if is_one_number else known)
        except InvalidOutcome:
            return True
        return False


def _arms_of(problem: Problem) -> list[str]:
    """Return the labels of the arms: in the family `causal`, of what each action sets."""
    names = list(problem.action_labels[0])
    name = "arm" if "arm" in names else names[0]
    return list(dict.fromkeys(str(labels[name]) for labels in problem.action_labels))


def _is_one_of(words: frozenset[str], cell: Any) -> bool:
    return isinstance(cell, str) and tidy(cell).lower() in words


def _outcome_columns(problem: Problem, outcome: Any) -> dict[str, str]:
    """Return the column of each part of an outcome; a single number has the name ''."""
    if problem.measures:
        if not isinstance(outcome, Mapping) and outcome != _OUTCOME:
            accepted = f"must be left out, or map the measures {list(problem.measures)} to columns"
            raise InvalidArgument("outcome", accepted, outcome)
        return columns_of_measures(problem, outcome)
    return {field: field for field in problem.outcome_fields} or {"": str(outcome)}


def _sources_of(problem: Problem, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column that holds each label of an action."""
    names = list(problem.action_labels[0])
    for name in columns:
        if name not in names:
            raise InvalidArgument("columns", f"must name labels: {', '.join(names)}", name)
    return {name: columns.get(name, name) for name in names}


def _labels_of(problem: Problem, table: Columns, name: str, source: str, number: int) -> list[str]:
    """Return a column of labels as text; the column is optional if only one label exists."""
    possible = {str(labels[name]) for labels in problem.action_labels}
    if len(possible) == 1 and not table.has(source):
        return [possible.pop()] * number
    column = table.labels(source)
    _require_length(source, column, number)
    return column


def _require_length(name: str, column: Sequence[Any], number: int) -> None:
    if len(column) != number:
        accepted = f"must have columns of equal length; {name!r} has {len(column)} rows"
        raise InvalidArgument("table", accepted, number)


def _numbers_or_times(table: Columns, name: str) -> list[Any]:
    """Return the column as numbers or, failing that, as dates."""
    cells, written = table.cells(name), table.format_of(name)
    if written.decimal is None:
        # Which numbers they are is not shown: the error says so.
        return table.numbers(name)
    with suppress(NotANumber):
        # A blank cell holds no number either.
        return [written.number(cell) for cell in cells]
    dates = [_date(cell) for cell in cells]
    for row, date in enumerate(dates):
        if date is None:
            odd = next(iter(odd_cells(cells, written)), row)
            accepted = f"must be {_unlike(cells[odd], written)} in the column {name!r}"
            raise InvalidArgument(f"order, {table.where(odd)}", accepted, cells[odd])
    known = [date for date in dates if date is not None]
    for row, date in enumerate(known):
        if (date.tzinfo is None) != (known[0].tzinfo is None):
            expected = "no time zone" if known[0].tzinfo is None else "a time zone"
            accepted = f"must have {expected}, as in the rows before, in the column {name!r}"
            raise InvalidArgument(f"order, {table.where(row)}", accepted, cells[row])
    return dates


def _unlike(cell: Any, written: NumberFormat) -> str:
    """Return what a cell must be that is not like the other cells of its column."""
    if written.reads(cell):
        return "a date, as in other rows,"
    if _date(cell) is not None:
        return "a number, as in other rows,"
    return "a number or a date such as 2026-11-23"


def _date(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None


def _weighed(problem: Problem, rows: _Rows, group_weights: str) -> Problem:
    """Return the problem with each group weighed by its number of rows."""
    if group_weights != FROM_TABLE or "group" not in rows.labels:
        accepted = f"must be {FROM_TABLE!r}, and the problem must have groups"
        raise InvalidArgument("group_weights", accepted, group_weights)
    groups = dict.fromkeys(str(labels["group"]) for labels in problem.action_labels)
    counts = Counter(rows.labels["group"][row] for row in rows.order)
    return problem.clone(group_weights=[counts[group] for group in groups])


def _play(
    study: Study,
    units: Sequence[AssignedUnit],
    on_progress: Count | None,
    points: int | None,
) -> None:
    """Give the units to the study in batches: what comes after it has stopped is unsolicited."""
    moments = None
    if points is not None:
        tells = sum(unit.outcome is not None for unit in units)
        with study.session.replica_at_head() as (_, replica):
            moments = Moments(replica, tells, points)
    for start in range(0, len(units), _AT_ONCE):
        batch = units[start : start + _AT_ONCE]
        study.session.play(batch, start, moments)
        if on_progress is not None:
            on_progress(start + len(batch), len(units))
    if moments is not None:
        study.keep_trace(moments)
