"""A search over models' settings that drops the worse ones early, and knows when to stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_integer, check_probability
from fairtrial.delayed import InformationRacing, Problem
from fairtrial.errors import InvalidArgument, MissingExtra
from fairtrial.sklearn.paired import PairedRacing

try:
    from joblib import effective_n_jobs
    from sklearn.base import clone, is_classifier
    from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
    from sklearn.model_selection import cross_validate
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state, indexable
    from sklearn.utils.parallel import Parallel, delayed
except ImportError as error:
    raise MissingExtra("RacingSearchCV", "sklearn") from error

from fairtrial.sklearn._candidates import settings_of
from fairtrial.sklearn._partial import Steps, StepwiseRace
from fairtrial.sklearn._ranges import known_range
from fairtrial.sklearn._results import Results
from fairtrial.sklearn._splits import RandomSplits

__all__ = ["RacingSearchCV"]

_PULLS_PER_CANDIDATE = 50
_SCORES_UNOPPOSED = 5


class RacingSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Find the best settings of an estimator by racing them over random splits of the data.

    All candidates are fitted and scored on the same random splits, split after split. One
    that is worse than the leader with enough evidence is dropped; the search ends when one is
    left. Then the candidate of largest mean score over all random splits **of these data** is
    found with the stated confidence; nothing is promised of new data.

    Parameters
    ----------
    estimator : estimator
        What is fitted with every candidate's settings.
    candidates : dict, or sequence of dict
        A grid (names and lists of values), distributions to sample from (`n_candidates` must
        then be given), single settings (names and values), or a sequence of these.
    delta : float
        Probability of a wrong answer that is accepted.
    tolerance : float
        How much worse than the best an answer may be. Candidates that are equal can only be
        told to be near enough: without a tolerance they race until `max_pulls`.
    n_candidates : int, optional
        Number of settings to draw, of every dict with distributions.
    scoring : str, callable, list, tuple or dict, optional
        As in GridSearchCV. Of several metrics `refit` names the one that is raced.
    score_range : "auto", (float, float) or None
        The range that every score lies in. ``"auto"`` knows those of scikit-learn's own
        metrics. With a range the answer is proven; with None the deviation of scores is
        estimated, and their differences are taken for normal: far fewer fits, not proven.
    cv : int or splitter, optional
        How to split: an integer k tests on 1/k of the data, stratified for a classifier. Or a
        splitter of scikit-learn that draws at random (it has a `random_state`): of each draw
        the first split is taken, and its own seed is replaced. By default 5.
    paired : bool
        Whether candidates share their splits. If not, every fit has a split of its own, and
        `fairtrial.delayed.InformationRacing` decides.
    partial : int or dict, optional
        Score fits on their way: after each of so many calls of `partial_fit`; or at growing
        values of one setting, ``{"max_iter": [5, 10, 20]}``, with ``warm_start``. Candidates are
        first fitted a few times to the end. After that a running fit counts as a forecast of its
        final score: what such fits of its candidate still gained is added. Every fit then has a
        split of its own; the answer is never called proven.
    max_pulls : int, optional
        Fits and scores after which the search gives up, undecided; by default 50 for every
        candidate. The best so far is taken then, with a ConvergenceWarning.
    batch_size : int
        Pulls that are decided on at once and may run in parallel. Results depend on it, and
        not on `n_jobs`.
    n_jobs : int, optional
        Processes, as in GridSearchCV.
    refit : bool or str
        Whether to fit the best settings on all data; for several metrics the name of one.
    error_score : "raise" or float
        What a fit that fails counts as. By default (not a number) its candidate is dropped.
    return_train_score : bool
        Whether `cv_results_` tells the scores on the training parts.
    random_state : int, RandomState or None
        Seed of the splits, and of sampled candidates.
    verbose : int
        More than 0 prints a line for every batch.

    Attributes
    ----------
    best_index_, best_params_, best_score_, best_estimator_, cv_results_, scorer_
        As in GridSearchCV. `cv_results_` has also ``n_splits`` (of each candidate) and
        ``status`` (``"best"``, ``"undecided"``, ``"rejected"`` or ``"withdrawn"``), and splits
        that a candidate was not tried on are not a number. Candidates rank by how long they
        lasted, then by mean score.
    status_ : str
        ``"decided"`` or ``"undecided"``.
    guarantee_ : fairtrial.Guarantee
        What is promised of `best_params_`, under which assumptions, and whether it is proven.
    n_pulls_ : int
        Scores that the answer rests on; without those of fits on their way.
    n_steps_ : int
        With `partial`: steps of fits that were carried out.
    n_splits_ : int
        Most splits that one candidate was tried on.
    race_ : fairtrial.Policy
        The race at its end; ``race_.progress()`` tells more.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    MissingExtra
        If scikit-learn is not installed.

    Notes
    -----
    Random splits of one data set are independent and alike given the data: a candidate's
    scores are exact draws, and their mean over all splits is what cross-validation estimates.
    See `PairedRacing` for the tests, and docs/how-to/tune-a-model.md for what they promise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> search = RacingSearchCV(
    ...     DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, random_state=0
    ... ).fit(X, y)
    >>> search.best_params_, search.status_, search.guarantee_.proven
    ({'max_depth': 3}, 'decided', True)
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Any,
        *,
        delta: float = 0.05,
        tolerance: float = 0.0,
        n_candidates: int | None = None,
        scoring: Any = None,
        score_range: Any = "auto",
        cv: Any = None,
        paired: bool = True,
        partial: Any = None,
        max_pulls: int | None = None,
        batch_size: int = 16,
        n_jobs: int | None = None,
        refit: bool | str = True,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.candidates = candidates
        self.delta = delta
        self.tolerance = tolerance
        self.n_candidates = n_candidates
        self.score_range = score_range
        self.paired = paired
        self.partial = partial
        self.max_pulls = max_pulls
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **params: Any) -> RacingSearchCV:  # noqa: N803
        """Race the candidates, and fit the best on all data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Target.
        **params
            Handed on as GridSearchCV does: to `fit`, ``groups`` to the splitter.

        Returns
        -------
        self
        """
        self._check_arguments()
        random = check_random_state(self.random_state)
        settings = settings_of(self.candidates, self.n_candidates, random)
        scorers, _ = self._get_scorers()
        X, y = indexable(X, y)  # noqa: N806
        routed = self._get_routed_params_for_fit(params)
        splits = RandomSplits.of(
            self.cv, X, y, routed.splitter.split, is_classifier(self.estimator), random
        )
        given = {**routed.estimator.fit, **routed.scorer.score}
        if self.partial is None:
            policy, results = self._by_whole_fits(X, y, splits, settings, given)
        else:
            policy, results = self._by_steps(X, y, splits, settings, given, scorers)
        self._keep(policy, results, scorers)
        if self.refit:
            self._refit(X, y, routed.estimator.fit)
        return self

    def _check_arguments(self) -> None:
        check_probability("delta", self.delta)
        check_integer("batch_size", self.batch_size, low=1)
        if not isinstance(self.paired, bool | np.bool_):
            raise InvalidArgument("paired", "must be True or False", self.paired)
        if callable(self.refit):
            raise InvalidArgument(
                "refit", "must be True, False or the name of a metric: the race chooses", self.refit
            )
        is_number = isinstance(self.error_score, int | float | np.number)
        if self.error_score != "raise" and not is_number:
            raise InvalidArgument("error_score", "must be 'raise' or a number", self.error_score)

    # ------------------------------------------------------------------------ the race

    def _by_whole_fits(
        self,
        X: Any,  # noqa: N803
        y: Any,
        splits: RandomSplits,
        settings: Sequence[dict[str, Any]],
        given: dict[str, Any],
    ) -> tuple[PairedRacing | InformationRacing, Results]:
        policy, results = self._policy(len(settings)), Results(settings, self.paired)
        work = _Work(self, X, y, splits, settings, given)
        self._race(policy, results, work)
        self._score_unopposed(policy, results, work)
        return policy, results

    def _by_steps(
        self,
        X: Any,  # noqa: N803
        y: Any,
        splits: RandomSplits,
        settings: Sequence[dict[str, Any]],
        given: Mapping[str, Any],
        scorer: Any,
    ) -> tuple[InformationRacing, Results]:
        if given:
            raise InvalidArgument("params", "must be left out with partial", sorted(given))
        if y is None or not (self.scoring is None or isinstance(self.scoring, str)):
            raise InvalidArgument(
                "scoring", "must be None or a name, with a target, for partial", self.scoring
            )
        classes = np.unique(y) if is_classifier(self.estimator) else None
        steps = Steps(self.partial, self.estimator)
        race = StepwiseRace(settings, steps, self.estimator, X, y, scorer, splits, classes)
        with Parallel(n_jobs=self.n_jobs) as parallel:
            policy = race.run(
                parallel, self.tolerance, self.delta, self._most(len(settings)), self.batch_size
            )
        self.n_steps_ = race.fitted_steps
        return policy, race.results

    def _policy(self, arms: int) -> PairedRacing | InformationRacing:
        limits = self._score_range()
        noise: dict[str, Any] = (
            {"noise": "estimated"} if limits is None else {"reward_range": limits}
        )
        problem = Problem(arms, tolerance=self.tolerance, **noise)
        race = PairedRacing if self.paired else InformationRacing
        return race(problem, self.delta, max_pulls=self._most(arms))

    def _most(self, arms: int) -> int:
        if self.max_pulls is None:
            return _PULLS_PER_CANDIDATE * arms
        return check_integer("max_pulls", self.max_pulls, low=1)

    def _score_range(self) -> tuple[float, float] | None:
        if not isinstance(self.score_range, str):
            return None if self.score_range is None else tuple(self.score_range)
        if self.score_range != "auto":
            raise InvalidArgument(
                "score_range", "must be 'auto', two numbers or None", self.score_range
            )
        scoring = self.scoring
        if isinstance(scoring, Mapping):
            scoring = scoring.get(self.refit)
        elif isinstance(scoring, list | tuple | set):
            scoring = self.refit
        return known_range(scoring, self.estimator)

    def _race(
        self, policy: PairedRacing | InformationRacing, results: Results, work: _Work
    ) -> None:
        # One process takes fits one by one, and leaves those that the race has no use for.
        order = "generator" if effective_n_jobs(self.n_jobs) == 1 else "list"
        with Parallel(n_jobs=self.n_jobs, return_as=order) as parallel:
            while not policy.stopped:
                pulls = policy.ask(self.batch_size)
                outcomes = parallel(work.tasks(pulls))
                self._take_in_turn(policy, results, zip(pulls, outcomes, strict=True))
                if self.verbose:
                    _print_state(policy)

    def _take_in_turn(
        self,
        policy: PairedRacing | InformationRacing,
        results: Results,
        outcomes: Iterable[tuple[Pull, Any]],
    ) -> None:
        """Let the race know of a batch in the order of issue, whichever was ready first."""
        for pull, outcome in outcomes:
            if policy.stopped:
                return
            self._take(policy, results, pull, outcome)

    def _take(
        self,
        policy: PairedRacing | InformationRacing,
        results: Results,
        pull: Pull,
        outcome: dict[str, Any] | Exception,
    ) -> None:
        """Let the race know how a pull ended, if it still matters."""
        if pull in policy.cancelled():
            policy.fail(pull, "cancelled")
            return
        score, known = self._score(outcome)
        if np.isfinite(score):
            results.add(pull, known)
            policy.tell(pull, score)
        elif self.paired:
            results.failure = outcome
            policy.fail(pull, "error")
        else:
            raise InvalidArgument(
                "error_score", "must be 'raise' or a finite number unless paired", self.error_score
            )

    def _score_unopposed(
        self, policy: PairedRacing | InformationRacing, results: Results, work: _Work
    ) -> None:
        """Score a candidate that won because there was no other, or none that could be fitted."""
        leader = _leader(policy)
        if leader is None or results.has(leader):
            return
        labels = policy.problem.labels(leader)
        pulls = [Pull(at, leader, labels, tag=at) for at in range(_SCORES_UNOPPOSED)]
        outcomes = Parallel(n_jobs=self.n_jobs)(work.tasks(pulls))
        for pull, outcome in zip(pulls, outcomes, strict=True):
            score, known = self._score(outcome)
            if not np.isfinite(score):
                raise _all_failed(outcome)
            results.add(pull, known)

    def _score(self, outcome: dict[str, Any] | Exception) -> tuple[float, dict[str, Any]]:
        """Return the score that is raced, and all that a pull gave; a failure is replaced."""
        if isinstance(outcome, Exception):
            if self.error_score == "raise":
                raise outcome
            warnings.warn(
                f"a fit failed and counts as {self.error_score}: {outcome!r}",
                FitFailedWarning,
                stacklevel=5,
            )
            return float(self.error_score), {}
        metric = self.refit if isinstance(self.refit, str) else "score"
        name = f"test_{metric}" if f"test_{metric}" in outcome else "test_score"
        if name not in outcome:
            known = [key.removeprefix("test_") for key in outcome if key.startswith("test_")]
            raise InvalidArgument("refit", f"must name one of the metrics {known}", self.refit)
        score = float(outcome[name])
        return (score if np.isfinite(score) else float("nan")), outcome

    # ---------------------------------------------------------------------- the answer

    def _keep(
        self, policy: PairedRacing | InformationRacing, results: Results, scorers: Any
    ) -> None:
        """Set what is known after the race."""
        answer, leader = policy.recommend(), _leader(policy)
        if leader is None:
            raise _all_failed(results.failure)
        states = list(policy.progress().details["arms"].values())
        self.race_ = policy
        self.status_ = answer.status
        self.guarantee_ = replace(
            policy.guarantee,
            assumptions=(
                *policy.guarantee.assumptions,
                *self._estimated(),
                "the mean is that over random splits of these data: nothing is said of new data",
            ),
        )
        self.n_pulls_ = results.n_pulls
        self.n_splits_ = results.n_splits
        self.multimetric_ = results.metrics != ["score"]
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        metric = self.refit if self.multimetric_ else "score"
        self.best_index_ = leader
        self.cv_results_ = results.to_dict(states, self.best_index_, metric)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_[f"mean_test_{metric}"][self.best_index_])
        if answer.status != "decided":
            warnings.warn(
                f"the search is undecided after {policy.told} pulls, and takes the best so far, "
                f"{self.best_params_}. Give more max_pulls, a tolerance, or score_range=None",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _estimated(self) -> tuple[str, ...]:
        if self.partial is None:
            return ()
        return (
            "what a running fit still gains, and deviations, are those of whole fits (not proven)",
        )

    def _refit(self, X: Any, y: Any, params: Mapping[str, Any]) -> None:  # noqa: N803
        self.best_estimator_ = clone(self.estimator).set_params(
            **clone(self.best_params_, safe=False)
        )
        start = time.perf_counter()
        if y is None:
            self.best_estimator_.fit(X, **params)
        else:
            self.best_estimator_.fit(X, y, **params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


class _Work:
    """What a pull does: one candidate fitted and scored on one split."""

    def __init__(
        self,
        search: RacingSearchCV,
        X: Any,  # noqa: N803
        y: Any,
        splits: RandomSplits,
        settings: Sequence[dict[str, Any]],
        params: dict[str, Any],
    ) -> None:
        self.search = search
        self.data = X, y
        self.splits = splits
        self.settings = settings
        self.params = params

    def tasks(self, pulls: Sequence[Pull]) -> Iterator[Any]:
        """Yield a task for every pull."""
        search = self.search
        for pull in pulls:
            split = self.splits.draw(pull.tag if search.paired else pull.number)
            yield delayed(_evaluate)(
                search.estimator,
                self.settings[pull.action],
                *self.data,
                split,
                search.scoring,
                self.params,
                search.return_train_score,
            )


def _evaluate(
    estimator: Any,
    setting: dict[str, Any],
    X: Any,  # noqa: N803
    y: Any,
    split: tuple[NDArray[np.intp], NDArray[np.intp]],
    scoring: Any,
    params: dict[str, Any],
    return_train_score: bool,
) -> dict[str, Any] | Exception:
    """Return scores and times of one candidate on one split, or what went wrong."""
    try:
        told = cross_validate(
            clone(estimator).set_params(**clone(setting, safe=False)),
            X,
            y,
            scoring=scoring,
            cv=[split],
            params=params,
            error_score="raise",
            return_train_score=return_train_score,
        )
    except Exception as error:  # noqa: BLE001 - any failure of a user's model is an outcome
        return error
    return {key: values[0] for key, values in told.items()}


def _all_failed(last: Any) -> Exception:
    """Return why the last candidate could not be fitted, when none can."""
    if not isinstance(last, Exception):
        return ValueError("no candidate has a finite score")
    last.add_note("every candidate failed in a fit; this is the last failure")
    return last


def _leader(policy: PairedRacing | InformationRacing) -> int | None:
    leader = policy.recommend().leader
    if leader is None:
        return None
    return policy.problem.arms.index(leader[0] if isinstance(leader, tuple) else leader)


def _print_state(policy: PairedRacing | InformationRacing) -> None:
    progress = policy.progress()
    left = list(progress.details["arms"].values()).count("undecided")
    print(f"{progress.told} pulls, {left} candidates left")  # noqa: T201
