import csv
import datetime as dt
import gzip
import io
import os
import re
import sys
import zipfile

import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.cells import NumberFormat, tidy
from fairtrial.core.sheets import read_sheet
from fairtrial.core.tables import column_of, open_table, read_table, write_table
from fairtrial.errors import InvalidArgument, MissingExtra
from tests.messages import raises, warns


def write(folder, content, name="trial.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_wholly_numeric_column_becomes_floats_and_another_stays_text(tmp_path):
    path = write(tmp_path, "arm,dose,gain\na,1,0.5\nb,,-1e-3\n")
    assert read_table(path) == {"arm": ["a", "b"], "dose": [1.0, None], "gain": [0.5, -0.001]}


def test_only_the_columns_wanted_are_returned_in_the_order_wanted(tmp_path):
    path = write(tmp_path, "a,b,c\n1,2,3\n")
    assert list(read_table(path, ["c", "a"])) == ["c", "a"]


def test_labels_that_look_like_numbers_are_kept_as_written(tmp_path):
    path = write(tmp_path, "arm,reward\n01,1\n2,0\n")
    assert read_table(path, text=["arm"]) == {"arm": ["01", "2"], "reward": [1.0, 0.0]}


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx", "t.parquet"])
def test_truth_values_are_numbers_in_every_format(tmp_path, name):
    frame = pd.get_dummies(pd.DataFrame({"dose": [1.5, 2.0], "base": ["K", "Cs"]}))
    writers = {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}
    writers[name[2:]](tmp_path / name, index=False)
    assert read_table(tmp_path / name) == {
        "dose": [1.5, 2.0],
        "base_Cs": [0.0, 1.0],
        "base_K": [1.0, 0.0],
    }


def test_truth_values_beside_other_text_are_text(tmp_path):
    path = write(tmp_path, "answer,label\ntrue,TRUE\nmaybe,FALSE\n")
    assert read_table(path, text=["label"]) == {
        "answer": ["true", "maybe"],
        "label": ["TRUE", "FALSE"],
    }


def test_underscores_do_not_make_a_number(tmp_path):
    assert read_table(write(tmp_path, "site\n1_000\n2\n")) == {"site": ["1_000", "2"]}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_semicolons_separate_where_commas_are_decimal(tmp_path, name):
    content = '\ufeffarm;gain;dose;note\r\n"a;1";0,5;3;1,5 mg\r\nb;-1,25e-3;;2,0 mg\r\n'.encode()
    path = write(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    assert read_table(path) == {
        "arm": ["a;1", "b"],
        "gain": [0.5, -0.00125],
        "dose": [3.0, None],
        "note": ["1,5 mg", "2,0 mg"],
    }


def test_a_label_with_a_comma_keeps_it_between_semicolons(tmp_path):
    path = write(tmp_path, "arm;gain\n0,5;1\n0,25;2\n")
    assert read_table(path, text=["arm"])["arm"] == ["0,5", "0,25"]


def test_a_column_of_numbers_has_none_where_cells_are_blank(tmp_path):
    path = write(tmp_path, "arm;gain;dose\na;0,5;1,5\nb;;NA\nc;x;2,5\n")
    table = read_table(path)
    assert (table["gain"], table["dose"]) == (["0,5", "", "x"], [1.5, None, 2.5])


def test_what_gives_the_header_the_most_columns_separates(tmp_path):
    path = write(tmp_path, "arm;dose, in mg;gain\na;1,5;2\n")
    assert read_table(path) == {"arm": ["a"], "dose, in mg": [1.5], "gain": [2.0]}


# ---------------------------------------------------------------------------- workbooks


def workbook(folder, *rows, name="t.xlsx", change=None):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if change is not None:
        change(book)
    book.save(folder / name)
    return folder / name


def test_the_first_sheet_of_a_workbook_is_read_like_the_same_csv(tmp_path):
    when = [dt.datetime(2026, 11, 23), dt.datetime(2026, 11, 23, 8, 30)]
    path = workbook(
        tmp_path,
        ["arm", "gain", "dose", "day", "fresh", "note"],
        [1, 0.5, "1,5", when[0], True, None],
        [],
        ["b", 2, "0,25", when[1], False, "x"],
    )
    assert read_table(path, text=["arm"]) == {
        "arm": ["1", "b"],
        "gain": [0.5, 2.0],
        "dose": [1.5, 0.25],
        "day": ["2026-11-23", "2026-11-23 08:30:00"],
        "fresh": [1.0, 0.0],
        "note": ["", "x"],
    }
    assert read_sheet(path).where(1) == "row 4"


@pytest.mark.parametrize("rows", [[], [["a", "b"]], [["a", "a"], [1, 2]], [["a"], [1], [1, 2]]])
def test_a_workbook_that_is_no_table_is_refused_with_the_reason(tmp_path, rows):
    with raises(InvalidArgument, "path"):
        read_table(workbook(tmp_path, *rows))


def test_a_workbook_that_is_another_archive_or_unpacks_to_a_huge_one_is_refused(tmp_path):
    other, bomb = tmp_path / "other.xlsx", tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "no workbook")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * 33_000_000)
    with raises(InvalidArgument, "path"):
        read_table(other)
    with raises(InvalidArgument, "path"):
        read_table(bomb)


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_table_that_is_written_holds_no_formula_and_reads_as_it_was(tmp_path, name):
    path = tmp_path / name
    write_table(path, ["arm", "gain"], [["=1+1", 0.5], ["-1", 1], ["@x\x1b", 2.0]])
    table = read_table(path, text=["arm"])
    escape = "\x1b" if name == "t.csv" else "\\x1b"
    assert table == {"arm": ["'=1+1", "-1", f"'@x{escape}"], "gain": [0.5, 1.0, 2.0]}


def test_workbooks_without_openpyxl_name_the_extra(tmp_path, monkeypatch):
    path = workbook(tmp_path, ["a"], [1])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("fairtrial.core.tables.find_spec", lambda name: None)
    with raises(MissingExtra, extra="excel"):
        read_table(path)
    with raises(MissingExtra, extra="excel"):
        write_table(tmp_path / "new.xlsx", ["a"], [])
    assert not (tmp_path / "new.xlsx").exists()


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv", "t.tsv.gz", "T.CSV"])
def test_the_ending_tells_separator_and_compression(tmp_path, name):
    separator = "\t" if ".tsv" in name else ","
    content = f"a{separator}b\n1{separator}x\n".encode()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    assert read_table(write(tmp_path, content, name)) == {"a": [1.0], "b": ["x"]}


def test_a_byte_order_mark_quotes_and_blank_lines_are_understood(tmp_path):
    path = write(tmp_path, '\ufeffarm,note\r\na,"x, ""y""\nz"\r\n\r\nb,w\r\n')
    assert read_table(path) == {"arm": ["a", "b"], "note": ['x, "y"\nz', "w"]}


def test_a_parquet_file_reads_like_the_same_csv(tmp_path):
    frame = pd.DataFrame({"arm": [1, 2], "stratum": ["x", "y"], "gain": [0.5, 1.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = ["arm"]
    assert read_table(tmp_path / "t.parquet", text=text) == read_table(
        tmp_path / "t.csv", text=text
    )


def test_parquet_without_a_library_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path, b"PAR1", "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with raises(MissingExtra, extra="data"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", ""),
        ("t.csv", "a,b\n"),
        ("t.csv", "a,a\n1,2\n"),
        ("t.csv", "a,b\n1,2\n\n3\n"),
        ("t.csv", "a,b\n1,2,3\n"),
        ("t.csv", 'a,b\n1,"2"3\n'),
        ("t.csv", b"a,b\n\xff\xfe,1\n"),
        ("t.csv.gz", b"not compressed"),
        # What zlib writes differs between its versions.
        pytest.param("t.csv.gz", gzip.compress(b"a\n" + b"1\n" * 500)[:-12], id="half of a .gz"),
        ("t.parquet", b"rubbish"),
        ("t.xlsx", b"rubbish"),
        ("t.xlsx", b""),
        ("t.xls", b""),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_reason(tmp_path, name, content):
    with raises(InvalidArgument, "path") as caught:
        read_table(write(tmp_path, content, name))
    assert name in str(caught.value.given)


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet", "folder.csv"])
def test_an_unreadable_file_is_refused_with_the_systems_reason(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with raises(InvalidArgument, "path"):
        read_table(tmp_path / name)


def test_missing_columns_are_listed_together_with_those_that_exist(tmp_path):
    path = write(tmp_path, "arm,gain\na,1\n")
    with raises(InvalidArgument, "columns"):
        read_table(path, ["arm", "group", "reward"])


words = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8
).filter(lambda text: text == tidy(text))


@given(rows=st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_any_text_survives_writing_and_reading(tmp_path_factory, rows):
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("left", "right"), *rows])
    path = write(tmp_path_factory.mktemp("tables"), stream.getvalue())
    table = read_table(path, text=["left", "right"])
    assert list(zip(table["left"], table["right"], strict=True)) == rows


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_numbers_survive_writing_and_reading(tmp_path_factory, numbers):
    content = "\n".join(["reward", *map(repr, numbers)])
    assert read_table(write(tmp_path_factory.mktemp("tables"), content)) == {"reward": numbers}


def test_a_column_is_found_in_a_frame_and_in_a_mapping():
    rows = {"arm": ["a", "b"], "reward": [0, 1]}
    assert column_of(rows, "arm") == column_of(pd.DataFrame(rows), "arm") == ["a", "b"]


@pytest.mark.parametrize(
    "table",
    [{"arm": [1]}, pd.DataFrame({"arm": [1]}), [1, 2], None],
    ids=["mapping", "frame", "list", "none"],
)
def test_a_missing_column_is_named_with_those_that_there_are(table):
    with raises(InvalidArgument, "table"):
        column_of(table, "reward")


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"a\n")
        for _ in range(40):
            stream.write(b"0\n" * 500_000)
    with raises(InvalidArgument, "path"):
        read_table(path)


def test_a_pipe_is_not_read(tmp_path):
    path = tmp_path / "table.csv"
    os.mkfifo(path)
    with raises(InvalidArgument, "path"):
        read_table(path)


# ------------------------------------------------------------- files as people have them


@pytest.mark.parametrize(
    ("content", "table"),
    [
        ("sep=;\narm;gain\na;0,5\n", {"arm": ["a"], "gain": [0.5]}),
        ('"sep=|"\r\narm|gain\r\na|0.5\r\n', {"arm": ["a"], "gain": [0.5]}),
        ("\n\narm,gain\na,1\n", {"arm": ["a"], "gain": [1.0]}),
        (",,\narm,gain,\na,1,\n,,\n", {"arm": ["a"], "gain": [1.0]}),
        ("arm,gain,,\na,1,,\nb,2\n", {"arm": ["a", "b"], "gain": [1.0, 2.0]}),
        ("arm,gain\na,1,,\n", {"arm": ["a"], "gain": [1.0]}),
        ("arm,,gain\na,,1\n", {"arm": ["a"], "gain": [1.0]}),
        (",arm\n0,a\n", {"": [0.0], "arm": ["a"]}),
        ('arm , "gain"\na , "1"\n', {"arm": ["a"], "gain": [1.0]}),
        ("arm\u00a0,low\u00a0dose\na\u00a0,\u22121\n", {"arm": ["a"], "low dose": [-1.0]}),
        ("arm,gain\ra,1\r", {"arm": ["a"], "gain": [1.0]}),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_spreadsheets_leave_around_a_table_is_no_part_of_it(
    tmp_path, content, table, encoding
):
    assert read_table(write(tmp_path, content.encode(encoding)), text=["arm"]) == table


def test_lines_are_those_that_an_editor_shows(tmp_path):
    content = '\n"arm","note"\n"a","two\nlines"\n\n,\n"b",""\n'
    sheet = read_sheet(write(tmp_path, content))
    assert [sheet.where(row) for row in range(2)] == ["line 3", "line 7"]
    marked = read_sheet(write(tmp_path, "sep=;\narm;note\na;x\n"))
    assert marked.where(0) == "line 3"


@pytest.mark.parametrize(
    "content",
    [
        "<!DOCTYPE html><html><table><tr><td>1</td></tr></table>",
        "\ufeff \n<html>",
        b"PK\x03\x04" + b"0" * 40,
        b"\xd0\xcf\x11\xe0" + b"0" * 40,
        b"%PDF-1.7",
        pytest.param(gzip.compress(b"a\n1\n"), id="compressed"),
        b"PAR1....",
        '[{"arm": "a"}]',
        "arm,gain\nm\u00fcller,1\n".encode("latin-1"),
        "arm,gain\na,1\n".encode("utf-16-le"),
        'arm,gain\na,1\nb,"2\nc,3\n',
        "Results of May\narm,gain\na,1\n",
        "arm,gain,arm\u00a0\na,1,b\n",
        ",,arm\n1,2,a\n",
    ],
)
def test_files_of_another_kind_are_refused_in_the_right_words(tmp_path, content):
    with raises(InvalidArgument, "path"):
        read_table(write(tmp_path, content))


@pytest.mark.parametrize("name", ["t.xls", "t.ods"])
def test_other_workbooks_are_refused_with_a_hint(tmp_path, name):
    with raises(InvalidArgument, "path"):
        read_table(write(tmp_path, b"", name))


def test_a_number_that_may_be_two_is_refused_with_its_line(tmp_path):
    path = write(tmp_path, "arm;gain\na;12\n\nb;2.347\n")
    with raises(InvalidArgument) as caught:
        read_table(path)
    assert (caught.value.name, caught.value.given) == ("line 4: gain", "2.347")
    assert read_table(path, decimal=",")["gain"] == [12.0, 2347.0]
    assert read_table(path, ["arm"]) == {"arm": ["a", "b"]}


def compute(book):
    book.active["B2"] = "=B3*1"


@pytest.mark.parametrize("stale", [True, False])
def test_formulas_that_nobody_has_computed_are_refused_with_their_cell(tmp_path, stale):
    def change(book):
        compute(book)
        book.calculation.fullCalcOnLoad = stale

    path = workbook(tmp_path, ["arm", "gain"], ["a", 0], ["b", 2], change=change)
    with raises(InvalidArgument, "row 2: gain") as caught:
        read_table(path)
    assert (caught.value.name, caught.value.given) == ("row 2: gain", "=B3*1")
    assert read_table(path, ["arm"]) == {"arm": ["a", "b"]}


@pytest.mark.parametrize(
    ("stored", "stale", "found"),
    [
        ("<f>B3*1</f><v>4</v>", b"", [4.0, 2.0]),
        ('" t="str"><f>IF(1,"","")</f><v></v>', b"", [None, 2.0]),
        ("<f>B3*1</f><v>0</v>", b' fullCalcOnLoad="1"', None),
    ],
)
def test_formulas_with_stored_values_count_unless_they_wait_for_a_computation(
    tmp_path, stored, stale, found
):
    """Some programs store 0 for every formula, and mark the workbook to be computed again."""

    def change(book):
        compute(book)
        book.calculation.fullCalcOnLoad = None

    path = workbook(tmp_path, ["arm", "gain"], ["a", 0], ["b", 2], change=change)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    cell = f'<c r="B2{stored}</c>' if stored.startswith('"') else f'<c r="B2">{stored}</c>'
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    parts["xl/worksheets/sheet1.xml"] = re.sub('<c r="B2".*?</c>', cell, sheet).encode()
    book = parts["xl/workbook.xml"]
    parts["xl/workbook.xml"] = book.replace(b"<calcPr", b"<calcPr" + stale)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    if found is None:
        with raises(InvalidArgument, "row 2: gain"):
            read_table(path)
    else:
        assert read_table(path)["gain"] == found


def test_errors_and_parts_of_merged_cells_are_no_missing_values(tmp_path):
    rows = [["arm", "gain", "note"], ["a", 1, "#N/A"], ["b", 2, ""], ["c", 3, ""]]
    path = workbook(tmp_path, *rows, change=lambda book: book.active.merge_cells("A2:A3"))
    sheet = read_sheet(path)
    assert sheet.numbers("gain") == [1.0, 2.0, 3.0]
    for name, place in (("arm", "row 3: arm"), ("note", "row 2: note")):
        with raises(InvalidArgument) as caught:
            sheet.labels(name)
        assert caught.value.name == place


def test_hidden_rows_are_read_and_other_sheets_not_with_a_warning(tmp_path):
    def hide(book):
        book.active.row_dimensions[2].hidden = True
        book.create_sheet("old").append([1])
        book.create_sheet("empty")

    path = workbook(tmp_path, ["arm"], ["a"], ["b"], change=hide)
    with warns(UserWarning) as caught:
        assert read_table(path) == {"arm": ["a", "b"]}
    said = sorted(str(one.message) for one in caught)
    assert "1 row hidden" in said[0]
    assert said[1].endswith("'Sheet', is read, and not 'old'")


def test_a_date_among_numbers_makes_labels_of_the_column_or_is_refused(tmp_path):
    path = workbook(tmp_path, ["gain"], [1], [dt.datetime(2026, 5, 1)])
    assert read_table(path) == {"gain": ["1", "2026-05-01"]}
    with raises(InvalidArgument, "row 3: gain"):
        read_sheet(path).numbers("gain")


def test_a_file_that_is_no_workbook_says_what_it_is(tmp_path):
    path = write(tmp_path, b"\xd0\xcf\x11\xe0" + b"0" * 40, "t.xlsx")
    with raises(InvalidArgument, "path"):
        read_table(path)


def test_a_column_in_another_case_is_suggested(tmp_path):
    with raises(InvalidArgument, "table"):
        read_sheet(write(tmp_path, "ARM,gain\na,1\n")).labels("arm")


# --------------------------------------------------------------------- columns, read once


@pytest.mark.parametrize("cells", [["1", "", "2,5"], ["1", "b", "2"], ["1", "2 C", "3", "4"]])
def test_each_cell_that_is_a_number_is_read_once(monkeypatch, cells):
    read, number = [], NumberFormat.number
    monkeypatch.setattr(
        NumberFormat, "number", lambda self, cell: read.append(cell) or number(self, cell)
    )
    open_table({"x": cells}).values("x")
    numbers = [cell for cell in cells if cell and cell[-1].isdigit()]
    assert [cell for cell in read if cell in numbers] == numbers


@pytest.mark.parametrize("mixed", [True, False])
def test_a_column_of_numbers_with_an_odd_cell_is_labels_or_refused(mixed):
    table = open_table({"x": ["90", "105 C", "120"]})
    if mixed:
        assert table.values("x") == ["90", "105 C", "120"]
    else:
        with raises(InvalidArgument) as caught:
            table.values("x", mixed=False)
        assert (caught.value.name, caught.value.given) == ("row 1: x", "105 C")


def test_words_besides_blanks_are_no_labels_of_a_column_of_numbers():
    table = open_table({"x": ["1", "Failed ", "2"], "y": ["a", "failed", "b"]})
    assert table.values("x", {"failed"}) == [1.0, None, 2.0]
    assert table.values("x") == ["1", "Failed", "2"]
    assert table.values("y", {"failed"}) == ["a", "failed", "b"]


def test_a_column_of_numbers_that_does_not_show_which_is_refused_but_labels_are_not(tmp_path):
    sheet = read_sheet(write(tmp_path, "x;y\n1,234;1,234\n2,345;b\n"))
    assert sheet.values("y") == ["1,234", "b"]
    with raises(InvalidArgument) as caught:
        sheet.values("x")
    assert caught.value.given == "1,234"
