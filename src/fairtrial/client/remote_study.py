"""A study that a service keeps: the methods of a local one, each a request."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, overload

from fairtrial.client.documents import event_of
from fairtrial.client.viewing import RemoteViewing
from fairtrial.core import Pull
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_integer
from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    MistakesFound,
    NothingToAsk,
)
from fairtrial.study import Event, StudyPull
from fairtrial.study.arguments import (
    as_json,
    as_pairs,
    as_path,
    as_reading,
    as_result,
    check_lease,
    check_reason,
    check_texts,
    is_unsolicited,
    own_action,
)
from fairtrial.study.pull_tables import ResultTable

__all__ = ["RemoteStudy"]

MOST_AT_ONCE = 1_000
"""Pulls or outcomes in one request."""

_PLACE = re.compile(r"outcomes\[(\d+)\]: (.*)", re.DOTALL)
"""Which of several outcomes was refused, and why."""


class RemoteStudy(RemoteViewing):
    """A study that a service keeps; opened by `Connection.study` or made by `Connection.create`.

    Methods, arguments, results and errors are those of `Study`. What differs:

    - Who did something is the token's name: `worker` and `actor` must be left out.
    - At most 1,000 pulls or outcomes in one call.
    - `policy` knows the rule and its parameters, not its state.

    What an acknowledged call has written is safe when it returns. A call that is not acknowledged
    is sent again, and counts once.

    Attributes
    ----------
    name : str
        The study's name.
    problem : Problem
        What is known and wanted.
    """

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
        """Issue the next pull, or up to `n` of them as a list, as `Study.ask`.

        Raises
        ------
        ExperimentFinished
            One pull was asked and the policy has stopped.
        NothingToAsk
            One pull was asked and none can be issued before the next result.
        """
        _check_left_out(worker=worker)
        wanted = 1 if n is None else n
        pulls, stopped = self.ask_up_to(wanted, lease=lease, request_id=request_id, **context)
        if n is not None:
            return pulls
        if pulls:
            return pulls[0]
        if stopped:
            raise ExperimentFinished(f"study {self.name!r} has stopped: see recommend()")
        raise NothingToAsk(f"study {self.name!r} has no pull to give before the next result")

    def ask_up_to(
        self, n: int, *, lease: float | None = None, request_id: str | None = None, **context: Any
    ) -> tuple[list[StudyPull], bool]:
        """Issue up to `n` pulls as `ask`; return them, and whether the study has stopped."""
        return self._asked(_check_many("n", n), lease, request_id, context)

    def _asked(
        self,
        n: int,
        lease: float | None,
        request_id: str | None,
        context: Mapping[str, Any],
        told: Mapping[str, Any] | None = None,
    ) -> tuple[list[StudyPull], bool]:
        check_texts(request_id=request_id)
        body = {
            "n": n,
            "lease": None if lease is None else check_lease(lease),
            "context": as_json("context", context),
            "tell": told,
        }
        answer = self._transport.post(f"{self._path}/asks", body, request_id)
        return list(map(self._bound, answer["pulls"])), bool(answer["stopped"])

    def extend(self, pull: Pull | str, lease: float) -> Event:
        """Let the lease of a pull in flight run for that many seconds from now (a heartbeat).

        Raises
        ------
        AlreadyTold
            If the pull is no longer open: told, or given up.
        UnknownPull
            If it is not a pull of this study.
        """
        return self._written(pull, "heartbeat", {"lease": check_lease(lease)})

    def heartbeat(self, pull: Pull | str, lease: float) -> bool:
        """Extend a lease as `extend`; return whether the pull's outcome still matters."""
        path = f"{self._pull_path(pull)}/heartbeat"
        return not self._transport.post(path, {"lease": check_lease(lease)})["should_stop"]

    # ------------------------------------------------------------------------- tells

    def tell(
        self,
        pull: Pull | str,
        value: Outcome,
        *,
        request_id: str | None = None,
        actor: str | None = None,
    ) -> Event:
        """Take the outcome of a pull, as `Study.tell`; it is safe when this returns.

        Raises
        ------
        InvalidOutcome
            If the problem refuses the outcome.
        ConflictingOutcome
            If the pull was told another outcome before; the message names both.
        UnknownPull
            If it is not a pull of this study.
        """
        _check_left_out(actor=actor)
        check_texts(request_id=request_id)
        told = self._outcome(pull, value)
        if "pull" in told:
            path = f"{self._path}/pulls/{told['pull']}/tell"
            return event_of(self._transport.post(path, {"value": told["value"]}, request_id))
        answer = self._transport.post(f"{self._path}/tells", {"outcomes": [told]}, request_id)
        return event_of(answer["events"][0])

    def tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> list[Event]:
        """Take many outcomes in one write, as `Study.tell_many`: all, or after an error none.

        Parameters
        ----------
        outcomes : sequence of (pull, value)
            Each as in `tell`; at most 1,000.
        request_id : str, optional
            A key of your own, by which unsolicited data among them count once.
        """
        _check_left_out(actor=actor)
        check_texts(request_id=request_id)
        pairs = as_pairs(outcomes)
        _check_many("outcomes", len(pairs))
        told = [self._outcome(pull, value) for pull, value in pairs]
        if not told:
            return []
        answer = self._transport.post(f"{self._path}/tells", {"outcomes": told}, request_id)
        return list(map(event_of, answer["events"]))

    def _outcome(self, pull: Pull | str, value: Outcome) -> dict[str, Any]:
        """Return an outcome and what it belongs to: a pull, or the labels of unsolicited data."""
        outcome = as_result(self.problem, value).outcome
        if isinstance(pull, Pull) and is_unsolicited(pull):
            own_action(self.problem, pull)
            return {**pull.labels, "value": outcome}
        return {"pull": self._pull_id(pull), "value": outcome}

    def tell_known(
        self, pull: Pull | str, values: Mapping[str, Any], *, actor: str | None = None
    ) -> Event | None:
        """Take those measures of a pull that are known, as `Study.tell_known`.

        Raises
        ------
        InvalidOutcome, ConflictingOutcome, UnknownPull
            As `tell` does.
        """
        _check_left_out(actor=actor)
        known = as_result(self.problem, values).outcome
        path = f"{self._pull_path(pull)}/known"
        events = self._transport.post(path, {"values": known})["events"]
        return event_of(events[0]) if events else None

    def tell_many_known(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        actor: str | None = None,
    ) -> list[Event]:
        """Take of many pulls the measures that are known, as `Study.tell_many_known`.

        Raises
        ------
        MistakesFound
            If some are refused; all of them are named, by their place.
        """
        _check_left_out(actor=actor)
        pairs = as_pairs(outcomes)
        _check_many("outcomes", len(pairs))
        told = [
            {"pull": self._pull_id(pull), "values": as_result(self.problem, values).outcome}
            for pull, values in pairs
        ]
        if not told:
            return []
        answer = self._transport.post(f"{self._path}/known", {"outcomes": told})
        return list(map(event_of, answer["events"]))

    def tell_table(self, path: str | os.PathLike[str], *, actor: str | None = None) -> list[Event]:
        """Take the results of a table, as `Study.tell_table`; at most 1,000 of them.

        Raises
        ------
        InvalidTable
            If a row is refused; all such rows are named, each with its line.
        InvalidArgument
            If the file cannot be read, or lacks a column.
        """
        _check_left_out(actor=actor)
        table = ResultTable(self.problem, as_path(path))
        actions = {pull.id: pull.action for pull in self.outstanding()}
        told, mistakes = [], list(table.mistakes)
        for row in table.rows:
            try:
                action = actions.get(row.pull_id)
                row.check_labels(
                    self.problem, self._action_of(row.pull_id) if action is None else action
                )
                told.append((row.pull_id, row.result.outcome))
            except FairtrialError as error:
                mistakes.append((row.place, str(error)))
        table.refuse(mistakes)
        try:
            return self.tell_many_known(told) if self.problem.measures else self.tell_many(told)
        except MistakesFound as error:
            refused = [_PLACE.fullmatch(mistake) for mistake in error.mistakes]
            table.refuse([(table.rows[int(one[1])].place, one[2]) for one in refused if one])
            raise
        except AlreadyTold as error:
            places = [row.place for row in table.rows if row.pull_id in str(error)]
            table.refuse([(place, str(error)) for place in places])
            raise

    def _action_of(self, pull_id: str) -> int:
        return int(self._transport.get(self._pull_path(pull_id))["action"])

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
        """Take an outcome of a pull and issue the next one, or up to `n`, in one request.

        Returns
        -------
        StudyPull or None, or list of StudyPull
            None, or an empty list, when the study has stopped, or has nothing to give before the
            next result.
        """
        _check_left_out(worker=worker)
        wanted = 1 if n is None else _check_many("n", n)
        told = {"pull": self._pull_id(pull), "value": as_result(self.problem, value).outcome}
        pulls, _ = self._asked(wanted, lease, request_id, context, told)
        if n is not None:
            return pulls
        return pulls[0] if pulls else None

    def amend(
        self, pull: Pull | str, value: Outcome, reason: str, *, actor: str | None = None
    ) -> Event:
        """Correct an outcome that was told before; the reason is recorded.

        Raises
        ------
        NotSupported
            If the policy cannot correct an outcome.
        UnknownPull
            If the pull was never told.
        """
        _check_left_out(actor=actor)
        check_reason(reason)
        outcome = as_result(self.problem, value).outcome
        return self._written(pull, "amend", {"value": outcome, "reason": reason})

    # ----------------------------------------------------------------- other events

    def stop(self, reason: str, *, actor: str | None = None) -> Event:
        """End the study before its policy would; the token needs the scope ``admin``."""
        _check_left_out(actor=actor)
        check_reason(reason)
        return event_of(self._transport.post(f"{self._path}/stop", {"reason": reason}))

    def report(
        self,
        pull: Pull | str,
        value: float | Mapping[str, float],
        *,
        request_id: str | None = None,
        actor: str | None = None,
        **details: Any,
    ) -> Event:
        """Take a partial reading of a pull in flight, as `Study.report`.

        Raises
        ------
        NotSupported
            If the policy takes no readings.
        InvalidOutcome
            If the problem refuses the value.
        AlreadyTold
            If the pull was told before, and the policy has no use for late readings.
        """
        _check_left_out(actor=actor)
        check_texts(request_id=request_id)
        clean = as_reading(self.problem, value).outcome
        body = {**as_json("details", details), "value": clean}
        return self._written(pull, "report", body, request_id)

    def cancel(self, pull: Pull | str, reason: str = "user", *, actor: str | None = None) -> Event:
        """Cancel a pull. If its result arrives anyway, it is recorded and given to the policy."""
        return self._give_up("cancel", pull, reason, actor)

    def fail(self, pull: Pull | str, reason: str = "lost", *, actor: str | None = None) -> Event:
        """Report a pull lost. If its result arrives anyway, it is recorded and given to the policy.

        The policy is told the reason.
        """
        return self._give_up("fail", pull, reason, actor)

    def _give_up(self, kind: str, pull: Pull | str, reason: str, actor: str | None) -> Event:
        _check_left_out(actor=actor)
        check_reason(reason)
        return self._written(pull, kind, {"reason": reason})

    def _written(
        self, pull: Pull | str, what: str, body: Mapping[str, Any], key: str | None = None
    ) -> Event:
        return event_of(self._transport.post(f"{self._pull_path(pull)}/{what}", body, key))


def _check_left_out(**names: str | None) -> None:
    """Raise if a caller names somebody: the log of a service says whose token it was."""
    for name, given in names.items():
        if given is not None:
            accepted = "must be left out: the service records the name of the token"
            raise InvalidArgument(name, accepted, given)


def _check_many(name: str, number: object) -> int:
    wanted = check_integer(name, number, low=0)
    if wanted > MOST_AT_ONCE:
        accepted = f"must be at most {MOST_AT_ONCE:,} in one request: make another for the rest"
        raise InvalidArgument(name, accepted, number)
    return wanted
