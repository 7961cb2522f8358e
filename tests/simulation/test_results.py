"""A simulation's statements about its runs, compared with plain arithmetic and scipy."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairtrial.core import Run
from fairtrial.core.runs import Runs
from fairtrial.errors import InvalidArgument, MissingExtra, NotSupported
from fairtrial.simulation import Simulation, Statistics, simulate
from tests.core.toys import (
    ArrivalBalance,
    ArrivalEnvironment,
    DelayedEnvironment,
    FairChoice,
    GaussianEnvironment,
    GroupProblem,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    RecordEnvironment,
    RecordProblem,
    ToyProblem,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])
ENVIRONMENT = GaussianEnvironment(PROBLEM, [0.0, 1.0, 2.0])
OUTCOMES = {
    "right": ("c", "decided"),
    "wrong": ("a", "decided"),
    "no arm": (None, "decided"),
    "no answer": (None, "undecided"),
    "cut short": (None, "running"),
}


def made_of(kinds: list[str], times: list[int] | None = None, **changes: Any) -> Simulation:
    """Return a simulation whose runs ended as given."""
    times = times or [10 * (i + 1) for i in range(len(kinds))]
    runs = [
        Run(*OUTCOMES[kind], time, np.array([time, 0, 1]), float(time))
        for kind, time in zip(kinds, times, strict=True)
    ]
    arguments = {
        "policy": LeadRace(PROBLEM, seed=1),
        "environment": ENVIRONMENT,
        "seed": 7,
        "horizon": None,
        "parallel": 1,
        "lower_bound": None,
        "seconds": 0.5,
        **changes,
    }
    return Simulation.from_runs(runs, **arguments)


ALL = ["right", "right", "wrong", "no arm", "no answer", "cut short", "right", "right"]

# -------------------------------------------------------------------------- the arrays


def test_every_run_is_right_or_wrong_or_undecided() -> None:
    result = made_of(ALL)
    assert result.decided.tolist() == [True, True, True, True, False, False, True, True]
    assert result.correct.tolist() == [True, True, False, False, False, False, True, True]
    assert result.wrong.tolist() == [False, False, True, True, False, False, False, False]
    assert (result.error_rate, result.undecided_rate) == (2 / 8, 2 / 8)
    assert (result.replications, len(result)) == (8, 8)


def test_no_arm_is_right_where_it_is_the_truth() -> None:
    problem = RecordProblem(["a"], bound=0.1)
    environment = RecordEnvironment(problem, [[0.0, 1.0]])
    result = simulate(FairChoice(problem, budget=60), environment, 4)
    assert result.answer.tolist() == [None] * 4
    assert result.correct.all()
    assert result.error_rate == 0
    cut_short = simulate(FairChoice(problem, budget=60), environment, 4, horizon=30)
    assert cut_short.answer.tolist() == [None] * 4
    assert not cut_short.correct.any()
    assert (cut_short.error_rate, cut_short.undecided_rate) == (0, 1)


def test_the_arrays_have_the_types_that_are_promised() -> None:
    result = simulate(LeadRace(PROBLEM), ENVIRONMENT, 6)
    assert (result.stopping_time.dtype, result.pulls.dtype) == (np.int64, np.int64)
    assert (result.elapsed.dtype, result.cancelled.dtype) == (np.float64, np.int64)
    assert (result.answer.dtype, result.correct.dtype) == (object, bool)
    assert result.status.dtype.kind == "U"
    assert result.pulls.shape == (6, 3)
    assert result.pulls.sum(axis=1).tolist() == result.stopping_time.tolist()
    with pytest.raises(ValueError, match="read-only"):
        result.stopping_time[0] = 1
    with pytest.raises(AttributeError):
        result.seed = 3


def test_the_arrays_of_the_runs_stay_as_they_were_given() -> None:
    given = Runs.of([Run("c", "decided", 3, np.array([1, 0, 2]), 3.0, {"cost": 2.0})])
    arguments = {"seed": 7, "horizon": None, "parallel": 1, "lower_bound": None, "seconds": 0.5}
    made = Simulation.from_runs(
        given, policy=LeadRace(PROBLEM), environment=ENVIRONMENT, **arguments
    )
    for name in ("answer", "status", "stopping_time", "pulls", "elapsed", "interval"):
        assert getattr(given, name).flags.writeable, name
        assert not getattr(made, name).flags.writeable, name
    assert given.metrics["cost"].flags.writeable
    assert not made.metrics["cost"].flags.writeable


def test_answers_that_are_sets_stay_whole() -> None:
    environment = DelayedEnvironment(PROBLEM, [0.0, 3.0, 6.0], k=2)
    result = simulate(PartialRace(PROBLEM, k=2), environment, 5, parallel=3)
    assert result.answer.shape == (5,)
    assert all(set(answer) == {"b", "c"} for answer in result.answer)
    assert result.correct.all()
    assert result.cancelled.sum() > 0
    assert (result.elapsed != result.stopping_time).any()
    assert result.metrics["late_readings"].tolist() == [0.0] * 5


def test_what_a_run_lacks_is_not_a_number() -> None:
    runs = [
        Run("c", "decided", 1, np.array([1, 0, 0]), 1.0, {"forced": 2.0}),
        Run("c", "decided", 1, np.array([1, 0, 0]), 1.0, {"rounds": 3.0}),
    ]
    metrics = made_of(["right"]).metrics
    assert metrics == {}
    result = Simulation.from_runs(
        runs,
        policy=LeadRace(PROBLEM),
        environment=ENVIRONMENT,
        seed=1,
        horizon=None,
        parallel=1,
        lower_bound=None,
        seconds=0.0,
    )
    np.testing.assert_array_equal(result.metrics["forced"], [2.0, math.nan])
    np.testing.assert_array_equal(result.metrics["rounds"], [math.nan, 3.0])


def test_what_was_run_is_written_down() -> None:
    result = simulate(
        LeadRace(PROBLEM, delta=0.3), ENVIRONMENT, 2, seed=5, horizon=9, lower_bound=4
    )
    assert result.problem is PROBLEM
    assert result.policy == "LeadRace(delta=0.3)"
    assert result.truth.best == "c"
    assert (result.seed, result.horizon, result.parallel, result.lower_bound) == (5, 9, 1, 4.0)
    assert result.seconds > 0
    assert repr(result) == "<Simulation: 2 runs of LeadRace(delta=0.3)>"


def test_without_a_truth_no_answer_is_judged() -> None:
    problem = GroupProblem(["a", "b"], ["x", "y"])
    environment = ArrivalEnvironment(problem, [[0, 1], [1, 0]], [0.5, 0.5])
    result = simulate(ArrivalBalance(problem), environment, 4)
    assert result.truth is None
    assert result.correct is None
    for judge in ("wrong", "error_rate"):
        with raises(NotSupported):
            getattr(result, judge)
    summary = result.summary()
    assert (summary.wrong, summary.error_rate, summary.error_interval) == (None, None, None)
    assert "wrong          unknown: the environment does not know the truth" in str(summary)
    assert result.to_dict()["truth"] is None
    assert "correct" not in result.to_frame().columns


# ------------------------------------------------------------------------- the summary


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_means_errors_and_quantiles_are_those_of_numpy(times: list[int]) -> None:
    summary = made_of(["right"] * len(times), times).summary(quantiles=[0.1, 0.5])
    statistics = summary.stopping_time
    assert statistics.mean == pytest.approx(sum(times) / len(times))
    assert statistics.median == statistics.quantiles[0.5] == pytest.approx(float(np.median(times)))
    assert statistics.quantiles[0.1] == np.quantile(times, 0.1)
    if len(times) == 1:
        assert statistics.standard_error is None
    else:
        assert statistics.standard_error == pytest.approx(stats.sem(times))
    assert summary.pulls == pytest.approx({"a": statistics.mean, "b": 0.0, "c": 1.0})


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.5, 0.999))
def test_the_interval_of_the_error_rate_is_exact(wrong: int, others: int, level: float) -> None:
    if wrong + others == 0:
        return
    summary = made_of(["wrong"] * wrong + ["right"] * others).summary(level=level)
    expected = stats.binomtest(wrong, wrong + others).proportion_ci(level, method="exact")
    assert summary.error_rate == wrong / (wrong + others)
    assert summary.error_interval == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_undecided_runs_count_in_every_rate() -> None:
    summary = made_of(ALL).summary()
    assert (summary.wrong, summary.undecided, summary.replications) == (2, 2, 8)
    assert (summary.error_rate, summary.undecided_rate) == (0.25, 0.25)


def test_the_ratio_is_against_the_lower_bound() -> None:
    assert made_of(["right"] * 2, [30, 50], lower_bound=20.0).summary().ratio == 2.0
    assert made_of(["right"] * 2).summary().ratio is None


def test_the_summary_reads_like_a_report() -> None:
    text = str(made_of(ALL, lower_bound=9.0).summary())
    assert text == "\n".join(
        [
            "8 runs of LeadRace()",
            "  stopping time  45 ± 8.66, median 45, 5 % to 95 %: 13.5 to 76.5",
            "  lower bound    9 for rules that decide; not comparable: 2 runs ended undecided",
            "  wrong          2 of 8: 25 % (95 % interval 3.19 % to 65.1 %)",
            "  answers        c 4, a 1, no arm 1",
            "  undecided      2 of 8",
            "  mean pulls     a 45, c 1, b 0",
            "  (±: standard error of the mean)",
        ]
    )


def test_runs_are_held_against_the_lower_bound_only_if_all_of_them_decide() -> None:
    decided = made_of(["right", "wrong"], [10, 20], lower_bound=5.0).summary()
    assert decided.ratio == 3.0
    assert "lower bound    5; the mean is 3 times as large" in str(decided)
    cut_short = made_of(["right", "cut short"], [10, 20], lower_bound=50.0).summary()
    assert cut_short.ratio is None
    assert "1 run ended undecided" in str(cut_short)


def test_of_arms_that_are_as_good_as_each_other_it_is_said_which_were_named() -> None:
    tied = GaussianEnvironment(PROBLEM, [2.0, 1.0, 2.0])
    assert tied.truth.interchangeable == ("a", "c")
    summary = made_of(["right", "wrong", "right", "no answer"], environment=tied).summary()
    assert (summary.wrong, summary.answers) == (0, {"c": 2, "a": 1})
    assert summary.right == ("a", "c")
    assert "  right answers  among a, c\n  answers        c 2, a 1\n" in str(summary)
    assert summary.to_dict()["answers"] == {"c": 2, "a": 1}
    clear = made_of(["right"]).summary()
    assert clear.right == ()
    assert "right answers" not in str(clear)


def test_sets_of_arms_are_counted_in_any_order() -> None:
    environment = DelayedEnvironment(PROBLEM, [0.0, 3.0, 3.0], k=2)
    result = simulate(PartialRace(PROBLEM, k=2), environment, 8, parallel=3)
    assert result.summary().answers == {"b and c": 8}


def test_the_summary_says_first_what_the_environment_says_of_itself() -> None:
    class Recorded(GaussianEnvironment):
        about = "About 3 rows."

    summary = made_of(["right"], environment=Recorded(PROBLEM, [0.0, 1.0, 2.0])).summary()
    assert str(summary).splitlines()[:2] == ["About 3 rows.", "1 run of LeadRace()"]
    assert summary.to_dict()["about"] == "About 3 rows."
    assert made_of(["right"]).about is None


def test_the_summary_shows_what_is_there_to_see_only() -> None:
    one = made_of(["right"], [123456])
    assert "stopping time  123,456, median 123,456" in str(one.summary())
    assert "±" not in str(one.summary())
    assert str(one.summary()).startswith("1 run of ")
    assert repr(one).startswith("<Simulation: 1 run of ")
    assert str(Statistics.of(np.array([1.0, 3.0]), [])) == "2 ± 1, median 2"


def test_equal_numbers_have_no_standard_error_at_all():
    assert Statistics.of(np.full(100, 683 / 3)).standard_error == 0.0
    assert np.full(100, 683 / 3).std(ddof=1) > 0.0
    environment = DelayedEnvironment(PROBLEM, [0.0, 3.0, 6.0], k=2)
    text = str(simulate(PartialRace(PROBLEM, k=2), environment, 3, parallel=3).summary())
    assert "elapsed" in text
    assert "late_readings  0" in text


def test_nothing_is_said_of_answers_where_the_policy_never_gives_one() -> None:
    result = simulate(QuotaKeeper(PROBLEM, [1, 1, 1], 9), ENVIRONMENT, 2, horizon=30)
    assert result.endless
    text = str(result.summary())
    assert "mean pulls" in text
    assert "wrong" not in text
    assert "undecided" not in text


def test_a_long_list_of_actions_is_cut() -> None:
    problem = ToyProblem(20, noise_std=0.1)
    environment = GaussianEnvironment(problem, np.arange(20))
    text = str(simulate(LeadRace(problem), environment, 2).summary())
    assert ", and 8 more\n" in text


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"level": 1}, "level"),
        ({"quantiles": [0.5, 1.5]}, "quantiles"),
        ({"quantiles": 0.5}, "quantiles"),
    ],
)
def test_bad_levels_are_refused(arguments: dict[str, Any], name: str) -> None:
    with raises(InvalidArgument, name):
        made_of(ALL).summary(**arguments)


# --------------------------------------------------------------------------- as tables


def test_the_table_has_a_row_per_replication() -> None:
    frame = made_of(ALL).to_frame()
    assert frame.shape == (8, 9)
    assert frame.index.name == "replication"
    assert list(frame.columns) == [
        "status",
        "answer",
        "correct",
        "stopping_time",
        "elapsed",
        "cancelled",
        "pulls a",
        "pulls b",
        "pulls c",
    ]
    assert frame["pulls a"].tolist() == frame["stopping_time"].tolist()
    assert frame.groupby("status")["correct"].sum().to_dict() == {
        "decided": 4,
        "running": 0,
        "undecided": 0,
    }


def test_pulls_of_cells_are_named_by_all_labels() -> None:
    problem = GroupProblem(["a", "b"], ["x", "y"])
    environment = ArrivalEnvironment(problem, [[0, 1], [1, 0]], [0.5, 0.5])
    frame = simulate(ArrivalBalance(problem), environment, 2).to_frame()
    assert list(frame.columns)[-4:] == ["pulls a/x", "pulls a/y", "pulls b/x", "pulls b/y"]


def test_a_table_needs_a_library_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    with raises(MissingExtra, extra="data"):
        made_of(ALL).to_frame()


def test_everything_is_json() -> None:
    result = made_of(ALL, lower_bound=9.0)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["policy"] == "LeadRace()"
    assert ToyProblem.from_dict(data["problem"]) == PROBLEM
    assert data["truth"]["means"] == [0.0, 1.0, 2.0]
    assert data["summary"]["stopping_time"]["mean"] == 45.0
    assert data["summary"]["error_interval"] == pytest.approx(result.summary().error_interval)
    assert data["runs"]["status"] == [OUTCOMES[kind][1] for kind in ALL]
    assert data["runs"]["answer"] == [OUTCOMES[kind][0] for kind in ALL]
    assert np.array(data["runs"]["pulls"]).shape == (8, 3)
