"""Block betting with several measures per pull: units, events of pulls, and statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import BlockKernels, LiveBlocks, Randomize
from fairtrial.confidence.block_betting.book import book_dimensions
from fairtrial.confidence.block_betting.live import LACKING, serial_of_tag
from fairtrial.confidence.effects import BlockResults, Spread
from fairtrial.confidence.loss_test import losses_differ
from fairtrial.confidence.means import Settled
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.errors import NotSupported
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures import blocks
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    COVARIANCE,
    NO_CONTROL,
    OBJECTIVE,
    OVERALL,
    SCALES,
    Model,
)
from fairtrial.subpopulations._kernels.measures.state import CONSTANTS, CONTROL, RIVAL, Constants
from fairtrial.subpopulations.policies.cell_blocks import CellBlocks
from fairtrial.subpopulations.policies.noise_directions import noise_directions
from fairtrial.subpopulations.policies.units import far_from_zero, needed_cells, power_of_two
from fairtrial.subpopulations.problem import LimitRow, Problem

__all__ = ["MeasuredBlocks", "Question", "Units", "model_of_measures", "units_of"]

Floats = NDArray[np.float64]

_CORRELATION = 0.9
"""The correlation that plans assume between measures if only scales are known, in the direction
that hurts. An item is then settled by one measure of a cell, for which bets pay nothing extra."""


class _Kernels(BlockKernels, Protocol):
    """The compiled kernels for measures."""

    def read(self, *arguments: Any) -> None:
        """Take values that come before the others of their pull."""

    def complete(self, *arguments: Any) -> None:
        """Add to a settled block what more is known of a pull that it has received."""

    def uncount(self, *arguments: Any) -> None:
        """Take a pull out of the block that has counted it."""

    def is_counted(self, *arguments: Any) -> bool:
        """Return whether an open block has received a pull with these values."""

    def check_late_values(self, *arguments: Any) -> bool:
        """Test the noise of a settled block; return whether anything of it was not tested yet."""


class Units(NamedTuple):
    """Units of the kernels: each measure less `low`, in units of `unit`; the objective in its own.

    All units are powers of two, so that nothing is rounded.
    """

    low: Floats
    unit: Floats
    objective: float

    def inward(self, values: Floats) -> Floats:
        """Return the values of a pull in the units of the kernels."""
        return np.asarray((values - self.low) / self.unit)


def units_of(problem: Problem, objective: Floats) -> Units:
    """Return the units that keep squares of measures well within a float's range.

    `objective`: the weight of each measure in the objective.
    """
    measures = len(problem.measures)
    low = np.zeros(measures)
    if problem.measure_ranges is not None:
        ranges = problem.measure_ranges
        scales = 0.5 * np.ptp(ranges, axis=1)
        low = np.where([far_from_zero(*ends) for ends in ranges], ranges[:, 0], 0.0)
    else:
        scales = _stds(problem).max(axis=(0, 1))
    unit = np.array([power_of_two(scale) if scale > 0.0 else 1.0 for scale in scales])
    largest = float(np.abs(objective * unit).max())
    return Units(low, unit, power_of_two(largest))


class Question(NamedTuple):
    """What bets are about: the weight of each measure in the objective, and the limits."""

    objective: Floats
    rows: tuple[LimitRow, ...]

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """Return the question that a problem states."""
        return cls(np.asarray(problem.objective_weights), problem.limit_rows)


def _stds(problem: Problem) -> Floats:
    """Return the scale of every measure of a known noise, shape (K, L, M)."""
    if problem.noise_covariance is not None:
        return np.sqrt(np.diagonal(problem.noise_covariance, axis1=2, axis2=3))
    return np.asarray(problem.measure_noise_std)


def model_of_measures(problem: Problem, units: Units, question: Question | None = None) -> Model:
    """Return the problem in the form that kernels read; with another question if one is given."""
    arms, groups = problem.shape
    weights, rows = question or Question.of(problem)
    measures = len(problem.measures)
    objective = problem.sign * weights * units.unit / units.objective
    low, high = np.zeros(measures), np.zeros(measures)
    covariances = np.zeros((arms, groups, measures, measures))
    scales = np.zeros((arms, groups, measures))
    if problem.measure_ranges is not None:
        noise = BOUNDED
        low, high = (units.inward(ends) for ends in problem.measure_ranges.T)
    elif problem.noise_covariance is not None:
        noise = COVARIANCE
        covariances = problem.noise_covariance / np.outer(units.unit, units.unit)
        scales = _stds(problem) / units.unit
    else:
        noise = SCALES
        scales = _stds(problem) / units.unit
        covariances = _hurtful_covariances(scales, objective, rows)
    return Model(
        weights=np.array(problem.shares),
        objective=objective,
        bounds=np.stack([_bounds(row, units) for row in rows], axis=1)
        if rows
        else np.empty((arms, 0)),
        signs=np.array([_sign(row) for row in rows], dtype=float),
        measure_of=np.array(
            [OBJECTIVE if row.measure is None else row.measure for row in rows], dtype=float
        ),
        group_of=np.array([OVERALL if row.group is None else row.group for row in rows], float),
        relative=np.array([row.control is not None for row in rows], dtype=float),
        low=low,
        high=high,
        covariances=covariances,
        scales=scales,
        costs=np.array(problem.costs),
        active=needed_cells(problem).astype(np.float64),
        directions=_inward_directions(problem, units),
        predicts=np.empty(0),
        slopes=np.empty(0),
        known_means=np.empty((0, groups)),
        noise=noise,
        tolerance=problem.tolerance / units.objective,
        control=_control_of(problem),
    )


def _control_of(problem: Problem) -> int:
    """Return the number of the arm that limits refer to."""
    found = [row.control for row in problem.limit_rows if row.control is not None]
    return found[0] if found else NO_CONTROL


def _inward_directions(problem: Problem, units: Units) -> Floats:
    """Return the weights of sums of measures whose noise is tested, shape (K, L, D, M)."""
    directions = noise_directions(problem)
    found = np.empty((*problem.shape, len(directions), len(problem.measures)))
    for place, direction in enumerate(directions):
        found[:, :, place] = direction.weights / (_stds(problem) / units.unit)
    return found


def _sign(row: LimitRow) -> float:
    """Return the sign of a limit; the kernels' objective has its own sign already."""
    return 1.0 if row.is_floor or row.measure is None else -1.0


def _bounds(row: LimitRow, units: Units) -> Floats:
    """Return the bounds of all arms as lower ones, in the units of the kernels."""
    low, unit = 0.0, units.objective
    if row.measure is not None:
        low, unit = units.low[row.measure], units.unit[row.measure]
    # In a difference the lower ends cancel out.
    inward = (row.bounds - (low if row.control is None else 0.0)) / unit
    return np.asarray(inward if row.is_floor else -inward)


def _hurtful_covariances(scales: Floats, objective: Floats, rows: tuple[LimitRow, ...]) -> Floats:
    """Return covariances with which adding up measures gains nothing."""
    has_floor = np.zeros(objective.size, dtype=bool)
    has_ceiling = np.zeros(objective.size, dtype=bool)
    for row in rows:
        if row.measure is not None:
            (has_floor if row.is_floor else has_ceiling)[row.measure] = True
    limited = np.where(has_ceiling & ~has_floor, -1.0, 1.0)
    signs = np.where(objective != 0.0, np.sign(objective), limited)
    correlation = _CORRELATION * np.outer(signs, signs)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(scales[..., :, np.newaxis] * scales[..., np.newaxis, :] * correlation)


def _first_true(flags: NDArray[np.bool_]) -> int:
    """Return the place of the first true entry; their number if there is none."""
    return int(flags.argmax()) if flags.any() else len(flags)


class MeasuredBlocks(CellBlocks):
    """The blocks of a live policy whose pulls give several measures.

    Parameters
    ----------
    problem : Problem
        A problem with `measures`.
    rules : Rules
        The constants of the method.
    randomize, key
        As in `LiveBlocks`.
    points : int
        Number of points of a bet.
    reported : callable
        Returns the values that were reported for a pull before its outcome, by its number.

    Attributes
    ----------
    tested : list of StatedNoise
        The statement that each of the records `spreads` tests.
    outcomes : int
        Number of measures that an outcome has; bets can use others besides.
    never_known : array of shape (cells, M)
        Values that will never be known, of pulls that have ended: told, or given up.
    failed_overdue : list of int
        Pulls given up after some of their values had counted for a closed block.
    uncounted : list of int
        Pulls whose values came after they were given up, too late for their blocks.
    """

    more_fields: ClassVar[tuple[str, ...]] = (
        *CellBlocks.more_fields,
        *("never_known", "failed_overdue", "uncounted"),
    )

    kernels: ClassVar[_Kernels] = blocks
    verdict = ("answer",)
    accounts: ClassVar[Mapping[str, str]] = {
        **LiveBlocks.accounts,
        "was_absent": "absent",
        "was_present": "present",
        "was_complete": "complete",
        "settled_squares": "squares",
        "settled_adjusted": "adjusted",
        "settled_values": "values",
        "settled_pairs": "pairs",
    }

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        points: int,
        reported: Callable[[int], Floats | None],
    ) -> None:
        self._problem = problem
        self._reported = reported
        self._question = self._asked(problem)
        self._units = units_of(problem, self._question.objective)
        self.outcomes = len(problem.measures)
        self.never_known = np.zeros((problem.n_actions, self.outcomes))
        self.failed_overdue: list[int] = []
        self.uncounted: list[int] = []
        model = self._model()
        constants, _ = CONSTANTS.pack(Constants(model, rules))
        arms, groups = problem.shape
        measures, limits = len(problem.measures), len(problem.limit_rows)
        self.tested = [direction.tested for direction in noise_directions(problem)]
        super().__init__(
            constants,
            randomize,
            key,
            predictions=model.predicted,
            **book_dimensions(arms, limits),
            arms=arms,
            groups=groups,
            measures=measures,
            roles=self._roles(model),
            actions=arms * groups,
            bets=arms + limits,
            points=points,
            directions=len(self.tested),
        )
        self.unit = problem.sign * self._units.objective
        self.centre = float(self._question.objective @ self._units.low)
        if rules.pulls_again:
            as_worst = Constants(model, rules._replace(pulls_again=False))
            self.as_worst, _ = CONSTANTS.pack(as_worst)

    def _asked(self, problem: Problem) -> Question:
        """Return what bets are about."""
        return Question.of(problem)

    def _model(self) -> Model:
        return model_of_measures(self._problem, self._units, self._question)

    def _roles(self, model: Model) -> int:
        """Return the number of roles that arms can have in a bet."""
        return 1 + (CONTROL if model.control != NO_CONTROL else RIVAL)

    # ------------------------------------------------------------- events of pulls

    def learn(self, pull: Pull, value: Floats, *, was_lost: bool) -> None:
        """Record all values of a pull, including those that were reported before."""
        told = self._inward(self._reported(pull.number)), self._inward(value)
        self._count_never_known(pull, value, self._reported(pull.number), has_ended=was_lost)
        is_paid = not was_lost and self.is_paid(pull) and pull.number not in self._overdue
        before = self.replaced
        super().learn(pull, told, was_lost=was_lost)
        if self.replaced > before:
            self.never_counted[LACKING] += 1
        if is_paid:
            self._complete_paid(pull, *told, is_final=True)

    def _arrays_to_tell(self, pull: Pull, value: tuple[Floats, Floats]) -> Any:
        # Without a value that bets use, the pull is made again.
        lacks = pull.number != UNSOLICITED and np.isnan(value[1][: self.outcomes]).any()
        return self._arrays_at_end(pull.number, pull.action) if lacks else self.arrays

    def read(self, pull: Pull, values: Floats, *, was_lost: bool) -> None:
        """Record new values of a pull that come before the others."""
        known = self._inward(self._reported(pull.number))
        told = known, np.where(np.isnan(known), self._inward(values), known)
        if was_lost:
            self._count_never_known(pull, told[1], known, has_ended=True)
        tag = -1 if pull.number == UNSOLICITED or pull.number in self.late else pull.tag
        arguments = pull.action, tag, told, pull.number
        before = self._first.item()
        if pull.number in self._overdue:
            self._replace_worst(pull, told)
        elif was_lost:
            constants = self._constants_of(pull.number)
            with self._counting_replacements(pull.action, pull.tag):
                counts = self.kernels.tell_late((constants, *self.arrays[1:]), *arguments)
            counts = counts or self._change_paid(
                tag, lambda arrays: self.kernels.tell_late((constants, *arrays[1:]), *arguments)
            )
            if not counts:
                self.uncounted.append(pull.number)
        else:
            is_paid = self.is_paid(pull)
            self.kernels.read(self.arrays, *arguments)
            if is_paid:
                self._complete_paid(pull, *told, is_final=False)
        self.keep_paid(before)

    def lose(self, pull: Pull, *details: Any, stopped: bool) -> None:
        """Record that a pull will have no values except those that were reported."""
        self._count_never_known(pull, self._reported(pull.number), None, has_ended=False)
        if pull.number in self._overdue and self._gave_values(pull):
            self.failed_overdue.append(pull.number)
        if self.is_paid(pull) and pull.number not in self._overdue:
            # The pull counted for its bets, which the stop does not change.
            self.lost += 1
            known = self._inward(self._reported(pull.number))
            self._complete_paid(pull, known, known, is_final=True)
        else:
            super().lose(pull, *details, stopped=stopped)

    def _count_never_known(
        self, pull: Pull, now: Floats | None, before: Floats | None, *, has_ended: bool
    ) -> None:
        """Count what a pull lacks as it ends, or take back what it lacked if it `has_ended`."""
        counts = self.never_known[pull.action]
        counts += self._lacking(now)
        if has_ended:
            counts -= self._lacking(before)

    def _lacking(self, values: Floats | None) -> Floats:
        """Return 1 for each measure without a value, and 0 for each other one."""
        if values is None:
            return np.ones(self.outcomes)
        return np.isnan(values[: self.outcomes]).astype(np.float64)

    def _complete_paid(self, pull: Pull, before: Floats, now: Floats, *, is_final: bool) -> None:
        """Add to a settled block what comes after its bets on a pull were paid."""
        more = before, now, is_final, pull.number
        constants, about = self._constants_of(pull.number), (pull.action, pull.tag)
        is_kept = self._change_paid(
            pull.tag,
            lambda arrays: self.kernels.complete((constants, *arrays[1:]), *about, more),
            moves_bets=False,
        )
        if is_kept:
            self._check_late_values()
        elif is_final:
            self.state.was_absent[pull.action] += np.isnan(now)

    def _check_late_values(self) -> None:
        """Test the noise of the settled blocks that are no longer waited for."""
        for serial in np.unique(self.state.in_noise).tolist():
            while serial < len(self.paid) and self._test_block(serial):
                serial += 1

    def _test_block(self, serial: int) -> bool:
        row = self.paid.floats[serial]
        noise = row[self._slots.in_row("noise")].reshape(self.state.settled_noise.shape)
        awaited = row[self._slots.in_row("awaited")]
        return bool(self.kernels.check_late_values(self.arrays, serial, noise, awaited))

    def amend(self, pull: Pull, old: Floats, new: Floats) -> None:
        """Correct the values of a pull, and all bets on them."""
        self._count_never_known(pull, new, old, has_ended=True)
        super().amend(pull, self._inward(old), self._inward(new))

    def amend_early(self, pull: Pull, old: Floats, new: Floats, *, was_lost: bool) -> None:
        """Correct values that came before the others of their pull, and the bets that used them.

        Parameters
        ----------
        pull : Pull
            A pull that was not told yet.
        old, new : array
            All its values so far, before and after the correction, with NaN for the others. Those
            that only `new` lacks are withdrawn: they are not known yet.
        was_lost : bool
            Whether the pull was given up.

        Raises
        ------
        NotSupported
            If a value is withdrawn that paid bets have used, and nothing can stand for it because
            the noise is known.
        """
        before, now = self._inward(old), self._inward(new)
        as_worst = pull.number in self._overdue or pull.number in self.failed_overdue
        constants = self.as_worst if as_worst else self._constants_of(pull.number)
        is_counted = as_worst or self._has_counted(pull, before, was_lost=was_lost)
        is_withdrawn = bool((np.isnan(new) & ~np.isnan(old)).any())
        if is_withdrawn and is_counted and serial_of_tag(pull.tag) >= 0:
            self._withdraw(pull, before, now, was_lost=was_lost)
        else:
            self._correct_early(pull, before, now, constants, is_counted=is_counted)
        if was_lost:
            self._count_never_known(pull, new, old, has_ended=True)

    def _withdraw(self, pull: Pull, before: Floats, now: Floats, *, was_lost: bool) -> None:
        """Take back values that the block of a pull without an outcome has counted.

        An open block waits for them again. In a paid one, they count as their worst until they
        come, as those of an open pull of a closed block do.
        """
        number, is_paid = pull.number, serial_of_tag(pull.tag) < self._first.item()
        if is_paid and self._problem.measure_ranges is None:
            raise NotSupported(
                "a value that bets have used cannot be withdrawn once they are paid, as nothing "
                "can stand for it if only the noise is known: correct it"
            )
        has_ended = was_lost and not (self._is_called_back(pull) and not is_paid)
        was_worst = number in self._overdue or number in self.failed_overdue
        is_final = has_ended or was_worst
        arrays = self.arrays_with(pull.tag)
        is_complete = self.kernels.is_counted(arrays, pull.action, pull.tag, now)
        is_replaced = has_ended and self._is_replaced(pull) and not is_complete
        becomes_worst = is_paid and not is_complete and (not has_ended or is_replaced)
        first = self.as_worst if was_worst else self._constants_of(number)
        if is_replaced and not (is_paid or was_worst):
            self._arrays_at_end(number, pull.action)  # notes whether the pull can be made again
        then = self.as_worst if was_worst or becomes_worst else self._constants_of(number)
        stays_final = is_final or becomes_worst
        nothing = np.full(now.size, math.nan)
        about = pull.action, pull.tag

        def change(arrays: Any) -> None:
            self.kernels.uncount((first, *arrays[1:]), *about, (before, is_final, number))
            more = nothing, now, stays_final, number
            self.kernels.complete((then, *arrays[1:]), *about, more)

        # The data are those of no block.
        self.kernels.correct(self.arrays, pull.action, -1, before, now, number)
        if not is_paid:
            with self._counting_replacements(*about):
                change(self.arrays)
        follows = not is_paid or self._change_paid(pull.tag, change)
        if becomes_worst and follows and not was_worst:
            if has_ended:
                self.failed_overdue.append(number)
            else:
                self._overdue[number] = about
        self._count_correction(pull, follows=follows)

    def _count_correction(self, pull: Pull, *, follows: bool) -> None:
        if pull.tag >= 0:
            self.corrected += follows
            self.amended += not follows

    def _correct_early(
        self, pull: Pull, before: Floats, now: Floats, constants: Floats, *, is_counted: bool
    ) -> None:
        """Replace values of a pull without an outcome in the data, and in bets that count it."""
        # Outside of blocks only the data are corrected.
        tag = pull.tag if is_counted else -1
        correction = pull.action, tag, before, now, pull.number
        self.kernels.correct((constants, *self.arrays[1:]), *correction)
        follows = not 0 <= serial_of_tag(tag) < self._first.item() or self._change_paid(
            tag, lambda arrays: self.kernels.correct((constants, *arrays[1:]), *correction)
        )
        self._count_correction(pull, follows=follows)

    def _is_replaced(self, pull: Pull) -> bool:
        """Return whether a pull is made again if it ends without the values that bets use."""
        return self._makes_again and pull.number not in self.unreplaced

    def _is_called_back(self, pull: Pull) -> bool:
        """Return whether a pull was cancelled after the stop."""
        return any(number == pull.number for number, _, _ in self.called_back)

    def _has_counted(self, pull: Pull, known: Floats, *, was_lost: bool) -> bool:
        """Return whether the block of a pull without an outcome has counted its known values."""
        if pull.number in self.uncounted:
            return False
        if was_lost and not self._is_called_back(pull) and not self._is_replaced(pull):
            # The pull counted as one whose other values are missing.
            return True
        arrays = self.arrays_with(pull.tag)
        return self.kernels.is_counted(arrays, pull.action, pull.tag, known)

    def run(self, environment: Any, batch: float, generator: np.random.Generator, most: int) -> int:
        """Run until the stop or `most` pulls; return their number."""
        units = self._units
        return int(
            blocks.run(
                self.arrays, batch, environment.source, units.low, units.unit, generator, most
            )
        )

    def _inward(self, values: Floats | None) -> Floats:
        if values is None:
            return np.full(len(self._problem.measures), math.nan)
        return self._units.inward(np.asarray(values, dtype=np.float64))

    def _gave_values(self, pull: Pull) -> bool:
        return self._reported(pull.number) is not None

    def _how_counts(self, number: int) -> str:
        if number not in self.failed_overdue:
            return ""
        return "as_worst" if np.isnan(self._inward(self._reported(number))).all() else "partly"

    def _counts_values_of(self, number: int, action: int, tag: int) -> bool:
        known = self._inward(self._reported(number))
        if np.isnan(known).all():
            return False
        return self._has_counted(Pull(number, action, {}, tag), known, was_lost=True)

    def _details_of_a_loss(self, number: int) -> tuple[Any, ...]:
        return self._inward(self._reported(number)), number

    def oldest_lacks(self, number: int, action: int, tag: int) -> bool:
        """Return whether the oldest open block waits for this outstanding pull.

        It does not if the reported values of the pull are all that the bets of the block use.
        """
        if not super().oldest_lacks(number, action, tag):
            return False
        known = self._inward(self._reported(number))
        return not self.kernels.is_counted(self.arrays, action, tag, known)

    # ------------------------------------------------------------------- statistics

    @property
    def pulls_with_values(self) -> Floats:
        """Pulls that gave a value, by cell, shape (K, L)."""
        return np.asarray(self.state.pulls)

    @property
    def told_in_full(self) -> Floats:
        """Number of values of the rarest measure that matters, by cell, shape (K, L)."""
        return np.asarray(blocks.told_in_full(self.arrays))

    @property
    def values(self) -> Floats:
        """Number of values of every measure of a cell, shape (K, L, M)."""
        return self._all_values[..., : self.outcomes]

    @property
    def _all_values(self) -> Floats:
        """Number of values of everything that bets use."""
        return np.diagonal(self.state.counts, axis1=2, axis2=3)

    @property
    def missing(self) -> Floats:
        """Number of values in settled blocks that will never be known, by cell, shape (K, L, M)."""
        missing = np.asarray(self.state.was_absent) - self._absent_so_far()
        return np.asarray(missing[:, : self.outcomes].reshape(self.values.shape))

    def _absent_so_far(self) -> Floats:
        """Return how many values count as their worst until they come, shape (cells, M)."""
        found = np.zeros(self.state.was_absent.shape)
        for cell, _, known in self._known_of_overdue():
            found[cell] += np.isnan(known)
        return found

    def _known_of_overdue(self) -> list[tuple[int, int, Floats]]:
        """Return cell, tag and values so far of every pull that counts as its worst."""
        nothing = self._inward(None)
        found = [(*pull, self._inward(self._reported(n))) for n, pull in self._overdue.items()]
        return found + [(cell, tag, nothing) for cell, tag in self.never_issued_in_settled]

    def _counted_as_worst(self) -> Floats:
        # A pull with some values counts as one that came.
        counts = np.zeros(self.state.blocks.lost.size)
        for cell, _, known in self._known_of_overdue():
            counts[cell] += np.isnan(known[: self.outcomes]).all()
        return counts

    @property
    def means(self) -> Floats:
        """Mean of every measure of a cell, in its own units, shape (K, L, M); NaN if no values."""
        return self._all_means[..., : self.outcomes]

    @property
    def _all_means(self) -> Floats:
        """Mean of everything that bets use."""
        with np.errstate(invalid="ignore", divide="ignore"):
            inward = self.state.sums / self._all_values
        return np.asarray(self._units.low + self._units.unit * inward)

    def settled_measures(self, *, losses_count: bool) -> Settled:
        """Return the values of every measure in settled blocks, shape (K, L, M).

        A value that is still to come counts as missing. Where nothing stands for it, because the
        noise is known, the values of its measure do not count. Nor do they if losses do not count,
        and it is no longer known which values are still to come.
        """
        state, shape = self.state, self._all_values.shape
        pulls = (state.blocks.came + state.blocks.lost * losses_count)[:, np.newaxis]
        counts = np.diagonal(state.settled_pairs, axis1=1, axis2=2).copy()
        sums = self._units.low * counts + self._units.unit * state.settled_values
        missing = np.maximum(pulls - counts, 0.0) * losses_count
        if not losses_count:
            missing = missing + self._absent_so_far() + self._still_to_come
        if self._problem.measure_ranges is None:
            came = state.blocks.came[:, np.newaxis]
            is_complete = came <= counts + state.was_absent
            counts, sums = counts * is_complete, sums * is_complete
        if not losses_count and not self._counts_what_is_to_come:
            counts, sums = counts * ~self._is_awaited, sums * ~self._is_awaited
        parts = (values.reshape(shape)[..., : self.outcomes] for values in (counts, sums, missing))
        return Settled(*parts)

    @property
    def _counts_what_is_to_come(self) -> bool:
        """Whether values that are still to come can count as their worst, and all are known."""
        return self._problem.measure_ranges is not None and len(self.paid) == self._first.item()

    @property
    def _still_to_come(self) -> Floats:
        """Number of values of received pulls of settled blocks that may still come, (cells, M).

        A block has the number by measure only. In each of its cells at most that many values are
        still to come, and at most those that are neither known nor absent.
        """
        if not (self.state.is_late[0] and self._counts_what_is_to_come and self.paid):
            return np.zeros(self.state.was_absent.shape)
        return np.asarray(self._to_come_in_blocks.sum(axis=0))

    @property
    def _to_come_in_blocks(self) -> Floats:
        """The same by block, shape (T, cells, M)."""
        shape = self.state.was_absent.shape
        pairs = self.in_paid_blocks("pairs").reshape(len(self.paid), *shape, shape[1])
        known = np.diagonal(pairs, axis1=2, axis2=3)
        came = self.in_paid_blocks("blocks.results")[..., np.newaxis]
        unknown = np.maximum(came - known - self._by_measure("absent"), 0.0)
        awaited = self.in_paid_blocks("awaited")[:, np.newaxis]
        return np.asarray(np.minimum(unknown, awaited))

    @property
    def _is_awaited(self) -> NDArray[np.bool_]:
        """Whether values of what bets use may still come in settled blocks."""
        measures = self._all_values.shape[2]
        if not self.state.is_late[0]:
            return np.zeros(measures, dtype=np.bool_)
        if len(self.paid) != self._first.item():
            return np.ones(measures, dtype=np.bool_)
        return np.asarray((self.in_paid_blocks("awaited") > 0.0).any(axis=0))

    @property
    def spreads(self) -> list[Floats]:
        """The records of how sums of measures spread; each is tested separately."""
        return [self.state.settled_noise[at :: len(self.tested)] for at in range(len(self.tested))]

    def limit_evidence(self) -> Floats:
        """Return the log evidence that each arm keeps each limit, shape (K, R)."""
        arms, limits = self._problem.shape[0], len(self._problem.limit_rows)
        ledgers = self.state.book.ledgers[arms + arms**2 :]
        return np.array(ledgers).reshape(arms, limits)

    def loses_unequally(self, groups: int = 1) -> bool:
        """Whether some arms lose far more pulls, or values of a measure, than others in a group."""
        counts = [self._came_and_lost(), *self._values_that_ended()]
        # Half of the probability of a false alarm is for `misses_unequally`.
        tests = 2 * (1 + self.outcomes)
        return any(
            losses_differ(known.reshape(-1, groups), gone.reshape(-1, groups), tests)
            for known, gone in counts
        )

    def misses_unequally(self) -> bool:
        """Whether some arms miss far more values of a measure than others, in all results so far.

        No pull may be open: values that take long would look like missing ones.
        """
        tests = 2 * (1 + self.outcomes)
        known = self.values
        gone = np.maximum(self.pulls_with_values[..., np.newaxis] - known, 0.0)
        return any(losses_differ(known[..., m], gone[..., m], tests) for m in range(self.outcomes))

    def _values_that_ended(self) -> list[tuple[Floats, Floats]]:
        """Return for each measure how many values came, and how many never will, by cell.

        Values that take long must not look like lost ones. So each measure is counted in the first
        settled blocks in which it is not awaited any more.
        """
        if not (self.state.is_late[0] or self._any_as_worst):
            pulls = self.state.blocks.came + self.state.blocks.lost
            return [(pulls - gone, gone) for gone in self.state.was_absent.T[: self.outcomes]]
        if not self._first.item() == len(self.paid) > 0:
            return []
        never = self._never_issued_in_blocks()
        pulls = self._pulls_in_paid_blocks - never
        absent = self._by_measure("absent") - never[..., np.newaxis]
        awaited = self.in_paid_blocks("awaited") > 0.0
        found = []
        for m in range(self.outcomes):
            gone = absent[: min(_first_true(awaited[:, m]), self._ended_blocks), :, m]
            found.append((pulls[: len(gone)].sum(axis=0) - gone.sum(axis=0), gone.sum(axis=0)))
        return found

    @property
    def _pulls_in_paid_blocks(self) -> Floats:
        """Pulls with or without values, shape (T, cells)."""
        return self.in_paid_blocks("blocks.results") + self.in_paid_blocks("blocks.losses")

    def _by_measure(self, path: str) -> Floats:
        """Return an array in all paid blocks by cell and measure, shape (T, cells, M)."""
        return self.in_paid_blocks(path).reshape(len(self.paid), *self.state.was_absent.shape)

    # ------------------------------------------------------------ results of the objective

    def paid_results(self, *, losses_count: bool) -> BlockResults | None:
        """Return the objective's results in paid blocks.

        A pull without a value that the objective needs counts as lost while the value is awaited.
        If losses do not count, it no longer does when the value will never come. With known noise
        there is no worst value, so only the blocks before the first awaited value are returned.
        """
        if not self.paid or len(self.paid) != self._first.item():
            return None
        complete = self.in_paid_blocks("complete")
        used = self._question.objective != 0.0
        awaited = self.in_paid_blocks("awaited")[:, used].sum(axis=1)
        losses = self._pulls_in_paid_blocks - complete
        if not losses_count:
            losses = np.minimum(losses, awaited[:, np.newaxis])
            for cell, tag, values in self._known_of_overdue():
                losses[serial_of_tag(tag), cell] += np.isnan(values[used]).any()
        found = BlockResults(
            complete,
            losses,
            self.in_paid_blocks("blocks.sums") * self.unit,
            self.in_paid_blocks("blocks.squares") * self.unit * self.unit,
            np.full_like(complete, self.centre),
            self._earlier(self._known_of_objective),
        )
        if losses_count or self._counts_what_is_to_come:
            return found
        known = np.arange(len(complete)) < _first_true(awaited > 0.0)
        return found.only(known, np.ones(complete.shape[1], dtype=bool)) if known.any() else None

    def shown_values(self, values: Floats) -> Floats:
        """Return the objective of a pull and all its values; NaN where one is unknown."""
        weights = np.asarray(self._problem.objective_weights)[: self.outcomes]
        used = weights != 0.0
        known = np.asarray(values, dtype=np.float64)
        return np.concatenate([[known[used] @ weights[used]], known])

    def _is_objective(self, measure: int) -> bool:
        """Return whether the objective is this measure alone."""
        weights = np.zeros(self._question.objective.size)
        weights[measure] = 1.0
        return bool((self._question.objective == weights).all())

    def paid_values(self, measure: int, *, losses_count: bool) -> BlockResults | None:
        """Return the values of a measure in paid blocks; unknown ones are lost.

        If losses do not count, only those are lost that are still to come.
        """
        if not self.paid or len(self.paid) != self._first.item():
            return None
        if self._is_objective(measure):
            return self.paid_results(losses_count=losses_count)
        pairs = self.in_paid_blocks("pairs").reshape(len(self.paid), *self.state.pairs.shape[1:])
        counts = pairs[:, :, measure, measure]
        losses = np.maximum(self._pulls_in_paid_blocks - counts, 0.0)
        if not losses_count:
            losses = self._to_come_in_blocks[..., measure].copy()
            for cell, tag, values in self._known_of_overdue():
                losses[serial_of_tag(tag), cell] += np.isnan(values[measure])
        unit, shape = self._units.unit[measure], (*self.state.was_absent.shape, 3)
        known = self.in_paid_blocks("known").reshape(len(self.paid), *shape)[:, :, measure]
        return BlockResults(
            counts,
            losses,
            unit * self._by_measure("values")[..., measure],
            unit * (unit * self._by_measure("squares")[..., measure]),
            np.full_like(counts, self._units.low[measure]),
            np.moveaxis(known * [1.0, unit, unit * unit], 2, 0),
        )

    @property
    def _known_of_objective(self) -> Floats:
        """What was known of the objective when paid blocks were opened, shape (T, cells, 3)."""
        complete = self.in_paid_blocks("known_complete")
        known = self.in_paid_blocks("blocks.known").reshape(*complete.shape, 3)
        known[:, :, 0] = complete
        return known

    @property
    def objective_data(self) -> tuple[Floats, Floats]:
        """Counts and sums of the objective by cell, in its own units, shape (K, L)."""
        objective = np.asarray(self._problem.objective_weights)[: self.outcomes]
        used = objective != 0.0
        counts = self.values[..., used].min(axis=2)
        means = self.means[..., used] @ objective[used]
        return counts, np.where(counts > 0.0, means * counts, 0.0)

    def as_it_stands(self, promise: Guarantee, *, left_out: int) -> Guarantee:
        """Return a guarantee with its assumptions on losses, missing values and corrections.

        `left_out`: number of missing values that bets, means or effects leave out.
        """
        stated = super().as_it_stands(promise, left_out=0)
        return stated.weakened_by(
            left_out, "value", "got lost, for reasons assumed to be unrelated to any value"
        )

    @property
    def objective_spread(self) -> Spread:
        """What is known about the spread of the objective's results."""
        objective = self._question.objective
        scale, ranges = self._problem.scale_of(objective).ravel(), self._problem.measure_ranges
        if ranges is None:
            return Spread(scale)
        ends = objective[:, np.newaxis] * ranges
        return Spread(scale, (float(ends.min(axis=1).sum()), float(ends.max(axis=1).sum())))
