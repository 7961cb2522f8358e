"""The policy in use always has the log's state: after mishaps, and from snapshots."""

import numpy as np
import pytest

from fairtrial.core import Policy, Recommendation
from fairtrial.errors import CorruptLog, InvalidArgument, NotSupported
from fairtrial.study import Study, cache, replica
from fairtrial.study.snapshots import restore, take, undeclared
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises
from tests.study.tools import Fault, connect, replayed, same_state
from tests.study.toys import OWN, Elimination, Racing, Serving, ToyProblem


@pytest.fixture(autouse=True)
def few_events_between_snapshots(monkeypatch):
    monkeypatch.setattr(cache, "SNAPSHOT_EVERY", 10)


@pytest.fixture
def file_study(path):
    def make(policy=Serving, **parameters):
        problem = ToyProblem()
        return Study.create(
            problem,
            policy(problem, **parameters),
            storage=path,
            name="toy",
            seed=7,
            durability="process",
        )

    return make


def run(study, pairs):
    for index in range(pairs):
        study.tell(study.ask(), float(index % 7))


def count_replayed(monkeypatch):
    """Count the events that replicas replay from now on."""
    replayed_events = []
    original = replica.Replica.replay

    def replay(self, steps):
        steps = list(steps)
        replayed_events.extend(step[0] for step in steps)
        original(self, steps)

    monkeypatch.setattr(replica.Replica, "replay", replay)
    return replayed_events


# --------------------------------------------------------------------------- snapshots


def test_opening_replays_only_what_came_after_the_snapshot(file_study, path, monkeypatch):
    study = file_study()
    run(study, 17)
    assert [item.seq for item in study._store.snapshots(1)] == [30, 20]
    seen = count_replayed(monkeypatch)
    other = Study.open(path, "toy", **OWN)
    assert same_state(other.policy, replayed(study))
    assert seen == [31, 32, 33, 34]


def test_closing_keeps_a_snapshot(file_study, path, monkeypatch):
    with file_study() as study:
        run(study, 3)
        state = study.policy.get_state()
    seen = count_replayed(monkeypatch)
    with Study.open(path, "toy", **OWN) as study:
        assert all(
            np.array_equal(value, state[key]) for key, value in study.policy.get_state().items()
        )
        assert study.verify().ok
    # Only the audit read the log.
    assert seen == [1, 2, 3, 4, 5, 6]


def test_looking_at_a_short_study_writes_nothing(file_study, path):
    study = file_study()
    study.ask()
    before = connect(path).execute("SELECT count(*) FROM snapshot").fetchone()
    with Study.open(path, "toy", **OWN) as other:
        other.progress()
    assert connect(path).execute("SELECT count(*) FROM snapshot").fetchone() == before == (0,)


def test_looking_at_a_long_study_leaves_a_snapshot(file_study, path):
    study = file_study()
    run(study, 20)
    connect(path).execute("DELETE FROM snapshot")
    with Study.open(path, "toy", **OWN) as other:
        other.progress()
    assert [item.seq for item in study._store.snapshots(1)] == [40]


def test_a_snapshot_can_be_asked_for(file_study):
    study = file_study()
    run(study, 1)
    study.snapshot()
    study.snapshot()
    assert [item.seq for item in study._store.snapshots(1)] == [2]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshot SET state = x'00'",
        "UPDATE snapshot SET state = substr(state, 1, length(state) - 1)",
        "UPDATE snapshot SET sha256 = 'no'",
        "UPDATE snapshot SET seq = seq - 1",
        "UPDATE snapshot SET seq = seq + 1000",
        "UPDATE snapshot SET state = (SELECT state FROM snapshot ORDER BY seq LIMIT 1)",
        "DELETE FROM snapshot",
    ],
)
def test_a_damaged_snapshot_is_passed_over(file_study, path, damage):
    study = file_study()
    run(study, 17)
    before = connect(path).execute("SELECT count(*) FROM snapshot").fetchone()[0]
    assert before == 2
    connect(path).execute(damage)
    other = Study.open(path, "toy", **OWN)
    assert same_state(other.policy, study.policy)
    run(other, 3)
    assert other.verify().ok
    assert study.verify().ok


def test_a_snapshot_of_another_version_is_passed_over(file_study, path, monkeypatch):
    study = file_study()
    run(study, 17)
    monkeypatch.setattr(Serving, "version", 2)
    seen = count_replayed(monkeypatch)
    with pytest.warns(RuntimeWarning, match="version 1 of Serving, and this is version 2"):
        opened = Study.open(path, "toy", **OWN).policy
    assert seen == list(range(1, 35))
    states = opened.get_state(), study.policy.get_state()
    fingerprints = {str(state.pop("made_from")) for state in states}
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])
    assert len(fingerprints) == 2, "the state of one version is not that of another"


def test_a_snapshot_that_the_policy_cannot_read_is_passed_over():
    policy = Serving(ToyProblem(), seed=1)
    snapshot = take(policy, 5, "head")

    class Serving2(Serving):
        state_fields = (*Serving.state_fields, "new")

    Serving2.__name__ = "Serving"
    assert restore(snapshot, Serving(ToyProblem(), seed=1), "head") == ()
    assert restore(snapshot, Serving2(ToyProblem(), seed=1), "head") is None
    assert restore(snapshot, Serving(ToyProblem(), seed=1), "another head") is None


def test_a_snapshot_is_never_unpickled():
    class Pickled(Elimination):
        def get_state(self):
            return {**super().get_state(), "bad": np.array([object()], dtype=object)}

        def set_state(self, state):
            raise AssertionError("an array of objects was read")

    policy = Pickled(ToyProblem(), seed=1)
    snapshot = take(policy, 0, "head")
    assert restore(snapshot, policy, "head") is None


def test_any_name_of_a_field_can_be_saved():
    class Filing(Elimination):
        state_fields = (*Elimination.state_fields, "file", "allow_pickle")
        file, allow_pickle = 3, 1

    policy = Filing(ToyProblem(), seed=1)
    policy.file = 5
    fresh = Filing(ToyProblem(), seed=1)
    assert restore(take(policy, 0, "head"), fresh, "head") == ()
    assert (fresh.file, fresh.allow_pickle) == (5, 1)


class Forgetful(Elimination):
    """Forgets to list what it learns in `state_fields`."""

    state_fields = ()


class CountingBets(BlockBetting):
    """Keeps a number that `state_fields` does not name."""

    def __init__(self, problem, *, seed=None):
        super().__init__(problem, seed=seed)
        self.count = 0

    def learn(self, pull, outcome, **details):
        self.count += 1
        super().learn(pull, outcome, **details)


@pytest.mark.parametrize("prediction", [None, (0, 1)])
def test_what_block_betting_saves_is_its_whole_state(prediction):
    problem = Problem(2, 1, floors=None, reward_range=(0, 1), prediction=prediction)
    predicted = {} if prediction is None else {"prediction": 0.5}
    for policy, forgotten in ((BlockBetting(problem), []), (CountingBets(problem), ["count"])):
        for _ in range(50):
            policy.tell(policy.ask(**predicted), 0.5)
        assert undeclared(policy) == forgotten


def test_a_policy_that_forgets_its_state_fields_still_works_without_snapshots(file_study, path):
    study = file_study(Forgetful, width=1e9)
    own = {"policies": [Forgetful], "problems": [ToyProblem]}
    with pytest.warns(RuntimeWarning, match="state_fields forgets sums, counts, started"):
        run(study, 17)
    with raises(NotSupported):
        study.snapshot()
    assert list(study._store.snapshots(1)) == []
    other = Study.open(path, "toy", **own)
    assert other.policy.sums.tolist() == study.policy.sums.tolist()
    other.close()


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("number", 1, 2),
        ("number", 1.0, float("nan")),
        ("text", "a", "b"),
        ("array", np.zeros(2), np.ones(2)),
        ("array", np.zeros(2), np.zeros(3)),
        ("items", [1, 2], [1, 3]),
        ("items", [1], [1, 2]),
        ("mapping", {"a": 1}, {"a": 2}),
        ("mapping", {"a": 1}, {"b": 1}),
        ("labels", {1}, {2}),
        ("kind", None, 1),
        ("generator", np.random.default_rng(1), np.random.default_rng(2)),
        ("part", ToyProblem(2), ToyProblem(3)),
    ],
)
def test_forgotten_state_of_any_kind_is_noticed(name, before, after):
    class Own(Elimination):
        def __init__(self, problem, seed=None):
            super().__init__(problem, seed=seed)
            setattr(self, name, before)

    policy = Own(ToyProblem(), seed=1)
    assert undeclared(policy) == []
    setattr(policy, name, after)
    assert undeclared(policy) == [name]


def test_an_attribute_that_only_appears_later_is_noticed():
    policy = Elimination(ToyProblem(), seed=1)
    policy.extra = 1
    assert undeclared(policy) == ["extra"]


# ----------------------------------------------------------------------------- mishaps


def test_an_error_in_the_middle_of_a_policy_changes_nothing(file_study, path):
    class Stumbling(Serving):
        stumble = False

        def learn(self, pull, outcome):
            super().learn(pull, outcome)
            if outcome == 13.0:
                raise Fault

        def choose(self, **context):
            action = super().choose(**context)
            if Stumbling.stumble:
                raise Fault
            return action

    study = file_study(Stumbling)
    run(study, 5)
    pull = study.ask()
    with pytest.raises(Fault):
        study.tell(pull, 13.0)
    assert same_state(study.policy, replayed(study))
    Stumbling.stumble = True
    with pytest.raises(Fault):
        study.ask(3)
    Stumbling.stumble = False
    assert same_state(study.policy, replayed(study))
    study.tell(pull, 1.0)
    assert study.verify().ok


def test_a_policy_that_decides_otherwise_on_replay_is_caught(file_study, path):
    class Drifting(Elimination):
        shift = 0

        def choose(self, **context):
            return (super().choose() + Drifting.shift) % 3

    study = file_study(Drifting)
    study.ask(5)
    Drifting.shift = 1
    other = Study.open(path, "toy", policies=[Drifting], problems=[ToyProblem])
    with raises(CorruptLog):
        other.recommend()
    with raises(CorruptLog):
        other.ask()
    assert other.verify().first_difference.startswith("event 1: the log says pull 0, action 0")


def test_a_policy_that_breaks_on_replay_is_caught(file_study, path):
    class Breaking(Elimination):
        broken = False

        def learn(self, pull, outcome):
            if Breaking.broken:
                raise ZeroDivisionError("oops")
            super().learn(pull, outcome)

    study = file_study(Breaking)
    run(study, 2)
    Breaking.broken = True
    other = Study.open(path, "toy", policies=[Breaking], problems=[ToyProblem])
    with raises(CorruptLog):
        other.recommend()


def test_a_policy_that_stumbles_on_catching_up_starts_anew(file_study, path):
    class Stumbling(Elimination):
        stumble = False

        def learn(self, pull, outcome):
            super().learn(pull, outcome)
            if Stumbling.stumble:
                raise Fault

    study = file_study(Stumbling)
    other = Study.open(path, "toy", policies=[Stumbling], problems=[ToyProblem])
    assert other.policy.told == 0
    run(study, 3)
    Stumbling.stumble = True
    with raises(CorruptLog):
        other.recommend()
    Stumbling.stumble = False
    assert same_state(other.policy, study.policy)


def test_a_policy_that_notes_something_else_on_its_pulls_is_caught(file_study, path):
    class Tagging(Elimination):
        tag = 1

        def choose(self, **context):
            return super().choose(), Tagging.tag

    study = file_study(Tagging)
    study.ask(2)
    Tagging.tag = 2
    other = Study.open(path, "toy", policies=[Tagging], problems=[ToyProblem])
    assert "tag 1; Tagging (version 1) decides" in other.verify().first_difference


def test_a_snapshot_from_after_the_head_that_is_wanted_is_passed_over(file_study):
    study = file_study()
    run(study, 2)
    earlier = study._store.read_study(1)
    run(study, 5)
    assert [item.seq for item in study._store.snapshots(1)] == [10]
    found = cache.Cache(study._store, 1, study._session.build).at_head(earlier)
    assert (found.seq, found.policy.told) == (4, 2)


def test_a_log_that_was_put_back_to_an_older_state_is_noticed(file_study, path):
    study = file_study()
    run(study, 3)
    other = SQLiteStore(path, "process")
    connection = connect(path)
    for trigger in ("changed", "removed"):
        connection.execute(f"DROP TRIGGER event_is_never_{trigger}")
    connection.execute("DELETE FROM event WHERE seq > 2")
    connection.execute("DELETE FROM pull WHERE asked_seq > 2")
    hash_at_2 = connection.execute("SELECT hash FROM event WHERE seq = 2").fetchone()[0]
    connection.execute("UPDATE study SET head_seq = 2, head_hash = ?", (hash_at_2,))
    with raises(CorruptLog):
        run(study, 1)
    with raises(CorruptLog):
        study.progress()
    other.close()


# ----------------------------------------------------------------------- own policies


class Careful(Policy):
    """A user's own policy in twenty lines: each arm in turn until one leads clearly."""

    state_fields = ("sums", "counts")

    def __init__(self, problem, lead=3.0, seed=None):
        super().__init__(problem, seed)
        self.lead = lead
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions)

    def choose(self):
        return self.asked % self.problem.n_actions

    def learn(self, pull, outcome):
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1

    @property
    def stopped(self):
        second, first = np.sort(self.sums)[-2:]
        return bool(first - second >= self.lead)

    def recommend(self):
        arm = self.problem.labels(int(self.sums.argmax()))["arm"]
        decided = self.stopped
        return Recommendation(arm if decided else None, "decided" if decided else "running", arm)


def test_a_users_own_policy_runs_in_a_study(path):
    problem = ToyProblem(["a", "b"])
    with Study.create(problem, Careful(problem, lead=2.0), storage=path, name="own") as study:
        study.tell(study.ask(), 0.0)
        pulls = study.ask(1)
    with raises(InvalidArgument, "policies"):
        Study.open(path, "own", problems=[ToyProblem])
    with raises(InvalidArgument, "problems"):
        Study.open(path, "own", policies=[Careful])
    with Study.open(path, "own", policies=[Careful], problems=[ToyProblem]) as study:
        assert study.policy.lead == 2.0
        while pulls:
            pulls = study.tell_and_ask(pulls[0].id, 1.0 if pulls[0].arm == "b" else 0.0, 1)
        assert (study.recommend().arm, study.policy.told) == ("b", 4)
        assert study.verify().ok


def test_a_policy_of_a_family_is_opened_by_its_name_alone(path):
    from fairtrial.subpopulations import Problem, RoundRobin

    problem = Problem(["a", "b"], ["x", "y"], floors=-0.5, noise_std=1.0)
    make = {"storage": path, "name": "family", "seed": 3}
    with Study.create(problem, RoundRobin(problem, delta=0.1), **make) as study:
        pull = study.ask()
        study.tell(pull, 0.25)
    with Study.open(path, "family") as study:
        assert (study.problem, study.policy.delta, study.policy.told) == (problem, 0.1, 1)
        assert pull.group in ("x", "y")
        assert study.verify().ok


def test_racing_survives_reopening_with_pulls_in_flight(file_study, path):
    with file_study(Racing) as study:
        study.ask(5)
        study.report(study.outstanding()[0], 0.5, stage=1)
    with Study.open(path, "toy", **OWN) as study:
        first, second, third = study.outstanding()
        study.tell(first, 1.0)
        study.fail(second)
        study.tell(third, 0.5)
        study.tell(second, 0.0)
        assert study.ask().tag == 0
        assert same_state(study.policy, replayed(study))
        assert study.verify().ok
