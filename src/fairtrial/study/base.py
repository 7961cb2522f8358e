"""The methods that studies have wherever they are kept; they check arguments before all else.

Subclasses do the writing: into a storage, or by requests to a service.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

from fairtrial.core import Problem, Pull
from fairtrial.core.keywords import NamedArguments
from fairtrial.core.problem import Outcome
from fairtrial.errors import ExperimentFinished, NothingToAsk
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
)
from fairtrial.study.log import Event, Result
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_tables import Correction, ResultTable, write_pulls

__all__ = ["Asked", "BaseStudy"]


class Asked(NamedTuple):
    """A request for pulls: how many, for which worker, for how many seconds, with which key."""

    n: int
    worker: str | None
    lease: float | None
    request_id: str | None
    context: Mapping[str, Any]


class BaseStudy(NamedArguments, ABC):
    """What can be done with a study: each method writes all of its events, or nothing."""

    name: str
    problem: Problem

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
            Number wanted, at most 10,000, because other writers have to wait. Without it, one
            pull is returned instead of a list.
        worker : str, optional
            Name of the worker that will carry it out; recorded.
        lease : float, optional
            Seconds after which the pull counts as lost or is handed out again, depending on the
            policy's `expiry`. Without it the study waits for ever.
        request_id : str, optional
            A key of your own: repeating the request returns the same pulls.
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
        wanted = 1 if n is None else self._check_many("n", n)
        asked = self._asked(wanted, worker, lease, request_id, context)
        pulls, stopped = self._ask(asked)
        return pulls if n is not None else self._single(pulls, stopped)

    def _single(self, pulls: Sequence[StudyPull], stopped: bool, done: str = "") -> StudyPull:
        """Return the only pull; raise if there is none, and say what was `done` all the same."""
        if pulls:
            return pulls[0]
        if stopped:
            message = f"{done}study {self.name!r} has stopped and issues no more pulls"
            raise ExperimentFinished(message)
        raise NothingToAsk(f"{done}study {self.name!r} has no pull to give before the next result")

    def extend(self, pull: Pull | str, lease: float) -> Event:
        """Renew the lease of an open pull for `lease` seconds from now (a heartbeat).

        Raises
        ------
        AlreadyTold
            If the pull is no longer open: it has an outcome, has failed or was cancelled.
        UnknownPull
            If it is not a pull of this study.
        """
        return self._extend(self._pull_id(pull), check_lease(lease))

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
        write_pulls(self.problem, pulls, target)
        return target

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
        self._check_who(actor=actor)
        check_texts(request_id=request_id)
        return self._tell(pull, value, actor, request_id)

    def tell_known(
        self, pull: Pull | str, values: Mapping[str, Any], *, actor: str | None = None
    ) -> Event | None:
        """Record the measures of a pull that are known; once all are, they are its outcome.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        values : mapping of str to float or None
            The known measures; None for one that will never be known.
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
        self._check_who(actor=actor)
        pull_id, result = self._pull_id(pull), as_result(self.problem, values)
        return self._tell_known(pull_id, result, actor)

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
        self._check_who(actor=actor)
        check_texts(request_id=request_id)
        return self._tell_many(as_pairs(outcomes), actor, request_id)

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
        self._check_who(actor=actor)
        pairs = as_pairs(outcomes)
        told = [(self._pull_id(pull), as_result(self.problem, values)) for pull, values in pairs]
        return self._tell_many_known(told, actor)

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
            `write_pulls`. A pull with a blank value stays open. Columns with a pull's labels, or
            with the ingredients of its arm, must agree with the pull. If an outcome is a row of
            fields, each has a column: ``outcome_`` followed by its name. If these fields are
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
        self._check_who(actor=actor)
        return self._tell_table(ResultTable(self.problem, as_path(path), decimal), actor)

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
        wanted = 1 if n is None else self._check_many("n", n)
        asked = self._asked(wanted, worker, lease, request_id, context)
        pulls, stopped = self._tell_and_ask(pull, value, asked)
        return pulls if n is not None else self._single(pulls, stopped, "the outcome is recorded; ")

    def amend(
        self, pull: Pull | str, value: Outcome, reason: str, *, actor: str | None = None
    ) -> Event:
        """Correct an outcome that was told before; the reason is recorded.

        With several measures, those that are left out keep their values.

        Raises
        ------
        NotSupported
            If the policy cannot correct outcomes.
        UnknownPull
            If the pull has no outcome to correct.
        """
        self._check_who(actor=actor)
        check_reason(reason)
        return self._amend(self._pull_id(pull), as_result(self.problem, value), reason, actor)

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
            A table as `tell_table` takes it. Rows with a blank value, and rows with the value on
            record, change nothing.
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
            If the policy cannot correct outcomes, or the study is on a service.
        """
        self._check_who(actor=actor)
        check_reason(reason)
        table = ResultTable(self.problem, as_path(path), decimal)
        return self._amend_table(table, reason, preview, actor)

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
        self._check_who(actor=actor)
        check_texts(request_id=request_id)
        pull_id, reading = self._pull_id(pull), as_reading(self.problem, value)
        return self._report(pull_id, reading, as_json("details", details), actor, request_id)

    def cancel(self, pull: Pull | str, reason: str = "user", *, actor: str | None = None) -> Event:
        """Cancel a pull. A result that arrives anyway is recorded and passed to the policy."""
        return self._close_pull("cancel", pull, reason, actor)

    def fail(self, pull: Pull | str, reason: str = "lost", *, actor: str | None = None) -> Event:
        """Report a pull lost. A result that arrives anyway is recorded and passed to the policy.

        The policy is told the reason.
        """
        return self._close_pull("fail", pull, reason, actor)

    def _close_pull(self, kind: str, pull: Pull | str, reason: str, actor: str | None) -> Event:
        self._check_who(actor=actor)
        check_reason(reason)
        return self._give_up(kind, self._pull_id(pull), reason, actor)

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
        self._check_who(actor=actor)
        check_reason(reason)
        return self._stop(reason, actor)

    # ----------------------------------------------------------------------- checks

    def _asked(
        self,
        n: int,
        worker: str | None,
        lease: float | None,
        request_id: str | None,
        context: Mapping[str, Any],
    ) -> Asked:
        self._check_who(worker=worker)
        check_texts(request_id=request_id)
        seconds = None if lease is None else check_lease(lease)
        labels = self.problem.action_labels[0]
        # The log has labels as the problem knows them.
        own = {name: str(value) if name in labels else value for name, value in context.items()}
        return Asked(n, worker, seconds, request_id, as_json("context", own))

    def _check_many(self, name: str, number: object) -> int:
        """Return the number of pulls wanted at once; raise if it is invalid."""
        return check_many(name, number)

    def _check_who(self, **names: str | None) -> None:
        """Raise if these are not valid names of actors or workers."""
        check_texts(**names)

    # ------------------------------------------------------ what a subclass answers

    @abstractmethod
    def _pull_id(self, pull: Pull | str) -> str:
        """Return the id of a pull of this study."""

    @abstractmethod
    def _ask(self, asked: Asked) -> tuple[list[StudyPull], bool]:
        """Issue pulls; return them and, if there are none, whether the study has stopped."""

    @abstractmethod
    def _extend(self, pull_id: str, seconds: float) -> Event: ...

    @abstractmethod
    def _tell(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Event: ...

    @abstractmethod
    def _tell_known(self, pull_id: str, result: Result, actor: str | None) -> Event | None: ...

    @abstractmethod
    def _tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        actor: str | None,
        request_id: str | None,
    ) -> list[Event]: ...

    @abstractmethod
    def _tell_many_known(
        self, told: Sequence[tuple[str, Result]], actor: str | None
    ) -> list[Event]: ...

    @abstractmethod
    def _tell_table(self, table: ResultTable, actor: str | None) -> list[Event]: ...

    @abstractmethod
    def _tell_and_ask(
        self, pull: Pull | str, value: Outcome, asked: Asked
    ) -> tuple[list[StudyPull], bool]:
        """Record an outcome, then do as `_ask`."""

    @abstractmethod
    def _amend(self, pull_id: str, result: Result, reason: str, actor: str | None) -> Event: ...

    @abstractmethod
    def _amend_table(
        self, table: ResultTable, reason: str, preview: bool, actor: str | None
    ) -> list[Correction]: ...

    @abstractmethod
    def _report(
        self,
        pull_id: str,
        reading: Result,
        details: Mapping[str, Any],
        actor: str | None,
        request_id: str | None,
    ) -> Event: ...

    @abstractmethod
    def _give_up(self, kind: str, pull_id: str, reason: str, actor: str | None) -> Event: ...

    @abstractmethod
    def _stop(self, reason: str, actor: str | None) -> Event: ...
