"""Run a race: the function `race`, its checks, and its budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import (
    check_choice,
    check_integer,
    check_number,
    check_optional_integer,
    check_range,
)
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.errors import InvalidArgument
from fairtrial.races.progress import Reporter
from fairtrial.races.questions import categories_of, checksum, costs_of, items_of, named_candidates
from fairtrial.races.result import RaceResult
from fairtrial.races.scoring import Evaluation, OnError, table_of
from fairtrial.study import Study, run_study

if TYPE_CHECKING:
    from fairtrial.core.seeds import Seed
    from fairtrial.study.location import Storage

__all__ = ["race"]

_ABOUT = ["these items", "items like these"]
_ON_ERROR = ["ask", "worst", "leave"]


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
    cost: float | Mapping[str, float] | None = None,
    parallel: int = 1,
    executor: Executor | Callable[[], Executor] | None = None,
    storage: Storage = "memory://",
    name: str = "race",
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
    cost : float or mapping, optional
        Cost of one evaluation, for all candidates or by label.
    parallel : int
        Largest number of evaluations at a time.
    executor : concurrent.futures.Executor or callable, optional
        Where functions are called; by default in threads. Processes and Dask are possible.
    storage, name : str
        Where the study is stored, and its name there. The default storage ends with the process.
    progress : bool
        Whether to print to standard error who leads, who leaves, and what it costs.
    attempts : int
        Number of attempts at an evaluation that raises. Pauses between them grow from one second.
    on_error : {"ask", "worst", "leave"}
        What happens after the last attempt: ``"ask"`` stops the call, and the same call continues;
        ``"worst"`` counts the worst score of the range, which keeps the proof; with ``"leave"`` the
        candidate leaves the race.
    max_cost, max_evaluations : float or int, optional
        Limits, including earlier calls with the same study. The race then ends undecided; the same
        call with higher limits continues.
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
    StudyExists
        If the storage has a study of that name about another question.
    SourceError
        If evaluations fail, with ``on_error="ask"``.

    Examples
    --------
    >>> scores = {"small": [0.2, 0.4, 0.3] * 50, "large": [0.7, 0.8, 0.9] * 50}
    >>> result = race(["small", "large"], range(150), scores, reward_range=(0, 1), seed=1)
    >>> result.best, result.evaluations < 40
    ('large', True)
    """
    named = named_candidates(candidates)
    rows = items_of(items)
    problem = Problem(
        list(named),
        noise_std="estimated" if reward_range is None else None,
        reward_range=None if reward_range is None else check_range("reward_range", reward_range),
        tolerance=tolerance,
        direction=direction,
        control=control,
    )
    is_whole = check_choice("about", about, _ABOUT) == "these items"
    if (control is None) != (margin is None):
        raise InvalidArgument("control, margin", "need each other", (control, margin))
    policy = PairedRacing(
        problem,
        delta,
        n_blocks=len(rows) if is_whole else None,
        max_blocks=None if is_whole else len(rows),
        shuffle=True,
        blocks_from=checksum(rows),
        margin=margin,
        categories=None if category is None else categories_of(category, rows),
    )
    worst = _worst(problem) if _is_worst(on_error, problem) else None
    table = table_of(score, problem.arms, len(rows), problem.reward_range)
    limits = _Limits(
        None if cost is None else costs_of(cost, list(named)),
        None if max_cost is None else check_number("max_cost", max_cost, low=0.0),
        check_optional_integer("max_evaluations", max_evaluations, low=1),
    )
    evaluation = Evaluation(
        named,
        rows,
        score,
        problem.reward_range,
        worst,
        check_integer("attempts", attempts, low=1),
        on_error,
    )
    wide = check_integer("parallel", parallel, low=1)
    study = Study.create(problem, policy, storage=storage, name=name, seed=seed, exist_ok=True)
    reporter = Reporter(limits.costs, len(rows)) if progress else None
    try:
        if table is not None:
            _replay(study, table, limits, reporter)
        else:
            pool = (lambda: ThreadPoolExecutor(wide)) if executor is None else executor
            _carry_out(study, evaluation, pool, wide, limits, reporter)
    finally:
        evaluation.close()
    return RaceResult(study, limits.costs, len(rows))


def _is_worst(on_error: str, problem: Problem) -> bool:
    is_worst = check_choice("on_error", on_error, _ON_ERROR) == "worst"
    if is_worst and problem.reward_range is None:
        raise InvalidArgument("on_error", "can be 'worst' only with a reward_range", on_error)
    return is_worst


def _worst(problem: Problem) -> float:
    assert problem.reward_range is not None
    low, high = problem.reward_range
    return low if problem.direction == "maximize" else high


class _Limits:
    """How many evaluations may follow."""

    def __init__(
        self,
        costs: Mapping[str, float] | None,
        max_cost: float | None,
        max_evaluations: int | None,
    ) -> None:
        if max_cost is not None and costs is None:
            raise InvalidArgument("max_cost", "needs cost, the cost of an evaluation", max_cost)
        self.costs = costs
        self._max_cost = max_cost
        self._max_evaluations = max_evaluations

    def left(self, study: Study) -> int | None:
        """Return how many evaluations are certainly within the limits; None without limits."""
        told = study.progress().told
        left = [] if self._max_evaluations is None else [self._max_evaluations - told]
        if self._max_cost is not None and self.costs is not None:
            arms = study.progress().arms
            spent = sum(
                cost * arm.pulls for cost, arm in zip(self.costs.values(), arms, strict=True)
            )
            dearest = max(self.costs.values())
            if dearest > 0.0:
                left.append(int((self._max_cost - spent) / dearest * (1.0 + 1e-12)))
        return max(0, min(left)) if left else None


def _replay(
    study: Study, table: NDArray[np.float64], limits: _Limits, reporter: Reporter | None
) -> None:
    """Take scores from a table."""
    pulls = study.outstanding() or ([] if study.stopped else study.ask(1))
    while pulls and limits.left(study) != 0:
        pull, *others = pulls
        pulls = others or study.tell_and_ask(pull, float(table[pull.tag, pull.action]), 1)
        if reporter is not None:
            reporter(study)


def _carry_out(
    study: Study,
    evaluation: Evaluation,
    executor: Executor | Callable[[], Executor],
    parallel: int,
    limits: _Limits,
    reporter: Reporter | None,
) -> None:
    """Evaluate until the study has stopped or a limit is reached."""
    while not study.stopped and (left := limits.left(study)) != 0:
        run_study(
            study,
            evaluation,
            executor,
            parallel,
            pulls=left,
            max_failures=len(evaluation.candidates),
            watch=reporter,
        )
