"""The policy: sampling rule, stopping rule and recommendation rule in one object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isnan
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from fairtrial.core.compilation import compiled
from fairtrial.core.compiled_paths import compiled_paths_of
from fairtrial.core.keywords import call_with, require_keywords
from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee, Progress, Recommendation
from fairtrial.core.resumable import Resumable, State
from fairtrial.core.seeds import secret_key
from fairtrial.core.validation import check_integer
from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    InvalidArgument,
    NothingToAsk,
    NotSupported,
    UnknownPull,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fairtrial.core.environment import Environment
    from fairtrial.core.run import Run
    from fairtrial.core.runs import Runs
    from fairtrial.core.streams import Streams

__all__ = ["Choice", "Policy", "State"]

Choice = int | tuple[int, int] | tuple[int, int, float] | None
"""What `Policy.choose` returns: an action; an action and a tag; both and the propensity of the arm
(NaN if it was not drawn at random); or None for "nothing now"."""

_A_DETAIL = "a detail of a reading that this policy takes"


OUT_OF_ORDER = (
    "some results are missing, came before those of earlier pulls, or were not asked for, and this "
    "may depend on their values"
)
"""Why intervals from all results that were told are only approximate."""


class Policy(ShownInNotebooks, Resumable, ABC):
    """Base of every policy, yours and ours.

    A subclass defines `choose` (what to try next), `learn` (take one result),
    `stopped` and `recommend`, and lists in `state_fields` the attributes that make
    up its state. The base numbers the pulls, keeps track of those in flight, checks
    results, and saves and restores the state.

    A policy is deterministic: the same problem, parameters, seed and sequence of
    calls give the same pulls. A policy that draws at random takes its numbers from
    `generator`. Parameters are kept as given and never changed: clones share them.
    A subclass with its own constructor takes `problem` and `seed` as well, and passes them on.

    Parameters
    ----------
    problem : Problem
        What is known and wanted.
    seed : None, int or numpy.random.Generator
        Source of the policy's own randomness, if it has any.

    Attributes
    ----------
    asked, told : int
        Pulls issued, and results received.
    """

    expiry: ClassVar[Literal["drop", "reissue"]] = "drop"
    """What happens to a pull whose lease ran out: it is lost, or given to another worker."""

    delta: float | None = None
    """Accepted probability of a wrong answer; None for a rule without one."""

    max_time: float | None = None
    """Time after which the policy stops undecided, if `pass_time` tells it the time."""

    max_pulls: int | None = None
    """The largest number of results, if there is a limit; no more pulls are then issued."""

    planned_end: bool = False
    """Whether the policy plans for the end that `max_pulls` states."""

    doubts_of_table: tuple[str, ...] = ()
    """What the checks of a finished experiment found that contradicts every guarantee."""

    environments: ClassVar[type[Environment] | None] = None
    """The environments for which its runs are compiled.

    Runs of a subclass that overrides what decides about a run (`choose`, `learn`, `stopped`, ...)
    are not compiled, unless it declares this again: its compiled runs then do the same.
    """

    endless: ClassVar[bool] = False
    """Whether the policy never stops by itself; a simulation then needs a horizon."""

    has_shared_blocks: ClassVar[bool] = False
    """Whether pulls with the same tag must be measured under the same circumstances: on the same
    split, day or case. The tag is then shown to whoever measures, as the pull's block."""

    results_are_independent: ClassVar[bool] = True
    """Whether results of different arms are independent; False if arms share random draws."""

    # -------------------------------------------------- what a subclass defines

    @abstractmethod
    def choose(self, *args: Any, **context: Any) -> Choice:
        """Return the action of the next pull, or None for "nothing now".

        It may come with a tag, and with the probability with which its arm was drawn (`Choice`).

        `self.asked` is the number that the pull will get. `context` is what the
        environment announced (``group="naive"`` when patients arrive by themselves). A
        subclass declares the keywords that it takes, if any: ``def choose(self, group=None)``.
        """

    @abstractmethod
    def learn(self, pull: Pull, outcome: Any) -> None:
        """Take an outcome of a pull that is in flight, of a lost pull, or of unsolicited data."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether the policy has stopped; it then issues no more pulls."""

    @abstractmethod
    def recommend(self) -> Recommendation:
        """Return the answer now."""

    @property
    def decided(self) -> bool:
        """Whether the policy has stopped with an answer; a study asks this after every event."""
        return self.stopped and self.recommend().status == "decided"

    def read(self, pull: Pull, value: Any, **details: Any) -> None:
        """Take a partial reading of a pull that is in flight or lost.

        If the problem has measures, the reading is an array of shape (M,) with the values that are
        new in this report, and NaN for the rest. By default this does nothing, because `learn` gets
        all values once the pull is told.
        """
        if self.problem.measured is not None:
            return
        raise NotSupported(
            f"{type(self).__name__} takes no partial readings; a policy that can ignore them "
            "defines a `read` that does nothing"
        )

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Take a reading that arrives after the outcome of its pull; refused by default."""
        raise AlreadyTold.about(pull, "was told before: its readings no longer count")

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Handle a pull that will have no outcome; by default do nothing."""

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        """Take a correction of an outcome that was told before."""
        raise NotSupported(f"{type(self).__name__} cannot correct an outcome that it was told")

    def on_amend_reading(self, pull: Pull, old: Any, new: Any) -> None:
        """Take a correction of measures that were reported before the others of their pull.

        Both are arrays of shape (M,), with NaN for values not known yet; `reported` returns the new
        one already. A value that is NaN in `new` only was withdrawn: it is not known any more. A
        policy that takes early values, by `read`, must define this to have them corrected.
        """
        if type(self).read is not Policy.read:
            raise NotSupported(
                f"{type(self).__name__} cannot correct a measure before the pull has its outcome"
            )

    @property
    def closed_arms(self) -> tuple[Any, ...]:
        """The labels of the arms that people have closed."""
        return ()

    @property
    def closed_groups(self) -> tuple[Any, ...]:
        """The labels of the groups that people have closed, if the policy takes note of them."""
        return ()

    def close_arm(self, arm: Any) -> None:
        """Ask no more for an arm, and never give it as the answer; results in flight still count.

        People decide this, for example because an arm harms. By default it is refused.

        Raises
        ------
        NotSupported
            If the policy cannot tell what its answer is worth without the arm.
        InvalidArgument
            If there is no such arm, it is closed, or no other arm is open.
        """
        raise NotSupported(
            f"{type(self).__name__} cannot close an arm: subpopulations.BlockBetting can, unless "
            "all pulls are assigned; otherwise stop the study"
        )

    def close_group(self, group: Any) -> None:
        """Take note that nobody is asked for a group any more; by default do nothing.

        People decide this. The question stays the same. Requests for pulls then name an open group:
        a study sees to that.
        """

    def _after_news(self) -> None:
        """Act on what was just told, reported, failed or amended; by default do nothing."""

    @property
    def randomizes(self) -> bool:
        """Whether the next pull is drawn at random, so that nobody can predict it."""
        return False

    def conceal(self, secret: str) -> None:
        """Before the first pull, take all random numbers from a secret instead of the seed.

        A study calls this if its policy `randomizes`: people may know the seed, which is not
        secret, and must not be able to predict the next pull.
        """
        if self.asked or self.told:
            raise NotSupported("the source of random numbers cannot be changed after the start")
        self._key = secret_key(secret)

    def pass_time(self, now: float) -> None:
        """Take the time since the start; by default do nothing.

        A simulation calls this at every event, with time in its own units. A study calls it
        once, when `max_time` (in seconds) is over; after that call the policy must have stopped.
        """

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight whose results are no longer needed: all, once stopped."""
        return self.outstanding() if self.stopped else []

    def progress(self) -> Progress:
        """Return everything that a plot or a page shows."""
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=self.n_outstanding,
        )

    def metrics(self) -> dict[str, float]:
        """Return the family's metrics of the policy in a run; by default none."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Return assumptions that the results contradict, or reasons why no decision is possible.

        By default nothing is checked. `Study.health` shows them.
        """
        return ()

    def remarks(self) -> tuple[str, ...]:
        """Return how results count at the moment, in sentences that say nothing about arms.

        By default there is nothing to say. `Study.health` shows them with the warnings, also to
        readers who must not know the results by arm.
        """
        return ()

    def remarks_on_arms(self) -> tuple[str, ...]:
        """Return further remarks, which depend on arms: only readers of the full view get them.

        By default there is nothing to say. A blinded view shows nothing in their place, because
        even that would tell that something happened to an arm.
        """
        return ()

    def open_as_worst(self) -> tuple[int, ...]:
        """Return the numbers of the open pulls that count as their worst until they have results.

        By default none does.
        """
        return ()

    def why_no_pull(self, **context: Any) -> str:
        """Return why a request with this context gets no pull, in words that tell nothing of arms.

        By default, and whenever there is no special reason, the answer is empty: the next result
        may change it. It is asked only after `ask` gave nothing although the policy runs.
        """
        return ""

    @property
    def guarantee(self) -> Guarantee:
        """What the policy promises, and under which assumptions."""
        return Guarantee("none", proven=False, statement="no guarantee is claimed")

    def horizon_for(self, max_pulls: int) -> int:
        """Return the horizon of a simulated run that is to end after that many pulls.

        By default it is the same number. A policy that makes lost pulls again, and counts each of
        them once, issues more pulls until then.

        Parameters
        ----------
        max_pulls : int
            The pulls after which the run ends, as the policy counts them.
        """
        return max_pulls

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole simulated run from compiled code, or None if there is none for it.

        The run is exactly the one that `run_policy` would give with at most `parallel` pulls in
        flight. If it returns None, the `generator` has not been used.
        """
        if not self._is_compiled_for(environment):
            return None
        if not self._can_run(environment, horizon, parallel):
            return None
        with compiled():
            return self._run(environment, generator, horizon, parallel)

    def compiled_runs(
        self,
        environment: Environment,
        streams: Streams,
        horizon: int | None,
        parallel: int = 1,
    ) -> Runs | None:
        """Return many simulated runs from one call of compiled code, or None if there is none.

        Each run is exactly the one that `compiled_run` gives to a clone with the seed of its
        stream. The policy, which must be fresh, stays as it is.
        """
        if not (compiled_paths_of(type(self), Policy).many and self._is_compiled_for(environment)):
            return None
        if not self._can_run(environment, horizon, parallel):
            return None
        with compiled():
            return self._run_all(environment, streams, horizon)

    def _is_compiled_for(self, environment: Environment) -> bool:
        """Whether compiled code does all that this class does, in such an environment."""
        kind = self.environments
        if kind is None or not isinstance(environment, kind) or self.asked or self.told:
            return False
        return compiled_paths_of(type(self), Policy).one

    def _run_all(self, environment: Any, streams: Streams, horizon: int | None) -> Runs | None:
        """Return many whole runs in one of its `environments`; None if each needs its own call."""
        return None

    def _can_run(self, environment: Any, horizon: int | None, parallel: int) -> bool:
        """Whether runs of this policy are compiled for the environment and these arguments."""
        return parallel == 1

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        """Return a whole run in one of its `environments`; the policy must be fresh."""
        raise NotImplementedError

    # ------------------------------------------------------------ what users call

    @overload
    def ask(self, **context: Any) -> Pull: ...
    @overload
    def ask(self, n: int, **context: Any) -> list[Pull]: ...
    def ask(self, n: int | None = None, **context: Any) -> Pull | list[Pull]:
        """Issue the next pull, or the next `n` of them as a list.

        Parameters
        ----------
        n : int, optional
            Number of pulls. Without it, return one pull, not a list.
        **context
            What the environment announces, if the family has such a thing: ``group=`` if groups
            arrive by themselves.

        Returns
        -------
        Pull or list of Pull
            The list is shorter than `n`, or empty, if no more pulls can be issued now.

        Raises
        ------
        ExperimentFinished
            If one pull was requested and the policy has stopped.
        NothingToAsk
            If one pull was requested and none can be issued before the next result.
        """
        if n is not None:
            pulls = []
            self.problem.check_ask(check_integer("n", n, low=0), context)
            for _ in range(n):
                pull = self._issue(context)
                if pull is None:
                    break
                pulls.append(pull)
            return pulls
        single = self._issue(context)
        if single is None:
            if self.stopped:
                raise ExperimentFinished(
                    f"{type(self).__name__} has stopped and issues no more pulls"
                )
            raise NothingToAsk(
                self.why_no_pull(**context) or "no pull can be issued before the next result"
            )
        return single

    def _issue(self, context: dict[str, Any]) -> Pull | None:
        if self.stopped or self._has_issued_all():
            return None
        choice = self._choose(context)
        if choice is None:
            return None
        action, tag, propensity = self._checked(choice)
        pull = self._pull(self.asked, action, tag, propensity)
        if context:
            self._require_as_asked(pull, context)
        self._outstanding[self.asked] = (action, tag)
        self.asked += 1
        return pull

    def _choose(self, context: dict[str, Any]) -> Choice:
        try:
            # Without results there is nothing to plan with, so the first pulls cost little.
            if self.told and self.problem.is_costly:
                with compiled():
                    return self.choose(**context) if context else self.choose()
            return self.choose(**context) if context else self.choose()
        except TypeError:
            require_keywords(self.choose, context, "something that this policy can be asked for")
            raise

    def _has_issued_all(self) -> bool:
        most = self.max_pulls
        return most is not None and self.told + len(self._outstanding) >= most

    def _checked(self, choice: Any) -> tuple[int, int, float | None]:
        """Return action, tag and propensity as Python's types, whatever `choose` returned."""
        tag, propensity = 0, None
        try:
            if not isinstance(choice, tuple):
                action = index(choice)
            elif len(choice) == 2:
                action, tag = index(choice[0]), index(choice[1])
            else:
                first, second, propensity = choice
                action, tag = index(first), index(second)
        except (TypeError, ValueError):
            raise self._bad_choice(choice) from None
        if not 0 <= action < self.problem.n_actions:
            raise self._bad_choice(choice)
        if propensity is None or isnan(propensity):
            return action, tag, None
        return action, tag, float(propensity)

    def _require_as_asked(self, pull: Pull, context: dict[str, Any]) -> None:
        for name, value in context.items():
            if name in pull.labels and str(pull.labels[name]) != str(value):
                accepted = f"must return an action of {name} {value!r}, as requested, or None"
                raise InvalidArgument(f"{type(self).__name__}.choose", accepted, pull.action)

    def _bad_choice(self, choice: object) -> InvalidArgument:
        accepted = f"must return an action from 0 to {self.problem.n_actions - 1}, or None"
        return InvalidArgument(f"{type(self).__name__}.choose", accepted, choice)

    def tell(self, pull: Pull, outcome: Outcome) -> None:
        """Take the outcome of a pull: in any order, with any number of pulls in flight.

        Parameters
        ----------
        pull : Pull
            A pull in flight, a lost pull, or ``problem.pull(arm=...)`` for data that the policy did
            not request.
        outcome : float or mapping
            The result, in the form that the problem requires.

        Raises
        ------
        InvalidOutcome
            If the problem refuses the outcome; then nothing has changed.
        AlreadyTold
            If the pull was told before.
        UnknownPull
            If the pull was never issued.
        """
        number = _number_of(pull)
        clean = self._with_values_so_far(number, outcome)
        if number == UNSOLICITED:
            self._require_own_action(pull)
            self.learn(pull, clean)
        else:
            known = self._outstanding.get(number)
            lost = None if known is not None else self._lost.get(number)
            self._require_known(pull, known or lost)
            self.learn(pull, clean)
            if known is not None:
                del self._outstanding[number]
            else:
                del self._lost[number]
            self._values_so_far.pop(number, None)
        self.told += 1
        self._after_news()

    def _with_values_so_far(self, number: int, outcome: Outcome) -> Any:
        """Return an outcome in its clean form; with measures, add the values reported before."""
        measured = self.problem.measured
        if measured is None or number not in self._values_so_far:
            return self.problem.check_outcome(outcome)
        return measured.complete(outcome, self._values_so_far[number])

    def reported(self, pull: Pull) -> NDArray[np.float64] | None:
        """Return the values of a pull that were reported before its outcome.

        Returns
        -------
        ndarray of shape (M,) or None
            With measures: NaN for values not known yet; None if none is known.
        """
        found = self._values_so_far.get(pull.number)
        return None if found is None else found.copy()

    def report(self, pull: Pull, value: float | Mapping[str, float], **details: Any) -> None:
        """Take a partial reading of a pull in flight, if the family has readings.

        If the problem has measures, these are values that are known before the others.

        Parameters
        ----------
        pull : Pull
            A pull in flight or a lost pull.
        value : float, or mapping of str to float
            The reading; with measures, the values known so far.
        **details
            Further facts that the family needs: a place, a time, a standard error.

        Raises
        ------
        NotSupported
            If the policy takes no readings.
        InvalidOutcome
            If the problem refuses the value; then nothing has changed.
        AlreadyTold
            If the pull was told before, and the family does not use late readings.
        UnknownPull
            If the pull was never issued.
        """
        clean = self.problem.check_reading(value)
        number = _number_of(pull)
        entry = self._outstanding.get(number) or self._lost.get(number)
        if entry is None and 0 <= number < self.asked:
            call_with(self.read_late, pull, clean, what=_A_DETAIL, context=details)
        else:
            self._require_known(pull, entry)
            self._read(pull, clean, **details)
            self._after_news()

    def _read(self, pull: Pull, clean: Any, **details: Any) -> None:
        """Take a reading; with measures, only new values, which are kept until the pull is told."""
        measured, before = self.problem.measured, self._values_so_far.get(pull.number)
        if measured is None:
            call_with(self.read, pull, clean, what=_A_DETAIL, context=details)
            return
        new = measured.new_in(clean, before)
        if np.isnan(new).all():
            return
        call_with(self.read, pull, new, what=_A_DETAIL, context=details)
        self._values_so_far[pull.number] = new if before is None else np.fmax(before, new)

    def fail(self, pull: Pull, reason: str = "lost") -> None:
        """Report that a pull will have no outcome (cancelled, expired, lost).

        If an outcome comes after all, `tell` still takes it. Values that were reported before stay.

        Raises
        ------
        AlreadyTold
            If the pull was told, or failed, before.
        InvalidArgument
            If the reason is not text.
        UnknownPull
            If the pull was never issued.
        """
        self._require_known(pull, self._outstanding.get(_number_of(pull)))
        if not isinstance(reason, str):
            raise InvalidArgument("reason", "must be text", reason)
        self.on_failure(pull, reason)
        self._lost[pull.number] = self._outstanding.pop(pull.number)
        self._after_news()

    def amend(self, pull: Pull, old: Outcome, new: Outcome) -> None:
        """Correct an outcome that was told before, or measures that were reported before it.

        Some evidence cannot be corrected afterwards; the guarantee then says so.

        Parameters
        ----------
        pull : Pull
            The pull. If it has no outcome yet, measures that were reported can be corrected.
        old, new : float or mapping
            The values before and after the correction: all of an outcome, or all that were reported
            of a pull without an outcome. None then withdraws a value: it is not known yet.

        Raises
        ------
        NotSupported
            If the policy cannot correct an outcome.
        InvalidOutcome
            If the problem refuses one of the two; then nothing has changed.
        ConflictingOutcome
            If `old` is not what was reported of a pull without an outcome.
        UnknownPull
            If the pull was never told.
        """
        if _number_of(pull) in self._values_so_far:
            self._amend_reading(pull, old, new)
            self._after_news()
            return
        clean_old, clean_new = self.problem.check_outcome(old), self.problem.check_outcome(new)
        number = _number_of(pull)
        self._require_own_action(pull)
        waited_for = number in self._outstanding or number in self._lost
        if not UNSOLICITED <= number < self.asked or waited_for:
            raise UnknownPull.about(pull, "has no outcome to correct")
        self.on_amend(pull, clean_old, clean_new)
        self._after_news()

    def _amend_reading(self, pull: Pull, old: Any, new: Any) -> None:
        measured, number = self.problem.measured, pull.number
        assert measured is not None, "only measures are kept until the pull is told"
        self._require_known(pull, self._outstanding.get(number) or self._lost.get(number))
        before = self._values_so_far[number]
        after = measured.corrected(before, old, new)
        if np.isnan(after).all():
            del self._values_so_far[number]
        else:
            self._values_so_far[number] = after
        try:
            self.on_amend_reading(pull, before, after)
        except NotSupported:
            self._values_so_far[number] = before
            raise

    @property
    def n_outstanding(self) -> int:
        """Number of pulls in flight."""
        return len(self._outstanding)

    @property
    def _doubt_about_order(self) -> str:
        """Why the values of results may influence which of them are known; empty if they cannot.

        They cannot if the results are exactly those of the first pulls.
        """
        unknown = [*self._outstanding, *self._lost]
        is_complete = self.told + len(unknown) == self.asked
        is_first = min(unknown, default=self.asked) == self.told
        return "" if is_complete and is_first else OUT_OF_ORDER

    def outstanding(self) -> list[Pull]:
        """Return the pulls in flight, in the order in which they were issued."""
        return [self._pull(number, *entry) for number, entry in self._outstanding.items()]

    def in_flight(self, number: int) -> Pull:
        """Return the pull with this number, which is in flight or lost."""
        entry = self._outstanding.get(number) or self._lost.get(number)
        if entry is None:
            raise UnknownPull(f"no pull number {number} is in flight")
        return self._pull(number, *entry)

    def is_lost(self, pull: Pull) -> bool:
        """Return whether the pull was reported lost; still true in `learn` if its result comes."""
        return pull.number in self._lost

    def _pull(self, number: int, action: int, tag: int, propensity: float | None = None) -> Pull:
        return Pull(number, action, self.problem.labels(action), tag, propensity)

    def _require_own_action(self, pull: Pull) -> None:
        known = 0 <= pull.action < self.problem.n_actions
        if not known or self.problem.labels(pull.action) != pull.labels:
            raise UnknownPull.about(pull, "is not one of this problem's actions")

    def _require_known(self, pull: Pull, entry: tuple[int, int] | None) -> None:
        if entry is None:
            if 0 <= pull.number < self.asked:
                raise AlreadyTold.about(
                    pull, "is no longer in flight: it was told or failed before"
                )
            raise UnknownPull.about(pull, "was never issued by this policy")
        if entry != (pull.action, pull.tag):
            issued = self._pull(pull.number, *entry)
            raise UnknownPull.about(pull, f"was never issued by this policy; it issued {issued!r}")


def _number_of(pull: Pull) -> int:
    try:
        return pull.number
    except AttributeError:
        raise InvalidArgument("pull", "must be a pull that was asked for", pull) from None
