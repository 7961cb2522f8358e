"""A search over models' settings that drops the worse ones early, and knows when to stop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, indexable
from sklearn.utils.parallel import Parallel

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import (
    check_choice,
    check_error_probability,
    check_flag,
    check_integer,
)
from fairtrial.core.warning import warn_caller
from fairtrial.delayed import InformationRacing, PairedRacing, Problem
from fairtrial.errors import InvalidArgument
from fairtrial.sklearn._answer import (
    Race,
    all_failed,
    departures_of,
    leader_of,
    promise_of,
    shortfall_of,
)
from fairtrial.sklearn._candidates import settings_of
from fairtrial.sklearn._fits import Fits, check_settings, with_setting
from fairtrial.sklearn._partial import Steps, StepwiseRace
from fairtrial.sklearn._ranges import range_of
from fairtrial.sklearn._results import Results
from fairtrial.sklearn._splits import FixedSplits, RandomSplits, splits_of
from fairtrial.sklearn._whole import WholeFitRace

__all__ = ["RacingSearchCV"]

_SPLITS = 50


class RacingSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Find the best settings of an estimator by racing them over random splits of the data.

    All candidates are fitted and scored on the same random splits, split after split. A candidate
    is dropped when there is enough evidence that it is worse than the leader; the search ends when
    one is left. It is then, with the stated confidence, the candidate with the largest mean score
    over all random splits **of these data**; a promise about new data needs `new_data`. A search
    that gives up earlier reports how much worse than the best its answer may be, with the same
    confidence.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted with every candidate's settings.
    candidates : dict, or sequence of dict, optional
        A grid (names and lists of values), distributions to sample from (`n_candidates` must then
        be given), single settings (names and values), or a sequence of these. To race different
        models, make them settings of a pipeline's step.
    param_grid : dict, or sequence of dict, optional
        Another name for `candidates`, as in GridSearchCV. Give only one of the two.
    guarantee : {"calibrated", "proven"}
        How a candidate is ruled out. ``"calibrated"``: by Student's t on differences of scores, at
        all times at once. This is proven only for normal differences; how often it is wrong was
        measured on recorded splits. It was wrong less often than `delta`, but may be wrong more
        often between nearly equal candidates of which one is usually a little better and rarely
        much worse. ``"proven"``: by bets on bounded differences, which need many more fits, and a
        `score_range`.
    new_data : bool
        Whether to find the candidate that is best on **new data from the same source**, when
        trained on as many rows. Splits of the same rows overlap, so their differences are assumed
        to share an error of the size given by Nadeau and Bengio (2003). More splits do not remove
        it: only candidates that are much worse can be ruled out, and the search ends undecided
        once more splits cannot help. Only for random splits, paired and calibrated.
    delta : float
        Accepted probability of a wrong answer.
    tolerance : float
        How much worse than the best an answer may be. Equal candidates can only be shown to be
        near enough: without a tolerance they race until `max_pulls`.
    n_candidates : int, optional
        Number of settings to draw from every dict with distributions.
    scoring : str, callable, list, tuple or dict, optional
        As in GridSearchCV. With several metrics, `refit` names the one that decides.
    score_range : "auto" or (float, float)
        The range that contains every score, only for ``guarantee="proven"``. ``"auto"`` knows the
        ranges of scikit-learn's own metrics; for any other it must be given.
    cv : int, splitter or iterable, optional
        How to split. An integer k tests on 1/k of the data, stratified for a classifier. A
        splitter of scikit-learn that draws at random (it has a `random_state`): one split of each
        draw is chosen at random, and its own seed is replaced. By default 5. Any other splitter,
        and pairs of train and test, are a limited number of splits: they are taken in random
        order, and the candidate that leads on all of them is certainly the best.
    paired : bool
        Whether candidates share their splits. If not, every fit has its own split, and
        `fairtrial.delayed.InformationRacing` decides.
    partial : int or dict, optional
        Score fits while they proceed: after each of that many calls of `partial_fit`; or at
        growing values of one setting, ``{"max_iter": [5, 10, 20]}``, with ``warm_start``.
        Candidates are first fitted completely a few times. After that a running fit counts as a
        forecast of its final score: the usual remaining gain of its candidate is added. Every fit
        then has its own split, and the answer is a heuristic. `best_estimator_` takes all steps.
        A fit that fails is an error, and `return_train_score` is ignored.
    max_pulls : int, optional
        Number of fits after which the search gives up, undecided; by default 50 splits (unpaired:
        50 fits for every candidate), or all splits if they are limited. The best candidate so far
        is then taken, with a ConvergenceWarning.
    batch_size : int
        Number of pulls that are chosen at once and may run in parallel. Results depend on it, but
        not on `n_jobs`.
    n_jobs : int, optional
        Number of processes, as in GridSearchCV.
    pre_dispatch : int or str
        How many of a batch's fits are handed to processes in advance, as in GridSearchCV: fewer
        need less memory. Results do not depend on it.
    refit : bool or str
        Whether to fit the best settings on all data. For several metrics it must name the one that
        is raced. Unlike in GridSearchCV a function is refused: it would choose from scores on
        different numbers of splits, and the guarantee would not be about its choice.
    error_score : "raise" or float
        The score of a fit that fails. By default (NaN) its candidate is dropped.
    return_train_score : bool
        Whether `cv_results_` includes the scores on the training parts.
    random_state : int, RandomState or None
        Seed of the splits, and of sampled candidates.
    verbose : int
        More than 0 prints a line for every batch.

    Attributes
    ----------
    best_index_, best_params_, best_score_, best_estimator_, cv_results_, scorer_
        As in GridSearchCV. `cv_results_` also has ``n_splits`` (of each candidate),
        ``status`` (``"best"``, ``"undecided"``, ``"rejected"``, ``"withdrawn"``, or ``"set aside"``
        if all that is known is that the best is at most the tolerance worse),
        ``dropped_after`` (splits; masked for candidates that were not dropped) and
        ``dropped_because`` (in words). Scores are NaN on splits that a candidate was not tried on.
        Candidates rank by how long they lasted, then by mean score.
    status_ : str
        ``"decided"`` or ``"undecided"``.
    shortfall_ : float
        How much worse than the best candidate `best_params_` may be, with confidence
        ``1 - delta``: the tolerance if decided, otherwise what the splits so far leave open.
    guarantee_ : fairtrial.Guarantee
        The promise about `best_params_`, its assumptions, and whether it is proven, calibrated or a
        heuristic.
    n_pulls_ : int
        Number of scores behind the answer, without those of unfinished fits.
    n_steps_ : int
        With `partial`: number of steps that were carried out.
    n_splits_ : int
        The most splits that one candidate was tried on.
    race_ : fairtrial.Policy
        The race at its end; ``race_.progress()`` has more details.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    MissingExtra
        If scikit-learn is not installed.

    Notes
    -----
    Random splits of one data set overlap, but given the data they are drawn independently: a
    candidate's scores on them are independent draws, and their mean over all splits is what
    cross-validation estimates.
    See `PairedRacing` for the tests, and docs/how-to/tune-a-model.md for what they promise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> search = RacingSearchCV(
    ...     DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, random_state=0
    ... ).fit(X, y)
    >>> search.best_params_, search.status_, search.guarantee_.label
    ({'max_depth': 3}, 'decided', 'calibrated')
    """

    @named_arguments
    def __init__(
        self,
        estimator: Any,
        candidates: Any = None,
        *,
        param_grid: Any = None,
        guarantee: str = "calibrated",
        new_data: bool = False,
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
        pre_dispatch: int | str = "2*n_jobs",
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
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.candidates = candidates
        self.param_grid = param_grid
        self.guarantee = guarantee
        self.new_data = new_data
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
            Passed on as in GridSearchCV: to `fit`, and ``groups`` to the splitter.

        Returns
        -------
        self
        """
        self._check_arguments()
        random = check_random_state(self.random_state)
        settings = settings_of(self._wanted(), self.n_candidates, random)
        check_settings(self.estimator, settings)
        scorers, _ = self._get_scorers()
        X, y = indexable(X, y)  # noqa: N806
        routed = self._get_routed_params_for_fit(params)
        splits = splits_of(
            self.cv, X, y, routed.splitter.split, is_classifier(self.estimator), random
        )
        self._check_splits(splits)
        if self.partial is None:
            how = routed.estimator.fit, routed.scorer.score, self.return_train_score
            policy, results = self._by_whole_fits(
                Fits(self.estimator, X, y, scorers, settings, *how), splits
            )
        else:
            given = {**routed.estimator.fit, **routed.scorer.score}
            policy, results = self._by_steps(X, y, splits, settings, given, scorers)
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self._keep(policy, results)
        self._warn_undecided()
        if self.refit:
            self._refit(X, y, routed.estimator.fit)
        return self

    def _check_arguments(self) -> None:
        if isinstance(self.estimator, type) or not callable(getattr(self.estimator, "fit", None)):
            raise InvalidArgument("estimator", "must be an object with a `fit`", self.estimator)
        self._check_promise()
        check_error_probability("delta", self.delta)
        check_integer("batch_size", self.batch_size, low=1)
        if self.n_jobs is not None:
            check_integer("n_jobs", self.n_jobs)
        if callable(self.refit):
            raise InvalidArgument(
                "refit",
                "must be True, False or the name of a metric: the guarantee is about the "
                "candidate that the race finds, not about another choice",
                self.refit,
            )
        if isinstance(self.scoring, list | tuple | set | Mapping) and self.refit is False:
            raise InvalidArgument(
                "refit", "must name the metric to race by, if there are several", False
            )
        is_number = isinstance(self.error_score, int | float | np.number)
        if self.error_score != "raise" and not is_number:
            raise InvalidArgument("error_score", "must be 'raise' or a number", self.error_score)
        limits = self._score_range() if self.guarantee == "proven" else None
        if limits and is_number and (self.error_score < limits[0] or self.error_score > limits[1]):
            raise InvalidArgument(
                "error_score", f"must lie in the range of scores, {limits}", self.error_score
            )

    def _check_promise(self) -> None:
        """Refuse a promise that nothing here can keep, and a range that nothing would use."""
        check_choice("guarantee", self.guarantee, ["calibrated", "proven"])
        check_flag("new_data", self.new_data)
        check_flag("paired", self.paired)
        proven, by_steps = self.guarantee == "proven", self.partial is not None
        if proven and by_steps:
            raise InvalidArgument("guarantee", "must be 'calibrated' with partial", self.guarantee)
        if self.new_data and (proven or by_steps or not self.paired):
            accepted = "must be False unless fits are whole, paired and guarantee='calibrated'"
            raise InvalidArgument("new_data", accepted, True)
        if not proven and not (isinstance(self.score_range, str) and self.score_range == "auto"):
            accepted = "must be left out: it is only used with guarantee='proven'"
            raise InvalidArgument("score_range", accepted, self.score_range)
        if proven and self._score_range() is None:
            accepted = "must be given for a proof: the range of this metric is not known"
            raise InvalidArgument("score_range", accepted, self.score_range)

    def _wanted(self) -> Any:
        """Return the candidates, given under either of their two names."""
        if (self.candidates is None) == (self.param_grid is None):
            accepted = "must be given, by this name or as param_grid, and not by both"
            raise InvalidArgument("candidates", accepted, self.candidates)
        return self.param_grid if self.candidates is None else self.candidates

    def _check_splits(self, splits: RandomSplits | FixedSplits) -> None:
        if splits.count is None:
            return
        if not self.paired or self.partial is not None or self.new_data:
            needs = "for new_data" if self.new_data else "unless whole fits are paired"
            raise InvalidArgument(
                "cv", f"must draw at random, as ShuffleSplit does, {needs}", self.cv
            )

    # ------------------------------------------------------------------------ the race

    def _by_whole_fits(
        self, fits: Fits, splits: RandomSplits | FixedSplits
    ) -> tuple[Race, Results]:
        race = WholeFitRace(
            self._policy(len(fits.settings), splits),
            fits,
            splits,
            self._metric(),
            self.error_score,
            {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch},
            self.batch_size,
            self.verbose,
        )
        race.run()
        return race.policy, race.results

    def _by_steps(
        self,
        X: Any,  # noqa: N803
        y: Any,
        splits: Any,
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
        steps = self._steps(y)
        if any(steps.name in setting for setting in settings):
            raise InvalidArgument(
                "partial", "must name a setting that is not raced itself", self.partial
            )
        race = StepwiseRace(settings, steps, X, y, scorer, splits)
        with Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch) as parallel:
            policy = race.run(
                parallel, self.tolerance, self.delta, self._fits(len(settings)), self.batch_size
            )
        self.n_steps_ = race.fitted_steps
        return policy, race.results

    def _steps(self, y: Any) -> Steps:
        classes = np.unique(y) if is_classifier(self.estimator) else None
        return Steps(self.partial, self.estimator, classes)

    def _policy(self, arms: int, splits: RandomSplits | FixedSplits) -> Race:
        noise: dict[str, Any] = {"noise_std": "estimated"}
        if self.guarantee == "proven":
            noise = {"reward_range": self._score_range()}
        problem = Problem(arms, tolerance=self.tolerance, **noise)
        if not self.paired:
            return InformationRacing(problem, self.delta, max_pulls=self._fits(arms))
        is_capped = self.max_pulls is not None
        return PairedRacing(
            problem,
            self.delta,
            max_pulls=self._fits(arms) if is_capped else None,
            n_blocks=splits.count,
            max_blocks=None if is_capped or splits.count is not None else _SPLITS,
            overlap=splits.overlap if self.new_data else 0.0,
        )

    def _fits(self, arms: int) -> int:
        """Return after how many fits the search gives up."""
        if self.max_pulls is None:
            return _SPLITS * arms
        return check_integer("max_pulls", self.max_pulls, low=1)

    def _metric(self) -> str:
        return self.refit if isinstance(self.refit, str) else "score"

    def _score_range(self) -> tuple[float, float] | None:
        return range_of(self.score_range, self.scoring, self.refit, self.estimator)

    # ---------------------------------------------------------------------- the answer

    def _keep(self, race: Race, results: Results) -> None:
        """Set the attributes that are known after the race."""
        leader = leader_of(race)
        if leader is None or not results.has_any:
            raise all_failed(results.failure)
        self.race_ = race
        self.status_ = race.recommend().status
        self.shortfall_ = shortfall_of(race, leader)
        self.guarantee_ = promise_of(
            race, self.shortfall_, self.delta, by_steps=self.partial is not None
        )
        self.n_pulls_ = results.n_pulls
        self.n_splits_ = results.n_splits
        self.multimetric_ = results.metrics != ["score"]
        self.best_index_ = leader
        metric = self._metric() if self.multimetric_ else "score"
        states = [one.status for one in race.progress().arm_states]
        self.cv_results_ = results.to_dict(states, departures_of(race), leader)
        self.best_params_ = self.cv_results_["params"][leader]
        self.best_score_ = float(self.cv_results_[f"mean_test_{metric}"][leader])

    def _warn_undecided(self) -> None:
        if self.status_ == "decided":
            return
        guarantee = self.guarantee_
        cheaper = "; or guarantee='calibrated', with fewer fits" if guarantee.proven else ""
        more = "More max_pulls, or a larger tolerance, would decide it"
        if isinstance(self.race_, PairedRacing) and self.race_.overlap:
            more = "More data, or a larger tolerance, would decide it"
        warn_caller(
            f"the search is undecided after {self.race_.told} pulls and takes the best so far, "
            f"{self.best_params_}: {guarantee.statement} ({guarantee.label}). {more}{cheaper}",
            ConvergenceWarning,
        )

    def _refit(self, X: Any, y: Any, params: Mapping[str, Any]) -> None:  # noqa: N803
        start = time.perf_counter()
        if self.partial is not None:
            self.best_estimator_ = self._steps(y).whole(self.best_params_, X, y)
        else:
            target = () if y is None else (y,)
            self.best_estimator_ = with_setting(self.estimator, self.best_params_)
            self.best_estimator_.fit(X, *target, **params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
