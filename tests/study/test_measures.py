"""Studies of several measures per pull: told at once, value by value, by tables, and replayed."""

import csv
import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openpyxl
import pytest

from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    InvalidArgument,
    InvalidOutcome,
    InvalidTable,
    MistakesFound,
    SourceError,
    UnknownPull,
)
from fairtrial.study import Study, run_study
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.messages import raises
from tests.subpopulations.measuring_toys import TakesTurns

PROBLEM = Problem(["a", "b"], 1, measures={"cd4": (-1, 1), "event_free": (0, 1)}, objective="cd4")
BOTH = {"cd4": 0.25, "event_free": 1.0}


@pytest.fixture
def study(store):
    return Study.create(PROBLEM, TakesTurns(PROBLEM), storage=store, name="trial", seed=1)


def _state(study):
    return {name: value.tolist() for name, value in study.policy.get_state().items()}


def _outcomes(study):
    return [event.outcome for event in study.events() if event.kind not in ("ask", "fail")]


def _assert_replays(study) -> None:
    """A replay of the log gives every decision again, and the policy's state."""
    assert study.verify().ok


def test_values_are_told_at_once_or_one_by_one(study) -> None:
    first, second, third = study.ask(3)
    study.tell(first, {"event_free": 1, "cd4": 0.25})
    study.report(second, {"cd4": 0.25})
    study.tell(second, {"event_free": 1})
    study.report(third, {"event_free": 1})
    study.report(third, {"cd4": 0.25})
    event = study.tell(third, {})
    assert event.outcome == BOTH
    assert _outcomes(study) == [
        BOTH,
        {"cd4": 0.25},
        BOTH,
        {"event_free": 1.0},
        {"cd4": 0.25},
        BOTH,
    ]
    assert study.policy.sums.sum(axis=0).tolist() == [0.75, 3.0]
    _assert_replays(study)


def test_a_value_that_will_never_be_known_is_none(study) -> None:
    pull = study.ask()
    assert study.tell(pull, {"cd4": 0.25, "event_free": None}).outcome == {
        "cd4": 0.25,
        "event_free": None,
    }
    assert study.policy.counts.sum(axis=0).tolist() == [1, 0]
    _assert_replays(study)


@pytest.mark.parametrize(
    ("error", "method", "value"),
    [
        (InvalidOutcome, "tell", {"event_free": 2}),
        (InvalidOutcome, "tell", {"event_free": 1, "rash": 0}),
        (InvalidOutcome, "tell", {}),
        (InvalidOutcome, "tell", {"event_free": math.nan}),
        (InvalidOutcome, "tell", 0.5),
        (ConflictingOutcome, "tell", {"cd4": 0.3, "event_free": 1}),
        (ConflictingOutcome, "tell", {"cd4": None, "event_free": 1}),
        (InvalidOutcome, "report", {"event_free": 2}),
        (InvalidOutcome, "report", {"event_free": None}),
        (InvalidOutcome, "report", {}),
        (ConflictingOutcome, "report", {"cd4": 0.3, "event_free": 1}),
    ],
)
def test_what_is_refused_writes_nothing(study, error, method, value) -> None:
    pull = study.ask()
    study.report(pull, {"cd4": 0.25})
    before, events = _state(study), len(list(study.events()))
    with raises(error):
        getattr(study, method)(pull, value)
    assert str(_state(study)) == str(before)
    assert len(list(study.events())) == events
    study.tell(pull, {"event_free": 1})
    assert _outcomes(study)[-1] == BOTH


def test_the_same_again_is_accepted_and_another_value_is_a_conflict(study) -> None:
    pull = study.ask()
    study.report(pull, {"cd4": 0.25}, request_id="r1")
    study.report(pull, {"cd4": 0.25}, request_id="r1")
    first = study.tell(pull, BOTH)
    assert len(list(study.events())) == 3
    for again in (BOTH, {"event_free": 1}, {"cd4": 0.25}, {}):
        assert study.tell(pull, again) == first
    assert study.report(pull, {"cd4": 0.25}) == first
    for method in (study.tell, study.report):
        with raises(ConflictingOutcome):
            method(pull, {"cd4": 0.5})
    with raises(InvalidArgument, "request_id"):
        study.report(pull, {"cd4": 0.5}, request_id="r1")


def test_a_correction_may_name_one_measure(study) -> None:
    pull = study.ask()
    study.tell(pull, {"cd4": 0.25, "event_free": None})
    event = study.amend(pull, {"event_free": 1}, "found in the archive")
    assert event.outcome == BOTH
    assert event.body["old"] == {"cd4": 0.25, "event_free": None}
    assert study.policy.sums[0].tolist() == [0.25, 1.0]
    assert study.amend(pull, {"cd4": 0.25}, "no change") == event
    with raises(InvalidOutcome):
        study.amend(pull, {"cd4": 7}, "typing error")
    assert study.tell(pull, BOTH).kind == "tell"
    _assert_replays(study)


def test_what_was_reported_of_a_lost_pull_is_completed_later(study) -> None:
    pull = study.ask()
    study.report(pull, {"event_free": 1})
    study.fail(pull)
    assert study.policy.lost_values == 1
    assert study.tell(pull, {"cd4": 0.25}).kind == "late_tell"
    assert _outcomes(study)[-1] == BOTH
    with raises(AlreadyTold):
        study.fail(pull)
    _assert_replays(study)


def test_data_that_nobody_asked_for_are_whole(study) -> None:
    pull = PROBLEM.pull(arm="b", group="0")
    assert study.tell(pull, BOTH).outcome == BOTH
    with raises(InvalidOutcome, "outcome: event_free"):
        study.tell(pull, {"cd4": 0.25})
    _assert_replays(study)


def test_many_are_told_at_once_or_none(study) -> None:
    pulls = study.ask(3)
    study.report(pulls[1], {"cd4": 0.25})
    values = [BOTH, {"event_free": 1}, {"cd4": 0.25}]
    with raises(InvalidOutcome):
        study.tell_many(list(zip(pulls, values, strict=True)))
    assert study.policy.told == 0
    values[2] = BOTH
    study.tell_many(list(zip(pulls, values, strict=True)))
    assert study.policy.sums.sum(axis=0).tolist() == [0.75, 3.0]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_table_is_filled_in_measure_by_measure(study, tmp_path, ending) -> None:
    pulls = study.ask(4)
    path = tmp_path / f"plate.{ending}"
    study.write_pulls(pulls, path)
    header, *rows = _cells(path)
    assert header[-2:] == ["outcome_cd4", "outcome_event_free"]
    _fill(path, header, rows, [(0.25, 1), (0.25, ""), (0.25, "missing"), ("", "")])
    events = study.tell_table(path)
    assert [event.kind for event in events] == ["tell", "report", "tell"]
    assert events[2].outcome == {"cd4": 0.25, "event_free": None}
    again = study.tell_table(path)
    assert [event.seq for event in again] == [events[0].seq, events[2].seq]
    _fill(path, header, rows, [(0.25, 1), ("", 1), (0.25, "missing"), (0.5, 0)])
    assert study.tell_table(path)[1].outcome == BOTH
    assert study.policy.told == 4
    _assert_replays(study)


@pytest.mark.parametrize("cell", ["many", "7", "1e400"])
def test_a_table_with_a_bad_value_changes_nothing(study, tmp_path, cell) -> None:
    pulls = study.ask(2)
    path = tmp_path / "plate.csv"
    study.write_pulls(pulls, path)
    header, *rows = _cells(path)
    _fill(path, header, rows, [(0.25, 1), (0.25, cell)])
    with raises(InvalidTable):
        study.tell_table(path)
    assert study.policy.told == 0


def _cells(path):
    if path.suffix == ".csv":
        return list(csv.reader(path.open()))
    return [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]


def _fill(path, header, rows, values) -> None:
    filled = [[*row[:-2], *own] for row, own in itertools.zip_longest(rows, values)]
    if path.suffix == ".csv":
        csv.writer(path.open("w", newline="")).writerows([header, *filled])
        return
    book = openpyxl.Workbook()
    for row in [header, *filled]:
        book.active.append(row)
    book.save(path)


def test_the_history_has_a_column_for_each_measure(study, tmp_path) -> None:
    first, second = study.ask(2)
    study.report(first, {"event_free": 1})
    study.tell(second, {"cd4": 0.5, "event_free": None})
    table = study.history()
    told = table[table.kind == "tell"].iloc[0]
    assert told.outcome_cd4 == 0.5
    assert math.isnan(told.outcome_event_free)
    assert table[table.kind == "report"].iloc[0].outcome_event_free == 1.0
    study.export(tmp_path / "log.csv")
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert "outcome_cd4,outcome_event_free" in header


def test_a_log_is_exported_and_imported_as_it_is(study, tmp_path) -> None:
    first, second = study.ask(2)
    study.report(first, {"event_free": 1})
    study.tell(second, {"cd4": 0.5, "event_free": None})
    study.export(tmp_path / "log.jsonl")
    other = Study.import_log(tmp_path / "log.jsonl", storage="memory://", policies=[TakesTurns])
    assert str(_state(other)) == str(_state(study))
    assert [event.hash for event in other.events()] == [event.hash for event in study.events()]


def test_of_many_pulls_what_is_known_is_taken_or_nothing(study) -> None:
    first, second, third = study.ask(3)
    events = study.tell_many_known([(first, BOTH), (second, {"cd4": 0.25})])
    assert [event.kind for event in events] == ["tell", "report"]
    before = len(list(study.events()))
    with raises(MistakesFound) as caught:
        study.tell_many_known(
            [
                (third, BOTH),
                (second, {"cd4": 0.75}),
                (third.id[::-1], BOTH),
                (second, {"event_free": None, "cd4": 0.25}),
            ]
        )
    assert [mistake[:12] for mistake in caught.value.mistakes] == ["outcomes[1]:", "outcomes[2]:"]
    assert len(list(study.events())) == before
    assert study.tell_many_known([]) == []
    for bad in (0.5, {"rash": 1}, {"cd4": 7}):
        with raises(InvalidOutcome):
            study.tell_many_known([(third, BOTH), (second, bad)])
    assert len(list(study.events())) == before
    _assert_replays(study)


# ------------------------------------------------- corrections before the last measure is told


def test_a_measure_that_was_told_early_is_corrected_before_the_others_come(study, tmp_path) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    event = study.amend(pull, {"cd4": 0.5}, "wrong line", actor="nurse")
    assert (event.kind, event.actor, event.outcome) == ("amend", "nurse", {"cd4": 0.5})
    assert event.body == {"outcome": {"cd4": 0.5}, "old": {"cd4": 0.25}, "reason": "wrong line"}
    # Nothing is corrected to the same value; several corrections are possible.
    assert study.amend(pull, {"cd4": 0.5}, "no change") == event
    assert study.amend(pull, {"cd4": 0.25}, "right before").seq == event.seq + 1
    assert study.amend(pull, {"cd4": 0.75}, "third look").body["old"] == {"cd4": 0.25}
    assert study.policy.reported(pull).tolist() == pytest.approx([0.75, math.nan], nan_ok=True)
    with raises(ConflictingOutcome):
        study.tell(pull, {"cd4": 0.25, "event_free": 1})
    assert study.tell_known(pull, {"event_free": 1}).outcome == {"cd4": 0.75, "event_free": 1.0}
    assert study.amend(pull, {"cd4": 1.0}, "fourth").body["old"]["cd4"] == 0.75
    _assert_replays(study)
    study.export(tmp_path / "log.jsonl")
    other = Study.import_log(tmp_path / "log.jsonl", storage="memory://", policies=[TakesTurns])
    assert str(_state(other)) == str(_state(study))


def test_what_was_told_early_of_a_lost_pull_is_corrected_too(study) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    study.fail(pull, "left")
    assert study.amend(pull, {"cd4": 0.5}, "wrong line").outcome == {"cd4": 0.5}
    assert study.tell_known(pull, {"event_free": 1}).kind == "late_tell"
    assert _outcomes(study)[-1] == {"cd4": 0.5, "event_free": 1.0}
    _assert_replays(study)


def test_a_measure_that_was_told_early_can_be_taken_back(study, tmp_path) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    event = study.amend(pull, {"cd4": None}, "of another patient", actor="nurse")
    assert (event.kind, event.actor, event.outcome) == ("amend", "nurse", {"cd4": None})
    assert event.body["old"] == {"cd4": 0.25}
    assert study.policy.reported(pull) is None
    # Repeating it does nothing, and what was taken back has no value to correct.
    assert study.amend(pull, {"cd4": None}, "once more") == event
    with raises(InvalidOutcome):
        study.amend(pull, {"cd4": 0.5}, "typing error")
    assert study.tell_known(pull, {"cd4": 0.75}).kind == "report"
    assert study.amend(pull, {"cd4": None}, "again").seq == event.seq + 2
    assert study.tell(pull, {"cd4": 0.5, "event_free": 1}).outcome == {"cd4": 0.5, "event_free": 1}
    _assert_replays(study)
    study.export(tmp_path / "log.jsonl")
    other = Study.import_log(tmp_path / "log.jsonl", storage="memory://", policies=[TakesTurns])
    assert str(_state(other)) == str(_state(study))
    assert study.verify().ok


def test_what_was_taken_back_of_a_lost_pull_is_missing(study) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    study.fail(pull, "left")
    study.amend(pull, {"cd4": None}, "of another patient")
    study.tell(pull, {"cd4": None, "event_free": 1})
    assert _outcomes(study)[-1] == {"cd4": None, "event_free": 1.0}
    _assert_replays(study)


def test_a_table_takes_early_values_back(study, tmp_path) -> None:
    first, second = study.ask(2)
    for pull in (first, second):
        study.tell_known(pull, {"cd4": 0.25})
    table = tmp_path / "back.csv"
    table.write_text(
        f"pull_id,outcome_cd4,outcome_event_free\n{first.id},missing,\n{second.id},0.5,\n"
    )
    found = study.amend_table(table, "mixed up")
    assert [(one.before, one.after) for one in found] == [
        ({"cd4": 0.25}, {"cd4": None}),
        ({"cd4": 0.25}, {"cd4": 0.5}),
    ]
    assert study.policy.reported(first) is None
    assert study.amend_table(table, "mixed up") == []


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"event_free": 1}, InvalidOutcome),
        ({"cd4": 0.5, "event_free": 1}, InvalidOutcome),
        ({"cd4": 0.25, "event_free": 1}, InvalidOutcome),
        ({"event_free": None}, InvalidOutcome),
        ({"cd4": None, "event_free": None}, InvalidOutcome),
        ({"cd4": 7}, InvalidOutcome),
        ({"rash": 1}, InvalidOutcome),
    ],
)
def test_an_early_correction_that_is_refused_writes_nothing(study, values, error) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    before = [event.hash for event in study.events()]
    with raises(error):
        study.amend(pull, values, "typing error")
    assert [event.hash for event in study.events()] == before
    assert study.policy.reported(pull)[0] == 0.25


def test_a_pull_of_which_nothing_is_known_has_nothing_to_correct(study) -> None:
    pull = study.ask()
    with raises(UnknownPull):
        study.amend(pull, {"cd4": 0.5}, "typing error")


def test_two_processes_correct_what_either_has_told(tmp_path) -> None:
    place = f"sqlite:///{tmp_path}/trial.db"
    with Study.create(PROBLEM, TakesTurns(PROBLEM), storage=place, name="trial", seed=1) as one:
        pull = one.ask()
        one.tell_known(pull, {"cd4": 0.25})
        with Study.open(place, "trial", policies=[TakesTurns]) as other:
            other.amend(pull.id, {"cd4": 0.5}, "wrong line")
            assert one.amend(pull, {"cd4": 0.75}, "again").body["old"] == {"cd4": 0.5}
            assert other.tell_known(pull.id, {"event_free": 1}).outcome["cd4"] == 0.75
        _assert_replays(one)


def test_a_table_corrects_what_was_told_early(study, tmp_path) -> None:
    pulls = study.ask(2)
    path = tmp_path / "plate.csv"
    study.write_pulls(pulls, path)
    header, *rows = _cells(path)
    _fill(path, header, rows, [(0.25, ""), (0.25, 1)])
    study.tell_table(path)
    _fill(path, header, rows, [(0.5, ""), (0.25, 1)])
    (preview,) = study.amend_table(path, "wrong dilution", preview=True)
    assert (preview.before, preview.after) == ({"cd4": 0.25}, {"cd4": 0.5})
    study.amend_table(path, "wrong dilution")
    assert study.policy.reported(pulls[0])[0] == 0.5
    _fill(path, header, rows, [(0.75, 1), (0.25, 1)])
    with pytest.warns(UserWarning, match="1 first result left"):
        (found,) = study.amend_table(path, "wrong dilution")
    assert (found.before, found.after) == ({"cd4": 0.5}, {"cd4": 0.75})
    assert study.policy.reported(pulls[0])[0] == 0.75
    assert study.tell_table(path)[0].outcome == {"cd4": 0.75, "event_free": 1.0}
    _assert_replays(study)


def test_decisions_after_early_corrections_are_the_same_after_every_restart(tmp_path) -> None:
    place = f"sqlite:///{tmp_path}/trial.db"
    problem = Problem(
        *(["a", "b"], 1), measures={"effect": (0, 1), "harm": (0, 1)}, objective="effect",
        ceilings={"harm": 0.5},
    )  # fmt: skip
    Study.create(problem, BlockBetting(problem), storage=place, name="trial", seed=1).close()
    rng, early = np.random.default_rng(5), []
    for _ in range(effort.runs(70, whole=120)):
        with Study.open(place, "trial") as study:
            pull = study.ask()
            harm = float(rng.random() < 0.3)
            study.tell_known(pull, {"harm": 1.0 - harm})
            early.append((pull.id, harm))
            if len(early) > 6:
                identity, right = early.pop(int(rng.integers(len(early))))
                study.amend(identity, {"harm": right}, "wrong line")
                study.tell_known(identity, {"effect": float(rng.random())})
    with Study.open(place, "trial") as study:
        assert study.policy._blocks.state.blocks.first[0] > 2
        _assert_replays(study)


# ------------------------------------------------------------------------------- drivers


def _driven(study, function, **options):
    with ThreadPoolExecutor(2) as threads:
        run_study(study, function, threads, parallel=2, **options)


def test_a_function_reports_and_returns_measures_in_any_parts(study) -> None:
    def measure(arm, report, group):
        if report.pull.number % 4 == 0:
            return {"cd4": np.float64(0.25), "event_free": np.int64(1)}
        report({"cd4": np.float32(0.25)})
        if report.pull.number % 4 == 1:
            return {"event_free": 1}
        if report.pull.number % 4 == 2:
            return {"event_free": None}
        report({"event_free": 1})
        return None

    _driven(study, measure)
    told = [event.outcome for event in study.events() if event.kind == "tell"]
    assert len(told) >= 40
    assert told.count({"cd4": 0.25, "event_free": None}) >= 9
    assert all(one["cd4"] == 0.25 for one in told)
    assert not any(event.kind == "fail" for event in study.events())
    _assert_replays(study)


def test_what_a_function_leaves_out_is_told_by_hand_and_its_pull_is_left_alone(study) -> None:
    calls = []

    def measure(arm, report, group):
        calls.append(report.pull.number)
        return {"cd4": 0.25}

    _driven(study, measure, pulls=3)
    waiting = study.outstanding()
    assert sorted(pull.number for pull in waiting) == [0, 1, 2]
    # A new session starts: pulls that wait for values are neither lost nor measured again.
    _driven(study, measure, pulls=2)
    assert sorted(calls) == [0, 1, 2, 3, 4]
    for pull in study.outstanding():
        assert study.tell_known(pull, {"event_free": 1}).outcome == BOTH
    assert study.policy.told == 5
    _assert_replays(study)


@pytest.mark.parametrize(
    "outcome", [{}, None, 0.5, {"cd4": 7}, {"rash": 1, "cd4": 0.25}, {"event_free": None}]
)
def test_a_function_that_returns_no_measures_fails_its_pull(study, outcome) -> None:
    with raises(SourceError):
        _driven(study, lambda arm, report, group: outcome, max_failures=0)
    assert {event.kind for event in study.events()} == {"ask", "fail"}


# ---------------------------------------------------------------------------- what is known


def test_what_is_known_is_told_in_any_order_and_once(study) -> None:
    first, second, third = study.ask(3)
    assert study.tell_known(first, {"event_free": 1}).kind == "report"
    assert study.tell_known(first, {"event_free": 1}) is None
    assert study.tell_known(first, {"event_free": 1, "cd4": 0.25}).kind == "tell"
    # Told again, even in part, it is the first event.
    again = study.tell_known(first, {"cd4": 0.25})
    assert (again.kind, again.outcome) == ("tell", BOTH)
    assert study.tell_known(second, {"event_free": None, "cd4": 0.25}).outcome["event_free"] is None
    study.fail(third, "left")
    late = study.tell_known(third, {"cd4": 0.25, "event_free": 1})
    assert late.kind == "late_tell"
    _assert_replays(study)


def test_what_is_known_of_a_lost_pull_comes_bit_by_bit(study) -> None:
    pull = study.ask()
    study.tell_known(pull, {"cd4": 0.25})
    study.fail(pull, "moved away")
    assert study.tell_known(pull, {"event_free": 1}).outcome == BOTH
    _assert_replays(study)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"event_free": None}, InvalidOutcome),
        ({"cd4": 0.5}, ConflictingOutcome),
        ({"cd4": None, "event_free": 1}, ConflictingOutcome),
        ({"event_free": 7}, InvalidOutcome),
        ({"rash": 1}, InvalidOutcome),
        (0.25, InvalidOutcome),
        (None, InvalidOutcome),
        ({"event_free": True, "cd4": True}, InvalidOutcome),
    ],
)
def test_what_is_refused_of_what_is_known_writes_nothing(study, values, error) -> None:
    pull = study.ask()
    if values == {"event_free": None}:
        other = study.ask()
        with raises(InvalidOutcome, "outcome: event_free"):
            study.tell_known(other, values)
    study.tell_known(pull, {"cd4": 0.25})
    events, before = len(list(study.events())), str(_state(study))
    if values == {"event_free": None}:
        assert study.tell_known(pull, values).kind == "tell"
        return
    with raises(error):
        study.tell_known(pull, values)
    assert (len(list(study.events())), str(_state(study))) == (events, before)


def test_another_process_tells_the_rest(tmp_path) -> None:
    place = f"sqlite:///{tmp_path}/trial.db"
    with Study.create(PROBLEM, TakesTurns(PROBLEM), storage=place, name="trial", seed=1) as one:
        pull = one.ask()
        one.tell_known(pull, {"cd4": 0.25})
        with Study.open(place, "trial", policies=[TakesTurns]) as other:
            assert other.tell_known(pull.id, {"event_free": 1}).outcome == BOTH
        assert one.tell_known(pull, {"event_free": 1}).outcome == BOTH
        with raises(ConflictingOutcome):
            one.tell_known(pull, {"event_free": 0})
        _assert_replays(one)
