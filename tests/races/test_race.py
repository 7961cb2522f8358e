"""Races from the user's side: inputs, durability, failures, budgets, results."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import fairtrial as ft
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.errors import InvalidArgument, SourceError, StudyExists
from fairtrial.races.budget import Budget
from fairtrial.races.progress import Reporter
from fairtrial.races.result import RaceResult
from fairtrial.races.scoring import Evaluation
from fairtrial.study import StopPull, Study
from tests.messages import raises

ITEMS = [f"question {at}" for at in range(200)]
CHANCES = {"a": 0.2, "b": 0.85, "c": 0.5}


def score(candidate, item):
    """A score from 0 to 1 that depends on nothing but its arguments."""
    number = int(item.split()[1])
    return float((number * 37 % 100) / 100 < CHANCES[candidate])


def table():
    return {name: [score(name, item) for item in ITEMS] for name in CHANCES}


def run(score=score, items=ITEMS, **given):
    return ft.race(list(CHANCES), items, score, **{"reward_range": (0, 1), "seed": 1, **given})


# ------------------------------------------------------------------------------- inputs


def test_a_function_a_coroutine_and_tables_give_an_answer():
    async def slowly(candidate, item):
        await asyncio.sleep(0)
        return score(candidate, item)

    array = np.column_stack(list(table().values()))
    for given in (score, slowly, table(), pd.DataFrame(table()), array):
        result = run(given)
        assert (result.best, result.status) == ("b", "decided")
        assert result.guarantee.label == "proven"
        assert result.evaluations < 300
        assert result.saved == 600 - result.evaluations


def test_the_score_function_gets_objects_and_rows_of_a_frame():
    seen = set()

    def read(candidate, item):
        seen.add((type(candidate), *item))
        return float(item["number"] % candidate == 0)

    frame = pd.DataFrame({"number": range(100), "text": "x"})
    result = ft.race({"one": 1, "two": 2}, frame, read, reward_range=(0, 1))
    assert result.best == "one"
    assert seen == {(int, "number", "text")}


def test_small_scores_can_be_the_good_ones():
    assert run(table(), direction="minimize").best == "a"


def test_without_a_range_the_answer_is_calibrated():
    assert run(table(), reward_range=None).guarantee.label == "calibrated"


def test_equal_candidates_are_told_after_all_items_or_near_enough_before():
    equal = np.full((60, 2), 0.5)
    whole = ft.race(["a", "b"], range(60), equal, reward_range=(0, 1))
    assert (whole.evaluations, whole.status) == (120, "decided")
    near = ft.race(["a", "b"], range(60), equal, reward_range=(0, 1), tolerance=0.2)
    assert near.evaluations < 60


def test_a_race_about_items_like_these_promises_more_and_needs_more():
    rng = np.random.default_rng(0)
    scores = {name: rng.random(150) < chance for name, chance in (("a", 0.4), ("b", 0.6))}
    these, like = (
        ft.race(["a", "b"], range(150), scores, reward_range=(0, 1), about=about, seed=3)
        for about in ("these items", "items like these")
    )
    assert these.status == "decided"
    assert these.evaluations < like.evaluations
    assert "from 150" in these.guarantee.assumptions[1]
    assert "independently" in like.guarantee.assumptions[1]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"items": []}, "items"),
        ({"items": "text"}, "items"),
        ({"score": {"a": [1]}}, "score"),
        ({"score": {**table(), "c": [2.0] * 200}}, "score"),
        ({"score": {**table(), "c": [float("nan")] * 200}}, "score"),
        ({"cost": {"a": 1}}, "cost"),
        ({"max_cost": 5}, "max_cost"),
        ({"about": "all"}, "about"),
        ({"attempts": 0}, "attempts"),
        ({"parallel": 0}, "parallel"),
        ({"on_error": "worst", "reward_range": None}, "on_error"),
        ({"on_error": "stop"}, "on_error"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"tolerence": 0.1}, "tolerence"),
        ({"control": "a"}, "control"),
        ({"margin": 0.1}, "margin"),
        ({"control": "a", "margin": 0.1, "category": "subject"}, "category"),
        ({"control": "a", "margin": 0.1, "category": ["x"]}, "category"),
        ({"control": "a", "margin": 0.1, "reward_range": None}, "margin"),
        ({"score": table(), "parallel": 2}, "parallel"),
        ({"score": table(), "attempts": 1}, "attempts"),
        ({"score": table(), "on_error": "leave"}, "on_error"),
        ({"score": table(), "executor": ThreadPoolExecutor}, "executor"),
    ],
)
def test_an_argument_that_means_nothing_is_refused_before_anything_runs(given, name, tmp_path):
    storage = tmp_path / "race.db"
    with raises(InvalidArgument) as caught:
        run(storage=storage, **given)
    assert name in caught.value.name
    assert not storage.exists()


@pytest.mark.parametrize("candidates", [["a"], ["a", "a"], []])
def test_candidates_must_be_two_or_more_with_names_of_their_own(candidates):
    with raises(InvalidArgument):
        ft.race(candidates, ITEMS, score)


def test_a_candidate_that_is_worse_in_a_category_is_no_answer():
    subjects = ["art", "law"] * 100
    scores = {"now": [0.5, 0.5] * 100, "new": [1.0, 0.2] * 100, "safe": [0.6, 0.5] * 100}
    frame = pd.DataFrame({"subject": subjects})
    given = {"reward_range": (0, 1), "control": "now", "margin": 0.05}
    for items, category in ((frame, "subject"), (range(200), subjects)):
        result = ft.race(list(scores), items, scores, category=category, **given)
        assert result.best == "safe"
        assert "worse than 'now' by more than 0.05" in result.guarantee.statement
        assert result.guarantee.label == "proven"
    assert ft.race(list(scores), frame, scores, **given).best == "new"


def test_a_judge_that_agrees_saves_evaluations_and_is_shown(tmp_path):
    known = {
        **table(),
        "b": [score("a", item) or float(at % 3 > 0) for at, item in enumerate(ITEMS)],
    }
    plain, judged = (
        ft.race(list(known), ITEMS, known, reward_range=(0, 1), tolerance=0.02, judge=judge)
        for judge in (None, known)
    )
    assert plain.best == judged.best == "b"
    assert plain.explained_by_judge is None
    assert judged.explained_by_judge == pytest.approx(1.0)
    assert "the judge explains 100%" in repr(judged)
    assert judged.guarantee.label == "proven"


@pytest.mark.parametrize(
    "given",
    [
        {"judge": {"a": [0] * 200}},
        {"judge": min},
        {"judge": table(), "about": "items like these"},
        {"judge": table(), "reward_range": None},
    ],
)
def test_a_judge_that_means_nothing_is_refused(given):
    with raises(InvalidArgument) as error:
        run(table(), **given)
    assert error.value.name == "judge"


# --------------------------------------------------------------------------- durability


def test_the_same_call_evaluates_nothing_again(tmp_path):
    calls = []

    def paid(candidate, item):
        calls.append((candidate, item))
        return score(candidate, item)

    storage = tmp_path / "race.db"
    part = run(paid, storage=storage, max_evaluations=20)
    assert (part.status, part.best, part.evaluations) == ("running", None, 20)
    assert set(part.candidates) == set(CHANCES)
    whole = run(paid, storage=storage)
    again = run(paid, storage=storage)
    assert whole.best == again.best == "b"
    assert len(calls) == len(set(calls)) == whole.evaluations == again.evaluations
    assert again.study.verify().ok


def test_a_study_is_not_continued_with_other_items(tmp_path):
    storage = tmp_path / "race.db"
    run(storage=storage, max_evaluations=3)
    with raises(StudyExists):
        run(storage=storage, items=[*ITEMS[:-1], "another"])


@pytest.mark.parametrize("items", [(range(200), range(200, 400)), (np.arange(200), np.ones(200))])
def test_numbers_are_items_with_a_content(items, tmp_path):
    given = {"storage": tmp_path / "race.db", "score": lambda *_: 0.5, "max_evaluations": 3}
    run(items=items[0], **given)
    run(items=items[0], **given)
    with raises(StudyExists):
        run(items=items[1], **given)


def test_changed_candidates_are_named_and_not_continued(tmp_path):
    def call(**prompts):
        return ft.race(
            prompts,
            ITEMS,
            lambda prompt, item: 0.5,
            reward_range=(0, 1),
            storage=tmp_path / "race.db",
            max_evaluations=5,
        )

    call(short="Answer.", long={"text": "Think.", "tries": 2})
    assert call(short="Answer.", long={"tries": 2, "text": "Think."}).evaluations == 5
    with raises(StudyExists):
        call(short="Answer.", long={"text": "Think!", "tries": 2})
    with raises(StudyExists):
        call(short="Answer.", other="Think.")


def test_another_kind_of_study_is_not_continued(tmp_path):
    class Own(PairedRacing):
        """A caller's own rule."""

    problem = Problem(list(CHANCES), reward_range=(0, 1))
    Study.create(problem, Own(problem), storage=tmp_path / "race.db", name="race").close()
    with raises(StudyExists):
        run(storage=tmp_path / "race.db")


def test_candidates_that_cannot_be_compared_are_said_in_the_guarantee():
    result = ft.race(
        {"a": min, "b": "text"}, range(60), {"a": [0] * 60, "b": [1] * 60}, reward_range=(0, 1)
    )
    said = result.guarantee.assumptions[-1]
    assert said.startswith("only the names or types of 'a' were compared")
    assert not any("names or types" in text for text in run(table()).guarantee.assumptions)


def test_the_order_of_items_is_a_secret_of_the_study_and_not_its_seed():
    orders = set()
    for _ in range(3):
        order = []
        run(lambda name, item, order=order: order.append(item) or 0.5, max_evaluations=9)
        orders.add(tuple(order))
        assert len({*order}) == 3
    assert len(orders) == 3


SCRIPT = """
    import asyncio, json, os, signal, sys
    import fairtrial as ft
    from fairtrial.races import scoring

    storage, paid, most, parallel, kind = sys.argv[1:]
    calls = 0

    def score(candidate, item):
        global calls
        calls += 1
        if calls > int(most):
            os.kill(os.getpid(), signal.SIGKILL)
        with open(paid, "a") as file:
            file.write(json.dumps([candidate, item]) + "\\n")
        if (calls * 7) % 5 == 0:
            raise ConnectionError("busy")
        return float((item * 37 % 100) / 100 < {"a": 0.2, "b": 0.85, "c": 0.5}[candidate])

    async def coroutine(candidate, item):
        await asyncio.sleep(0.001)
        return score(candidate, item)

    scoring.Evaluation.__init__.__defaults__ = (0.0,)
    result = ft.race(
        ["a", "b", "c"], range(200), coroutine if kind == "coroutine" else score,
        reward_range=(0, 1), storage=storage, parallel=int(parallel), delta=1e-4, attempts=9,
    )
    print(result.best, result.evaluations)
"""


@pytest.mark.parametrize(("kind", "parallel"), [("function", 3), ("coroutine", 16)])
def test_a_race_that_is_killed_twice_goes_on_and_repeats_only_what_was_in_flight(
    kind, parallel, tmp_path
):
    script, paid = tmp_path / "run.py", tmp_path / "paid"
    script.write_text(textwrap.dedent(SCRIPT))
    call = [sys.executable, str(script), str(tmp_path / "race.db"), str(paid)]
    environment = {**os.environ, "FAIRTRIAL_KERNELS": "interpret"}

    def calls():
        return [tuple(json.loads(line)) for line in paid.read_text().splitlines()]

    known, seen = set(), 0
    # So few evaluations cannot end the race, whose order differs from run to run.
    for most in (6 + parallel, 8 + parallel, 100_000):
        done = subprocess.run(
            [*call, str(most), str(parallel), kind],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        # What the log had when this run began is not paid again.
        assert known.isdisjoint(calls()[seen:])
        study = ft.Study.open(tmp_path / "race.db", "race")
        told = np.argwhere(np.isfinite(study.policy.listed_scores)).tolist()
        known, seen = {("abc"[arm], item) for item, arm in told}, len(calls())
        assert study.verify().ok
        study.close()
        assert done.returncode == (0 if most == 100_000 else -signal.SIGKILL)
    best, evaluations = done.stdout.split()
    assert (best, int(evaluations)) == ("b", len(known))
    failed = sum(1 for at in range(1, seen + 1) if (at * 7) % 5 == 0)
    # At most that many were in flight at each kill; every fifth call failed, and was repeated.
    assert seen - len(known) <= failed + 2 * parallel + 3


# ------------------------------------------------------------------------------ failures


def failing(times, on="b"):
    """Return a score function that fails that many times on each item, and its calls."""
    calls = {}

    def sometimes(candidate, item):
        calls[candidate, item] = calls.get((candidate, item), 0) + 1
        if candidate == on and calls[candidate, item] <= times:
            raise ConnectionError("busy")
        return score(candidate, item)

    return sometimes, calls


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(Evaluation.__init__, "__defaults__", (0.0,))


@pytest.mark.usefixtures("quick")
def test_an_evaluation_that_raises_is_tried_again():
    sometimes, calls = failing(2)
    assert run(sometimes).best == "b"
    assert {count for (name, _), count in calls.items() if name == "b"} == {3}


@pytest.mark.usefixtures("quick")
def test_a_failure_stops_the_call_and_the_same_call_continues(tmp_path):
    storage = tmp_path / "race.db"
    with raises(SourceError):
        run(failing(10**9)[0], storage=storage)
    result = run(storage=storage)
    assert result.best == "b"
    assert result.guarantee.label == "proven"


@pytest.mark.usefixtures("quick")
def test_a_failure_can_count_as_the_worst_score_with_the_proof():
    result = run(failing(10**9)[0], on_error="worst")
    assert result.best == "c"
    assert result.guarantee.label == "proven"
    assert result.states["b"] == "rejected"
    least = run(failing(10**9, on="a")[0], on_error="worst", direction="minimize")
    assert least.best == "c"


@pytest.mark.usefixtures("quick")
def test_a_candidate_that_fails_can_leave_and_is_named():
    result = run(failing(10**9)[0], on_error="leave")
    assert (result.best, result.states["b"]) == ("c", "withdrawn")
    assert any("b" in text for text in result.guarantee.assumptions[4:])


@pytest.mark.parametrize("on_error", ["ask", "worst", "leave"])
@pytest.mark.parametrize("value", [2.0, float("nan"), "0.5", None])
def test_a_score_outside_the_range_is_refused_and_not_paid_again(value, on_error, tmp_path):
    calls = []

    def mistaken(candidate, item):
        calls.append(candidate)
        return value

    storage = tmp_path / "race.db"
    with raises(SourceError):
        run(mistaken, on_error=on_error, storage=storage)
    assert len(calls) == 1
    assert run(on_error=on_error, storage=storage).best == "b"


@pytest.mark.parametrize("error", [TimeoutError, SourceError, NotImplementedError, StopPull])
def test_a_candidate_leaves_whatever_its_evaluation_raises(error):
    calls = []

    def slow(candidate, item):
        if candidate == "b":
            calls.append(item)
            raise error("slow")
        return score(candidate, item)

    result = run(slow, on_error="leave", attempts=1, parallel=4)
    assert (result.best, result.states["b"]) == ("c", "withdrawn")
    assert len(calls) <= 4


def test_a_control_that_fails_is_shown_as_such(tmp_path):
    for names in (["now", "new"], ["now", "new", "other"]):
        calls = []

        def tired(candidate, item, calls=calls):
            calls.append(candidate)
            if candidate == "now" and calls.count("now") > 3:
                raise OSError
            return 0.5

        result = ft.race(
            names,
            ITEMS,
            tired,
            reward_range=(0, 1),
            control="now",
            margin=0.1,
            on_error="leave",
            attempts=1,
        )
        assert (result.status, result.best, result.shortfall) == ("undecided", None, None)
        assert "'now', failed" in result.study.recommend().reason
        assert result.states["now"] == "withdrawn"
        assert "the control, &#x27;now&#x27;, failed" in result._repr_html_()
        assert result.plot().axes


# ----------------------------------------------------------------------- budgets and time


def test_a_race_never_costs_more_than_its_limit(tmp_path):
    costs = {"a": 0.5, "b": 2.0, "c": 1.0}
    for limit in (0.0, 1.9, 7.0, 40.0):
        result = run(storage=tmp_path / "race.db", cost=costs, max_cost=limit)
        assert result.cost <= limit
        assert result.status == "running" or result.best == "b"
    assert result.cost > 30 or result.best == "b"
    assert result.cost_of_all == 200 * 3.5


def test_coroutines_run_at_the_same_time():
    """Each waits until all 16 are there, or until nothing more is wanted."""
    waiting, most = 0, 0

    async def wait(candidate, item):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        for _ in range(1_000):
            if most >= 16:
                break
            await asyncio.sleep(0.001)
        waiting -= 1
        return 0.5

    result = ft.race(["a", "b"], range(100), wait, reward_range=(0, 1), parallel=16)
    assert (result.evaluations, most) == (200, 16)


# -------------------------------------------------------------------------------- results


def test_the_result_is_a_table_a_figure_a_page_and_shows_itself(tmp_path):
    result = run(table(), cost=0.01)
    frame = result.table()
    assert frame["candidate"][0] == "b"
    assert frame["evaluations"].sum() == result.evaluations
    assert set(frame["state"]) == {"best", "rejected"}
    assert frame["counted"].sum() == result.study.progress().settled
    assert "b" in result._repr_html_()
    assert "<table" in result._repr_html_()
    assert result.plot().axes
    assert result.write_report(tmp_path / "race.html").stat().st_size > 1000
    assert result.cost == pytest.approx(0.01 * result.evaluations)


def test_a_mean_in_the_table_is_that_of_the_scores_that_it_says_count():
    for most in range(3, 16):
        part = run(table(), max_evaluations=most)
        told = {arm: [] for arm in part.states}
        for event in part.study.events():
            if event.kind == "tell":
                told[part.study.problem.arms[event.action]].append(event.value)
        for row in part.rows():
            scores = told[row["candidate"]]
            assert row["evaluations"] == len(scores)
            if row["counted"]:
                assert row["mean"] == pytest.approx(np.mean(scores[: row["counted"]]))


def test_what_is_said_of_an_answer_is_what_is_known_of_it():
    even = [0.1, 0.2, 0.3] * 10
    tied = ft.race(
        ["a", "b"], range(30), {"a": even, "b": even[1:] + even[:1]}, reward_range=(0, 1)
    )
    other = "b" if tied.best == "a" else "a"
    assert tied.states == {tied.best: "best", other: "equal"}
    assert f"{other!r} is exactly equal to it on these items" in tied.in_words()
    near = run(table(), tolerance=0.3)
    assert "'b' is the best, or within 0.3 of it, after" in near.in_words()
    assert "'b' is the best after" in run(table()).in_words()

    def failing(candidate, item):
        if candidate != "a":
            raise OSError
        return 0.1

    alone = run(failing, on_error="leave", attempts=1)
    assert "'a' is the only candidate left, because all others failed" in alone.in_words()
    assert alone.guarantee.label == "heuristic"
    assert run(table()).guarantee.source == "docs/explanation/races.md"


def test_who_is_left_before_any_result_is_shown():
    problem = Problem(["a", "b"], reward_range=(0, 1))
    study = Study.create(problem, PairedRacing(problem), storage="memory://", name="race")
    study.fail(study.ask(), "error")
    result = RaceResult(study, None, 9)
    assert (result.best, result.evaluations) == ("b", 0)
    assert result.plot().axes
    assert "'b' is the only candidate left" in repr(result)


def test_nothing_is_saved_before_the_race_is_decided():
    assert run(table(), max_evaluations=5).saved is None
    whole = run(table())
    assert whole.saved == 600 - whole.evaluations


def test_labels_are_escaped_in_a_notebook():
    scores = {"<b>": [1.0] * 60, "x": [0.0] * 60}
    shown = ft.race(list(scores), range(60), scores, reward_range=(0, 1))._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_progress_says_who_leads_and_who_leaves(capsys):
    run(table(), progress=True, cost=1.0)
    told = capsys.readouterr().err
    assert "'b' leads" in told
    assert "'a' is rejected" in told


def close_scores(items=400):
    rng = np.random.default_rng(1)
    return {name: rng.permutation(np.linspace(0, 1, items)).tolist() for name in "abc"}


def test_a_race_that_goes_on_says_what_is_expected_and_what_it_costs_at_most():
    costs = {"a": 1.0, "b": 2.0}
    known = {"a": [0.4] * 400, "b": [0.45] * 400}
    given = {"reward_range": (0, 1), "cost": costs}
    early, later = (
        ft.race(["a", "b"], range(400), known, max_evaluations=most, **given) for most in (8, 30)
    )
    assert early.remaining is None
    assert early.remaining_at_most == 800 - 8
    assert early.in_words().endswith("; at most 792 evaluations (cost 1188) left")
    assert 0 < later.remaining < later.remaining_at_most == 800 - 30
    words = later.in_words()
    assert re.search(r"; about \d+ \(cost \d+\) more expected, at most 770 evaluations ", words)
    assert "at most 770 evaluations" in later._repr_html_()
    whole = ft.race(["a", "b"], range(400), known, **given)
    assert whole.evaluations == pytest.approx(30 + later.remaining, rel=0.1)
    assert (whole.remaining, whole.remaining_at_most) == (0.0, 0)
    assert "left" not in whole.in_words()


def test_a_tie_promises_no_early_end():
    equal = {"a": [0.4, 0.6] * 150, "b": [0.4, 0.6] * 150}
    tied = ft.race(["a", "b"], range(300), equal, reward_range=(0, 1), max_evaluations=100)
    assert "expected" not in tied.in_words()
    assert "at most 500 evaluations left" in tied.in_words()


def test_what_an_earlier_race_has_paid_is_not_expected_again(tmp_path):
    given = {"reward_range": (0, 1), "storage": tmp_path / "s.db", "max_evaluations": 200}
    given["delta"] = 1e-6
    scores = close_scores()
    ft.race(["a", "b"], range(400), scores, name="first", **given).study.close()
    more = ft.race(["a", "b", "c"], range(400), scores, extends="first", **given)
    assert more.reused > 0
    assert more.remaining_at_most == 1_200 - 200 - more.evaluations
    known = more.study.progress()
    assert more.remaining < known.remaining
    more.study.close()


@pytest.mark.parametrize("progress", [True, False])
def test_a_race_looks_at_its_progress_only_to_print_it(progress, monkeypatch):
    looks = []
    whole = Study.progress
    monkeypatch.setattr(Study, "progress", lambda study: looks.append(1) or whole(study))
    recommend = Study.recommend
    monkeypatch.setattr(Study, "recommend", lambda study: looks.append(1) or recommend(study))
    even = {"a": [0.4, 0.6] * 150, "b": [0.6, 0.4] * 150}
    for score in (even, lambda candidate, item: even[candidate][item]):
        result = ft.race(
            ["a", "b"],
            range(300),
            score,
            reward_range=(0, 1),
            progress=progress,
            max_cost=600,
            cost=1,
        )
        assert result.study.policy.told == 600
    assert len(looks) < 150


def test_a_reporter_says_nothing_new_at_once(capsys):
    result = run(table())
    reporter = Reporter(Budget(None), 200)
    for _ in range(3):
        reporter(result.study)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_report_says_who_is_in_the_race_and_on_which_items_they_differ(tmp_path):
    """Candidate c is right on all even items, d on all odd ones; b is always right, a never."""
    known = {
        "a": [0.0] * 60,
        "b": [1.0] * 60,
        "c": [float(at % 2 == 0) for at in range(60)],
        "d": [float(at % 2) for at in range(60)],
    }
    result = ft.race(list(known), range(60), known, reward_range=(0, 1), storage=tmp_path / "x.db")
    progress = result.study.progress()
    states = {one.arm: one for one in progress.arm_states}
    assert states["a"].behind == 1.0
    assert states["a"].differ == states["a"].compared == result.study.progress().arms[0].counted
    for name in ("c", "d"):
        assert states[name].compared >= states[name].differ > 0
        assert states[name].behind == states[name].differ / states[name].compared
    disputed = progress.details["disputed_blocks"]
    assert 0 < len(disputed) <= 8
    assert all(one["results"][:2] == [0.0, 1.0] for one in disputed[:2])
    for one in disputed:
        for arm, value in zip(known, one["results"], strict=True):
            assert value is None or value == known[arm][one["block"]]
    page = result.write_report(tmp_path / "race.html").read_text()
    for words in ("Arms against the leader", "Blocks on which results differ most", "rejected"):
        assert words in page
    assert "The study has decided, so its evidence is not computed any more." in page
    assert "No evidence is reported" not in page
