"""Stepwise fits, scored after each step: learning curves as early readings of a score."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import delayed

from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_integer
from fairtrial.delayed import InformationRacing, Problem
from fairtrial.errors import InvalidArgument
from fairtrial.sklearn._fits import with_setting
from fairtrial.sklearn._results import Results
from fairtrial.sklearn._splits import RandomSplits, Split

__all__ = ["Steps", "StepwiseRace"]

Floats = NDArray[np.float64]

# Least numbers of complete fits before the race: per candidate, and in total for deviations.
_FIRST, _FIRST_IN_ALL = 3, 20


class Steps:
    """How a fit continues: by `partial_fit`, or by a setting that grows under ``warm_start``.

    Parameters
    ----------
    partial : int or dict
        The number of calls of `partial_fit`; or a setting's name and its growing values.
    estimator : estimator
        The estimator to fit.
    classes : array or None
        All classes of a classifier, for `partial_fit`.
    """

    def __init__(self, partial: Any, estimator: Any, classes: Any = None) -> None:
        self.estimator = estimator
        self.classes = classes
        self.name: str | None = None
        if isinstance(partial, Mapping):
            self.name, self.values = _growing(partial, estimator)
        else:
            self.values = list(range(check_integer("partial", partial, low=2)))
            if not hasattr(estimator, "partial_fit"):
                raise InvalidArgument(
                    "partial", "must name a growing setting: there is no partial_fit", partial
                )

    def __len__(self) -> int:
        return len(self.values)

    def start(self, setting: Mapping[str, Any]) -> Any:
        """Return a candidate that has not been fitted."""
        model = with_setting(self.estimator, setting)
        return model if self.name is None else model.set_params(warm_start=True)

    def advance(self, model: Any, step: int, X: Any, y: Any) -> None:
        """Advance a fit by one step."""
        if self.name is not None:
            model.set_params(**{self.name: self.values[step]}).fit(X, y)
        elif self.classes is None:
            model.partial_fit(X, y)
        else:
            model.partial_fit(X, y, classes=self.classes)

    def whole(self, setting: Mapping[str, Any], X: Any, y: Any) -> Any:
        """Return a candidate fitted to the last step."""
        if self.name is not None:
            return with_setting(self.estimator, {**setting, self.name: self.values[-1]}).fit(X, y)
        model = self.start(setting)
        for step in range(len(self)):
            self.advance(model, step, X, y)
        return model


def _growing(partial: Mapping[str, Any], estimator: Any) -> tuple[str, list[Any]]:
    accepted = "must be a number of steps, or one setting with at least two growing values"
    items = list(partial.items())
    if len(items) != 1 or not isinstance(items[0][1], Iterable):
        raise InvalidArgument("partial", accepted, partial)
    name, values = items[0][0], list(items[0][1])
    if len(values) < 2 or any(later <= earlier for earlier, later in pairwise(values)):
        raise InvalidArgument("partial", accepted, partial)
    known = estimator.get_params()
    if name not in known or "warm_start" not in known:
        raise InvalidArgument(
            "partial", "must name a setting of an estimator that has warm_start", partial
        )
    return name, values


class _Fit:
    """A fit in progress."""

    def __init__(self, pull: Pull, model: Any, split: Split) -> None:
        self.pull = pull
        self.model = model
        self.split = split
        self.scores: list[float] = []
        self.seconds = np.zeros(2)


class _Lag:
    """Expected gain after every step: its mean by candidate, its deviation by step."""

    def __init__(self, candidates: int, steps: int) -> None:
        self._gains: list[list[Floats]] = [[] for _ in range(candidates)]
        self._steps = steps

    def add(self, candidate: int, scores: Sequence[float]) -> None:
        """Learn from a complete fit."""
        self._gains[candidate].append(scores[-1] - np.array(scores[:-1]))

    def forecast(self, candidate: int, step: int, score: float) -> tuple[float, float]:
        """Return the expected final score after a step, and its standard deviation."""
        own = self._gains[candidate]
        mean = float(np.mean([gains[step] for gains in own]))
        squares = sum(
            float(np.var([gains[step] for gains in other]) * len(other)) for other in self._gains
        )
        freedom = sum(len(other) - 1 for other in self._gains)
        return score + mean, math.sqrt(squares / freedom * (1.0 + 1.0 / len(own)))


class StepwiseRace:
    """A race of fits that are scored while they proceed.

    Every candidate is first fitted completely a few times: this shows how much its score still
    gains after every step, and how scores deviate. Then a running fit counts as a forecast of its
    final score, and is stopped once its candidate is out.

    Parameters
    ----------
    settings : sequence of dict
        The candidates.
    steps : Steps
        How fits continue.
    X, y, scorer
        Data of the fits, and the function that scores them.
    splits : RandomSplits
        The splits; every fit has its own.
    """

    def __init__(
        self,
        settings: Sequence[dict[str, Any]],
        steps: Steps,
        X: Any,
        y: Any,
        scorer: Any,
        splits: RandomSplits,
    ) -> None:
        self.settings = settings
        self.steps = steps
        self.data = X, y
        self.scorer = scorer
        self.splits = splits
        self.results = Results(settings)
        self.fitted_steps = 0
        self._lag = _Lag(len(settings), len(steps))
        self._splits_used = 0

    def run(
        self, parallel: Any, tolerance: float, delta: float, max_pulls: int, batch: int
    ) -> InformationRacing:
        """Return the race at its end."""
        finals = self._whole_fits(parallel)
        deviation = math.sqrt(float(np.mean([np.var(own, ddof=1) for own in finals])))
        problem = Problem(
            len(self.settings),
            noise_std=max(deviation, 1e-12),
            feedback="refining",
            tolerance=tolerance,
        )
        policy = InformationRacing(problem, delta, parallel=batch, max_pulls=max_pulls)
        for arm, scores in zip(problem.arms, finals, strict=True):
            for score in scores:
                policy.tell(problem.pull(arm=arm), score)
        running: list[_Fit] = []
        while not policy.stopped:
            running += [self._begin(pull) for pull in policy.ask(batch - len(running))]
            self._step(parallel, running)
            running = [fit for fit in running if self._goes_on(policy, fit)]
        return policy

    def _whole_fits(self, parallel: Any) -> list[list[float]]:
        candidates = range(len(self.settings))
        each = max(_FIRST, 1 + math.ceil(_FIRST_IN_ALL / len(candidates)))
        fits = [self._begin(Pull(0, arm, {})) for arm in candidates for _ in range(each)]
        for _ in self.steps.values:
            self._step(parallel, fits)
        for fit in fits:
            self._finish(fit)
        return [[fit.scores[-1] for fit in fits if fit.pull.action == arm] for arm in candidates]

    def _begin(self, pull: Pull) -> _Fit:
        split = self.splits.draw(self._splits_used)
        self._splits_used += 1
        return _Fit(pull, self.steps.start(self.settings[pull.action]), split)

    def _finish(self, fit: _Fit) -> None:
        self._lag.add(fit.pull.action, fit.scores)
        seconds = {"fit_time": float(fit.seconds[0]), "score_time": float(fit.seconds[1])}
        self.results.add(fit.pull.action, {**seconds, "test_score": fit.scores[-1]})

    def _step(self, parallel: Any, fits: Sequence[_Fit]) -> None:
        for fit, told in zip(fits, parallel(self._tasks(fits)), strict=True):
            fit.model, score, seconds = told
            fit.scores.append(score)
            fit.seconds += seconds
            self.fitted_steps += 1

    def _tasks(self, fits: Sequence[_Fit]) -> Iterator[Any]:
        for fit in fits:
            yield delayed(_advance)(
                fit.model, self.steps, len(fit.scores), self.data, fit.split, self.scorer
            )

    def _goes_on(self, policy: InformationRacing, fit: _Fit) -> bool:
        """Report a step to the race, in the order of issue; return whether another step is due."""
        pull, arm, step = fit.pull, fit.pull.action, len(fit.scores) - 1
        if policy.stopped:
            return False
        if pull in policy.to_cancel():
            policy.fail(pull, "eliminated")
            return False
        if len(fit.scores) == len(self.steps):
            self._finish(fit)
            policy.tell(pull, fit.scores[-1])
            return False
        value, deviation = self._lag.forecast(arm, step, fit.scores[-1])
        policy.report(pull, value, stage=step, std=deviation)
        return True


def _advance(
    model: Any,
    steps: Steps,
    step: int,
    data: tuple[Any, Any],
    split: Split,
    scorer: Any,
) -> tuple[Any, float, Floats]:
    """Return a model after one more step, its score on the test part, and the seconds of both."""
    train, test = split
    began = time.perf_counter()
    X, y = _safe_split(model, *data, train)
    steps.advance(model, step, X, y)
    fitted = time.perf_counter()
    score = float(scorer(model, *_safe_split(model, *data, test, train)))
    if not math.isfinite(score):
        raise InvalidArgument("scoring", "must give finite scores", score)
    return model, score, np.array([fitted - began, time.perf_counter() - fitted])
