import json
import math

import pytest

from papers.report import Measured, Report, Section, Table


def a_report(*verdicts):
    rows = tuple(
        {"environment": f"w{i}", "ours": Measured(730.4, 11.2), "runs": 1000, "agrees": verdict}
        for i, verdict in enumerate(verdicts)
    )
    section = Section("times", "Stopping times", "What they are.", (Table(rows, "One table"),))
    return Report("A paper", quick=True, seed=1, seconds=2.0, sections=(section,))


def test_mean_and_standard_error_are_those_of_the_sample():
    measured = Measured.of([1.0, 2.0, 3.0, 6.0])
    assert measured.mean == 3.0
    assert measured.error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4))


def test_single_run_has_no_standard_error():
    assert Measured.of([5.0]) == Measured(5.0, None)


@pytest.mark.parametrize(("ours", "agrees"), [(750.0, True), (770.0, True), (780.0, False)])
def test_means_agree_within_four_errors_of_their_difference(ours, agrees):
    # sqrt(9^2 + 4^2) = 9.85; four of them are 39.4, around 735.
    assert Measured(ours, 9.0).agrees_with(Measured(735.0, 4.0)) is agrees


@pytest.mark.parametrize("text", ["730 (11)", "104 (1.7)", "0.976", "85,332 (2,410)", "0"])
def test_numbers_are_written_as_tables_print_them(text):
    assert str(Measured.parse(text.replace(",", ""))) == text


def test_table_is_a_table_of_markdown():
    lines = str(a_report(True, False).sections[0].tables[0]).splitlines()
    assert lines[0] == "One table"
    assert lines[2] == "| environment |     ours |  runs | agrees |"
    assert lines[3] == "| ----------- | -------: | ----: | ------ |"
    assert lines[4] == "| w0          | 730 (11) | 1,000 | yes    |"
    assert lines[5] == "| w1          | 730 (11) | 1,000 | NO     |"


def test_columns_with_given_decimals_line_up():
    rows = (
        {"share": Measured(0.34, 0.01498), "times": 10.0},
        {"share": Measured(0.0), "times": 2.456},
        {"share": None, "times": math.inf},
    )
    lines = str(Table(rows, decimals={"share": 3, "times": 1})).splitlines()
    assert lines[2:] == [
        "| 0.340 (0.015) |  10.0 |",
        "|         0.000 |   2.5 |",
        "|               | never |",
    ]


def test_rows_without_verdict_are_not_counted():
    report = a_report(True, None, False, True)
    assert report.verdicts == [True, False, True]
    assert report.conclusion == "2 of 3 comparisons agree; 2 s, seed 1, quick."


def test_data_hold_the_numbers_behind_the_text():
    data = json.loads(json.dumps(a_report(True).to_dict(), allow_nan=False))
    assert data["agree"] == data["compared"] == 1
    row = data["sections"][0]["tables"][0]["rows"][0]
    assert row["ours"] == {"mean": 730.4, "standard_error": 11.2}
    assert row["agrees"] is True


def test_infinite_number_becomes_null_in_data():
    table = Table(({"T*": math.inf},))
    assert table.to_dict()["rows"] == [{"T*": None}]
