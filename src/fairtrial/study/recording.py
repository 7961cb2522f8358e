"""Write the events of a study that is kept in a store: every operation is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairtrial.core import Pull
from fairtrial.core.problem import Outcome
from fairtrial.errors import FairtrialError, InvalidArgument, MistakesFound
from fairtrial.study.arguments import as_result, is_unsolicited, own_action
from fairtrial.study.base import Asked
from fairtrial.study.log import Event, PullRow, Record, Result
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_tables import Correction, ResultRow, ResultTable
from fairtrial.study.viewing import Viewing
from fairtrial.study.writer import Writer

__all__ = ["Recording"]


class Recording(Viewing):
    """The part of a study that writes."""

    def pass_time(self) -> None:
        """Check the clock: expire leases, and stop the study if `max_time` is over.

        Every write does this too, so call it only while you wait for results. `max_time` is
        counted in seconds from the first event.
        """
        self._session.pass_time()

    def snapshot(self) -> None:
        """Save the policy's state, so that opening the study does not replay the whole log.

        This happens automatically every thousand events and on `close`.

        Raises
        ------
        NotSupported
            If the policy's `state_fields` do not cover all of its state.
        """
        self._session.snapshot()

    # ----------------------------------------------------------- one event, or many

    def _event(self, operation: Callable[[Writer], Record]) -> Event:
        return Event.of(self._session.write(operation))

    def _ask(self, asked: Asked) -> tuple[list[StudyPull], bool]:
        pulls = self._session.write(lambda writer: self._bound(_issue(writer, asked)))
        return pulls, not pulls and self.stopped

    def _extend(self, pull_id: str, seconds: float) -> Event:
        return self._event(lambda writer: writer.extend(pull_id, seconds))

    def _tell(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Event:
        return self._event(self._telling(pull, value, actor, request_id))

    def _tell_known(self, pull_id: str, result: Result, actor: str | None) -> Event | None:
        records = self._session.write(lambda writer: writer.tell_or_report(pull_id, result, actor))
        return Event.of(records[0]) if records else None

    def _tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        actor: str | None,
        request_id: str | None,
    ) -> list[Event]:
        telling = [
            self._telling(pull, value, actor, _part_of(request_id, pull, place))
            for place, (pull, value) in enumerate(outcomes)
        ]
        records = self._session.write(lambda writer: [tell(writer) for tell in telling])
        return [Event.of(record) for record in records]

    def _tell_many_known(
        self, told: Sequence[tuple[str, Result]], actor: str | None
    ) -> list[Event]:
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

    def _tell_table(self, table: ResultTable, actor: str | None) -> list[Event]:
        def tell(writer: Writer) -> list[Record]:
            records, mistakes = [], list(table.mistakes)
            for row in table.rows:
                try:
                    row.check_labels(self.problem, writer.pull(row.pull_id).action)
                    records += self._told_row(writer, table, row, actor)
                except FairtrialError as error:
                    mistakes.append((row.place, str(error)))
            table.refuse(mistakes)
            return records

        return [Event.of(record) for record in self._session.write(tell)]

    @staticmethod
    def _told_row(
        writer: Writer, table: ResultTable, row: ResultRow, actor: str | None
    ) -> list[Record]:
        """Tell the result of a row, or that its pull will have none."""
        if row.result is None:
            return [writer.close_pull("fail", row.pull_id, table.reason, actor)]
        return writer.tell_or_report(row.pull_id, row.result, actor)

    def _tell_and_ask(
        self, pull: Pull | str, value: Outcome, asked: Asked
    ) -> tuple[list[StudyPull], bool]:
        tell = self._telling(pull, value, asked.worker, None)

        def both(writer: Writer) -> list[StudyPull]:
            tell(writer)
            return self._bound(_issue(writer, asked))

        pulls = self._session.write(both)
        return pulls, not pulls and self.stopped

    def _telling(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Callable[[Writer], Record]:
        result = as_result(self.problem, value)
        if isinstance(pull, Pull) and is_unsolicited(pull):
            action = own_action(self.problem, pull)
            return lambda writer: writer.tell_unsolicited(action, result, actor, request_id)
        pull_id = self._pull_id(pull)
        return lambda writer: writer.tell(pull_id, result, actor, request_id)

    def _amend(self, pull_id: str, result: Result, reason: str, actor: str | None) -> Event:
        return self._event(lambda writer: writer.amend(pull_id, result, reason, actor))

    def _amend_table(
        self, table: ResultTable, reason: str, preview: bool, actor: str | None
    ) -> list[Correction]:
        def amend(writer: Writer) -> list[Correction]:
            found, mistakes = [], list(table.mistakes)
            for row in table.rows:
                try:
                    row.check_labels(self.problem, writer.pull(row.pull_id).action)
                    found += _corrected(writer, row, reason, actor)
                except FairtrialError as error:
                    mistakes.append((row.place, str(error)))
            table.refuse(mistakes)
            if preview:
                # The error undoes everything that was tried.
                raise _Previewed(found)
            return found

        try:
            return self._session.write(amend)
        except _Previewed as previewed:
            return previewed.corrections

    def _report(
        self,
        pull_id: str,
        reading: Result,
        details: Mapping[str, Any],
        actor: str | None,
        request_id: str | None,
    ) -> Event:
        return self._event(
            lambda writer: writer.report(pull_id, reading, details, actor, request_id)
        )

    def _give_up(self, kind: str, pull_id: str, reason: str, actor: str | None) -> Event:
        return self._event(lambda writer: writer.close_pull(kind, pull_id, reason, actor))

    def _stop(self, reason: str, actor: str | None) -> Event:
        return self._event(lambda writer: writer.stop(reason, actor))


class _Previewed(Exception):
    """Carries what a table would correct out of a write, which it undoes."""

    def __init__(self, corrections: list[Correction]) -> None:
        super().__init__()
        self.corrections = corrections


def _corrected(writer: Writer, row: ResultRow, reason: str, actor: str | None) -> list[Correction]:
    """Correct the result of a row; return nothing if it is on record."""
    if row.result is None:
        accepted = "cannot be a correction: a result that was told stays a result"
        raise InvalidArgument("failed", accepted)
    before = writer.outcome_of(row.pull_id)
    if row.result.agrees_with(before):
        return []
    writer.amend(row.pull_id, row.result, reason, actor)
    return [Correction(row.pull_id, before, row.result.outcome)]


def _issue(writer: Writer, asked: Asked) -> list[PullRow]:
    return writer.ask(asked.n, dict(asked.context), asked.worker, asked.lease, asked.request_id)


def _part_of(request_id: str | None, pull: Pull | str, place: int) -> str | None:
    """Return the key of one of several outcomes that are told in one request."""
    if request_id is None or not is_unsolicited(pull):
        return None
    return f"{request_id}:{place}"
