"""A study that a service keeps behaves like a local one: the same scenarios for both."""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from fairtrial import causal, delayed, errors, subpopulations
from fairtrial.client.remote_study import RemoteStudy
from fairtrial.study import Event, Study, StudyPull, Verification
from fairtrial.study.memory import MemoryStore
from tests.client.served import served
from tests.messages import raises, warns


class Local:
    """Studies of a store in this process."""

    def __init__(self):
        self.store = MemoryStore()

    def create(self, problem, policy, **options):
        return Study.create(problem, policy, storage=self.store, **options)

    def open(self, name):
        return Study.open(self.store, name)


class Remote:
    """Studies of a service, seen by an administrator."""

    def __init__(self, service):
        self.connection = service.connect("admin", "admin")

    def create(self, problem, policy, **options):
        return self.connection.create(problem, policy, **options)

    def open(self, name):
        return self.connection.study(name)


@pytest.fixture(scope="module", params=["local", "remote", "remote, in a file"])
def place(request, tmp_path_factory):
    if request.param == "local":
        yield Local()
        return
    storage: Any = MemoryStore()
    if request.param != "remote":
        storage = f"sqlite:///{tmp_path_factory.mktemp('served')}/trial.db"
    with served(storage, durability="process") as service:
        yield Remote(service)


@pytest.fixture
def name(request):
    return request.node.name


PROBLEM = subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))


@pytest.fixture
def study(place, name):
    return place.create(PROBLEM, subpopulations.BlockBetting(PROBLEM), name=name, seed=1)


@pytest.fixture
def race(place, name):
    """A race whose pulls have readings."""
    problem = delayed.Problem(["a", "b"], noise_std=0.1, feedback="refining", reading_std=0.5)
    return place.create(problem, delayed.InformationRacing(problem), name=name, seed=1)


def log_of(study):
    return [(event.kind, event.number, event.value) for event in study.events()]


# ------------------------------------------------------------------------------- asks


def test_one_pull_or_a_list(study):
    pull = study.ask()
    assert isinstance(pull, StudyPull)
    assert pull.arm in ("a", "b")
    assert pull.group in ("x", "y")
    more = study.ask(3)
    assert [one.number for one in more] == [1, 2, 3]
    assert study.ask(0) == []
    assert [one.id for one in study.outstanding()] == [pull.id, *(one.id for one in more)]


def test_a_group_that_arrives(study):
    assert {study.ask(group="y").group for _ in range(4)} == {"y"}
    with raises(errors.InvalidArgument, "group"):
        study.ask(group="z")
    assert study.n_events == 4


def test_the_same_request_gets_the_same_pulls(study):
    for request_id in ("r", "r 1", "Besuch № 7", "%20", "ü" * 200):
        first = study.ask(2, request_id=request_id)
        assert study.ask(2, request_id=request_id) == first
    assert len(study.outstanding()) == 10
    for request_id in ("", 3, "x" * 201, "a\0"):
        with raises(errors.InvalidArgument, "request_id", given=request_id):
            study.ask(request_id=request_id)


@pytest.mark.parametrize("n", [-1, 1.5, "2", 10**9, math.nan, None, True])
def test_a_wrong_number_of_pulls(study, n):
    if n in (None, True):
        return
    with raises(errors.InvalidArgument, "n", given=n):
        study.ask(n)
    assert study.n_events == 0


@pytest.mark.parametrize("lease", [0, -1, math.inf, math.nan, "1", 1e30])
def test_a_wrong_lease(study, lease):
    with raises(errors.InvalidArgument, "lease", given=lease):
        study.ask(lease=lease)
    pull = study.ask()
    with raises(errors.InvalidArgument, "lease", given=lease):
        study.extend(pull, lease)


def test_a_lease_and_its_extension(study):
    pull = study.ask(lease=60.0)
    lease = study.extend(pull, 3600.0)
    assert (lease.pull_id, lease.number) == (pull.id, pull.number)
    assert 3000 < (lease.until - datetime.now(UTC)).total_seconds() <= 3600
    assert [event.kind for event in study.events()] == ["ask"]


def test_a_study_that_has_stopped_gives_no_more_pulls(study):
    pulls = study.ask(1)
    while pulls:
        last = pulls[0]
        pulls = study.tell_and_ask(last, 0.9 if last.arm == "a" else 0.1, 1)
    assert study.status == "decided"
    assert study.stopped
    assert study.recommend().arm == "a"
    value = 0.9 if last.arm == "a" else 0.1
    assert study.ask(3) == study.tell_and_ask(last, value, 3) == []
    for ask in (study.ask, lambda: study.tell_and_ask(last, value)):
        with raises(errors.ExperimentFinished):
            ask()
    with raises(errors.ExperimentFinished) as caught:
        study.ask()
    assert repr(study.name) in str(caught.value)


def test_a_study_that_waits_for_results(place, name):
    problem = delayed.Problem(["a", "b"], noise_std=0.1)
    policy = delayed.InformationRacing(problem, sampling="top_two", parallel=2, per_arm=1)
    study = place.create(problem, policy, name=name, seed=1)
    pulls = study.ask(100)
    assert 0 < len(pulls) < 100
    with raises(errors.NothingToAsk) as caught:
        study.ask()
    assert repr(name) in str(caught.value)
    study.tell(pulls[0], 0.5)
    assert study.ask(1)
    with raises(errors.NothingToAsk):
        study.tell_and_ask(pulls[0], 0.5)


# ------------------------------------------------------------------------------- tells


def test_an_outcome_is_written_once(study):
    pull = study.ask()
    event = study.tell(pull, 0.25)
    assert isinstance(event, Event)
    assert (event.kind, event.pull_id, event.value, event.outcome) == ("tell", pull.id, 0.25, 0.25)
    assert event.at.tzinfo is not None
    assert study.tell(pull.id, 0.25) == event
    assert study.n_events == 2
    assert study.health()["duplicates"] == 1


def test_another_outcome_is_a_conflict_that_names_both(study):
    pull = study.ask()
    study.tell(pull, 0.25)
    with raises(errors.ConflictingOutcome) as caught:
        study.tell(pull, 0.75)
    assert pull.id in str(caught.value)
    assert study.n_events == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5", None, 1.5, {"reward": 0.5}, [0.5]])
def test_an_outcome_that_is_none_changes_nothing(study, value):
    pull = study.ask()
    with raises(errors.InvalidOutcome, "reward", given=value):
        study.tell(pull, value)
    with raises(errors.InvalidOutcome):
        study.tell_many([(pull, value)])
    with raises(errors.InvalidOutcome):
        study.tell_and_ask(pull, value)
    assert study.n_events == 1


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-300, 5e-324, 0, 1, True, -0.0])
def test_an_outcome_is_kept_to_the_last_bit(study, value):
    event = study.tell(study.ask(), value)
    assert event.value == float(value)
    assert math.copysign(1, event.value) == 1


def test_many_outcomes_are_told_together_or_not_at_all(study):
    first, second, third = study.ask(3)
    with raises(errors.InvalidOutcome):
        study.tell_many([(first, 0.5), (second, 7.0)])
    with raises(errors.UnknownPull):
        study.tell_many([(first, 0.5), ("0" * 32, 0.5)])
    assert study.n_events == 3
    events = study.tell_many([(first, 0.5), (second.id, 0.25), (third, 0.75)])
    assert [event.value for event in events] == [0.5, 0.25, 0.75]
    assert study.tell_many([]) == []
    for wrong in (3, [first], [(first,)], None):
        with raises(errors.InvalidArgument, "outcomes"):
            study.tell_many(wrong)


def test_a_pull_of_nobody(study):
    for pull in ("0" * 32, "", "a/b", "..", "?x=1", "ü", "x" * 500):
        for call in (
            lambda pull=pull: study.tell(pull, 0.5),
            lambda pull=pull: study.fail(pull),
            lambda pull=pull: study.should_stop(pull),
        ):
            with raises(errors.UnknownPull) as caught:
                call()
            assert f" {pull} " in str(caught.value)
            assert repr(study.name) in str(caught.value)
    for pull in (3, None, PROBLEM.pull(arm="a", group="x")):
        with raises(errors.UnknownPull):
            study.fail(pull)
    assert study.n_events == 0


def test_a_pull_of_another_study(place, study):
    other = place.create(
        PROBLEM, subpopulations.BlockBetting(PROBLEM), name=f"{study.name} 2", seed=1
    )
    with raises(errors.UnknownPull):
        study.tell(other.ask(), 0.5)
    again = place.open(study.name)
    assert study.tell(again.ask(), 0.5).seq == 2


def test_unsolicited_results(study):
    unsolicited = study.problem.pull(arm="b", group="x")
    event = study.tell(unsolicited, 0.5, request_id="from the archive")
    assert (event.kind, event.number) == ("unsolicited", -1)
    assert study.tell(unsolicited, 0.5, request_id="from the archive") == event
    many = study.tell_many([(unsolicited, 0.25), (study.problem.pull(arm="a", group="y"), 1.0)])
    assert [event.kind for event in many] == ["unsolicited"] * 2
    assert study.health()["unsolicited"] == 3


def test_a_tell_and_an_ask_are_one_write(study):
    pull = study.ask()
    following = study.tell_and_ask(pull, 0.5, lease=60.0)
    assert [event.kind for event in study.events()] == ["ask", "tell", "ask"]
    assert following.number == 1
    assert [one.number for one in study.tell_and_ask(following, 0.5, 2)] == [2, 3]
    with raises(errors.InvalidArgument, "n"):
        study.tell_and_ask(following, 0.5, -1)


def test_a_correction(study):
    pull = study.ask()
    with raises(errors.UnknownPull) as caught:
        study.amend(pull, 0.5, "typing error")
    assert pull.id in str(caught.value)
    study.tell(pull, 0.25)
    event = study.amend(pull, 0.75, "typing error")
    assert (event.kind, event.value, event.body["reason"]) == ("amend", 0.75, "typing error")
    for reason in ("", "  ", None, 3, "x" * 10_001):
        with raises(errors.InvalidArgument, "reason", given=reason):
            study.amend(pull, 0.5, reason)


def test_named_fields_and_a_policy_that_cannot_correct_them(place, name):
    problem, environment = causal.chain(
        0.5, {"k": [[0.9, 0.1]] * 2, "j": [[0.2, 0.8]] * 2}, [0.2, 0.9], 0.2
    )
    study = place.create(problem, causal.PlugIn(problem, budget=20), name=name, seed=1)
    pull = study.ask()
    outcome = environment.sample(pull, np.random.default_rng(1))
    event = study.tell(pull, outcome)
    assert event.outcome == outcome
    with raises(errors.InvalidOutcome):
        study.tell(study.ask(), 0.5)
    with raises(errors.NotSupported):
        study.amend(pull, {**outcome, "Y": 1 - outcome["Y"]}, "wrong")
    assert study.n_events == 3


def test_a_table_of_results_is_taken_as_a_whole_or_not_at_all(study, tmp_path):
    pulls = study.ask(4)
    path = study.write_pulls(pulls, tmp_path / "results.csv")
    head, *rows = path.read_text().splitlines()
    filled = [head, *(f"{row}0.{place}" for place, row in enumerate(rows[:3], 1)), rows[3]]
    path.write_text("\n".join([*filled[:3], f"{rows[2]}7", f"{'0' * 32},9,a,x,0.5"]))
    with raises(errors.InvalidTable) as caught:
        study.tell_table(path)
    first, second = caught.value.mistakes
    assert first.startswith("line 4: reward must")
    assert second == f"line 5: pull {'0' * 32} was never issued by study {study.name!r}"
    assert study.n_events == 4
    path.write_text("\n".join(filled))
    for _ in range(2):
        assert [event.value for event in study.tell_table(path)] == [0.1, 0.2, 0.3]
    assert study.outstanding() == [pulls[3]]
    path.write_text("\n".join([*filled[:3], f"{rows[2]}0.9"]))
    with raises(errors.InvalidTable):
        study.tell_table(path)


def plate_of(study, path, cells):
    """Write a table of the study's pulls with these results, by number."""
    header = "pull_id,number,arm,group,value"
    asked = {event.number: event for event in study.events() if event.kind == "ask"}
    rows = [f"{asked[number].pull_id},{number},,x,{cell}" for number, cell in cells.items()]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_table_tells_which_pulls_have_failed(study, tmp_path):
    study.ask(3, group="x")
    path = plate_of(study, tmp_path / "plate.csv", {0: 0.5, 1: "failed", 2: ""})
    told, failed = study.tell_table(path)
    assert (told.kind, told.value) == ("tell", 0.5)
    assert (failed.kind, failed.body["reason"]) == ("fail", "no result, according to plate.csv")
    assert study.tell_table(path) == [told, failed]
    before = study.n_events
    path = plate_of(study, tmp_path / "plate.csv", {0: "failed", 2: 0.25})
    with raises(errors.InvalidTable) as caught:
        study.tell_table(path)
    assert [one.partition(": ")[0] for one in caught.value.mistakes] == ["line 2"]
    assert caught.value.source == "plate.csv"
    assert study.n_events == before


def test_a_table_corrects_results_as_a_whole_or_not_at_all(study, tmp_path):
    study.ask(5, group="x")
    path = tmp_path / "plate.csv"
    study.tell_table(plate_of(study, path, {0: 0.5, 1: "failed", 2: 0.25}))
    before = study.n_events
    plate_of(study, path, {0: 0.75, 1: "failed", 2: 0.25, 3: 1, 4: "failed"})
    with warns(UserWarning) as caught:
        (found,) = study.amend_table(path, "misread", preview=True)
    assert "2 first results left to be told" in str(caught[0].message)
    assert (found.before, found.after, found.participant) == (0.5, 0.75, None)
    assert study.n_events == before
    plate_of(study, path, {0: 0.75, 1: 7, 2: "failed"})
    with raises(errors.InvalidTable) as wrong:
        study.amend_table(path, "misread")
    assert [one.partition(": ")[0] for one in wrong.value.mistakes] == ["line 3", "line 4"]
    assert study.n_events == before
    plate_of(study, path, {0: 0.75, 1: "failed", 2: 0.25})
    assert study.amend_table(path, "misread") == [found]
    last = list(study.events())[-1]
    assert (last.kind, last.value, last.body["reason"]) == ("amend", 0.75, "misread")
    assert study.amend_table(path, "again") == []
    assert study.verify().ok


def test_a_table_of_labels_that_are_not_the_pulls_is_refused(study, tmp_path):
    pull = study.ask(group="x")
    path = tmp_path / "plate.csv"
    path.write_text(f"pull_id,group,value\n{pull.id},y,0.5\n")
    with raises(errors.InvalidTable) as caught:
        study.tell_table(path)
    assert caught.value.mistakes[0].startswith("line 2: group is 'y', but this pull is of 'x'")


# ------------------------------------------------------------------------ other events


def test_a_pull_is_given_up_once(study):
    first, second = study.ask(2)
    lost = study.fail(first, "spoilt")
    assert (lost.kind, lost.body) == ("fail", {"reason": "spoilt"})
    assert study.fail(first, "something else") == lost
    assert study.cancel(second).body == {"reason": "user"}
    assert study.outstanding() == []
    assert study.should_stop(first)
    assert study.tell(first, 0.5).kind == "late_tell"
    with raises(errors.AlreadyTold):
        study.fail(first)
    with raises(errors.AlreadyTold):
        study.extend(second, 60.0)


def test_readings(race):
    pull = race.ask()
    event = race.report(pull, 0.5, stage=1)
    assert (event.kind, event.value, event.stage) == ("report", 0.5, 1)
    assert pull.report(0.75, stage=2, elapsed=1.5).body == {"details": {"elapsed": 1.5}}
    assert race.report(pull, 1.0, stage=3, request_id="r") == race.report(
        pull, 1.0, stage=3, request_id="r"
    )
    for value in (math.nan, "1", None):
        with raises(errors.InvalidOutcome, "reading", given=value):
            race.report(pull, value)
    assert not pull.should_stop()
    assert race.to_cancel() == []
    assert race.n_events == 4


def test_a_policy_without_readings(study):
    with raises(errors.NotSupported):
        study.report(study.ask(), 0.5)
    assert study.n_events == 1


def test_a_stop_by_hand(study):
    pull = study.ask()
    event = study.stop("the drug was recalled")
    assert (event.kind, event.body) == ("stop", {"reason": "the drug was recalled"})
    assert study.stop("again") == event
    assert study.stopped
    assert study.ask(2) == []
    with raises(errors.ExperimentFinished):
        study.ask()
    assert study.tell(pull, 0.5).kind == "tell"
    with raises(errors.InvalidArgument, "reason"):
        study.stop(" ")


# ------------------------------------------------------------------------------ views


def test_moments_of_a_trace(study):
    for pull in study.ask(10):
        study.tell(pull, 0.5)
    assert [moment.told for moment in study.trace(3)][-1] == 10
    for points in (1, 0, -1, "5", 2.5):
        with raises(errors.InvalidArgument, "points", given=points):
            study.trace(points)


def test_events_after(study):
    study.ask(5)
    assert [event.seq for event in study.events(after=3)] == [4, 5]
    assert list(study.events(after=99)) == []
    for after in (-1, 1.5, "1"):
        with raises(errors.InvalidArgument, "after", given=after):
            study.events(after=after)


def test_an_audit_with_heads_that_were_noted(study):
    study.ask()
    head = study.head_hash
    study.ask()
    assert study.verify(head).ok
    assert study.verify([head, study.head_hash]).ok
    found = study.verify("f" * 64)
    assert not found.ok
    assert "noted elsewhere" in found.first_difference
    with raises(errors.InvalidArgument, "expected"):
        study.verify("nonsense")


def test_rare_events_are_those_of_the_log_in_its_order(study):
    first, second = study.ask(2)
    study.tell(first, 0.5)
    study.fail(second, "lost")
    study.amend(first, 0.25, "misread")
    found = study.rare_events("amend", "fail")
    assert [event.kind for event in found] == ["fail", "amend"]
    assert found == [event for event in study.events() if event.kind in ("amend", "fail")]


def test_an_audit_of_the_last_events(study):
    for pull in study.ask(5):
        study.tell(pull, 0.5)
    assert study.verify_last(4) == Verification(ok=True, events=4, first_difference=None, skipped=6)
    assert study.verify_last(99).ok
    with raises(errors.InvalidArgument, "events"):
        study.verify_last(0)


def test_a_file_of_an_unknown_kind(study, tmp_path):
    study.ask()
    for path in ("log.txt", "log", ""):
        with raises(errors.InvalidArgument, "path"):
            study.export(tmp_path / path if path else path)
    with raises(errors.StorageError):
        study.export(tmp_path / "missing" / "log.csv")


# ---------------------------------------------------------------------- made and found


def test_a_study_is_made_once(place, study):
    policy = subpopulations.BlockBetting(PROBLEM)
    with raises(errors.StudyExists):
        place.create(PROBLEM, policy, name=study.name, seed=1)
    study.ask()
    for seed in (1, None):
        again = place.create(PROBLEM, policy, name=study.name, seed=seed, exist_ok=True)
        assert (again.n_events, again.seed) == (1, 1)
    for exist_ok in (False, True):
        with raises(errors.StudyExists):
            place.create(
                PROBLEM,
                subpopulations.BlockBetting(PROBLEM, delta=0.1),
                name=study.name,
                seed=1,
                exist_ok=exist_ok,
            )


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, None, 3])
def test_a_name_that_is_none(place, name):
    with raises(errors.InvalidArgument, "name", given=name):
        place.create(PROBLEM, subpopulations.BlockBetting(PROBLEM), name=name)
    with raises(errors.InvalidArgument, "name", given=name):
        place.open(name)


@pytest.mark.parametrize("name", ["dose 1/2", "a?b#c%2F", "é 试", "..a", "a;b=c", "a+b&c"])
def test_any_other_name_will_do(place, name):
    place.create(PROBLEM, subpopulations.BlockBetting(PROBLEM), name=name, seed=1).ask()
    assert place.open(name).n_events == 1


def test_a_study_that_is_not_there(place):
    # The words list all other studies.
    with pytest.raises(errors.StudyNotFound):
        place.open("missing")


def test_a_policy_for_another_problem(place, name):
    other = subpopulations.Problem(["a", "c"], ["x"], reward_range=(0, 1))
    with raises(errors.InvalidArgument, "policy"):
        place.create(other, subpopulations.BlockBetting(PROBLEM), name=name)


def test_all_methods_of_a_local_study_are_there():
    def public(cls):
        return {name for name in dir(cls) if not name.startswith("_")}

    # Files and processes of the storage's owner, and how a study is found.
    local_only = {"create", "open", "import_log", "pass_time", "snapshot", "secret", "session"}
    # It needs the secret of the study.
    local_only.add("seal_names")
    # For the process that wrote the log, and for what shows a study beside its storage.
    local_only |= {"counts_of_health", "keep_trace", "kits_left", "warnings_to_send"}
    assert public(Study) - public(RemoteStudy) <= local_only


# --------------------------------------------------------------------------- measures


def test_an_outcome_without_measures_is_known_at_once(study):
    first, second, third = study.ask(3)
    assert study.tell_known(first, 0.5).kind == "tell"
    assert study.tell_known(first, 0.5).seq == 4
    assert [event.value for event in study.tell_many_known([(second, 1), (third, 0)])] == [1, 0]
    with raises(errors.ConflictingOutcome):
        study.tell_known(first, 0.25)
    with raises(errors.InvalidOutcome) as caught:
        study.tell_known(first, {"reward": 0.5})
    assert caught.value.name == "reward"


@pytest.fixture
def doses(place, name):
    """A study in which a pull tells whether a patient was cured, and whether harmed."""
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    problem = subpopulations.Problem(
        ["low", "high"], 1, measures=measures, objective="cured", ceilings={"harmed": 0.3}
    )
    return place.create(problem, subpopulations.BlockBetting(problem), name=name, seed=1)


def test_measures_are_told_together_or_one_by_one(doses):
    first, second, third = doses.ask(3)
    assert doses.tell(first, {"cured": 1, "harmed": None}).kind == "tell"
    assert doses.report(second, {"cured": 0.0}).kind == "report"
    assert doses.tell(second, {"harmed": 1}).kind == "tell"
    assert doses.tell_known(third, {"cured": 1}).kind == "report"
    assert doses.tell_known(third, {"cured": 1}) is None
    assert doses.tell_known(third, {"harmed": 0}).kind == "tell"
    assert doses.tell_many([(first, {"cured": 1, "harmed": None})])[0].kind == "tell"
    assert doses.verify().ok
    told = [event.body["outcome"] for event in doses.events() if event.kind == "tell"]
    assert told == [
        {"cured": 1.0, "harmed": None},
        {"cured": 0.0, "harmed": 1.0},
        {"cured": 1.0, "harmed": 0.0},
    ]
    assert {limit.measure for limit in doses.progress().measure_limits} == {"harmed"}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"cured": 2, "harmed": 0}, errors.InvalidOutcome),
        ({"cured": 1, "harmed": 0, "asleep": 1}, errors.InvalidOutcome),
        ({"cured": 1}, errors.InvalidOutcome),
        ({}, errors.InvalidOutcome),
        (1.0, errors.InvalidOutcome),
        ({"cured": math.nan, "harmed": 0}, errors.InvalidOutcome),
    ],
)
def test_nothing_is_taken_of_measures_that_are_refused(doses, value, error):
    pull = doses.ask()
    with raises(error):
        doses.tell(pull, value)
    assert [event.kind for event in doses.events()] == ["ask"]
    doses.report(pull, {"cured": 1})
    with raises(errors.ConflictingOutcome):
        doses.tell(pull, {"cured": 0, "harmed": 0})


def test_a_table_may_have_some_measures_of_a_pull(doses, tmp_path):
    pulls = doses.ask(4)
    path = doses.write_pulls(pulls, tmp_path / "results.csv")
    head, *rows = path.read_text().splitlines()
    filled = [f"{row.removesuffix(',,')}{own}" for row, own in zip(rows, TABLE, strict=True)]
    path.write_text("\n".join([head, *filled]))
    events = doses.tell_table(path)
    assert [event.kind for event in events] == ["tell", "report", "tell"]
    assert events[2].outcome == {"cured": 0.0, "harmed": None}
    assert {pull.number for pull in doses.outstanding()} == {1, 3}
    before = doses.n_events
    wrong = [filled[0].replace(",1,0", ",0,0"), f"{rows[1].removesuffix(',,')},0,", filled[2]]
    path.write_text("\n".join([head, *wrong]))
    with raises(errors.InvalidTable) as caught:
        doses.tell_table(path)
    first, second = caught.value.mistakes
    assert first.startswith("line 2: pull")
    assert second.startswith("line 3: cured was reported as 1; got 0")
    assert doses.n_events == before


TABLE = (",1,0", ",1,", ",0,missing", ",,")


def test_a_table_corrects_some_measures_of_a_pull(doses, tmp_path):
    pulls = doses.ask(3)
    path = doses.write_pulls(pulls, tmp_path / "results.csv")
    head, *rows = (row.removesuffix(",,") for row in path.read_text().splitlines())
    path.write_text(
        "\n".join([head, f"{rows[0]},1,0", f"{rows[1]},1,", f"{rows[2]},failed,failed"])
    )
    assert [event.kind for event in doses.tell_table(path)] == ["tell", "report", "fail"]
    path.write_text(
        "\n".join([head, f"{rows[0]},1,1", f"{rows[1]},0,1", f"{rows[2]},failed,failed"])
    )
    with warns(UserWarning):
        whole, early = doses.amend_table(path, "swapped")
    assert (whole.before, whole.after) == (
        {"cured": 1.0, "harmed": 0.0},
        {"cured": 1.0, "harmed": 1.0},
    )
    assert (early.before, early.after) == ({"cured": 1.0}, {"cured": 0.0})
    assert doses.verify().ok


def test_a_pull_of_a_paired_race_has_its_block(place, name):
    problem = delayed.Problem(["a", "b"], reward_range=(0, 1))
    study = place.create(problem, delayed.PairedRacing(problem), name=name)
    assert [pull.block for pull in study.ask(4)] == [0, 0, 1, 1]
    assert [pull.block for pull in study.outstanding()] == [0, 0, 1, 1]
