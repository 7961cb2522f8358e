"""Cells that a spreadsheet would execute are text, however they are written."""

import csv

import openpyxl
import pytest

from fairtrial.core.tables import without_formula, write_table

EXECUTED = [
    "=1+1",
    "+1+cmd",
    "-1+cmd",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "\uff0b1+a",
    "\uff0d1+a",
    "\uff20SUM(1)",
    "\ufe66a",
    " =1+1",
    "\u00a0=1+1",
    "\u3000\uff1d1+1",
    "\ufeff=1+1",
    "\u200b=1+1",
    "\u202e=1+1",
    "\x00=1+1",
]


@pytest.mark.parametrize("text", EXECUTED)
def test_what_a_spreadsheet_would_execute_becomes_text(text):
    assert without_formula(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["-1", "+1.5", "-1e-3", "a=b", "", " ", "x", 1.5, None, "'=1"])
def test_what_is_no_formula_stays(cell):
    assert without_formula(cell) == cell


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_no_written_table_holds_a_formula(tmp_path, ending):
    path = tmp_path / f"table{ending}"
    write_table(path, EXECUTED[:1], [[text] for text in EXECUTED])
    if ending == ".csv":
        with path.open(newline="", encoding="utf-8") as stream:
            cells = [row[0] for row in csv.reader(stream)]
    else:
        page = openpyxl.load_workbook(path).active
        assert {cell.data_type for [cell] in page.iter_rows()} == {"s"}
        cells = [cell.value for [cell] in page.iter_rows()]
    assert len(cells) == len(EXECUTED) + 1
    assert all(cell.startswith("'") for cell in cells)
