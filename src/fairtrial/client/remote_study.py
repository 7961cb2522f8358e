"""A study that a service keeps: it has the methods of a local study, and sends requests."""

from __future__ import annotations

import re
from typing import Any

from fairtrial.client.documents import event_of
from fairtrial.client.viewing import RemoteViewing
from fairtrial.core import Pull
from fairtrial.errors import AlreadyTold, FairtrialError, InvalidArgument, MistakesFound
from fairtrial.study import Event, StudyPull
from fairtrial.study.pull_tables import ResultTable
from fairtrial.study.writes import (
    Ask,
    Extend,
    Tell,
    TellMany,
    TellTable,
    Together,
    Write,
    Written,
)

__all__ = ["RemoteStudy"]

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
        done = self.write(Ask(n, None, lease, request_id, context))
        return done.pulls, done.stopped

    def heartbeat(self, pull: Pull | str, lease: float) -> bool:
        """Renew a lease, as `extend`; return whether the pull's outcome is still needed."""
        write = Extend(pull, lease).check(self.checks)
        path = f"{self._pull_path(pull)}/heartbeat"
        return not self._transport.post(path, write.to_json())["should_stop"]

    # --------------------------------------------------------------------- requests

    def _send(self, write: Write) -> Written:
        """Send a checked write."""
        if isinstance(write, TellTable):
            return Written(self._tell_table(write.table), [], [])
        if isinstance(write, Tell) and not isinstance(write.pull, str):
            write = TellMany([write], write.request_id)
        if isinstance(write, Together) and not write.writes:
            return Written([], [], [])
        path, body = write.path.format(pull=getattr(write, "pull", "")), write.to_json()
        answer = self._transport.post(f"{self._path}/{path}", body, write.key)
        events = answer.get("events", [answer] if "seq" in answer else [])
        pulls = list(map(self._pull, answer.get("pulls", ())))
        return Written(list(map(event_of, events)), pulls, [], bool(answer.get("stopped")))

    def _tell_table(self, table: ResultTable) -> list[Event]:
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
                told.append((row.pull_id, row.result))
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
