"""The race of complete fits: a pull fits and scores one candidate on one split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel

from fairtrial.core.pull import Pull
from fairtrial.core.warning import warn_caller
from fairtrial.delayed import PairedRacing
from fairtrial.errors import InvalidArgument
from fairtrial.sklearn._answer import Race, all_failed, leader_of
from fairtrial.sklearn._fits import Fits
from fairtrial.sklearn._results import Results
from fairtrial.sklearn._splits import FixedSplits, RandomSplits

__all__ = ["WholeFitRace"]

_SCORES_UNOPPOSED = 5


class WholeFitRace:
    """A race of complete fits.

    Parameters
    ----------
    policy : PairedRacing or InformationRacing
        Decides. With `PairedRacing` candidates share their splits.
    fits : Fits
        The work of a pull.
    splits : RandomSplits or FixedSplits
        The splits for the fits.
    metric : str
        The metric that decides.
    error_score : "raise" or float
        The score of a fit that fails; if it is NaN, the candidate is dropped.
    processes : dict
        Arguments of joblib's `Parallel`: the number of processes, and how they are fed.
    batch_size : int
        Number of pulls that are chosen at once.
    verbose : int
        More than 0 prints a line for every batch.
    """

    def __init__(
        self,
        policy: Race,
        fits: Fits,
        splits: RandomSplits | FixedSplits,
        metric: str,
        error_score: Any,
        processes: dict[str, Any],
        batch_size: int,
        verbose: int,
    ) -> None:
        self.policy = policy
        self.fits = fits
        self.splits = splits
        self.metric = metric
        self.error_score = error_score
        self.processes = processes
        self.batch_size = batch_size
        self.verbose = verbose
        self.paired = isinstance(policy, PairedRacing)
        self._ended_by: set[int] = set()
        self.results = Results(fits.settings, np.nan if error_score == "raise" else error_score)

    def run(self) -> None:
        """Race to the end."""
        # One process takes fits one by one, and skips those that the race no longer needs.
        order = "generator" if effective_n_jobs(self.processes["n_jobs"]) == 1 else "list"
        with Parallel(**self.processes, return_as=order) as parallel:
            while not self.policy.stopped:
                pulls = self.policy.ask(self.batch_size)
                outcomes = parallel(self._task(pull) for pull in pulls)
                self._take_in_turn(zip(pulls, outcomes, strict=True))
                if self.verbose:
                    self._print_state()
        self._score_unopposed()

    def _task(self, pull: Pull) -> Any:
        return self.fits.task(pull.action, self.splits.draw(self._number(pull)))

    def _number(self, pull: Pull) -> int:
        """Return the number of a pull's split."""
        return int(pull.tag) if self.paired else pull.number

    def _take_in_turn(self, outcomes: Iterable[tuple[Pull, Any]]) -> None:
        """Report a batch to the race in the order of issue, whichever was ready first."""
        for pull, outcome in outcomes:
            if self.policy.stopped:
                return
            self._take(pull, outcome)

    def _take(self, pull: Pull, outcome: dict[str, Any] | Exception) -> None:
        """Report the result of a pull to the race, if it is still needed."""
        if pull in self.policy.to_cancel():
            self.policy.fail(pull, "cancelled")
            return
        score = self._score(pull, outcome)
        if np.isfinite(score):
            self._keep(pull, outcome)
            self.policy.tell(pull, score)
        elif self.paired:
            self.results.failure = outcome
            self.policy.fail(pull, "error")
            if self.policy.stopped:
                self._ended_by.add(self._number(pull))
        else:
            raise InvalidArgument(
                "error_score", "must be 'raise' or a finite number unless paired", self.error_score
            ) from (outcome if isinstance(outcome, Exception) else None)

    def _keep(self, pull: Pull, outcome: dict[str, Any] | Exception) -> None:
        if isinstance(outcome, Exception):
            self.results.failure, outcome = outcome, {}
        column = self.splits.column(self._number(pull)) if self.paired else None
        self.results.add(pull.action, outcome, column)

    def _score_unopposed(self) -> None:
        """Score a candidate that won because there was no other, or none that could be fitted.

        It must succeed on the split on which its last rival failed.
        """
        leader = leader_of(self.policy)
        if leader is None:
            return
        most = self.splits.count or _SCORES_UNOPPOSED
        numbers = set(range(most)) if self._is_unopposed(leader) else set()
        wanted = sorted(numbers | self._ended_by)
        labels = self.policy.problem.labels(leader)
        pulls = [
            Pull(at, leader, labels, tag=at)
            for at in wanted
            if not self.results.has(leader, self.splits.column(at))
        ]
        with Parallel(**self.processes) as parallel:
            outcomes = parallel(self._task(pull) for pull in pulls)
        for pull, outcome in zip(pulls, outcomes, strict=True):
            if not np.isfinite(self._score(pull, outcome)):
                raise all_failed(outcome)
            self._keep(pull, outcome)

    def _is_unopposed(self, leader: int) -> bool:
        states = [one.status for one in self.policy.progress().arm_states]
        return all(state == "withdrawn" for state in states[:leader] + states[leader + 1 :])

    def _score(self, pull: Pull, outcome: dict[str, Any] | Exception) -> float:
        """Return the score that decides; replace a failure, and warn about it."""
        setting = self.fits.settings[pull.action]
        if isinstance(outcome, Exception):
            if self.error_score == "raise":
                raise outcome
            score = float(self.error_score)
            follows = f"counts as {score:g}" if np.isfinite(score) else "is out of the race"
            what = f"a fit of {setting} failed, and {follows}: {outcome!r}"
            warn_caller(what, FitFailedWarning)
            return score
        score = float(outcome[self._key(outcome)])
        if not np.isfinite(score):
            warn_caller(f"{setting} has a score of {score:g}, and is out of the race")
        self._check_range(score)
        return score

    def _key(self, outcome: dict[str, Any]) -> str:
        names = [key.removeprefix("test_") for key in outcome if key.startswith("test_")]
        if self.metric in names:
            return f"test_{self.metric}"
        if names != ["score"]:
            raise InvalidArgument("refit", f"must name one of the metrics {names}")
        return "test_score"

    def _check_range(self, score: float) -> None:
        limits = self.policy.problem.reward_range
        if limits is not None and not limits[0] <= score <= limits[1] and np.isfinite(score):
            low, high = limits
            raise InvalidArgument(
                "score_range", f"must hold all scores; [{low:g}, {high:g}] does not hold {score:g}"
            )

    def _print_state(self) -> None:
        progress = self.policy.progress()
        states = [one.status for one in progress.arm_states]
        left = states.count("undecided")
        # scikit-learn's verbose searches print to standard output, too.
        print(f"{progress.told} pulls, {left} of {len(states)} candidates left")  # noqa: T201
