"""The pages of the evidence are made from the stored figures."""

from dataclasses import replace

import pytest

from evidence.pages import (
    PAGES,
    decisions,
    disagreements,
    growth,
    number,
    on_paper,
    one_study,
    pages,
    papers,
    provenance,
    scaling,
    shares,
    write_pages,
)
from evidence.policies import POLICIES
from evidence.questions import QUESTIONS
from evidence.records import new_record, read_all

FIGURES = {
    "label": "proven", "replications": 20, "mean": 300.0, "standard_error": 12.5,
    "quantile_99": 600.0, "undecided": 0, "wrong": 1, "interval": [0.001, 0.249],
    "microseconds": 2.5,
}  # fmt: skip


def record(part, cases, **changes):
    return replace(new_record(part, 1.0, 1), commit="c" * 40, cases=cases, **changes)


def lines(rendered, beginning):
    return [line for line in rendered if line.startswith(f"| {beginning} |")]


def test_the_pages_in_the_repository_are_those_of_the_stored_figures():
    written = {file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")}
    assert written == pages(read_all()), "run: ./dev evidence --pages"


def test_pages_without_any_figures_say_that_nothing_was_measured():
    for text in pages({}).values():
        assert "{{" not in text
    assert "Nothing has been measured" in pages({})["index.md"]


def test_pages_are_written_into_a_folder(tmp_path):
    names = list(write_pages({}, tmp_path / "new"))
    assert sorted(names) == sorted(file.name for file in (tmp_path / "new").iterdir())


def subpopulations(**changes):
    first = QUESTIONS["subpopulations"][0].name
    part = "policies/subpopulations.BlockBetting"
    return {
        part: record(part, [{"case": first, **FIGURES, **changes}]),
        "bounds/subpopulations": record(
            "bounds/subpopulations", [{"case": first, "lower_bound": 100.0}]
        ),
    }


def test_pulls_are_compared_with_the_lower_bound():
    [row] = lines(decisions(subpopulations(), "subpopulations"), "BlockBetting")
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "BlockBetting", "proven", "20", "300 (12)", "3.00", "6.00", "1 [.001, .249]", "0", "2.5"
    ]  # fmt: skip


def test_a_mean_with_undecided_runs_is_not_compared_with_the_bound():
    [row] = lines(decisions(subpopulations(undecided=1), "subpopulations"), "BlockBetting")
    assert row.split("|")[5:7] == [" - ", " - "]


def test_an_error_rate_that_is_clearly_above_the_claim_is_bold():
    records = subpopulations(wrong=19, interval=[0.75, 0.99])
    [row] = lines(decisions(records, "subpopulations"), "BlockBetting")
    assert "**19 [.750, .990]**" in row


def test_policies_without_figures_are_listed_with_the_reason():
    records = subpopulations()
    other = "policies/subpopulations.RoundRobin"
    first = QUESTIONS["subpopulations"][0].name
    records[other] = record(other, [{"case": first, "missing": "refused: problem must be kind"}])
    text = "\n".join(decisions(records, "subpopulations"))
    assert "Not in the table: RoundRobin (refused: problem must be kind)." in text


def test_a_policy_that_is_behind_its_shares_is_marked():
    question = QUESTIONS["allocation"][0].name
    figures = {
        "label": "proven", "replications": 3, "behind": 4, "regret": 1.5, "standard_error": 0.1,
        "microseconds": 0.1,
    }  # fmt: skip
    part = "policies/allocation.FairUCB"
    records = {part: record(part, [{"case": question, **figures}])}
    [row] = lines(shares(records), "FairUCB")
    assert row.split("|")[4] == " **4** "
    assert "FairUCB" in POLICIES["allocation"]


def test_growth_shows_the_exponent_and_what_was_left_out():
    cases = [
        {"case": str(size), "units": size, "total_seconds": size / 100, "microseconds": 1.0,
         "megabytes": 100.0, "growth_megabytes": -1.0}
        for size in (1_000, 10_000)
    ]  # fmt: skip
    cases[1]["measured"] = {"commit": "d" * 40, "date": "2026-11-27", "command": "./dev evidence x"}
    cases.append({"case": "100000", "missing": "left out: about 1000 s expected"})
    text = "\n".join(growth({"growth/events": record("growth/events", cases)}))
    assert "Exponent of the total time: 1; of the two largest sizes: 1." in text
    assert "100,000: left out: about 1000 s expected." in text
    earlier = "10,000: measured on 2026-11-27, commit `dddddddddd`, with `./dev evidence x`."
    assert earlier in text.splitlines()


def test_workers_are_compared_by_their_efficiency():
    figures = {
        "case": "2", "replications": 500, "alone_seconds": 3.0, "seconds": 2.0, "efficiency": 0.75,
        "alone_processor_seconds": 3.0, "processor_seconds": 3.5, "task_seconds": 0.001,
    }  # fmt: skip
    cases = [figures, {"case": "4", "missing": "this machine has 2 cores"}]
    records = {"workers/dask": record("workers/dask", cases)}
    text = list(scaling(records))
    assert "| Dask, processes | 2 | 500 | 3.00 | 2.00 | 0.75 | 3.00 | 3.50 |" in text
    assert text[-1] == "Not in the table: 4 Dask, processes (this machine has 2 cores)."
    # A thousand workers: 3.6 s of work each, a task of .45 s, and 8,000 tasks of 1 ms.
    assert "| an hour | 1.00 | 0.90 | 0.87 | 0.30 |" in list(on_paper(records))


def test_workers_of_one_study_wait_for_its_log():
    cases = [{"case": "1000", "microseconds": 50.0}, {"case": "10000", "missing": "left out"}]
    text = list(one_study({"growth/events": record("growth/events", cases)}))
    assert "A pull and its result cost the process that writes 0.10 ms." in text
    assert "| a tenth of a second | 1.0 | 1.0 | 1.0 | 1.0 |" in text


def test_the_processor_time_of_parts_is_added_up():
    records = {name: record(name, [], processor_seconds=90.0) for name in ("a", "b")}
    [row] = lines(provenance(records), "`cccccccccc`")
    assert row.split("|")[-3].strip() == "3.0"


@pytest.mark.parametrize(("load", "busy"), [(0.5, False), (7.0, True)])
def test_a_busy_machine_is_said_to_be_one(load, busy):
    machine = {**new_record("a", 1.0, 1).machine, "cores": 2, "load": load}
    text = "\n".join(provenance({"a": record("a", [], machine=machine)}))
    assert ("**The machine was busy**" in text) is busy
    assert "`cccccccccc`" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("nan"), "-"), (float("inf"), "-"), (999.96, "1,000"), (1e-9, "0.00000000100")],
)
def test_numbers_have_their_significant_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        ("heuristic", "proven, heuristic from pull 40 on"),
        ("proven", "proven, still so after 40 pulls"),
    ],
)
def test_a_label_is_shown_as_it_is_when_data_contradict_it(after, shown):
    [broken] = [question for question in QUESTIONS["linear"] if question.broken]
    part = "policies/linear.Rage"
    labels = [{"case": "Rage", "before": "proven", "label": after, "pulls": 40}]
    records = {
        part: record(part, [{"case": broken.name, **FIGURES}]),
        "labels/linear": record("labels/linear", labels),
    }
    [row] = lines(decisions(records, "linear"), "Rage")
    assert row.split("|")[2].strip() == shown


def test_comparisons_with_papers_are_counted_and_those_that_differ_listed():
    case = {"case": "all", "title": "A paper", "agree": 3, "compared": 4, "processor_seconds": 9.0}
    records = {"papers/baics": record("papers/baics", [{**case, "disagree": ["a row"]}])}
    assert "| A paper | 3 | 4 | 9.00 |" in list(papers(records))
    assert list(disagreements(records)) == ["- baics: a row"]
    assert "*Not measured" in "".join(papers({}))
