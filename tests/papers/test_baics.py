"""Compute the reference's tables again, with few replications and fixed seeds.

Tolerances are those of the report: four standard errors of the difference of two means, and three
for a share of errors. The most important reference values are repeated in this file, so that a slip
in the package's own table is found.
"""

import json
from dataclasses import replace

import pytest

from fairtrial.errors import InvalidArgument
from papers.baics import PAPER, with_email
from papers.baics import instances as environments
from papers.baics.betting import block_betting, bounded_rewards
from papers.baics.cache import SimulationCache
from papers.baics.complexities import complexities
from papers.baics.published import published
from papers.baics.robustness import broken_rule, hard_nulls
from papers.baics.stopping_times import stopping_times
from papers.report import Section, Table
from tests import effort
from tests.messages import raises
from tests.papers.sections import disagreeing, find, rows_of


@pytest.fixture(scope="module")
def cache():
    return SimulationCache(quick=True, seed=1)


@pytest.mark.parametrize(
    ("instance", "reference"),
    [
        (environments.E1, 190.883590),
        (environments.E2, 16700 / 9),
        (environments.NONE_FEASIBLE, 20.5),
    ],
)
def test_complexity_of_the_papers_examples_is_exact_to_a_millionth(instance, reference):
    found = instance.complexity()
    assert found.value == pytest.approx(reference, rel=1e-6)
    # The reference is printed to a millionth, so it is between the certified ends up to that.
    assert found.lower - 1e-6 <= reference <= found.upper + 1e-6


def test_all_complexities_agree_with_the_reference():
    assert not disagreeing(complexities(None))


@pytest.mark.statistical
def test_stopping_times_agree_with_the_reference():
    most_runs = effort.runs(5, whole=1000)
    section = stopping_times(SimulationCache(quick=True, seed=1, most_runs=most_runs))
    assert not disagreeing(section)
    assert len(rows_of(section)) == 24
    assert len(rows_of(section, 1)) == 14
    times = {
        ("E1", 0.1, "balanced"): 730,
        ("E1", 0.1, "T-a-SCS"): 1077,
        ("E1", 0.1, "T-a-S"): 3454,
        ("E1", 0.1, "uniform"): 4455,
        ("E1", 0.1, "round robin"): 2627,
        ("E2", 0.1, "static w*"): 12358,
        ("N", 0.1, "balanced"): 104,
    }
    for (instance, delta, sampling), time in times.items():
        row = find(rows_of(section), instance=instance, delta=delta, sampling=sampling)
        assert row["reference"].mean == time
    by_rule = rows_of(section, 1)
    assert find(by_rule, instance="E1", delta=0.1, stopping="certified")["reference"].mean == 2619
    row = find(by_rule, instance="E1", delta=0.1, stopping="kaufmann-koolen")
    assert row["reference"].mean == 7765


@pytest.mark.statistical
def test_published_figures_fit_the_reading_without_the_half_only(cache):
    section = published(cache)
    assert not disagreeing(section)
    assert [row["published"].mean for row in rows_of(section)] == [530, 1703, 2432]
    assert {row["published fits"] for row in rows_of(section)} == {"without 1/2"}
    assert "3,131" in section.text
    assert "3,262" in section.text


@pytest.mark.statistical
def test_stylised_rule_breaks_its_word_and_proven_rules_keep_it(cache):
    section = broken_rule(cache)
    assert not disagreeing(section)
    kept = {
        (row["sampling"], row["stopping"]): (row["guarantee"], row["keeps delta"])
        for row in rows_of(section)
    }
    assert kept == {
        ("balanced", "stylised"): ("heuristic", "no"),
        ("T-a-SCS", "stylised"): ("heuristic", "no"),
        ("round robin", "stylised"): ("heuristic", "no"),
        ("balanced", "certified"): ("proven", "yes"),
        ("balanced", "kaufmann-koolen"): ("proven", "yes"),
        ("block betting", "block betting"): ("proven", "yes"),
    }


@pytest.mark.statistical
def test_block_betting_agrees_with_the_reference(cache):
    section = block_betting(cache)
    assert not disagreeing(section)
    references = [row["reference"].mean for row in rows_of(section)]
    assert references == [955, 1132, 1486, 8220, 10325, 13380, 127, 149, 193]


@pytest.mark.statistical
def test_rewards_in_a_range_agree_with_the_reference(cache):
    section = bounded_rewards(cache, email=None)
    assert not disagreeing(section)
    assert [row["reference"].mean for row in rows_of(section)[:3]] == [1212, 1456, 1883]
    assert all(row["wrong"].mean == 0.0 for row in rows_of(section)[:3])


@pytest.mark.statistical
def test_true_answer_is_hardly_ever_rejected_on_hard_nulls(cache):
    section = hard_nulls(cache)
    assert not disagreeing(section)
    for table in section.tables:
        pooled = table.rows[-1]
        assert pooled["runs"] >= 250
        # The reference has at most .05 in all of its environments. Accumulated errors would show
        # here.
        assert pooled["true answer ever rejected"].mean <= 0.05 + 3 * (0.05 / pooled["runs"]) ** 0.5


# ------------------------------------------------------------------------- the whole report


SECTION = Section("s", "Stub", "Text.", (Table(({"ours": 1, "agrees": True},)),))
SHORT = replace(PAPER, sections=lambda cache: [SECTION])
"""The paper with a single section of one row, so that the report is quick to make."""


def test_report_is_printed_and_returned(capsys):
    report = SHORT.reproduce(quick=True)
    printed = capsys.readouterr().out
    assert printed.startswith("# Best arm identification with fairness constraints")
    assert str(SECTION) in printed
    assert "1 of 1 comparisons agree" in printed
    assert report.sections == (SECTION,)


def test_report_is_written_with_figures(tmp_path, capsys):
    drawn = []

    def draw(cache, folder):
        drawn.append(folder)
        return [folder / "figure-1.png"]

    report = replace(SHORT, write_figures=draw).reproduce(
        quick=True, output=tmp_path / "new" / "folder"
    )
    folder = tmp_path / "new" / "folder"
    assert drawn == [folder]
    assert json.loads((folder / "report.json").read_text()) == report.to_dict()
    assert (folder / "report.md").read_text() == f"{report}\n"
    assert "report.md, report.json, figure-1.png" in capsys.readouterr().out


def test_report_is_written_without_matplotlib(tmp_path, capsys):
    def missing(cache, folder):
        raise ImportError("matplotlib")

    replace(SHORT, write_figures=missing).reproduce(quick=True, output=tmp_path)
    assert (tmp_path / "report.json").exists()
    assert "No figures" in capsys.readouterr().out


def test_bad_output_is_refused_before_the_work(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    with raises(InvalidArgument, "output"):
        PAPER.reproduce(quick=True, output=blocked / "folder")


def test_bad_email_table_is_refused_before_the_work(tmp_path):
    with raises(InvalidArgument, "path"):
        with_email(tmp_path / "missing.csv")


def test_figures_show_both_rules_on_both_examples(cache, tmp_path):
    pytest.importorskip("matplotlib")
    from papers.baics.figures import write_figures

    paths = write_figures(cache, tmp_path)
    assert [path.name for path in paths] == ["figure-1.png", "figure-2.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
