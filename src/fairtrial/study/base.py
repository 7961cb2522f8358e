"""The methods that studies have wherever they are kept: those that write make a `Write`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

from fairtrial.core import Pull
from fairtrial.core.keywords import NamedArguments
from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.problem import Outcome
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import plural
from fairtrial.errors import ExperimentFinished, InvalidArgument, NothingToAsk
from fairtrial.study.arguments import as_pairs, as_path
from fairtrial.study.log import Event, Lease
from fairtrial.study.numbers import Asked
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_tables import PullFinder, participants_of, read_results, write_pulls
from fairtrial.study.result_tables import Correction, ResultTable
from fairtrial.study.unmasking import list_digest, opened_names
from fairtrial.study.writes import (
    Amend,
    AmendTable,
    Ask,
    Cancel,
    Checks,
    Close,
    Extend,
    Fail,
    Kit,
    Report,
    Stop,
    Supply,
    Tell,
    TellKnown,
    TellMany,
    TellManyKnown,
    TellTable,
    Unmask,
    UnmaskAll,
    Write,
    Written,
)

__all__ = ["BaseStudy"]


class BaseStudy(ShownInNotebooks, NamedArguments, ABC):
    """What can be done with a study: each method writes all of its events, or nothing.

    Parameters
    ----------
    checks : Checks
        What the arguments are checked against.
    write : callable
        Carries out a checked write.

    Attributes
    ----------
    name : str
        The study's name.
    problem : Problem
        The problem.
    """

    def __init__(self, checks: Checks, write: Callable[[Write], Written]) -> None:
        self.name = checks.name
        self.problem = checks.problem
        self.checks = checks
        self._write = write

    @property
    @abstractmethod
    def storage(self) -> str:
        """The address of the storage or the service."""

    @property
    def has_participants(self) -> bool:
        """Whether its pulls are for participants who have numbers."""
        return self.checks.conduct.participants is not None

    def write(self, write: Write) -> Written:
        """Carry out a write that is given as a value; all other methods that write call this.

        Parameters
        ----------
        write : Write
            One of the values of ``fairtrial.study.writes``.

        Returns
        -------
        Written
            The `events` that were written, or were written before by the same request, and the
            `pulls` that were issued.
        """
        return self._carried_out(write)

    def _carried_out(self, write: Write) -> Written:
        done = self._write(write.check(self.checks))
        self._bind(done.pulls)
        return done

    def _bind(self, pulls: list[StudyPull]) -> list[StudyPull]:
        for pull in pulls:
            pull.study = self
        return pulls

    @abstractmethod
    def close(self) -> None:
        """Release open resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------- asks

    @overload
    def ask(
        self,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        participant: str | None = None,
        unit: str | None = None,
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
        participant: str | None = None,
        unit: str | None = None,
        **context: Any,
    ) -> list[StudyPull]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        participant: str | None = None,
        unit: str | None = None,
        **context: Any,
    ) -> StudyPull | list[StudyPull]:
        """Issue the next pull, or up to `n` of them as a list, in one write.

        Parameters
        ----------
        n : int, optional
            Number wanted, at most 10,000, because other writers have to wait. Without it, one
            pull is returned instead of a list.
        worker : str, optional
            Name of the worker that will carry it out; recorded.
        lease : float, optional
            Seconds after which the pull counts as lost or is handed out again, depending on the
            policy's `expiry`. Without it the study waits for ever.
        request_id : str, optional
            A key of your own: repeating the request returns the same pulls.
        participant : str, optional
            The number of the participant, if the study was created with the form of such numbers;
            it is then required. A participant has one pull: asking again returns it.
        unit : str, optional
            Whom or what the pull is for, such as a visitor's id. A unit has one pull: asking again
            returns it, whatever else the request states, also after a restart, from another
            process, or once the study has stopped. Only a keyed hash of it is stored.
        **context
            What is known about the environment in advance: ``group=`` for passive arrivals.

        Returns
        -------
        StudyPull or list of StudyPull
            The list is shorter than `n`, or empty, when no more can be issued now.

        Raises
        ------
        ExperimentFinished
            If one pull was requested and the policy has stopped.
        NothingToAsk
            If one pull was requested and none can be issued before the next result.
        """
        wanted = 1 if n is None else n
        ask = Ask(wanted, worker, lease, request_id, context, None, participant, unit)
        done = self._carried_out(ask)
        return done.pulls if n is not None else self._single(done)

    def _single(self, done: Written, also: str = "") -> StudyPull:
        """Return the only pull; raise if there is none, and say what was done all the same."""
        if done.pulls:
            return done.pulls[0]
        study = f"{also}study {self.name!r}"
        if done.stopped:
            raise ExperimentFinished(f"{study} has stopped and issues no more pulls")
        why = f": {done.reason}" if done.reason else " before the next result"
        raise NothingToAsk(f"{study} has no pull to give{why}")

    @abstractmethod
    def pull_of(self, participant: str | None = None, *, unit: str | None = None) -> StudyPull:
        """Return the pull of a participant, by their number, or of a unit.

        Raises
        ------
        UnknownPull
            If this participant or unit has no pull.
        """

    def record_kit(
        self, pull: Pull | str, kit: str | None = None, *, actor: str | None = None
    ) -> Event:
        """Record the number of a kit that was handed out for a pull.

        A pull can have several kits, but each kit belongs to one pull. A masked study chooses the
        kits: leave out `kit` to get another one, for example because the first one broke.

        Raises
        ------
        InvalidArgument
            If the number does not have the form that the study was created with, or the kit was
            handed out for another pull; in a masked study, if it is not a kit of this pull.
        NothingToAsk
            If the kits of a masked study are used up.
        UnknownPull
            If it is not a pull of this study.
        """
        return self._carried_out(Kit(pull, kit, actor)).events[0]

    def supply(self, number: int, *, actor: str | None = None) -> Event:
        """Add kits to a masked study: that many for each arm.

        Their numbers are drawn at random, so that they show nothing. The body of the event has
        them by arm, for whoever packs the kits.

        Parameters
        ----------
        number : int
            How many kits of each arm.
        actor : str, optional
            Who adds them; recorded.

        Raises
        ------
        InvalidArgument
            If there are not twice as many numbers of the form.
        NotSupported
            If the study is not masked.
        """
        return self._carried_out(Supply(number, actor)).events[0]

    def unmask(
        self,
        sealed: Mapping[str, Any],
        reason: str,
        *,
        pull: Pull | str | None = None,
        actor: str | None = None,
    ) -> dict[str, str]:
        """Return what is behind the codes of a masked study; record who asked, and why.

        The access is recorded first: also one that then fails because of a wrong list.

        Parameters
        ----------
        sealed : mapping
            The content of the unmasking list that `Study.seal_names` returned.
        reason : str
            Why; it stays in the log.
        pull : StudyPull or str, optional
            The pull to unmask, in an emergency; by default all codes.
        actor : str
            Who wants to know. A service records the name of the token.

        Returns
        -------
        dict of str to str
            The name behind each code, or behind the code of the pull.

        Raises
        ------
        InvalidArgument
            If nobody is named, or `sealed` is not the list of this study.
        NotSupported
            If the study has no unmasking list, or is a copy without its secret.

        Examples
        --------
        >>> import fairtrial as ft
        >>> problem = ft.subpopulations.Problem(["A", "B"], ["all"], reward_range=(0, 1))
        >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
        >>> masked = {"kits": "K#####", "masked": True}
        >>> study = ft.Study.create(problem, policy, storage="memory://", name="m", **masked)
        >>> sealed = study.seal_names({"A": "placebo", "B": "20 mg"})
        >>> event = study.supply(10)
        >>> pull = study.ask()
        >>> study.unmask(sealed, "overdose", pull=pull, actor="Dr Who") == {
        ...     pull.arm: {"A": "placebo", "B": "20 mg"}[pull.arm]
        ... }
        True
        """
        wanted = UnmaskAll(reason, actor) if pull is None else Unmask(pull, reason, actor)
        found = self._unmasked(self._carried_out(wanted).events[0])
        if list_digest(sealed) != found["list_sha256"]:
            raise InvalidArgument("list", "must be the unmasking list of this study, unchanged")
        return opened_names(sealed, found["keys"])

    @abstractmethod
    def _unmasked(self, event: Event) -> Mapping[str, Any]:
        """Return the keys that a recorded access opens, and the digest of the list."""

    def extend(self, pull: Pull | str, lease: float, *, worker: str | None = None) -> Lease:
        """Renew the lease of an open pull for `lease` seconds from now (a heartbeat).

        This writes no event, and is not flushed: after a power failure, the pull may have an
        earlier lease.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        lease : float
            Seconds from now; a very short lease hands the pull back.
        worker : str, optional
            Name of the worker that has the pull; by default the one in the pull. A service takes
            the name of the token.

        Returns
        -------
        Lease
            The pull, and when its new lease ends.

        Raises
        ------
        AlreadyTold
            If the pull is no longer open: it has an outcome, has failed or was cancelled. Or if it
            was handed out again, to another worker.
        UnknownPull
            If it is not a pull of this study.
        """
        extended = self._carried_out(Extend(pull, lease, worker)).lease
        assert extended is not None, "it was extended or refused"
        return extended

    @abstractmethod
    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether the policy no longer needs a pull's outcome, or the pull has ended."""

    def write_pulls(self, pulls: Sequence[StudyPull], path: str | os.PathLike[str]) -> Path:
        """Write pulls as a table with blank columns for their results, and return its path.

        Parameters
        ----------
        pulls : sequence of StudyPull
            Pulls that `ask` or `outstanding` returned.
        path : str or path
            Must end in ``.csv`` or ``.xlsx`` (extra ``excel``). An existing file is replaced.
        """
        target = as_path(path)
        asked = self.asked_for(pulls) if self.has_participants else []
        write_pulls(self.problem, pulls, target, participants=participants_of(pulls, asked))
        return target

    @abstractmethod
    def asked_for(self, pulls: Sequence[StudyPull]) -> list[Asked]:
        """Return when pulls were asked for, and for which participants."""

    # ------------------------------------------------------------------------- tells

    def tell(
        self,
        pull: Pull | str,
        value: Outcome,
        *,
        request_id: str | None = None,
        actor: str | None = None,
    ) -> Event:
        """Record the outcome of a pull; it is durable once this returns.

        Parameters
        ----------
        pull : StudyPull, str or Pull
            The pull or its `id`; ``problem.pull(arm=...)`` for unsolicited data.
        value : float or mapping
            The outcome, in the type that the problem defines. With several measures, all of them
            must be given unless they were reported before; None means that a value will never be
            known.
        request_id : str, optional
            A key of your own; unsolicited data with the same key count only once.
        actor : str, optional
            Who reports it; recorded.

        Returns
        -------
        Event
            The event that was written; the first one again if the same outcome was told before.

        Raises
        ------
        InvalidOutcome
            If the problem refuses the outcome.
        ConflictingOutcome
            If the pull was told a different outcome before; the message names both.
        UnknownPull
            If it is not a pull of this study.
        """
        return self._carried_out(Tell(pull, value, actor, request_id)).events[0]

    def tell_known(
        self, pull: Pull | str, values: Outcome, *, actor: str | None = None
    ) -> Event | None:
        """Record the measures of a pull that are known; once all are, they are its outcome.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        values : mapping of str to float or None
            The known measures; None for one that will never be known. An outcome without measures
            is told, as by `tell`.
        actor : str, optional
            Who reports it; recorded.

        Returns
        -------
        Event or None
            A reading, or the outcome; None if all of it was reported before.

        Raises
        ------
        InvalidOutcome, ConflictingOutcome, UnknownPull
            As `tell` does.
        """
        return next(iter(self._carried_out(TellKnown(pull, values, actor)).events), None)

    def tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> list[Event]:
        """Record many outcomes in one write: all of them or, after an error, none.

        Parameters
        ----------
        outcomes : sequence of (pull, value)
            Each as in `tell`; at most 10,000, because other writers have to wait.
        actor : str, optional
            Who reports it; recorded.
        request_id : str, optional
            A key of your own; unsolicited data among the outcomes count only once with it.
        """
        tells = [Tell(pull, value, actor) for pull, value in as_pairs(outcomes)]
        return self._carried_out(TellMany(tells, request_id)).events

    def tell_many_known(
        self, outcomes: Sequence[tuple[Pull | str, Outcome]], *, actor: str | None = None
    ) -> list[Event]:
        """Record the known measures of many pulls in one write: all or, after an error, none.

        Parameters
        ----------
        outcomes : sequence of (pull, values)
            Each as in `tell_known`; at most 10,000, because other writers have to wait.
        actor : str, optional
            Who reports it; recorded.

        Returns
        -------
        list of Event
            One for each pull that got a new measure or whose outcome became complete.

        Raises
        ------
        MistakesFound
            If some are refused; the error names all of them by their position.
        """
        tells = [TellKnown(pull, values, actor) for pull, values in as_pairs(outcomes)]
        return self._carried_out(TellManyKnown(tells)).events

    def tell_table(
        self,
        path: str | os.PathLike[str],
        *,
        decimal: str | None = None,
        actor: str | None = None,
    ) -> list[Event]:
        """Record the results of a table in one write: all of them or, after an error, none.

        Parameters
        ----------
        path : str or path
            A table with the columns ``pull_id`` and ``value``, or a filled-in table from
            `write_pulls`. ``participant`` can name the pulls instead, or ``unit`` if the study has
            no numbers of participants. A pull with a blank value stays open. Columns with a pull's
            labels, or with the ingredients of its arm, must agree with the pull. If an outcome is a
            row of fields, each has a column: ``outcome_`` followed by its name. If these fields are
            measures, a blank one is not known yet and the others are reported. Write ``missing``
            for a value that will never be known, and ``failed`` or ``missing`` in all columns of
            results if the pull will have none. docs/reference/tables.md says which files and
            numbers are read.
        decimal : {".", ","}, optional
            The decimal separator, if the columns do not show it.
        actor : str, optional
            Who reports it; recorded.

        Returns
        -------
        list of Event
            One for each result; the first event again if the same result was told before.

        Raises
        ------
        InvalidTable
            If a row is refused; the error names all such rows with their lines.
        InvalidArgument
            If the file cannot be read, or lacks a column.
        """
        table = self._results(path, decimal)
        return self._carried_out(TellTable(table, actor)).events

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
    ) -> StudyPull: ...
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
    ) -> StudyPull | list[StudyPull]:
        """Record an outcome and issue the next pull, or up to `n`, in one write instead of two.

        Returns
        -------
        StudyPull or list of StudyPull
            As `ask` does: one pull without `n`, and with `n` a list that may be empty.

        Raises
        ------
        ExperimentFinished, NothingToAsk
            As `ask` does, if one pull was requested and there is none. The outcome is recorded.

        Examples
        --------
        >>> from fairtrial.study import Study
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="demo")
        >>> pulls = study.ask(1)
        >>> while pulls:
        ...     pulls = study.tell_and_ask(pulls[0], 0.9 if pulls[0].arm == "a" else 0.1, 1)
        >>> study.recommend().arm
        'a'
        """
        tell = Tell(pull, value, worker)
        done = self._carried_out(
            Ask(1 if n is None else n, worker, lease, request_id, context, tell)
        )
        return done.pulls if n is not None else self._single(done, "the outcome is recorded; ")

    def amend(
        self, pull: Pull | str, value: Outcome, reason: str, *, actor: str | None = None
    ) -> Event:
        """Correct an outcome that was told before; the reason is recorded.

        With several measures, those that are left out keep their values. Measures that were told
        early can be corrected before the others are known; None takes one back, which is then not
        known yet and can be told again.

        Raises
        ------
        NotSupported
            If the policy cannot correct outcomes; or a value is taken back that paid bets have used
            although only the noise is known.
        UnknownPull
            If the pull has no outcome to correct.
        """
        return self._carried_out(Amend(pull, value, reason, actor)).events[0]

    def amend_table(
        self,
        path: str | os.PathLike[str],
        reason: str,
        *,
        preview: bool = False,
        decimal: str | None = None,
        actor: str | None = None,
    ) -> list[Correction]:
        """Correct results by a table in one write: all of them or, after an error, none.

        Parameters
        ----------
        path : str or path
            A table as `tell_table` takes it. Rows with a blank value, and rows that say what is on
            record, change nothing. First results are no corrections: they are left to
            `tell_table`, and a warning says how many there are.
        reason : str
            Why the results are corrected; recorded with each.
        preview : bool
            Whether to return what would be corrected, and to write nothing.
        decimal : {".", ","}, optional
            The decimal separator, if the columns do not show it.
        actor : str, optional
            Who corrects them; recorded.

        Returns
        -------
        list of Correction
            The results that differ from those on record, in the order of the table.

        Raises
        ------
        InvalidTable
            If a row is refused; the error names all such rows with their lines.
        InvalidArgument
            If the file cannot be read, or lacks a column.
        NotSupported
            If the policy cannot correct outcomes.
        """
        table = self._results(path, decimal)
        written = self._carried_out(AmendTable(table, reason, actor, preview))
        if written.first_results:
            rows = plural(written.first_results, "first result")
            warn_caller(
                f"{table.name}: {rows} left to be told, because a correction needs a result on "
                "record: tell the same table next"
            )
        return written.corrections

    def _results(self, path: str | os.PathLike[str], decimal: str | None) -> ResultTable:
        """Return the results in a table, with the pulls that it names."""
        return read_results(self.problem, as_path(path), decimal, self._finders())

    def _finders(self) -> dict[str, PullFinder]:
        """Return what finds the pull of a participant or unit, by the column that names them."""
        if self.has_participants:
            return {"participant": lambda number: self.pull_of(number).id}
        return {"unit": lambda unit: self.pull_of(unit=unit).id}

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
        """Record a partial reading of an open pull, for policies that use readings.

        If a pull has several measures, these are the measures known so far. The others follow in
        another report, or in `tell`.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        value : float, or mapping of str to float
            The reading; if the problem has measures, those that are known.
        request_id : str, optional
            A key of your own; readings with the same key count only once.
        actor : str, optional
            Who reports it; recorded.
        **details
            Further information that the family uses.

        Raises
        ------
        NotSupported
            If the policy takes no readings.
        InvalidOutcome
            If the problem refuses the value.
        AlreadyTold
            If the pull was told before, and the policy does not use late readings.
        ConflictingOutcome
            If a measure was reported or told with a different value before.
        """
        return self._carried_out(Report(pull, value, details, actor, request_id)).events[0]

    def cancel(self, pull: Pull | str, reason: str = "user", *, actor: str | None = None) -> Event:
        """Cancel a pull. A result that arrives anyway is recorded and passed to the policy."""
        return self._carried_out(Cancel(pull, reason, actor)).events[0]

    def fail(self, pull: Pull | str, reason: str = "lost", *, actor: str | None = None) -> Event:
        """Report a pull lost. A result that arrives anyway is recorded and passed to the policy.

        The policy is told the reason.
        """
        return self._carried_out(Fail(pull, reason, actor)).events[0]

    def stop(self, reason: str, *, actor: str | None = None) -> Event:
        """Stop the study without an answer: no more pulls are issued.

        Results of open pulls still count when they arrive. They may even decide the study, as they
        would have without the stop.

        Parameters
        ----------
        reason : str
            The reason; recorded, and shown next to the answer everywhere.
        actor : str, optional
            Who stops it; recorded.

        Returns
        -------
        Event
            The event that was written; the first one again if the study was stopped before.

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
        return self._carried_out(Stop(reason, actor)).events[0]

    def close_arm(self, arm: str, reason: str, *, actor: str | None = None) -> Event:
        """Close an arm, for example because it harms: it is neither asked nor named any more.

        Results of its open pulls still count when they arrive. The answer is then about the arms
        that are open, and `recommend().confidence` is smaller, because results may have led to this
        step. docs/explanation/closing.md has the proof.

        Parameters
        ----------
        arm : str
            The arm.
        reason : str
            The reason; recorded, and shown next to the answer everywhere.
        actor : str, optional
            Who closes it; recorded.

        Returns
        -------
        Event
            The event that was written; the first one again if the arm was closed before.

        Raises
        ------
        NotSupported
            If the policy cannot close an arm.
        InvalidArgument
            If it is the last open arm, or a control that limits refer to.
        ExperimentFinished
            If the study has stopped.

        Examples
        --------
        >>> from fairtrial.study import Study
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["a", "b", "c"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="demo")
        >>> event = study.close_arm("b", "two liver failures", actor="safety board")
        >>> sorted({pull.arm for pull in study.ask(30)}), round(study.recommend().confidence, 2)
        (['a', 'c'], 0.9)
        """
        return self._carried_out(Close(arm, None, reason, actor)).events[0]

    def close_group(self, group: str, reason: str, *, actor: str | None = None) -> Event:
        """Close a group: nobody is asked for there any more, and every request must name another.

        The question stays the same, and so does the guarantee; but evidence about the group no
        longer grows, so the study may never decide.

        Parameters
        ----------
        group : str
            The group.
        reason, actor
            As for `close_arm`.

        Raises
        ------
        InvalidArgument
            If it is the last open group, or the problem has no groups.
        ExperimentFinished
            If the study has stopped.
        """
        return self._carried_out(Close(None, group, reason, actor)).events[0]
