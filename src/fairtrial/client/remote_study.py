"""A study that a service keeps: it has the methods of a local study, and sends requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairtrial.client.documents import event_of
from fairtrial.client.viewing import RemoteViewing
from fairtrial.core import Pull
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_integer
from fairtrial.errors import (
    AlreadyTold,
    FairtrialError,
    InvalidArgument,
    MistakesFound,
    NotSupported,
)
from fairtrial.study import Event, StudyPull
from fairtrial.study.arguments import as_result, check_lease, is_unsolicited, own_action
from fairtrial.study.base import Asked
from fairtrial.study.log import Result
from fairtrial.study.pull_tables import Correction, ResultTable

__all__ = ["RemoteStudy"]

MOST_AT_ONCE = 1_000
"""Largest number of pulls or outcomes in one request."""

_PLACE = re.compile(r"outcomes\[(\d+)\]: (.*)", re.DOTALL)
"""Matches the position of a refused outcome among several, and the reason."""


class RemoteStudy(RemoteViewing):
    """A study that a service keeps; use `Connection.study` or `Connection.create` to get one.

    Methods, arguments, results and errors are those of `Study`, with these differences:

    - The service records the token's name as who did something: leave out `worker` and `actor`.
    - One call can have at most 1,000 pulls or outcomes.
    - To `stop`, the token needs the scope ``admin``.
    - `policy` has the rule and its parameters, but not its state.

    What a call has written is durable once the call returns. An unacknowledged request is
    repeated, and counts once.

    Attributes
    ----------
    name : str
        The study's name.
    problem : Problem
        The problem.
    """

    def ask_up_to(
        self, n: int, *, lease: float | None = None, request_id: str | None = None, **context: Any
    ) -> tuple[list[StudyPull], bool]:
        """Issue up to `n` pulls, as `ask`; return them and whether the study has stopped."""
        return self._ask(self._asked(self._check_many("n", n), None, lease, request_id, context))

    def heartbeat(self, pull: Pull | str, lease: float) -> bool:
        """Renew a lease, as `extend`; return whether the pull's outcome is still needed."""
        path = f"{self._pull_path(pull)}/heartbeat"
        return not self._transport.post(path, {"lease": check_lease(lease)})["should_stop"]

    # ----------------------------------------------------------------------- checks

    def _check_many(self, name: str, number: object) -> int:
        wanted = check_integer(name, number, low=0)
        if wanted > MOST_AT_ONCE:
            accepted = f"must be at most {MOST_AT_ONCE:,} in one request: make another for the rest"
            raise InvalidArgument(name, accepted, number)
        return wanted

    def _check_who(self, **names: str | None) -> None:
        """Raise if the caller gives a name, because the service records the token's name."""
        for name, given in names.items():
            if given is not None:
                accepted = "must be left out: the service records the name of the token"
                raise InvalidArgument(name, accepted, given)

    # --------------------------------------------------------------------- requests

    def _ask(self, asked: Asked) -> tuple[list[StudyPull], bool]:
        return self._issue(asked, None)

    def _issue(self, asked: Asked, told: Mapping[str, Any] | None) -> tuple[list[StudyPull], bool]:
        """Issue pulls, after recording an outcome if one is given."""
        body = {"n": asked.n, "lease": asked.lease, "context": asked.context, "tell": told}
        answer = self._transport.post(f"{self._path}/asks", body, asked.request_id)
        return list(map(self._bound, answer["pulls"])), bool(answer["stopped"])

    def _extend(self, pull_id: str, seconds: float) -> Event:
        return self._written(pull_id, "heartbeat", {"lease": seconds})

    def _tell(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Event:
        told = self._outcome(pull, value)
        if "pull" in told:
            return self._written(told["pull"], "tell", {"value": told["value"]}, request_id)
        answer = self._transport.post(f"{self._path}/tells", {"outcomes": [told]}, request_id)
        return event_of(answer["events"][0])

    def _tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        actor: str | None,
        request_id: str | None,
    ) -> list[Event]:
        self._check_many("outcomes", len(outcomes))
        told = [self._outcome(pull, value) for pull, value in outcomes]
        if not told:
            return []
        answer = self._transport.post(f"{self._path}/tells", {"outcomes": told}, request_id)
        return list(map(event_of, answer["events"]))

    def _outcome(self, pull: Pull | str, value: Outcome) -> dict[str, Any]:
        """Return an outcome with its pull, or with its labels if it is unsolicited."""
        outcome = as_result(self.problem, value).outcome
        if isinstance(pull, Pull) and is_unsolicited(pull):
            own_action(self.problem, pull)
            return {**pull.labels, "value": outcome}
        return {"pull": self._pull_id(pull), "value": outcome}

    def _tell_known(self, pull_id: str, result: Result, actor: str | None) -> Event | None:
        path = f"{self._pull_path(pull_id)}/known"
        events = self._transport.post(path, {"values": result.outcome})["events"]
        return event_of(events[0]) if events else None

    def _tell_many_known(
        self, told: Sequence[tuple[str, Result]], actor: str | None
    ) -> list[Event]:
        self._check_many("outcomes", len(told))
        if not told:
            return []
        outcomes = [{"pull": pull_id, "values": result.outcome} for pull_id, result in told]
        answer = self._transport.post(f"{self._path}/known", {"outcomes": outcomes})
        return list(map(event_of, answer["events"]))

    def _tell_table(self, table: ResultTable, actor: str | None) -> list[Event]:
        actions = {pull.id: pull.action for pull in self.outstanding()}
        told, mistakes = [], list(table.mistakes)
        for row in table.rows:
            try:
                action = actions.get(row.pull_id)
                row.check_labels(
                    self.problem, self._action_of(row.pull_id) if action is None else action
                )
                if row.result is None:
                    accepted = "cannot be told by table to a service: fail these pulls one by one"
                    raise InvalidArgument("failed", accepted)
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

    def _tell_and_ask(
        self, pull: Pull | str, value: Outcome, asked: Asked
    ) -> tuple[list[StudyPull], bool]:
        told = {"pull": self._pull_id(pull), "value": as_result(self.problem, value).outcome}
        return self._issue(asked, told)

    def _amend(self, pull_id: str, result: Result, reason: str, actor: str | None) -> Event:
        return self._written(pull_id, "amend", {"value": result.outcome, "reason": reason})

    def _amend_table(
        self, table: ResultTable, reason: str, preview: bool, actor: str | None
    ) -> list[Correction]:
        raise NotSupported(
            "a service takes corrections one by one, with amend: a table could be refused half-way"
        )

    def _report(
        self,
        pull_id: str,
        reading: Result,
        details: Mapping[str, Any],
        actor: str | None,
        request_id: str | None,
    ) -> Event:
        body = {**details, "value": reading.outcome}
        return self._written(pull_id, "report", body, request_id)

    def _give_up(self, kind: str, pull_id: str, reason: str, actor: str | None) -> Event:
        return self._written(pull_id, kind, {"reason": reason})

    def _stop(self, reason: str, actor: str | None) -> Event:
        return event_of(self._transport.post(f"{self._path}/stop", {"reason": reason}))

    def _written(
        self, pull_id: str, what: str, body: Mapping[str, Any], key: str | None = None
    ) -> Event:
        return event_of(self._transport.post(f"{self._pull_path(pull_id)}/{what}", body, key))
