"""The output that people see of an experiment."""

from dataclasses import replace

import numpy as np
import pytest

from fairtrial.cli.display import (
    answer_text,
    estimates_table,
    print_table,
    shares_table,
)
from fairtrial.core import AnswerStatus, Progress, Recommendation
from fairtrial.presentation.cuts import MOST_ARMS
from tests.plots.plot_fakes import cell, progress_of_grid

NOTHING = Progress(Recommendation(None, "running"), 0, 0, 0)


def cells_of(table, column):
    return list(table.columns[column].cells)


@pytest.mark.parametrize("number", [3, 60])
def test_of_many_shares_the_largest_are_listed_and_the_rest_is_said(number):
    labels = [{"arm": f"arm {n}"} for n in range(number)]
    shares = np.arange(number) / np.arange(number).sum()
    table = shares_table("Optimal allocation", labels, shares)
    listed = cells_of(table, 0)
    assert listed == [f"arm {n}" for n in range(number - 1, number - 1 - len(listed), -1)]
    assert len(listed) == min(number, MOST_ARMS)
    assert bool(table.caption) == (number == 60)


def test_a_column_of_limits_is_there_only_if_one_has_a_limit():
    free, limited = cell(limit=None), cell(limit=0.5)
    assert "limit" not in [column.header for column in estimates_table("", [free], NOTHING).columns]
    assert cells_of(estimates_table("", [free, limited], NOTHING), -2) == ["-", "0.5"]


def test_an_answer_says_what_speaks_against_the_others_and_not_a_clipped_evidence():
    answers = [
        AnswerStatus("zdv", rejected=True, log_wealth=3.5),
        AnswerStatus("zdv_ddi", rejected=False, log_wealth=0.0),
    ]
    text = " ".join(answer_text(progress_of_grid(answers=tuple(answers))).split())
    assert (
        "Evidence Strength of evidence against each rival (20 or more rules it out): zdv 33.1."
        in text
    )
    assert "of 3.00" not in text


def test_a_policy_that_never_stops_serves_on_under_its_guarantee():
    progress = progress_of_grid(status="running", told=40)
    text = answer_text(progress, endless=True)
    assert text.startswith("Serving continues: 40 results so far, 4 open; the leader is zdv_ddi\n")
    assert "Guarantee" in text
    assert "No answer" not in text
    before = progress_of_grid(status="running", told=0, answer=None)
    begun = answer_text(before, endless=True)
    assert begun.startswith("Serving continues: no result so far, 4 open\n")


def test_a_running_study_says_once_who_leads_and_how_many_results_there_are():
    running = progress_of_grid(status="running", told=40, evidence=1.5, threshold=3.0, remaining=60)
    answer = replace(running.recommendation, reason="there is not enough evidence to decide yet")
    text = answer_text(replace(running, recommendation=answer))
    facts = ("zdv_ddi", "40 results so far, 4 open", "not enough evidence")
    assert [text.count(fact) for fact in facts] == [1] * 3
    assert text.endswith("  So far      evidence 1.5 of 3, about 60 more results needed")
    bounded = replace(running, remaining_at_most=5_000)
    assert answer_text(bounded).endswith("about 60 more results needed, at most 5,000")
    assert answer_text(replace(bounded, remaining=None)).endswith(
        "at most 5,000 more results needed"
    )
    waits = replace(running, remaining=None, no_forecast="nothing can be forecast until then")
    assert answer_text(waits).endswith("evidence 1.5 of 3, nothing can be forecast until then")


def test_labels_are_printed_as_they_are(capsys):
    labels = ["[bold]", "[/x]", ":smile:"]
    print_table(estimates_table("", [cell(labels={"arm": name}) for name in labels], NOTHING))
    printed = capsys.readouterr().out
    assert all(name in printed for name in labels)


def test_title_and_note_of_a_narrow_table_are_lines_of_their_own(capsys):
    labels = [{"arm": str(number)} for number in range(60)]
    print_table(shares_table("Optimal allocation", labels, np.arange(60) / 1770))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Optimal allocation"
    note = "Showing 24 of 60 arms: those with the largest shares."
    assert printed[-1].split() == ["Note", *note.split()]


def test_a_running_study_says_how_many_answers_are_ruled_out():
    answers = [
        AnswerStatus("zdv", rejected=True, log_wealth=3.5),
        AnswerStatus("ddi", rejected=False, log_wealth=-2.0),
        AnswerStatus("zdv_ddi", rejected=False, log_wealth=0.0),
    ]
    running = progress_of_grid(
        status="running", told=40, evidence=-2.0, threshold=3.0, evidence_scale="log_e_value"
    )
    text = " ".join(answer_text(replace(running, answers=tuple(answers))).split())
    assert "evidence 0.135 of 20.1, ruled out 1 of 2 other answers" in text
    assert "ruled out" not in answer_text(running)
    own = replace(running, evidence_scale="statistic", evidence=1.25)
    assert "evidence 1.25 of 3" in " ".join(answer_text(own).split())


def test_results_that_never_count_are_named_with_the_answer():
    running = replace(progress_of_grid(), never_counted={"too late for their block": 3})
    text = " ".join(answer_text(running).split())
    assert "Not counted 3 results never count for the decision: 3 too late for their block" in text
    assert "Not counted" not in answer_text(progress_of_grid())
