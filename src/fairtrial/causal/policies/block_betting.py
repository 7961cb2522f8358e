"""The policy of block betting on interventions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._functionals import KNOWLEDGE, Functionals, knowledge_of
from fairtrial.causal._kernels import betting
from fairtrial.causal._kernels.betting_state import CONSTANTS, Constants, Model, Rules
from fairtrial.causal._mixtures import limits_costs, mixtures_of
from fairtrial.causal._row_source import RowSource
from fairtrial.causal.contradictions import Contradiction
from fairtrial.causal.environments import RowEnvironment
from fairtrial.causal.errors import NoInformation
from fairtrial.causal.policies.allocations import allocation_of
from fairtrial.causal.policies.cell_check import CellTest, cells_contradict
from fairtrial.causal.policies.consistency import require_consistent
from fairtrial.causal.policies.promises import promise
from fairtrial.causal.policies.reports import gap_limits
from fairtrial.causal.policies.table_check import TableTest
from fairtrial.causal.problem import Problem
from fairtrial.confidence.block_betting import (
    BlockKernels,
    BlockPolicy,
    LiveBlocks,
    Randomize,
    check_randomize,
)
from fairtrial.confidence.block_betting.bets import GRID
from fairtrial.confidence.block_betting.book import book_dimensions
from fairtrial.confidence.block_betting.cuts import Cuts, actions_of
from fairtrial.core.fixed_confidence import Answers
from fairtrial.core.progress_parts import Parts
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee
from fairtrial.core.validation import check_choice, check_instance, check_optional_integer
from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Row = tuple[int, float]

_LOSSES_IGNORABLE = "whether a row gets lost has nothing to do with its cell and its outcome"

_ASSIGNED_BLINDLY = "which action a unit got has nothing to do with its own cell"

_DRAWN_AS_RECORDED = (
    "units are in the order in which they were assigned; the action of each was drawn with the "
    "recorded probabilities, which depend on the units before it alone"
)

_FOLLOWED = (
    "units are in the order in which they were assigned, and the action of each depends on the "
    "units before it alone"
)

_UNLIKELY_CELLS = (
    "rows fall into some cells more or less often than the tables of the model allow: find out "
    "whether the tables are right, whether arms are set as stated, and who takes part"
)

_TOO_MANY_LOST = (
    "too many rows are lost: each counts as the worst that it could have been, and by the "
    "estimates so far, more rows will not decide at this rate"
)

_MOST_AT_ONCE = 4096
"""Number of rows that a simulation draws at once."""

_MOST_NUMBERS = 8_000_000
"""Largest number of values in the bets of one block: 64 MB."""


class _Blocks(LiveBlocks):
    kernels: ClassVar[BlockKernels] = betting
    verdict = ("answer",)


class _Packed(NamedTuple):
    """A problem and its rules in the form that the kernels use."""

    constants: Floats
    as_worst: Floats
    """The constants with which lost rows count as the worst."""
    dimensions: dict[str, int]
    unseen: list[str]
    """Arms for which affordable rows do not cover all relevant cells."""


class _FairArms(Answers):
    """The best fair arm, of arms that are alike the first; or "no fair arm", after them."""

    def __init__(self, labels: Sequence[str], twins: Sequence[Sequence[int]]) -> None:
        self._labels = [*(labels[group[0]] for group in twins), None]

    def label(self, answer: int) -> str | None:
        return self._labels[answer]

    @property
    def no_arm(self) -> str:
        return "no arm seems fair"

    def finding(self, label: Any) -> str:
        if label is None:
            return "no arm is fair"
        return f"{label!r} has the best mean of the fair arms"


class BlockBetting(BlockPolicy):
    """Block betting, the default: find the best fair intervention with a proof at any time.

    For every possible answer, an arm or "no fair arm", there is a wealth against it, which cannot
    grow on average if the answer is right. An answer is rejected permanently when the wealth
    against it reaches 1/delta; the last remaining answer is given. Rows are planned in blocks, each
    from all rows before it. Every row of a block informs about the mean and the gaps of every arm,
    weighted by how likely each arm was to produce it. Bets are paid once per block.

    Parameters
    ----------
    problem : Problem
        The problem, with discrete nodes, tables and an `outcome_range`.
    delta : float
        Accepted probability of a wrong answer.
    knowledge : {"auto", "cells", "covariates", "ratios"}
        Which part of the model has to be right, in addition to the distributions that the arms and
        the sensitive attribute change and the frequencies of the attribute's values. ``"cells"``:
        the distribution of all other relevant nodes. ``"covariates"``: only that neither the arm
        nor the attribute influences these nodes. ``"ratios"``: nothing else. More knowledge needs
        fewer rows. By default, the most that the model contains.
    batch : int, optional
        Number of rows in a block; by default 4 % of the rows so far, and at least 10.
    max_pulls : int, optional
        Stop undecided after this many rows.
    losses : {"informative", "ignorable"}
        Whether the loss of a row may depend on its cell or outcome (default). If not, a lost row is
        drawn again, and the guarantee names this assumption.
    assigned : array-like of int, optional
        The actions of a finished experiment: the action of every unit, in the order of assignment.
        Blocks are cut from this sequence instead of being planned, and rows are told in this order.
    allocation : {"fixed", "any"} or array-like of shape (units, actions)
        How these actions were chosen. ``"fixed"`` (default): independently of outcomes of the same
        block. An array: each was drawn at random with these probabilities, which may depend on all
        rows before it. ``"any"``: each is an arbitrary function of the rows before it; a row then
        only informs through its own action, so more rows are needed.
    randomize : bool or "bernoulli"
        Whether the pulls of a block come in random order (default), each drawn from the remaining
        ones. With ``"bernoulli"``, each pull's action is drawn independently, with the planned
        shares, when its block is planned. With False, the most frequent actions come first, and the
        next pull can be predicted from the rows.
    seed : None, int or numpy.random.Generator
        Source of the random order.

    Raises
    ------
    InvalidArgument
        If the problem has no `outcome_range`, or another argument is not acceptable.
    ModelError
        If cells cannot be listed, the model does not contain the requested `knowledge`, or a
        sensitive attribute is a parent of the outcome and either has parents itself or the model
        has the outcome's table.

    Notes
    -----
    Source: docs/explanation/fair-interventions.md, with the proof. By default, a lost row counts
    for every bet as the worst possible row, so the guarantee holds whatever the reason for the
    loss. If many rows are lost, it can happen that nothing is decided; `warnings` says so. A row
    that arrives after its pull failed counts if its block is still open. Corrections apply to all
    bets: those that were already paid are paid again.

    If tables were estimated from data, no guarantee is claimed: the errors of the tables make the
    weights of rows wrong, which alone makes evidence grow.

    Arms whose means and gaps are equal for all outcomes are treated as one arm. The first of them
    is given, and ``progress().details["equal_arms"]`` names the others.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> policy = BlockBetting(problem, delta=0.05, seed=0)
    >>> generator = np.random.default_rng(0)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, environment.sample(pull, generator))
    >>> policy.recommend().arm, policy.guarantee.label
    ('b', 'proven')
    """

    problem: Problem
    environments = RowEnvironment
    results_are_independent = False
    version = 11
    state_fields = (
        *BlockPolicy.state_fields,
        *(f"_cells.{name}" for name in CellTest.fields),
        *(f"_tables.{name}" for name in TableTest.fields),
    )
    contradictions: tuple[Contradiction, ...] = ()
    """Statements of the model that the rows of an analysed log contradict."""

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        knowledge: str = "auto",
        batch: int | None = None,
        max_pulls: int | None = None,
        losses: str = "informative",
        assigned: ArrayLike | None = None,
        allocation: str | ArrayLike = "fixed",
        randomize: Randomize = True,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(check_instance("problem", problem, Problem), delta, max_pulls, seed)
        if problem.outcome_range is None:
            accepted = "must have an outcome_range: without one, no stop is proven"
            raise InvalidArgument("problem", accepted, problem.outcome_range)
        self.knowledge = check_choice("knowledge", knowledge, ["auto", *KNOWLEDGE])
        self.batch = check_optional_integer("batch", batch, low=1)
        self.losses = check_choice("losses", losses, ["informative", "ignorable"])
        self.randomize = check_randomize(randomize, self.losses)
        # Nobody can repeat a pull of a finished experiment.
        self._makes_again = self.losses == "ignorable" and assigned is None
        self.allocation = allocation
        self._allocation = allocation_of(problem, assigned, allocation)
        self._functionals = _functionals_of(problem, self.knowledge)
        self._answers = _FairArms(problem.arm_labels, self._functionals.twins)
        packed = self._packed_once()
        if packed.unseen:
            warn_caller(NoInformation(packed.unseen))
        self._blocks = _Blocks(packed.constants, self.randomize, self._key, **packed.dimensions)
        self._blocks.as_worst = packed.as_worst
        self._cells = CellTest(self._functionals.actions)
        all_known = self._functionals.knowledge == "cells"
        self._tables = TableTest(problem, all_known=all_known)
        self._follow(assigned)

    def _cut(self, assigned: ArrayLike) -> Cuts:
        """Return the blocks of a finished experiment; nothing is bet on its first units."""
        problem, rules = self.problem, self._rules
        actions = actions_of(assigned, problem)
        begin = min(rules.initial_pulls, len(actions))
        return Cuts(actions, problem.n_actions, begin, rules.growth, int(rules.least))

    def _packed_once(self) -> _Packed:
        """Return the constant parts, shared by equal policies such as the runs of a simulation."""
        key = _Packed, self._functionals.knowledge, self.delta, self._makes_again
        if len(self._allocation):
            return self._packed()
        if key not in self.problem.cache:
            self.problem.cache[key] = self._packed()
        packed: _Packed = self.problem.cache[key]
        return packed

    def _packed(self) -> _Packed:
        model = self._model
        self._check_size(model)
        rules = self._rules
        constants = as_worst = CONSTANTS.pack(Constants(model, rules))[0]
        if rules.pulls_again:
            as_worst = CONSTANTS.pack(Constants(model, rules._replace(pulls_again=False)))[0]
        return _Packed(
            constants=constants,
            as_worst=as_worst,
            dimensions=self._dimensions(model),
            unseen=_arms_without_overlap(self.problem, self._functionals, model),
        )

    @property
    def _model(self) -> Model:
        known = self._functionals
        return Model(
            actions=known.actions,
            means=known.means,
            gaps=known.gaps,
            breakable=known.breakable.astype(np.float64),
            mixtures=mixtures_of(self.problem),
            class_of=known.classes.astype(np.float64),
            stratum_of=known.strata.astype(np.float64),
            group_of=known.group_of_stratum.astype(np.float64),
            group_shares=known.group_shares,
            basis=known.basis,
            totals=known.totals,
            allocation=self._allocation,
        )

    @property
    def _rules(self) -> Rules:
        return Rules(
            knowledge=KNOWLEDGE.index(self._functionals.knowledge),
            bound=self.problem.bound,
            threshold=self._threshold,
            separately=self._separately,
            initial_pulls=20,
            growth=0.04,
            least=10.0,
            kappa=1.0,
            cost=1.5,
            steps=100,
            mean_prior=0.5,
            variance_prior=2.0,
            pause=0.5,
            cap=0.6,
            carries=limits_costs(self.problem),
            pulls_again=self._makes_again,
            modes=len(self.problem.modes),
        )

    @property
    def _threshold(self) -> float:
        return -math.log(self.delta)

    def _dimensions(self, model: Model) -> dict[str, int]:
        """Return the dimensions of the state, except the number of open blocks."""
        arms, limits, cells = model.gaps.shape
        return book_dimensions(arms, limits) | {
            "arms": arms,
            "cells": cells,
            "actions": len(model.actions),
            "mixtures": len(model.mixtures),
            "bets": arms + limits,
            "points": GRID,
            "recorded": cells if len(self._allocation) else 0,
        }

    def _check_size(self, model: Model) -> None:
        arms, limits, cells = model.gaps.shape
        if 2 * (arms + limits) * cells > _MOST_NUMBERS:
            accepted = (
                f"must have at most {_MOST_NUMBERS // 2:,} combinations of cells with arms and "
                "limits for BlockBetting"
            )
            raise InvalidArgument("problem", accepted, (arms + limits) * cells)

    # ------------------------------------------------------------------- contract

    def learn(self, pull: Pull, outcome: Any) -> None:
        """Learn one row; if it was lost before, it counts for bets if its block is known."""
        row = self._told(pull, outcome)
        self._blocks.learn(pull, row, was_lost=pull.number in self._lost)
        if self._tests_cells(pull):
            self._cells.add(pull.action, row[0])
            self._cells.look(*self._missing(arrived=pull.number))
        if self._tests_tables(pull):
            self._tables.add(pull.action, outcome)
            is_last = self._finished or self.told + 1 == self.max_pulls
            if is_last or self._tables.is_due(self.told):
                self._tables.look(*self._missing(arrived=pull.number))

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        """Correct the data and all bets on the row."""
        before, after = self._told(pull, old), self._told(pull, new)
        self._blocks.amend(pull, before, after)
        if self._tests_cells(pull):
            self._cells.move(pull.number, before[0], after[0])
            self._cells.look(*self._missing())
        if self._tests_tables(pull):
            self._tables.move(pull.number, pull.action, old, new)
            self._tables.look(*self._missing())

    def _tests_cells(self, pull: Pull) -> bool:
        """Whether a row is one of those whose cells are tested."""
        return self._functionals.knowledge == "cells" and self._tests_tables(pull)

    def _tests_tables(self, pull: Pull) -> bool:
        """Whether a row is one of those that test the tables."""
        asked_for = self._cuts is None and pull.number != UNSOLICITED
        return asked_for and not self.problem.model.fitted

    def _missing(self, arrived: int | None = None) -> tuple[int, int, Iterator[int]]:
        """Return what is asked for, and what is missing: how many pulls, and which.

        A pull that has just arrived is still in flight.
        """
        missing = len(self._outstanding) + len(self._lost) - (arrived is not None)
        absent = (each for each in chain(self._outstanding, self._lost) if each != arrived)
        return self.asked, missing, absent

    def _told(self, pull: Pull, outcome: Any) -> Row:
        """Return the place of a row's cell, and its scaled outcome."""
        model = cell_model_of(self.problem)
        value, cell, scaled = model.encode(outcome)
        require_consistent(self.problem, pull, value, cell)
        place_of = self._functionals.place_of
        place = int(place_of[value if len(place_of) > 1 else 0, cell])
        if place < 0:
            raise InvalidOutcome(
                "outcome", "is in a cell that has probability zero in the model", outcome
            )
        return place, scaled

    def _can_run(self, environment: Any, horizon: int | None, parallel: int) -> bool:
        return environment.answers_in_batches and super()._can_run(environment, horizon, parallel)

    def _simulate(
        self, environment: RowEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        source = environment.row_source
        if source is None:
            self._simulate_in_batches(environment, generator, horizon)
        else:
            self._simulate_compiled(source, generator, horizon)
        self.asked = self.told
        if self._functionals.knowledge == "cells":
            self._cells.counts, self._cells.rows = (
                self._counts.copy(),
                self._blocks.state.rows.copy(),
            )
            self._cells.look(self.asked, 0, ())
        return self._counts

    def _simulate_compiled(
        self, source: RowSource, generator: np.random.Generator, horizon: int
    ) -> None:
        problem, model = self.problem, cell_model_of(self.problem)
        self.told, impossible = betting.run(
            self._blocks.arrays,
            float(self.batch or 0),
            source,
            model.is_possible,
            self._functionals.place_of,
            generator,
            horizon,
        )
        if impossible >= 0:
            arm = problem.labels(impossible)["arm"]
            raise InvalidOutcome(
                f"row {self.told}",
                f"has probability zero under its own arm {arm!r}: model and environment disagree",
            )

    def _simulate_in_batches(
        self, environment: RowEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        model, arrays = cell_model_of(self.problem), self._blocks.arrays
        actions = np.empty(_MOST_AT_ONCE, dtype=np.int64)
        tags = np.empty_like(actions)
        while self.told < horizon and not self._finished:
            most = min(_MOST_AT_ONCE, horizon - self.told)
            number = betting.ask_rows(arrays, float(self.batch or 0), actions[:most], tags[:most])
            rows = environment.batch(actions[:number], generator)
            model.require_possible(rows)
            place_of = self._functionals.place_of
            places = place_of[rows.value if len(place_of) > 1 else 0, rows.cells]
            if (places < 0).any():
                raise InvalidOutcome(
                    "outcome", "is in a cell that has probability zero in the model"
                )
            betting.take_rows(arrays, actions[:number], tags[:number], places, rows.outcome)
            self.told += number

    # --------------------------------------------------------------------- report

    @property
    def _counts(self) -> Floats:
        """Number of received rows, by action."""
        counts: Floats = self._blocks.state.counts
        return counts

    @property
    def _intervals(self) -> str:
        return "none"

    def _known(self) -> tuple[Floats, Floats] | None:
        """Return the estimates of every arm's mean and gaps, in the outcome's units."""
        if not self._counts.any():
            return None
        means, limits = betting.estimates_now(self._blocks.arrays)
        gaps = limits[:, : len(self.problem.pairs)]
        scaled = self.problem.unscaled_mean(means), self.problem.unscaled_gap(gaps)
        return scaled[0][self._unit_of_arm], scaled[1][self._unit_of_arm]

    @property
    def _unit_of_arm(self) -> Integers:
        """Index of every arm among the distinct arms, shape (K,)."""
        place = np.empty(self.problem.n_arms, dtype=np.int64)
        for unit, twins in enumerate(self._functionals.twins):
            place[list(twins)] = unit
        return place

    @property
    def _limits_evidence(self) -> Floats:
        """The log wealth against "the gap is outside its bound", shape (K, pairs)."""
        problem, breakable = self.problem, self._functionals.breakable
        arms, limits = breakable.shape
        ledgers = self._blocks.state.book.ledgers[arms * (arms + 1) :].reshape(arms, limits)
        known = np.where(breakable, ledgers, math.inf)
        pairs = problem.pairs
        # Each bound has two sides; for roots, the other side is that of the opposite gap.
        other = [
            pairs.index((b, a)) if problem.is_root else len(pairs) + place
            for place, (a, b) in enumerate(pairs)
        ]
        both = np.minimum(known[:, : len(pairs)], known[:, other])
        return np.asarray(both[self._unit_of_arm])

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        problem, counts, known = self.problem, self._counts, self._known()
        totals = self._blocks.state.totals
        actions = tuple(
            Estimate(
                labels=labels,
                pulls=int(counts[a]),
                mean=float(problem.unscaled_mean(totals[a] / counts[a])) if counts[a] else None,
            )
            for a, labels in enumerate(problem.action_labels)
        )
        rows = counts.reshape(problem.n_arms, -1).sum(axis=1)
        arms = tuple(
            Estimate({"arm": arm}, int(rows[k]), mean=None if known is None else float(known[0][k]))
            for k, arm in enumerate(problem.arm_labels)
        )
        return actions, arms

    def _details(self) -> Mapping[str, Any]:
        problem, known, twins = self.problem, self._known(), self._functionals.twins
        gaps = {}
        if known is not None:
            gaps = {
                f"{a} | {b}": known[1][:, place].tolist()
                for place, (a, b) in enumerate(problem.pairs)
            }
        labels = problem.arm_labels
        return {
            **super()._details(),
            "knowledge": self._functionals.knowledge,
            "gaps": gaps,
            "equal_arms": [[labels[k] for k in group] for group in twins if len(group) > 1],
            **self.metrics(),
        }

    def _parts(self) -> Parts:
        known = self._known()
        parts: Parts = {"answers": self._answers_with_wealth()}
        if known is not None:
            evidence = self._limits_evidence
            if self.guarantee.doubts:
                # What the model makes certain is not, once rows contradict it.
                evidence = np.where(np.isinf(evidence), 0.0, evidence)
            parts["value_limits"] = gap_limits(self.problem, known[1], evidence)
        return parts

    def metrics(self) -> dict[str, float]:
        """Return the cost of a run's rows."""
        came = self._counts > 0.0
        return {"cost": float(self._counts[came] @ self.problem.row_costs.ravel()[came])}

    @property
    def _loses_too_many(self) -> bool:
        """Whether lost rows, not only open ones, hide what an answer needs."""
        return bool(self._blocks.known_losses.any()) and self._is_out_of_reach

    @property
    def _contradicts_cells(self) -> bool:
        """Whether rows contradict the law of the cells, if it is used."""
        known, state = self._functionals, self._blocks.state
        if known.knowledge != "cells" or self.problem.model.fitted:
            return False
        if self._cuts is None:
            return self._cells.contradicted
        missing = len(self._cuts.actions) - int(state.rows.sum())
        return cells_contradict(state.counts, state.rows, known.actions, missing)

    @property
    def _loses_unequally(self) -> bool:
        return self._blocks.loses_unequally(len(self.problem.modes))

    def _contradicted(self) -> tuple[str, ...]:
        found = [_UNLIKELY_CELLS] if self._contradicts_cells else []
        return (*found, *map(_unlikely_table, self._tables.contradicted()))

    def warnings(self) -> tuple[str, ...]:
        """Return what the rows contradict, what holds evidence back, and losses."""
        found = super().warnings()
        return (*found, _TOO_MANY_LOST) if self._loses_too_many else found

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and its basis after losses and corrections."""
        stated = promise(self.problem, self.delta, self._functionals.knowledge)
        if self._cuts is None or not len(self._allocation):
            stated = self._with_order(stated)
        else:
            stated = stated.assuming(
                _FOLLOWED if isinstance(self.allocation, str) else _DRAWN_AS_RECORDED
            )
        if self._cuts is not None:
            stated = stated.assuming(_ASSIGNED_BLINDLY)
        if self._contradicts_cells:
            stated = stated.weakened("rows do not fall into the cells as the tables say")
        for about in self._tables.contradicted():
            stated = stated.weakened(f"{about} is not distributed as in the model")
        for found in self.contradictions:
            stated = stated.weakened(f"the rows contradict the model: {found}")
        stated = self._with_losses(stated, _LOSSES_IGNORABLE, "row")
        return self._blocks.as_it_stands(stated, left_out=0)


def _unlikely_table(about: str) -> str:
    return (
        f"the results contradict the model: {about} is not distributed as its table says: find out "
        "whether the table is right, whether arms are set as stated, and who takes part"
    )


def _functionals_of(problem: Problem, wanted: str) -> Functionals:
    """Return the functionals for a knowledge; they are made at the first call."""
    known = knowledge_of(problem, wanted)
    key = Functionals, known
    if key not in problem.cache:
        problem.cache[key] = Functionals(problem, known)
    found: Functionals = problem.cache[key]
    return found


def _arms_without_overlap(problem: Problem, known: Functionals, model: Model) -> list[str]:
    """Return arms whose mean or gap depends on cells that no affordable row can fall into."""
    unseen = (model.mixtures @ model.actions).sum(axis=0) == 0.0
    lost = (known.means[:, unseen] != 0.0).any(axis=1)
    lost |= (known.gaps[:, :, unseen] != 0.0).any(axis=(1, 2))
    return [problem.arm_labels[known.twins[k][0]] for k in np.flatnonzero(lost)]
