"""Run a race: the function `race`, its checks, and how its scores are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial import client
from fairtrial.client.address import is_service
from fairtrial.core.frames import library_of
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import (
    check_choice,
    check_integer,
    check_number,
    check_optional_integer,
    check_range,
)
from fairtrial.core.wording import listed
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.errors import FairtrialError, InvalidArgument, SourceError, StudyExists
from fairtrial.races.budget import Budget
from fairtrial.races.contents import Contents
from fairtrial.races.extending import earlier_race, recorded_rule
from fairtrial.races.progress import Reporter
from fairtrial.races.questions import categories_of, costs_of, items_of, named_candidates
from fairtrial.races.result import RaceResult
from fairtrial.races.scoring import LIMIT_REACHED, Evaluation, OnError, table_of
from fairtrial.races.served import LEASE, carry_out, opened
from fairtrial.study import Study
from fairtrial.study.driver import Driver
from fairtrial.study.reporting import Report

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy
    from fairtrial.core.seeds import Seed
    from fairtrial.study.location import Storage

__all__ = ["race"]

_ABOUT = ["these items", "items like these"]
_ON_ERROR = ["ask", "worst", "leave"]
_FOR_FUNCTIONS = {"parallel": 1, "executor": None, "attempts": 3, "on_error": "ask"}
"""The arguments that a table of scores has no use for, and their defaults."""


@named_arguments
def race(
    candidates: Any,
    items: Any,
    score: Any,
    *,
    delta: float = 0.05,
    reward_range: tuple[float, float] | None = None,
    tolerance: float = 0.0,
    direction: str = "maximize",
    about: Literal["these items", "items like these"] = "these items",
    control: str | None = None,
    margin: float | None = None,
    category: str | Sequence[Any] | None = None,
    judge: Any = None,
    cost: float | Mapping[str, float] | None = None,
    parallel: int = 1,
    executor: Executor | Callable[[], Executor] | None = None,
    storage: Storage = "memory://",
    name: str = "race",
    extends: str | None = None,
    progress: bool = False,
    attempts: int = 3,
    on_error: OnError = "ask",
    max_cost: float | None = None,
    max_evaluations: int | None = None,
    seed: Seed = None,
) -> RaceResult:
    """Find the best candidate on a list of items, with as few evaluations as its proof allows.

    All candidates still in the race are evaluated on the same items, which come in random order.
    A candidate leaves the race when there is enough evidence that another one is better.

    Every score is in the study's log before it counts. After Ctrl-C, an error or a crash, the same
    call continues, and evaluates nothing again that is in the log.

    Parameters
    ----------
    candidates : sequence of str, or mapping
        Labels, or objects by label: models, prompts, programs. The score function gets the object.
        A study is not continued if a text, number, mapping or data class among them has changed.
    items : sequence or data frame
        Questions, instances, splits. The score function gets a row of a data frame as a mapping.
    score : callable or table
        ``score(candidate, item)`` returns a number. It can be a coroutine function. Or a table of
        known scores: a data frame or mapping with a column for each candidate, or an array with
        a row for each item.
    delta : float
        Accepted probability of a wrong answer.
    reward_range : (float, float), optional
        The range of all scores. With it the answer is proven; otherwise it is calibrated: its
        error rate was measured.
    tolerance : float
        How much worse than the best the answer may be, in units of the score. Set one if you can:
        candidates that are nearly equal must otherwise be evaluated on all items.
    direction : {"maximize", "minimize"}
        Whether large or small scores are good.
    about : {"these items", "items like these"}
        Who is best on exactly these items, or on the population from which they were drawn
        independently. The latter needs more evaluations, and may end undecided.
    control, margin : str and float, optional
        Today's candidate, and how much worse than it the answer may be in each category of items.
        Candidates that are worse by more are no answer; the control always is one.
    category : str or sequence, optional
        The category of each item, or the column of the items that holds it. By default all items
        are one category.
    judge : table, optional
        Scores that a cheap judge gave to all candidates on all items before the race, in
        `reward_range`: a data frame or mapping with a column for each candidate, or an array. What
        they predict is subtracted, so fewer evaluations are needed if they are similar to scores.
        The guarantee is the same if they are not. Only about these items.
    cost : float or mapping, optional
        Cost of one evaluation, for all candidates or by label.
    parallel : int
        Largest number of evaluations at a time.
    executor : concurrent.futures.Executor or callable, optional
        Where functions are called; by default in threads. Processes and Dask are possible: they get
        the function, a candidate and an item. Not for coroutine functions.
    storage, name : str
        Where the study is stored, and its name there. The default storage ends with the process.
        The storage can be the address of a service, with a token of the scopes read, run and admin
        in the environment variable ``FAIRTRIAL_TOKEN``: all machines that make the same call share
        the evaluations. `RaceResult.study` is then a copy of the study in memory.
    extends : str, optional
        The name of an earlier race in this storage, about these items, all of whose candidates are
        candidates again. Its scores are not paid again, and its evidence counts half. The new
        candidates may be chosen with knowledge of its scores.
    progress : bool
        Whether to show who leads, who leaves, and what it costs: in a notebook below its cell,
        otherwise on standard error.
    attempts : int
        Number of attempts at an evaluation that raises. Pauses between them grow from one second.
        A score that is no number or not in the range is refused, and not asked for again.
    on_error : {"ask", "worst", "leave"}
        What happens after the last attempt: ``"ask"`` stops the call, and the same call continues;
        ``"worst"`` counts the worst score of the range, which keeps the proof; with ``"leave"`` the
        candidate leaves the race, and the answer is the best of the others. That is not proven if
        the candidate had counted against others before, or if no other is left to compare.
    max_cost, max_evaluations : float or int, optional
        Limits, including earlier and simultaneous calls with the same study. Evaluations that
        failed or were cancelled count, too; repeated attempts count in the call that makes them.
        The race then ends undecided; the same call with higher limits continues. With a service
        they hold for all calls with the same limits, and not for its other workers.
    seed : None, int or numpy.random.Generator
        Seed of the study; by default a random one. The order of the items comes from a secret of
        the study.

    Returns
    -------
    RaceResult
        The answer, its guarantee, and what it cost.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
        Also if `extends` names a race with other items, candidates, scores or limits.
    StudyExists
        If the storage has a study of that name about another question, or candidates changed.
    SourceError
        If evaluations fail, with ``on_error="ask"``, if a score is no number in the range, or if
        the executor cannot call the function.

    Examples
    --------
    >>> scores = {"small": [0.2, 0.4, 0.3] * 50, "large": [0.7, 0.8, 0.9] * 50}
    >>> result = race(["small", "large"], range(150), scores, reward_range=(0, 1), seed=1)
    >>> result.best, result.evaluations < 40
    ('large', True)
    """
    named = named_candidates(candidates)
    rows = items_of(items)
    contents = Contents.of(named, rows)
    problem = _problem(list(named), reward_range, tolerance, direction, control)
    policy = _policy(problem, delta, about, margin, category, rows, contents)
    if judge is not None:
        policy = _judged(policy, judge, len(rows))
    begun = recorded_rule(storage, name) if margin is not None or extends is not None else None
    if begun is not None and begun.margin is not None and margin is not None:
        # A race goes on by the rule with which it began.
        policy = policy.clone(skips=begun.skips)
    known = None
    if extends is not None:
        policy, known = _extended(policy, storage, begun, extends)
    budget = _budget(list(named), cost, max_cost, max_evaluations, known)
    options = {
        "parallel": check_integer("parallel", parallel, low=1),
        "executor": executor,
        "attempts": check_integer("attempts", attempts, low=1),
        "on_error": check_choice("on_error", on_error, _ON_ERROR),
    }
    scores = _source(problem, named, rows, score, budget, options, known)
    if isinstance(storage, str) and is_service(storage):
        with _naming_changes(storage, name, policy):
            study = carry_out(policy, storage, name, seed, scores, budget, progress=progress)
    else:
        study = _study(policy, storage, name, seed)
        reporter = Reporter(budget, len(rows)) if progress else None
        try:
            scores.find(study, budget, reporter)
        except BaseException:
            study.close()
            raise
    return RaceResult(
        *(study, budget.costs, len(rows), contents.uncompared, budget.is_known),
        library=library_of(items),
    )


def _problem(
    labels: list[str],
    reward_range: tuple[float, float] | None,
    tolerance: float,
    direction: str,
    control: str | None,
) -> Problem:
    return Problem(
        labels,
        noise_std="estimated" if reward_range is None else None,
        reward_range=None if reward_range is None else check_range("reward_range", reward_range),
        tolerance=tolerance,
        direction=direction,
        control=control,
    )


def _budget(
    labels: list[str],
    cost: float | Mapping[str, float] | None,
    max_cost: float | None,
    max_evaluations: int | None,
    known: NDArray[np.float64] | None,
) -> Budget:
    return Budget(
        None if cost is None else costs_of(cost, labels),
        None if max_cost is None else check_number("max_cost", max_cost, low=0.0),
        check_optional_integer("max_evaluations", max_evaluations, low=1),
        None if known is None else np.isfinite(known),
    )


def _policy(
    problem: Problem,
    delta: float,
    about: str,
    margin: float | None,
    category: str | Sequence[Any] | None,
    items: Sequence[Any],
    contents: Contents,
) -> PairedRacing:
    """Return the rule of the race, which is the same for the same question."""
    if (problem.control is None) != (margin is None):
        raise InvalidArgument("control, margin", "need each other", (problem.control, margin))
    is_whole = check_choice("about", about, _ABOUT) == "these items"
    return PairedRacing(
        problem,
        delta,
        n_blocks=len(items) if is_whole else None,
        max_blocks=None if is_whole else len(items),
        shuffle=True,
        holds_back=True,
        blocks_from=contents.items.checksum,
        arms_from=[content.checksum for content in contents.candidates.values()],
        margin=margin,
        categories=None if category is None else categories_of(category, items),
        skips=margin is not None,
    )


def _judged(policy: PairedRacing, judge: Any, n_items: int) -> PairedRacing:
    """Return the rule with the scores of a judge."""
    problem = policy.problem
    if policy.n_blocks is None or problem.reward_range is None:
        raise InvalidArgument("judge", "needs about='these items' and a reward_range")
    table = table_of(judge, problem.arms, n_items, problem.reward_range, name="judge")
    if table is None:
        raise InvalidArgument("judge", "must be a table with a column for each candidate", judge)
    return policy.clone(judge=table.tolist())


def _extended(
    policy: PairedRacing, storage: Storage, begun: PairedRacing | None, extends: str
) -> tuple[PairedRacing, NDArray[np.float64]]:
    """Return the rule with the evidence of an earlier race, and the scores of that race."""
    earlier = earlier_race(storage, extends, policy)
    # An existing study keeps the evidence with which it began, even if the earlier race goes on.
    recorded = None if begun is None else begun.earlier_evidence
    evidence = recorded or earlier.evidence
    return policy.clone(earlier_evidence=evidence), earlier.scores


def _study(policy: PairedRacing, storage: Storage, name: str, seed: Seed) -> Study:
    """Return the study of this question: a new one, or the existing one."""
    with _naming_changes(storage, name, policy):
        return Study.create(
            policy.problem, policy, storage=storage, name=name, seed=seed, exist_ok=True
        )


@contextmanager
def _naming_changes(storage: Storage, name: str, policy: PairedRacing) -> Iterator[None]:
    """Name the candidates that have changed if a study of that name is about another question.

    Raises
    ------
    StudyExists
        If there is such a study.
    """
    try:
        yield
    except StudyExists:
        changed = _changed(storage, name, policy)
        if not changed:
            raise
        raise StudyExists(
            f"{listed([repr(label) for label in changed])} changed since the race {name!r} began. "
            "Its scores are those of other candidates: give the new race another name"
        ) from None


def _changed(storage: Storage, name: str, now: PairedRacing) -> list[str]:
    """Return the candidates that have another content than in a study, under the same label."""
    arms = now.problem.arms
    try:
        with opened(storage, name) as study:
            before = study.policy
    except FairtrialError:
        return []
    if not isinstance(before, PairedRacing) or before.problem.arms != arms:
        return []
    pairs = zip(arms, before.arms_from or (), now.arms_from or (), strict=False)
    return [label for label, old, new in pairs if old != new]


def _source(
    problem: Problem,
    candidates: Mapping[str, Any],
    items: Sequence[Any],
    score: Any,
    budget: Budget,
    options: Mapping[str, Any],
    known: NDArray[np.float64] | None,
) -> _Table | _Function:
    """Return where scores come from: a function, or a table, which has no use for options."""
    table = table_of(score, problem.arms, len(items), problem.reward_range)
    if table is None:
        return _Function(problem, candidates, items, score, budget, options, known)
    for name, default in _FOR_FUNCTIONS.items():
        if options[name] != default:
            accepted = "must be left out if score is a table: it is for functions"
            raise InvalidArgument(name, accepted, options[name])
    return _Table(table)


@contextmanager
def _until_limit() -> Iterator[None]:
    """End without an error if a limit of the race is reached."""
    try:
        yield
    except SourceError as error:
        if str(error) != LIMIT_REACHED:
            raise


def _limited(
    evaluate: Callable[[str, Report], float], study: RemoteStudy, budget: Budget
) -> Callable[[str, Report], float]:
    """Return a function that evaluates within the limits, and otherwise hands the pull back."""

    def evaluate_if_possible(arm: str, report: Report) -> float:
        if not budget.may_begin(study, report.pull):
            raise SourceError(LIMIT_REACHED)
        return evaluate(arm, report)

    return evaluate_if_possible


class _Table:
    """Scores that are known already."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self._scores = scores

    def find(self, study: Study, budget: Budget, reporter: Reporter | None) -> None:
        """Tell scores until the study has stopped or a limit is reached."""
        pulls = study.outstanding() or ([] if study.stopped else study.ask(1))
        while pulls and budget.may_begin(study, pulls[0]):
            pull, *others = pulls
            value = float(self._scores[pull.tag, pull.action])
            if others:
                study.tell(pull, value)
            pulls = others or study.tell_and_ask(pull, value, 1)
            if reporter is not None:
                reporter(study)

    def work(self, study: RemoteStudy, budget: Budget, watch: Callable[[str], None] | None) -> None:
        """Tell scores to a service until the study has stopped or a limit is reached."""

        def known(_: str, report: Report) -> float:
            return float(self._scores[report.pull.tag, report.pull.action])

        with _until_limit():
            client.work(study, _limited(known, study, budget), lease=LEASE, watch=watch)


class _Function:
    """Scores that a function returns, in threads of a driver."""

    def __init__(
        self,
        problem: Problem,
        candidates: Mapping[str, Any],
        items: Sequence[Any],
        score: Callable[[Any, Any], Any],
        budget: Budget,
        options: Mapping[str, Any],
        known: NDArray[np.float64] | None,
    ) -> None:
        on_error: OnError = options["on_error"]
        self._parallel: int = options["parallel"]
        self._most_failures = 2 * len(candidates)
        self._evaluation = Evaluation(
            candidates,
            items,
            score,
            problem.reward_range,
            _worst(problem) if on_error == "worst" else None,
            options["attempts"],
            on_error,
            executor=options["executor"],
            may_repeat=budget.may_repeat,
            known=known,
        )

    def find(self, study: Study, budget: Budget, reporter: Reporter | None) -> None:
        """Evaluate until the study has stopped or a limit is reached."""
        try:
            with _until_limit():
                if not study.stopped:
                    self._driver(study, budget, reporter).run()
        finally:
            self._evaluation.close()

    def work(self, study: RemoteStudy, budget: Budget, watch: Callable[[str], None] | None) -> None:
        """Evaluate what a service hands out until the study has stopped or a limit is reached."""
        try:
            with _until_limit():
                client.work(
                    study,
                    _limited(self._evaluation, study, budget),
                    parallel=self._parallel,
                    lease=LEASE,
                    max_failures=self._most_failures,
                    watch=watch,
                )
        finally:
            self._evaluation.close()

    def _driver(self, study: Study, budget: Budget, reporter: Reporter | None) -> Driver:
        return Driver(
            study,
            self._evaluation,
            lambda: ThreadPoolExecutor(self._parallel, thread_name_prefix="fairtrial"),
            self._parallel,
            max_failures=self._most_failures,
            watch=reporter,
            may_renew=True,
            may_begin=lambda pull: budget.may_begin(study, pull),
        )


def _worst(problem: Problem) -> float:
    if problem.reward_range is None:
        raise InvalidArgument("on_error", "can be 'worst' only with a reward_range", "worst")
    low, high = problem.reward_range
    return low if problem.direction == "maximize" else high
