"""What can happen in a study: every method here writes events, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from fairtrial.core import Pull
from fairtrial.core.problem import Outcome
from fairtrial.errors import ExperimentFinished, FairtrialError, MistakesFound, NothingToAsk
from fairtrial.study.arguments import (
    as_json,
    as_pairs,
    as_path,
    as_reading,
    as_result,
    check_lease,
    check_many,
    check_reason,
    check_texts,
    is_unsolicited,
    own_action,
)
from fairtrial.study.log import Event, PullRow, Record
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_tables import ResultTable
from fairtrial.study.viewing import Viewing
from fairtrial.study.writer import Writer

__all__ = ["Recording"]


class Recording(Viewing):
    """The part of a study that writes."""

    # ------------------------------------------------------------------------- asks

    @overload
    def ask(
        self,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> list[StudyPull]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull | list[StudyPull]:
        """Issue the next pull, or up to `n` of them as a list, in one write.

        Parameters
        ----------
        n : int, optional
            Number wanted, at most 10,000: others wait while they are written. Without it one
            pull is returned, not a list.
        worker : str, optional
            Who will carry it out; recorded.
        lease : float, optional
            Seconds after which the pull counts as lost, or is handed out again, as the
            policy's `expiry` says. Without it the study waits for ever.
        request_id : str, optional
            A key of your own: the same request again gets the same pulls.
        **context
            What the environment says in advance: ``group=`` for passive arrivals.

        Returns
        -------
        StudyPull or list of StudyPull
            The list is shorter than `n`, or empty, when no more can be issued now.

        Raises
        ------
        ExperimentFinished
            One pull was asked and the policy has stopped.
        NothingToAsk
            One pull was asked and none can be issued before the next result.
        """
        wanted = 1 if n is None else check_many("n", n)
        asking = self._asking(wanted, worker, lease, request_id, context)
        pulls = self._session.write(lambda writer: self._bound(asking(writer)))
        if n is not None:
            return pulls
        if not pulls:
            raise self._nothing()
        return pulls[0]

    def _asking(
        self,
        n: int,
        worker: str | None,
        lease: float | None,
        request_id: str | None,
        context: Mapping[str, Any],
    ) -> Callable[[Writer], list[PullRow]]:
        check_texts(worker=worker, request_id=request_id)
        seconds = None if lease is None else check_lease(lease)
        clean = as_json("context", context)
        return lambda writer: writer.ask(n, clean, worker, seconds, request_id)

    def _nothing(self) -> ExperimentFinished | NothingToAsk:
        if self.stopped:
            return ExperimentFinished(f"study {self.name!r} has stopped: see recommend()")
        return NothingToAsk(f"study {self.name!r} has no pull to give before the next result")

    def extend(self, pull: Pull | str, lease: float) -> Event:
        """Let the lease of a pull in flight run for that many seconds from now (a heartbeat).

        Raises
        ------
        AlreadyTold
            If the pull is no longer open: told, or given up.
        UnknownPull
            If it is not a pull of this study.
        """
        pull_id, seconds = self._pull_id(pull), check_lease(lease)
        return self._event(lambda writer: writer.extend(pull_id, seconds))

    # ------------------------------------------------------------------------- tells

    def tell(
        self,
        pull: Pull | str,
        value: Outcome,
        *,
        request_id: str | None = None,
        actor: str | None = None,
    ) -> Event:
        """Take the outcome of a pull; it is safe when this returns.

        Parameters
        ----------
        pull : StudyPull, str or Pull
            The pull or its `id`; or ``problem.pull(arm=...)`` for unsolicited data.
        value : float or mapping
            The outcome, as the problem types it. Of several measures every one must be there,
            unless it was reported before; None is a value that will never be known.
        request_id : str, optional
            A key of your own, by which unsolicited data count once.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        Event
            What was written; the first event again if the same outcome is told twice.

        Raises
        ------
        InvalidOutcome
            If the problem refuses the outcome.
        ConflictingOutcome
            If the pull was told another outcome before; the message names both.
        UnknownPull
            If it is not a pull of this study.
        """
        return self._event(self._telling(pull, value, actor, request_id))

    def tell_known(
        self, pull: Pull | str, values: Mapping[str, Any], *, actor: str | None = None
    ) -> Event | None:
        """Take those measures of a pull that are known: its outcome, once none is left open.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        values : mapping of str to float or None
            The measures; None for one that will never be known.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        Event or None
            A report, or the outcome; None if all of it was reported before.

        Raises
        ------
        InvalidOutcome, ConflictingOutcome, UnknownPull
            As `tell` does.
        """
        check_texts(actor=actor)
        pull_id, result = self._pull_id(pull), as_result(self.problem, values)
        records = self._session.write(lambda writer: writer.tell_or_report(pull_id, result, actor))
        return Event.of(records[0]) if records else None

    def tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> list[Event]:
        """Take many outcomes in one write: all of them, or after an error none.

        Parameters
        ----------
        outcomes : sequence of (pull, value)
            Each as in `tell`; at most 10,000, because others wait while they are written.
        actor : str, optional
            Who says so; recorded.
        request_id : str, optional
            A key of your own, by which unsolicited data among them count once.
        """
        telling = [
            self._telling(pull, value, actor, _part_of(request_id, pull, place))
            for place, (pull, value) in enumerate(as_pairs(outcomes))
        ]
        records = self._session.write(lambda writer: [tell(writer) for tell in telling])
        return [Event.of(record) for record in records]

    def tell_many_known(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        actor: str | None = None,
    ) -> list[Event]:
        """Take of many pulls the measures that are known, in one write: all, or none.

        Parameters
        ----------
        outcomes : sequence of (pull, values)
            Each as in `tell_known`; at most 1,000.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        list of Event
            One for each pull of which something new was said, or whose outcome is whole.

        Raises
        ------
        MistakesFound
            If some are refused; all of them are named, by their place.
        """
        check_texts(actor=actor)
        pairs = as_pairs(outcomes)
        told = [(self._pull_id(pull), as_result(self.problem, values)) for pull, values in pairs]

        def tell(writer: Writer) -> list[Record]:
            records, mistakes = [], []
            for place, (pull_id, result) in enumerate(told):
                try:
                    records += writer.tell_or_report(pull_id, result, actor)
                except FairtrialError as error:
                    mistakes.append(f"outcomes[{place}]: {error}")
            if mistakes:
                raise MistakesFound(mistakes, "outcomes")
            return records

        return [Event.of(record) for record in self._session.write(tell)]

    def tell_table(self, path: str | os.PathLike[str], *, actor: str | None = None) -> list[Event]:
        """Take the results of a table in one write: all of them, or after an error none.

        Parameters
        ----------
        path : str or path
            A table with the columns ``pull_id`` and ``value``, or one that `write_pulls` wrote,
            filled in. A pull whose value is blank is still open. Columns that give a pull's labels,
            or what it is made of, must agree with it. Where an outcome is a row of fields there is
            a column for each: ``outcome_`` and its name. Where these are measures, a blank one is
            not known yet: the others are reported. Write ``missing`` for what will never be known.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        list of Event
            One for each result; the first event again where the same was told before.

        Raises
        ------
        InvalidTable
            If a row is refused; all such rows are named, each with its line.
        InvalidArgument
            If the file cannot be read, or lacks a column.
        """
        check_texts(actor=actor)
        table = ResultTable(self.problem, as_path(path))

        def tell(writer: Writer) -> list[Record]:
            records, mistakes = [], list(table.mistakes)
            for row in table.rows:
                try:
                    row.check_labels(self.problem, writer.pull(row.pull_id).action)
                    records += writer.tell_or_report(row.pull_id, row.result, actor)
                except FairtrialError as error:
                    mistakes.append((row.place, str(error)))
            table.refuse(mistakes)
            return records

        return [Event.of(record) for record in self._session.write(tell)]

    @overload
    def tell_and_ask(
        self,
        pull: Pull | str,
        value: Outcome,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull | None: ...
    @overload
    def tell_and_ask(
        self,
        pull: Pull | str,
        value: Outcome,
        n: int,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> list[StudyPull]: ...
    def tell_and_ask(
        self,
        pull: Pull | str,
        value: Outcome,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull | list[StudyPull] | None:
        """Take an outcome and issue the next pull, or up to `n`, in one write instead of two.

        Returns
        -------
        StudyPull or None, or list of StudyPull
            None, or an empty list, when the study has stopped, or has nothing to give before the
            next result.

        Examples
        --------
        >>> from fairtrial.study import Study
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="demo")
        >>> pull = study.ask()
        >>> while pull is not None:
        ...     pull = study.tell_and_ask(pull, 0.9 if pull.arm == "a" else 0.1)
        >>> study.recommend().arm
        'a'
        """
        tell = self._telling(pull, value, worker, None)
        wanted = 1 if n is None else check_many("n", n)
        asking = self._asking(wanted, worker, lease, request_id, context)

        def both(writer: Writer) -> list[StudyPull]:
            tell(writer)
            return self._bound(asking(writer))

        pulls = self._session.write(both)
        if n is not None:
            return pulls
        return pulls[0] if pulls else None

    def _telling(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Callable[[Writer], Record]:
        check_texts(actor=actor, request_id=request_id)
        result = as_result(self.problem, value)
        if isinstance(pull, Pull) and is_unsolicited(pull):
            action = own_action(self.problem, pull)
            return lambda writer: writer.tell_unsolicited(action, result, actor, request_id)
        pull_id = self._pull_id(pull)
        return lambda writer: writer.tell(pull_id, result, actor, request_id)

    def amend(
        self, pull: Pull | str, value: Outcome, reason: str, *, actor: str | None = None
    ) -> Event:
        """Correct an outcome that was told before; the reason is recorded.

        Of several measures, those that are left out keep their values.

        Raises
        ------
        NotSupported
            If the policy cannot correct an outcome.
        UnknownPull
            If the pull was never told.
        """
        check_texts(actor=actor)
        check_reason(reason)
        pull_id, result = self._pull_id(pull), as_result(self.problem, value)
        return Event.of(
            self._session.write(lambda writer: writer.amend(pull_id, result, reason, actor))
        )

    # ----------------------------------------------------------------- other events

    def report(
        self,
        pull: Pull | str,
        value: float | Mapping[str, float],
        *,
        request_id: str | None = None,
        actor: str | None = None,
        **details: Any,
    ) -> Event:
        """Take a partial reading of a pull in flight, where the policy has use for them.

        Where a pull measures several things, these are the measures that are known already. The
        others come with another report, or with `tell`.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        value : float, or mapping of str to float
            The reading; where the problem has measures, those that are known.
        request_id : str, optional
            A key of your own, by which the reading counts once.
        actor : str, optional
            Who says so; recorded.
        **details
            What the family wants to know of it.

        Raises
        ------
        NotSupported
            If the policy takes no readings.
        InvalidOutcome
            If the problem refuses the value.
        AlreadyTold
            If the pull was told before, and the policy has no use for late readings.
        ConflictingOutcome
            If a measure was reported or told with another value before.
        """
        check_texts(actor=actor, request_id=request_id)
        pull_id, clean = self._pull_id(pull), as_reading(self.problem, value)
        known = as_json("details", details)
        return Event.of(
            self._session.write(
                lambda writer: writer.report(pull_id, clean, known, actor, request_id)
            )
        )

    def cancel(self, pull: Pull | str, reason: str = "user", *, actor: str | None = None) -> Event:
        """Cancel a pull. If its result arrives anyway, it is recorded and given to the policy."""
        return self._give_up("cancel", pull, reason, actor)

    def fail(self, pull: Pull | str, reason: str = "lost", *, actor: str | None = None) -> Event:
        """Report a pull lost. If its result arrives anyway, it is recorded and given to the policy.

        The policy is told the reason.
        """
        return self._give_up("fail", pull, reason, actor)

    def _give_up(self, kind: str, pull: Pull | str, reason: str, actor: str | None) -> Event:
        check_texts(actor=actor)
        check_reason(reason)
        pull_id = self._pull_id(pull)
        return Event.of(
            self._session.write(lambda writer: writer.give_up(kind, pull_id, reason, actor))
        )

    def stop(self, reason: str, *, actor: str | None = None) -> Event:
        """Stop the study without an answer: no more pulls are issued.

        Results of pulls that are under way still count when they come. They may even decide the
        study, as they would have done without the stop.

        Parameters
        ----------
        reason : str
            Why; it is recorded, and shown wherever the answer is.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        Event
            What was written; the first event again if the study was stopped before.

        Raises
        ------
        ExperimentFinished
            If the study has stopped by itself.

        Examples
        --------
        >>> from fairtrial.study import Study
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="demo")
        >>> study.stop("the drug was recalled", actor="board").kind, study.ask(5), study.status
        ('stop', [], 'undecided')
        """
        check_texts(actor=actor)
        check_reason(reason)
        return self._event(lambda writer: writer.stop(reason, actor))

    def pass_time(self) -> None:
        """Check the clock: expire leases, and stop the study if `max_time` is over.

        Every write does this; call it yourself only while you wait for results. `max_time` is in
        seconds since the first event.
        """
        self._session.pass_time()

    def snapshot(self) -> None:
        """Keep the policy's state, so that the next opening need not replay the log.

        This happens by itself every thousand events and on `close`.

        Raises
        ------
        NotSupported
            If the policy's `state_fields` forget a part of its state.
        """
        self._session.snapshot()

    # ----------------------------------------------------------------------- machinery

    def _event(self, operation: Callable[[Writer], Record]) -> Event:
        return Event.of(self._session.write(operation))


def _part_of(request_id: str | None, pull: Pull | str, place: int) -> str | None:
    """Return the key of one of many outcomes that are told by one request."""
    if request_id is None or not is_unsolicited(pull):
        return None
    return f"{request_id}:{place}"
