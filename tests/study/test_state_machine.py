"""Any calls in any order, from two interleaved handles: the log and the policy always agree."""

import math
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairtrial.delayed import ConflictingReport, InformationRacing, Problem
from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    NotSupported,
    UnknownPull,
)
from fairtrial.study import Study, cache
from fairtrial.study.group import Action, Group
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from tests import effort
from tests.study.tools import (
    Clock,
    Failing,
    FailingStore,
    Fault,
    chain_of,
    query,
    replayed,
    same_state,
)
from tests.study.toys import OWN, Elimination, Racing, Serving, Timed, ToyProblem

values = st.floats(-3, 3).map(lambda value: round(value, 3))
handles = st.integers(0, 1)
indices = st.integers(0, 200)


class StudyMachine(RuleBasedStateMachine):
    """Drives a study as its users, its workers and bad luck would.

    `pulls` is the model: state and outcome of every pull that was acknowledged.
    """

    policies = (Elimination, Racing, Timed, Serving)
    snapshot_every = 5

    # The next four methods are overridden by other kinds of storage.

    def make_place(self):
        """Create a place for one study, and what is needed to inspect it."""
        self.folder = Path(tempfile.mkdtemp())

    def remove_place(self):
        """Leave nothing behind."""
        shutil.rmtree(self.folder)

    def open_store(self):
        """Return a new handle on the storage."""
        return FailingStore(self.folder / "study.db", "process", clock=self.clock)

    def rows_of(self, statement):
        """Return the result of a statement, bypassing the store."""
        return query(self.folder / "study.db", statement)

    # ------------------------------------------------------------------ begin and end

    @initialize(policy=st.sampled_from(policies), seed=st.integers(0, 100))
    def create(self, policy, seed):
        self.clear()
        problem = ToyProblem()
        self.takes_readings = issubclass(policy, Racing)
        self.begin(problem, policy(problem), seed)

    def clear(self):
        self.make_place()
        self.clock = Clock()
        self.pulls = {}
        self.requests = {}
        self.counts = dict.fromkeys(["late", "amended", "duplicates", "unsolicited"], 0)
        self.stores = [self.open_store(), self.open_store()]

    def begin(self, problem, policy, seed):
        self.reissues = policy.expiry == "reissue"
        Study.create(problem, policy, storage=self.stores[0], name="toy", seed=seed)
        self.studies = [Study.open(store, "toy", **OWN) for store in self.stores]

    def teardown(self):
        if not hasattr(self, "studies"):
            return
        try:
            for study in self.studies:
                found = study.verify()
                assert found.ok, found.first_difference
                study.close()
            for store in self.stores:
                store.close()
        finally:
            self.remove_place()

    # -------------------------------------------------------------------- what is known

    def pick(self, index, *states):
        """Return one of the pulls in these states, if there is one."""
        known = [key for key, pull in self.pulls.items() if pull["state"] in states]
        return known[index % len(known)] if known else None

    def note_expired(self):
        """Tell the model which leases this write finds to have run out."""
        if self.reissues:
            return
        for pull in self.pulls.values():
            if pull["state"] == "open" and self.is_overdue(pull):
                pull["state"] = "given up"

    def is_overdue(self, pull):
        return pull["until"] is not None and pull["until"] <= self.clock.seconds

    def note_issued(self, issued, lease):
        until = None if lease is None else self.clock.seconds + lease
        for pull in issued:
            known = self.pulls.get(pull.id)
            if known is not None:
                assert self.reissues
                assert known["state"] == "open"
                assert self.is_overdue(known)
            self.pulls[pull.id] = {"state": "open", "until": until, "value": None, "asked": True}

    # ------------------------------------------------------------------------------ asks

    @rule(by=handles, n=st.integers(0, 4), lease=st.sampled_from([None, None, 10, 100]))
    def ask(self, by, n, lease):
        self.note_expired()
        self.note_issued(self.studies[by].ask(n, lease=lease), lease)

    @rule(by=handles, n=st.integers(1, 3), key=st.sampled_from(["r1", "r2", "r3"]))
    def ask_with_a_key(self, by, n, key):
        self.note_expired()
        issued = self.studies[by].ask(n, request_id=key)
        if key in self.requests:
            assert [pull.id for pull in issued] == self.requests[key]
        elif issued:
            self.note_issued(issued, None)
            self.requests[key] = [pull.id for pull in issued]

    @rule(by=handles, index=indices, lease=st.sampled_from([10, 1000]))
    def extend(self, by, index, lease):
        pull = self.pick(index, "open")
        self.note_expired()
        if pull is None:
            return
        if self.pulls[pull]["state"] == "open":
            self.studies[by].pass_time()
            before = self.studies[by].head_hash
            self.note_extended(pull, lease, self.studies[by].extend(pull, lease))
            assert self.studies[by].head_hash == before
        else:
            with pytest.raises(AlreadyTold):
                self.studies[by].extend(pull, lease)

    def note_extended(self, pull, lease, extended):
        self.pulls[pull]["until"] = self.clock.seconds + lease
        assert (extended.pull_id, extended.until.timestamp()) == (pull, self.pulls[pull]["until"])

    # ----------------------------------------------------------------------------- tells

    def note_told(self, pull, value, event):
        known = self.pulls[pull]
        late = known["state"] == "given up" or self.is_overdue(known)
        assert event.kind == ("late_tell" if late else "tell")
        self.counts["late"] += late
        known.update(state="told", first=value, value=value, event=event, until=None)

    @rule(by=handles, index=indices, value=values)
    def tell(self, by, index, value):
        pull = self.pick(index, "open", "given up")
        self.note_expired()
        if pull is not None:
            self.note_told(pull, value, self.studies[by].tell(pull, value))

    @rule(by=handles, index=indices, value=values)
    def tell_and_ask(self, by, index, value):
        pull = self.pick(index, "open", "given up")
        if pull is None:
            return
        self.note_expired()
        following = self.studies[by].tell_and_ask(pull, value, 1)
        [event] = [e for e in self.studies[by].events() if e.pull_id == pull and "tell" in e.kind]
        self.note_told(pull, value, event)
        self.note_issued(following, None)

    @rule(by=handles, some=st.lists(st.tuples(indices, values), max_size=4))
    def tell_many(self, by, some):
        chosen = {self.pick(index, "open", "given up"): value for index, value in some}
        chosen.pop(None, None)
        self.note_expired()
        events = self.studies[by].tell_many(list(chosen.items()))
        for (pull, value), event in zip(chosen.items(), events, strict=True):
            self.note_told(pull, value, event)

    @rule(by=handles, index=indices)
    def tell_again(self, by, index):
        pull = self.pick(index, "told")
        self.note_expired()
        if pull is not None:
            known = self.pulls[pull]
            assert self.studies[by].tell(pull, known["first"]) == known["event"]
            self.counts["duplicates"] += 1

    @rule(by=handles, index=indices)
    def contradict(self, by, index):
        pull = self.pick(index, "told")
        self.note_expired()
        if pull is not None:
            with pytest.raises(ConflictingOutcome):
                self.studies[by].tell(pull, self.pulls[pull]["first"] + 1)

    @rule(by=handles, arm=st.sampled_from(["0", "1", "2"]), value=values)
    def tell_unasked(self, by, arm, value):
        self.note_expired()
        study = self.studies[by]
        event = study.tell(study.problem.pull(arm=arm), value)
        self.counts["unsolicited"] += 1
        self.pulls[event.pull_id] = {"state": "told", "first": value, "value": value}
        self.pulls[event.pull_id].update(event=event, until=None)

    @rule(by=handles, index=indices, value=values)
    def amend(self, by, index, value):
        pull = self.pick(index, "told")
        self.note_expired()
        if pull is not None:
            self.studies[by].amend(pull, value, "typing error")
            self.counts["amended"] += self.pulls[pull]["value"] != value
            self.pulls[pull]["value"] = value

    # ------------------------------------------------------------------ the other events

    @rule(by=handles, index=indices, value=values, stage=st.integers(0, 3))
    def report(self, by, index, value, stage):
        pull = self.pick(index, "open", "given up")
        self.note_expired()
        if pull is None:
            return
        if self.takes_readings:
            self.studies[by].report(pull, value, stage=stage)
        else:
            with pytest.raises(NotSupported):
                self.studies[by].report(pull, value)

    @rule(by=handles, index=indices, how=st.sampled_from(["cancel", "fail"]))
    def give_up(self, by, index, how):
        pull = self.pick(index, "open", "given up")
        self.note_expired()
        if pull is not None:
            getattr(self.studies[by], how)(pull)
            self.pulls[pull].update(state="given up", until=None)

    @precondition(lambda self: len(self.pulls) > 6)
    @rule(by=handles)
    def stop(self, by):
        study = self.studies[by]
        if not study.stopped:
            self.note_expired()
            # A lease that runs out with this write may end a race.
            with suppress(ExperimentFinished):
                study.stop("enough")
            assert [other.stopped for other in self.studies] == [True, True]
            assert study.ask(2) == []

    @rule(
        by=handles,
        some=st.lists(
            st.tuples(st.sampled_from(["ask", "tell", "extend", "fail badly"]), indices, values),
            min_size=1,
            max_size=5,
        ),
    )
    def write_together(self, by, some):
        """Carry out several writes in one commit; if one fails, the others still succeed."""
        study = self.studies[by]
        todo = [(what, self.pick(index, "open", "given up"), value) for what, index, value in some]
        done = [(what, pull) for what, pull, _ in todo if what == "tell"]
        if any(pull is None for _, pull in done) or len(set(done)) < len(done):
            return
        self.note_expired()
        study.session.committer = group = Group(study.session.store)
        try:
            outcomes = group.carry_out(
                [
                    Action(
                        study.session,
                        partial(self.part, study, what, pull, value),
                        needs_flush=what != "extend",
                    )
                    for what, pull, value in todo
                ]
            )
        finally:
            study.session.committer = None
        for (what, pull, value), (answer, error) in zip(todo, outcomes, strict=True):
            if what == "extend":
                is_open = pull is not None and self.pulls[pull]["state"] == "open"
                assert (error is None) == is_open, error
                if is_open:
                    self.note_extended(pull, 10, answer)
                continue
            assert isinstance(error, UnknownPull) == (what == "fail badly"), error
            if what == "ask":
                self.note_issued(answer, None)
            elif what == "tell":
                self.note_told(pull, value, answer)

    @staticmethod
    def part(study, what, pull, value):
        if what == "ask":
            return study.ask(2)
        if what == "tell":
            return study.tell(pull, value)
        if what == "extend":
            return study.extend(pull or "0" * 32, 10)
        # The policy has learned an unsolicited result when the other one fails.
        return study.tell_many([(study.problem.pull(arm="0"), value), ("0" * 32, value)])

    @rule(by=handles, how=st.sampled_from(["tell", "cancel", "report", "amend", "extend"]))
    def name_a_pull_that_was_never_issued(self, by, how):
        self.note_expired()
        rest = {"tell": [1.0], "report": [1.0], "amend": [1.0, "x"], "extend": [9.0]}
        with pytest.raises(UnknownPull):
            getattr(self.studies[by], how)("0" * 32, *rest.get(how, []))

    @rule(by=handles)
    def ask_badly(self, by):
        with pytest.raises(InvalidArgument):
            self.studies[by].ask(-1)

    # ---------------------------------------------------------------------- bad luck

    @rule(seconds=st.sampled_from([1, 20, 200, -50, -5000]))
    def let_time_pass(self, seconds):
        self.clock.advance(seconds)

    @rule(by=handles)
    def reopen(self, by):
        self.studies[by].close()
        self.stores[by].close()
        self.stores[by] = self.open_store()
        self.studies[by] = Study.open(self.stores[by], "toy", **OWN)

    @rule(by=handles)
    def open_another_handle(self, by):
        self.studies[by] = Study.open(self.stores[by], "toy", **OWN)

    @rule()
    def drop_the_snapshots(self):
        self.rows_of("DELETE FROM snapshot")

    @rule()
    def damage_the_snapshots(self):
        self.rows_of("UPDATE snapshot SET state = substr(state, 1, length(state) / 2)")

    @rule(
        by=handles,
        point=st.sampled_from(["after begin", "before insert", "before commit", "after insert"]),
        what=st.sampled_from(["ask", "tell", "both"]),
        index=indices,
    )
    def fail_in_the_middle(self, by, point, what, index):
        study, store = self.studies[by], self.stores[by]
        pull = self.pick(index, "open", "given up")
        if any(self.is_overdue(known) for known in self.pulls.values()):
            return  # the fault would hit the write that notes the leases
        store.fail_at = point
        try:
            if what == "ask" or pull is None:
                study.ask(2)
            elif what == "tell":
                study.tell(pull, 1.0)
            else:
                study.tell_and_ask(pull, 1.0)
        except Fault:
            pass
        except FairtrialError:
            raise AssertionError("only the fault itself was expected") from None
        finally:
            store.fail_at = None

    # --------------------------------------------------------------------- invariants

    @precondition(lambda self: hasattr(self, "studies"))
    @invariant()
    def the_log_is_whole(self):
        events = self.rows_of("SELECT seq, hash, pull_id, kind, number FROM event ORDER BY seq")
        [head] = self.rows_of("SELECT head_seq, head_hash FROM study")
        assert [event[0] for event in events] == list(range(1, len(events) + 1))
        assert [event[1] for event in events] == chain_of(self.rows_of)
        assert head[0] == len(events)
        asks = [event for event in events if event[3] == "ask"]
        assert len({event[2] for event in asks}) == len(asks)
        assert [event[4] for event in asks] == list(range(len(asks)))
        told = [event[2] for event in events if event[3] in ("tell", "late_tell", "unsolicited")]
        assert len(set(told)) == len(told)

    @precondition(lambda self: hasattr(self, "studies"))
    @invariant()
    def both_handles_are_where_a_replay_by_hand_leads(self):
        one, two = self.studies
        expected = replayed(one)
        assert same_state(one.policy, expected)
        assert same_state(two.policy, expected)
        assert one.head_hash == two.head_hash

    @precondition(lambda self: hasattr(self, "studies"))
    @invariant()
    def nothing_acknowledged_is_lost_or_doubled(self):
        study = self.studies[0]
        told = {pull: known for pull, known in self.pulls.items() if known["state"] == "told"}
        rows = {row.pull_id: row for row in study._store.pulls(1)}
        assert {pull for pull, row in rows.items() if row.state == "told"} == set(told)
        assert study.policy.told == len(told)
        for pull, known in told.items():
            [record] = study._store.records(1, rows[pull].value_seq - 1, rows[pull].value_seq)
            assert record.value == known["value"]
        assert set(self.pulls) <= set(rows)
        health = study.health()
        assert {name: health[name] for name in self.counts} == self.counts

    @precondition(lambda self: hasattr(self, "studies"))
    @invariant()
    def every_handle_shows_the_acknowledged_leases(self):
        leases = {
            pull: None if known["until"] is None else round(known["until"] * 1e6)
            for pull, known in self.pulls.items()
            if known["state"] == "open"
        }
        for store in self.stores:
            rows = {row.pull_id: row for row in store.open_pulls(1)}
            assert {pull: rows[pull].lease_until for pull in leases} == leases


class RaceMachine(StudyMachine):
    """The same with a real race: readings of every kind, including late ones, and failures."""

    problems = (
        {"feedback": "unbiased", "reading_std": 1.0},
        {"feedback": "refining", "reading_std": 1.0, "failure": "independent"},
        {"feedback": "biased", "reading_std": 1.0, "failure_value": -3.0},
        {"feedback": "incremental", "duration": 4.0, "failure": "independent"},
        {"feedback": "unbiased", "reading_std": 1.0, "delay_depends_on_outcome": True},
    )

    @initialize(
        about=st.sampled_from(problems),
        truncate=st.sampled_from([None, None, 2]),
        seed=st.integers(0, 3),
    )
    def create(self, about, truncate, seed):
        self.clear()
        self.readings = {}
        self.repeated = 0
        problem = Problem(["0", "1", "2"], noise_std=2.0, **about)
        cannot = about["feedback"] == "biased" or not problem.readings_used
        policy = InformationRacing(problem, parallel=6, truncate=None if cannot else truncate)
        self.begin(problem, policy, seed)

    @rule(
        by=handles,
        index=indices,
        value=values,
        place=st.sampled_from([{}, {"stage": 1}, {"stage": 2}, {"elapsed": 2.5}, {"stage": 3}]),
        when=st.sampled_from([["open"], ["given up"], ["told"]]),
    )
    def report(self, by, index, value, place, when):
        pull = self.pick(index, *when)
        self.note_expired()
        if pull is None or "asked" not in self.pulls[pull]:
            return
        known = self.readings.setdefault(pull, {})
        stage = place.get("stage", place.get("elapsed"))
        if stage is None:
            stage = math.floor(max(known, default=0)) + 1
        if known.get(stage, value) != value:
            with pytest.raises(ConflictingReport):
                self.studies[by].report(pull, value, **place)
            return
        self.repeated += stage in known
        known[stage] = value
        self.studies[by].report(pull, value, **place)

    @rule(by=handles, index=indices)
    def report_again(self, by, index):
        pulls = [pull for pull, known in self.readings.items() if known]
        if not pulls:
            return
        pull = pulls[index % len(pulls)]
        stage, value = next(iter(self.readings[pull].items()))
        self.note_expired()
        self.studies[by].report(pull, value, stage=stage)
        self.repeated += 1

    @rule(
        by=handles,
        index=indices,
        how=st.sampled_from(
            [
                *[("cancel", reason) for reason in ("user", "eliminated", "truncated")],
                *[("fail", reason) for reason in ("lost", "error", "timeout")],
            ]
        ),
    )
    def give_up(self, by, index, how):
        verb, reason = how
        pull = self.pick(index, "open", "given up")
        self.note_expired()
        if pull is not None:
            getattr(self.studies[by], verb)(pull, reason)
            self.pulls[pull].update(state="given up", until=None)

    @rule(by=handles)
    def call_back_what_is_not_wanted(self, by):
        self.note_expired()
        study = self.studies[by]
        for pull in study.to_cancel():
            assert study.should_stop(pull)
            study.cancel(pull, "no longer needed")
            self.pulls[pull.id].update(state="given up", until=None)
        assert study.to_cancel() == []

    @rule(by=handles)
    def audit(self, by):
        found = self.studies[by].verify()
        assert found.ok, found.first_difference

    @precondition(lambda self: hasattr(self, "studies"))
    @invariant()
    def every_reading_is_known_once(self):
        policy = self.studies[0].policy
        assert policy.duplicates == self.repeated
        # Once the study is stopped, no pull in flight is wanted any more.
        is_stopped = self.studies[0].stopped
        pulls = policy.outstanding() if is_stopped else policy.to_cancel()
        wanted = {pull.number for pull in pulls}
        assert {pull.number for pull in self.studies[0].to_cancel()} == wanted


class InPostgreSQL:
    """The same in a separate database on a server."""

    server = None

    def make_place(self):
        self.database = self.server.database()
        self.url = self.database.__enter__()
        self.looking = psycopg.connect(self.url, autocommit=True)
        self.looking.execute("SET search_path = fairtrial")

    def remove_place(self):
        self.looking.close()
        self.database.__exit__(None, None, None)

    def open_store(self):
        return FailingPostgreSQLStore(ServerAddress(self.url), "process", clock=self.clock)

    def rows_of(self, statement):
        cursor = self.looking.execute(statement)
        return cursor.fetchall() if cursor.description else []


class FailingPostgreSQLStore(Failing, PostgreSQLStore):
    """A store in a database that fails."""


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a machine on a number of examples."""

    def run_machine(machine, examples):
        monkeypatch.setattr(cache, "SNAPSHOT_EVERY", machine.snapshot_every)
        size = settings(
            max_examples=effort.runs(examples, whole=1_000),
            stateful_step_count=effort.runs(30, whole=60),
            print_blob=True,
        )
        run_state_machine_as_test(machine, settings=size)

    return run_machine


@pytest.mark.parametrize(
    ("machine", "examples"), [(StudyMachine, 14), (RaceMachine, 7)], ids=["toys", "race"]
)
def test_anything_in_any_order(run, machine, examples):
    run(machine, examples)


@pytest.mark.parametrize(
    ("machine", "examples"), [(StudyMachine, 5), (RaceMachine, 3)], ids=["toys", "race"]
)
def test_anything_in_any_order_in_postgresql(run, postgresql_server, machine, examples):
    run(type("Machine", (InPostgreSQL, machine), {"server": postgresql_server}), examples)
