"""Check that the result of a simulation is what callers were told, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial.core import Pull
from fairtrial.study import Study
from fairtrial.study.log import Event, Record
from tests.server.histories import Operation, is_linearizable
from tests.simulator.ledger import Call
from tests.simulator.people import OWN

if TYPE_CHECKING:
    from fairtrial.study.store import Store
    from tests.simulator.simulation import Simulation, Trial

_TELLS = ("tell", "late_tell", "unsolicited")


def judge(simulation: Simulation) -> int:
    """Judge the final state; return the number of events in it.

    Raises
    ------
    AssertionError
        If something is lost, doubled, out of order, or different from the log.
    """
    store = simulation.place.look()
    try:
        return sum(_judge(simulation, trial, store) for trial in simulation.trials)
    finally:
        if simulation.is_file:
            store.close()


def _judge(simulation: Simulation, trial: Trial, store: Store) -> int:
    log = _Log(store, trial.name)
    log.check_chain()
    log.check_pulls(_extended(trial.ledger.calls))
    calls = _Calls(trial.ledger.calls, log)
    calls.check_answers()
    calls.check_marks()
    calls.check_order()
    _check_results(trial, log)
    _check_states(simulation, trial, store, log)
    if trial.is_plain:
        assert is_linearizable(_history(trial)), "no order of all calls is possible"
    return len(log.records)


# ------------------------------------------------------------------------------ the log


class _Log:
    """The events of the study, read without any cache."""

    def __init__(self, store: Store, name: str) -> None:
        [self.row] = [row for row in store.studies() if row.name == name]
        self.records = list(store.records(self.row.id))
        self.rows = {row.pull_id: row for row in store.pulls(self.row.id)}
        self.of_pull: dict[str, list[Record]] = defaultdict(list)
        self.by_actor: dict[str | None, list[Record]] = defaultdict(list)
        for record in self.records:
            self.by_actor[record.actor].append(record)
            if record.pull_id is not None:
                self.of_pull[record.pull_id].append(record)
        keyed = [record for record in self.records if record.request_id is not None]
        self.by_key = {record.request_id: record for record in keyed}
        assert len(self.by_key) == len(keyed), "a request's key stands in the log twice"

    def check_chain(self) -> None:
        """Compute every hash from its description alone."""
        row = self.row
        assert [record.seq for record in self.records] == list(range(1, len(self.records) + 1))
        made = [row.policy_version, row.created_with, row.created_at]
        start = hashlib.sha256(row.spec_json.encode()).hexdigest()
        digest = hashlib.sha256((start + _json(made)).encode()).hexdigest()
        for record in self.records:
            digest = hashlib.sha256((digest + _json(record[:-1])).encode()).hexdigest()
            assert record.hash == digest, f"event {record.seq} does not follow from those before"
        assert (row.head_seq, row.head_hash) == (len(self.records), digest)

    def check_pulls(self, extended: Mapping[str, set[int | None]]) -> None:
        """Interpret the log according to its documentation, and compare the states of pulls.

        `extended` has the ends of extended leases, which are in no event; None stands for one that
        nobody knows, because its call was not answered.
        """
        asked = [record for record in self.records if record.kind == "ask"]
        assert [record.number for record in asked] == list(range(len(asked)))
        for pull_id, records in self.of_pull.items():
            row = self.rows[pull_id]
            ends = extended.get(pull_id, set())
            state, lease, told = _story(records, ends)
            assert (state, told) == (row.state, row.told_seq), pull_id
            assert row.lease_until == lease or (state == "open" and ends & {row.lease_until, None})
        assert self.rows.keys() == self.of_pull.keys()


def _json(data: Any) -> str:
    return json.dumps(list(data), separators=(",", ":"))


def _extended(calls: list[Call]) -> dict[str, set[int | None]]:
    """Return the ends of extended leases by pull; None for one whose call was not answered."""
    ends: dict[str, set[int | None]] = defaultdict(set)
    for call in calls:
        if call.what == "extend" and call.state == "answered":
            ends[call.content["pull"]].add(round(call.answer.until.timestamp() * 1e6))
        elif call.what == "extend" and call.state != "refused":
            ends[call.content["pull"]].add(None)
    return ends


def _story(records: list[Record], extended: set[int | None]) -> tuple[str, int | None, int | None]:
    """Return state, lease and first result of a pull; assert that each event makes sense."""
    state, lease, told = "", None, None
    for record in records:
        kind, at = record.kind, record.at
        ends = {lease, *extended} if extended else {lease}
        may_be_over = None in extended or any(end is not None and end <= at for end in ends)
        may_last = None in ends or any(end is not None and end > at for end in ends)
        where = f"event {record.seq} ({kind}) of a pull that is {state}, lease {lease}, at {at}"
        if kind == "ask":
            assert state == "", where
            state, lease = "open", record.lease_until
        elif kind == "unsolicited":
            assert state == "", where
            state, told = "told", record.seq
        elif kind in ("tell", "late_tell"):
            assert state not in ("", "told"), where
            if kind == "tell":
                assert state == "open" and may_last, where  # noqa: PT018
            else:
                assert state != "open" or may_be_over, where
            state, lease, told = "told", None, record.seq
        elif kind == "reissue":
            assert state == "open" and may_be_over, where  # noqa: PT018
            lease = record.lease_until
        elif kind == "expire":
            assert state == "open" and may_be_over, where  # noqa: PT018
            state, lease = "expired", None
        elif kind in ("cancel", "fail"):
            assert state == "open", where
            state, lease = {"cancel": "cancelled", "fail": "lost"}[kind], None
        else:
            assert kind in ("report", "amend"), where
            assert kind == "report" or state == "told", where
    return state, lease, told


# ---------------------------------------------------------------------------- the calls


class _Calls:
    """Compare what callers were told with the log."""

    def __init__(self, calls: list[Call], log: _Log) -> None:
        self._calls = calls
        self._log = log

    def check_answers(self) -> None:
        """Check that everything acknowledged is there, as it was acknowledged."""
        for call in self._calls:
            if call.state != "answered":
                continue
            if call.what == "again":
                self._require_same(call)
            for event in _events(call.answer):
                assert event.seq <= len(self._log.records), f"{call.said}: {event} is lost"
                kept = Event.of(self._log.records[event.seq - 1])
                assert event == kept, f"{call.said}: {event} was said, {kept} is kept"
            for pull in _pulls(call.answer):
                assert pull.id in self._log.rows, f"{call.said}: {pull!r} is lost"
                row = self._log.rows[pull.id]
                assert (pull.number, pull.action) == (row.number, row.action), call.said

    @staticmethod
    def _require_same(call: Call) -> None:
        first = call.content["first"]
        assert _essence(call.answer) == _essence(first.answer), (
            f"{first.said} was answered {first.answer} and then {call.answer}"
        )

    def check_marks(self) -> None:
        """Check that each call is in the log completely and once, or not at all."""
        for call in self._calls:
            found = self._found(call)
            if call.state in ("refused", "nothing"):
                assert not found, f"{call.said} failed ({call.error}), and yet wrote {found}"
            kinds = Counter(record.kind in ("ask", "reissue") for record in found)
            if call.what in ("ask", "tell_and_ask") and call.state == "answered":
                assert kinds[True] == len(_pulls(call.answer)), f"{call.said} wrote {found}"
            limit = len(call.content["outcomes"]) if call.what == "tell_many" else 1
            assert kinds[False] <= limit, f"{call.said} counts more than once: {found}"

    def _found(self, call: Call) -> list[Record]:
        """Return the events that a call has written; remote ones are found by its key."""
        found = [
            record
            for record in self._log.by_actor.get(call.key, [])
            if record.kind not in ("wait",)
        ]
        first = self._log.by_key.get(call.key)
        if first is None or first in found:
            return found
        if first.kind not in ("ask", "reissue"):
            return [*found, first]
        count = json.loads(first.body or "{}").get("count", 1)
        return [*found, *self._log.records[first.seq - 1 : first.seq - 1 + count]]

    def check_order(self) -> None:
        """Check that a call made after an answer is behind it in the log."""
        moments: list[tuple[float, int, int, Call]] = []
        for call in self._calls:
            if call.state != "answered":
                continue
            seqs = [record.seq for record in self._found(call)]
            if call.what == "look":
                seqs = [call.answer]
            if seqs:
                moments.append((call.called, 0, min(seqs), call))
                moments.append((call.returned, 1, max(seqs), call))
        latest = 0
        for _, is_return, seq, call in sorted(moments, key=lambda moment: moment[:2]):
            if is_return:
                latest = max(latest, seq)
            elif call.what == "look":
                assert seq >= latest, f"{call.said}: a look at {seq} after event {latest}"
            else:
                assert seq > latest, f"{call.said}: event {seq} after event {latest} was answered"


def _events(answer: Any) -> list[Event]:
    items = answer if isinstance(answer, list) else [answer]
    return [item for item in items if isinstance(item, Event)]


def _pulls(answer: Any) -> list[Any]:
    items = answer if isinstance(answer, list) else [answer]
    return [item for item in items if isinstance(item, Pull)]


def _essence(answer: Any) -> Any:
    return [pull.id for pull in _pulls(answer)] or _events(answer) or answer


# ----------------------------------------------------------------- results and decisions


def _check_results(trial: Trial, log: _Log) -> None:
    """Check that drivers have told only what workers measured."""
    for record in log.records:
        if record.kind in _TELLS and (record.actor or "").startswith("driver "):
            assert record.value in trial.ledger.results[str(record.pull_id)], record


def _check_states(simulation: Simulation, trial: Trial, store: Store, log: _Log) -> None:
    """Check that policies had the states that the log gives, and the answer of a replay."""
    expected: dict[int, tuple[dict[str, Any], Any]] = {}
    wanted = {seq for seq, *_ in trial.ledger.states} | {len(log.records)}
    for seq, policy, stopped in _replayed(trial, log):
        if seq in wanted:
            state = {name: np.array(value) for name, value in policy.get_state().items()}
            expected[seq] = state, (policy.recommend(), stopped)
    for seq, state, answer, by in trial.ledger.states:
        assert _same(state, expected[seq][0]), f"the policy of {by} at event {seq}"
        _require_answer(answer, expected[seq][1])
    for with_snapshots in (True, False):
        if not with_snapshots:
            simulation.place.damage_snapshots("dropped")
        with Study.open(store, log.row.name, **OWN) as study:
            found = study.verify()
            assert found.ok, found.first_difference
            assert _same(study.policy.get_state(), expected[len(log.records)][0])
            _require_answer(study.recommend(), expected[len(log.records)][1])


def _same(left: Any, right: Any) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )


def _require_answer(found: Any, expected: Any) -> None:
    answer, is_stopped = expected
    assert found.leader == answer.leader, (found, answer)
    if not is_stopped:
        assert found == answer, (found, answer)
    else:
        assert found.status != "running"


def _replayed(trial: Trial, log: _Log) -> Iterator[tuple[int, Any, bool]]:
    """Drive a fresh policy through the log by hand; yield it after each event."""
    policy = trial.policy(trial.problem, seed=trial.seed)
    pulls: dict[str | None, Pull] = {}
    is_stopped = False
    yield 0, policy, False
    for record in log.records:
        event = Event.of(record)
        body, pull = event.body, pulls.get(event.pull_id)
        if event.kind == "ask":
            pulls[event.pull_id] = policy.ask()
            assert pulls[event.pull_id].action == event.action, event
        elif event.kind == "wait":
            assert policy.ask(1) == []
        elif event.kind == "time":
            policy.pass_time(body["seconds"])
        elif event.kind == "unsolicited":
            labels = policy.problem.labels(event.action)
            pulls[event.pull_id] = Pull(-1, event.action, labels)
            policy.tell(pulls[event.pull_id], event.outcome)
        elif event.kind in ("tell", "late_tell"):
            policy.tell(pull, event.outcome)
        elif event.kind == "report":
            policy.report(pull, event.value, stage=event.stage)
        elif event.kind == "amend":
            policy.amend(pull, body["old"], event.outcome)
        elif event.kind in ("expire", "cancel"):
            policy.fail(pull, {"expire": "expired", "cancel": "cancelled"}[event.kind])
        elif event.kind == "fail":
            policy.fail(pull, body["reason"])
        is_stopped |= event.kind == "stop"
        yield event.seq, policy, is_stopped


# -------------------------------------------------------------------------- one history


def _history(trial: Trial) -> list[Operation]:
    """Return the calls of a plain simulation, in the form that the checker of histories needs."""
    history = []
    for call in trial.ledger.calls:
        key, returned = call.key, call.returned
        kind, content = call.what, dict(call.content)
        if call.state == "nothing" or (kind in ("look", "again") and call.state != "answered"):
            continue
        answer: Any = None
        if kind == "again":
            # In a history this counts as the first call again.
            first = content["first"]
            key, kind, content = first.key, first.what, dict(first.content)
        content["key"] = key
        if kind == "look":
            answer = call.answer
        elif call.state == "refused":
            answer = "conflict"
        elif call.state == "answered":
            pulls, events = _pulls(call.answer), _events(call.answer)
            answer = tuple((pull.number, pull.id) for pull in pulls) or events[0].seq
        history.append(Operation(kind, call.called, returned, content, answer))
    return history
