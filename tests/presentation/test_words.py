from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

import fairtrial as ft
from fairtrial.cli.display import answer_text, reporter
from fairtrial.core import Recommendation
from fairtrial.plots import overview
from fairtrial.presentation.words import (
    because,
    clean,
    decimals,
    fixed,
    headline,
    joined,
    number,
    out_of_sight,
    percent,
    results_sentence,
    shorten,
    support,
)
from fairtrial.report import write_report
from tests.plots.plot_fakes import progress_of_grid


@given(st.text(max_size=200), st.integers(5, 40))
def test_shortened_text_fits_and_keeps_both_ends(text, length):
    short = shorten(text, length)
    assert len(short) <= length
    whole = clean(text)
    assert short == whole or (short[0] == whole[0] and short[-1] == whole[-1])


@given(st.text())
def test_cleaned_text_is_one_line_that_can_be_encoded(text):
    line = clean(text)
    line.encode("utf-8")
    assert "\n" not in line
    assert "\x00" not in line


def test_numbers_that_are_not_there_or_not_finite_are_said_so():
    assert number(None) == number(math.nan) == "\N{EN DASH}"
    assert number(-math.inf) == "\N{MINUS SIGN}\N{INFINITY}"
    assert fixed(None, 2) == "\N{EN DASH}"


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_columns_show_their_largest_number_to_four_digits(values):
    largest = max(values)
    shown = float(fixed(largest, decimals(values)).replace(",", ""))
    assert shown == pytest.approx(largest, rel=5e-4)


def test_a_number_that_rounds_to_zero_has_no_sign():
    assert fixed(-0.0001, 2) == "0.00"


def test_small_shares_are_not_called_zero():
    assert percent(1e-6) == "<0.1 %"


@pytest.mark.parametrize(
    ("recommendation", "expected"),
    [
        (Recommendation("b", "decided"), "Answer: b"),
        (Recommendation(("b", "c"), "decided"), "Answer: b, c"),
        (Recommendation(None, "decided"), "Answer: no arm is acceptable"),
        (Recommendation(None, "undecided", leader="b"), "No decision: b leads at the end"),
        (Recommendation(None, "running", leader="b"), "No decision yet: b leads so far"),
        (Recommendation(None, "running"), "No decision yet: no arm leads so far"),
    ],
)
def test_headlines(recommendation, expected):
    assert headline(recommendation) == expected


def test_support_says_what_is_promised_of_studies_like_this_one():
    decided = progress_of_grid()
    promised = "The probability that a study like this one ever gives a wrong answer is at most 5 %"
    assert support(decided) == f"{promised} (proven: block betting)."
    answer = decided.recommendation
    heuristic = replace(answer, guarantee=answer.guarantee.weakened("luck"))
    assert support(replace(decided, recommendation=heuristic)) == (
        "The rule aims at a wrong answer in at most 5 % of studies; not proven "
        "(heuristic: block betting)."
    )
    calibrated = replace(answer, guarantee=replace(heuristic.guarantee, calibrated=True))
    assert support(replace(decided, recommendation=calibrated)) == (
        "The rule aims at a wrong answer in at most 5 % of studies; not proven, but measured "
        "(calibrated: block betting)."
    )
    of_a_budget = replace(decided, recommendation=replace(answer, confidence=None))
    assert support(of_a_budget) == (
        "Best estimate for a fixed budget; no error probability is promised."
    )


@pytest.mark.parametrize(
    ("status", "headed"),
    [
        ("running", "No decision yet: zdv_ddi leads so far"),
        ("undecided", "No decision: zdv_ddi leads at the end"),
    ],
)
def test_who_leads_is_said_once_and_is_no_decision(status, headed):
    progress = progress_of_grid(status=status)
    recommendation = replace(progress.recommendation, reason="there is not enough evidence")
    assert headline(recommendation) == headed
    assert because(recommendation) == "Why: there is not enough evidence."
    assert support(progress) == ""
    assert support(progress, endless=True) == "The policy never stops by itself."


@pytest.mark.parametrize(
    ("reason", "said"), [("a result was corrected; wait", "Why: a result was corrected; wait.")]
)
def test_why_is_the_reason_as_a_sentence(reason, said):
    assert because(Recommendation(None, "running", reason=reason)) == said
    assert because(Recommendation(None, "running")) == ""


def test_before_the_first_result_it_is_said_that_there_is_none():
    running = progress_of_grid(status="running")
    assert support(replace(running, told=0)) == "There are no results yet."


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["b"], "b"), (["b", "c"], "b or c"), (["b", "c", "d"], "b, c or d")],
)
def test_names_are_joined_as_in_a_sentence(names, said):
    assert joined(names, "or") == said
    assert joined(names, "and") == said.replace(" or ", " and ")


def test_results_open_pulls_and_the_forecast_are_said_in_one_sentence():
    running = progress_of_grid(status="running")
    expected = "1,322 results so far, 4 open; about 420 more expected."
    assert results_sentence(running) == expected
    assert "expected" not in results_sentence(replace(running, remaining=math.inf))
    assert results_sentence(progress_of_grid()) == "1,322 results so far, 4 open."
    bounded = replace(running, remaining_at_most=5_000)
    assert "; about 420 more expected, at most 5,000." in results_sentence(bounded)
    for nothing_more in ({"remaining": None}, {"remaining": 4_800.0}, {"remaining": math.nan}):
        assert results_sentence(replace(bounded, **nothing_more)).endswith("; at most 5,000 more.")
    waits = replace(running, remaining=None, no_forecast="nothing can be forecast until then")
    assert results_sentence(waits) == (
        "1,322 results so far, 4 open; nothing can be forecast until then."
    )


def test_everything_that_shows_a_study_says_how_many_results_there_are_and_how_many_are_open(
    tmp_path, capsys
):
    problem = ft.subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem)
    with ft.Study.create(problem, policy, storage="memory://", name="s", seed=1) as study:
        first, *_ = study.ask(6)
        study.tell(first, 1.0)
        progress = study.progress()
        with reporter("s") as line:
            line.show(progress)
        write_report(study, tmp_path / "report.html")
        shown = (
            answer_text(progress),
            capsys.readouterr().err,
            (tmp_path / "report.html").read_text(),
            study._repr_html_(),
            " ".join(text.get_text() for text in overview(study).findobj(Text)),
        )
    for text in shown:
        assert "1 result so far, 5 open" in " ".join(text.split())


def test_a_guarantee_without_a_name_is_shown_by_its_label_alone(capsys, tmp_path):
    problem, environment = ft.causal.chain(
        0.4, {"a": [[1, 0], [0, 1]], "b": [[0, 1], [1, 0]]}, [0.1, 0.9], 0.2
    )
    policy = ft.causal.PlugIn(problem, budget=20)
    rows = np.random.default_rng(1)
    with ft.Study.create(problem, policy, storage="memory://", name="n", seed=1) as study:
        while not study.stopped:
            pull = study.ask()
            study.tell(pull, environment.sample(pull, rows))
        text = " ".join(answer_text(study.progress()).split())
        write_report(study, tmp_path / "report.html")
    promise = "est estimate for a fixed budget; no error probability is promised"
    assert f"b{promise} (heuristic)" in text
    report = " ".join((tmp_path / "report.html").read_text().split())
    assert f"Heuristic, not proven</strong>: b{promise}." in report
    assert "(none)" not in report


@given(st.floats(1e-4, 1e8), st.integers(2, 4))
def test_a_number_is_written_without_an_exponent_and_rounded(value, digits):
    shown = number(value, digits)
    assert "e" not in shown or value < 1e-3
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits))


@pytest.mark.parametrize(("settled", "is_said"), [(None, True), (40, True), (0, False)])
def test_nothing_is_said_of_the_growth_of_evidence_before_a_result_counts(settled, is_said):
    running = Recommendation(None, "running")
    progress = ft.core.Progress(running, 60, 50, 10, remaining=1e12, settled=settled)
    assert bool(out_of_sight(progress)) == is_said


@pytest.mark.parametrize("unit", [1e-300, 1e-18, 1e12, 1e300])
def test_a_column_in_any_unit_shows_the_digits_of_its_numbers(unit):
    values = [0.7104 * unit, -0.0741 * unit]
    shown = [fixed(value, decimals(values)) for value in values]
    found = [float(text.replace("\N{MINUS SIGN}", "-")) for text in shown]
    assert found == pytest.approx(values, rel=1e-3)
    assert max(map(len, shown)) < 15
