import csv
import datetime as dt
import gzip
import io
import os
import sys
import zipfile

import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.sheets import read_sheet
from fairtrial.core.tables import column_of, read_table, write_table
from fairtrial.errors import InvalidArgument, MissingExtra


def write(folder, content, name="trial.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_wholly_numeric_column_becomes_floats_and_another_stays_text(tmp_path):
    path = write(tmp_path, "arm,dose,gain\na,1,0.5\nb,,-1e-3\n")
    assert read_table(path) == {"arm": ["a", "b"], "dose": ["1", ""], "gain": [0.5, -0.001]}


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
        "dose": ["3", ""],
        "note": ["1,5 mg", "2,0 mg"],
    }


def test_numbers_with_a_comma_between_thousands_and_a_point_are_no_numbers(tmp_path):
    path = write(tmp_path, "arm;gain\na;1,000.5\nb;2\n")
    assert read_table(path)["gain"] == ["1,000.5", "2"]


def test_a_label_with_a_comma_keeps_it_between_semicolons(tmp_path):
    path = write(tmp_path, "arm;gain\n0,5;1\n0,25;2\n")
    assert read_table(path, text=["arm"])["arm"] == ["0,5", "0,25"]


def test_a_column_with_missing_numbers_has_points_for_its_commas(tmp_path):
    path = write(tmp_path, "arm;gain;dose\na;0,5;1,5\nb;;NA\nc;x;2,5\n")
    table = read_table(path)
    assert (table["gain"], table["dose"]) == (["0,5", "", "x"], ["1.5", "NA", "2.5"])


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_between_tabs_commas_are_decimal_unless_all_could_be_thousands(tmp_path, name):
    content = "arm\tgain\tcost\tdose\na\t0,125\t1,000\t1.5\nb\t1,250\t12,500\t2,5\n"
    table = read_table(write(tmp_path, content, name))
    assert table["gain"] == [0.125, 1.25]
    assert table["cost"] == ["1,000", "12,500"]
    assert table["dose"] == [1.5, 2.5]


def test_what_gives_the_header_the_most_columns_separates(tmp_path):
    path = write(tmp_path, "arm;dose, in mg;gain\na;1,5;2\n")
    assert read_table(path) == {"arm": ["a"], "dose, in mg": [1.5], "gain": [2.0]}


# ---------------------------------------------------------------------------- workbooks


def workbook(folder, *rows, name="t.xlsx"):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes").append(["not read"])
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


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "it is empty"),
        ([["a", "b"]], "at least one row"),
        ([["a", "a"], [1, 2]], "distinct column names"),
        ([["a"], [1], [1, 2]], "1 value in every row; row 3 has 2"),
    ],
)
def test_a_workbook_that_is_no_table_is_refused_with_the_reason(tmp_path, rows, message):
    with pytest.raises(InvalidArgument, match=message):
        read_table(workbook(tmp_path, *rows))


def test_a_workbook_that_is_another_archive_or_unpacks_to_a_huge_one_is_refused(tmp_path):
    other, bomb = tmp_path / "other.xlsx", tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "no workbook")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * 33_000_000)
    with pytest.raises(InvalidArgument, match="Excel workbook"):
        read_table(other)
    with pytest.raises(InvalidArgument, match="must unpack to 32,000,000 bytes or fewer"):
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
    with pytest.raises(MissingExtra, match=r"fairtrial\[excel\]"):
        read_table(path)
    with pytest.raises(MissingExtra, match=r"fairtrial\[excel\]"):
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


def test_parquet_without_pandas_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path, b"PAR1", "t.parquet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"fairtrial\[data\]"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "must be a table with a header; it is empty"),
        ("t.csv", "a,b\n", "at least one row"),
        ("t.csv", "a,a\n1,2\n", "distinct column names; 'a' repeat"),
        ("t.csv", "a,b\n1,2\n\n3\n", "2 values in every row; line 4 has 1"),
        ("t.csv", "a,b\n1,2,3\n", "2 values in every row; line 2 has 3"),
        ("t.csv", 'a,b\n1,"2"3\n', r"well-formed table \(line 2"),
        ("t.csv", b"a,b\n\xff\xfe,1\n", "UTF-8 text"),
        ("t.csv.gz", b"not compressed", "readable file"),
        ("t.csv.gz", gzip.compress(b"a\n" + b"1\n" * 500, mtime=0)[:-12], "intact file"),
        ("t.parquet", b"rubbish", "Parquet file"),
        ("t.xlsx", b"rubbish", r"Excel workbook \(File is not a zip file\)"),
        ("t.xlsx", b"", "Excel workbook"),
        ("t.xls", b"", r"end in \.csv"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_reason(tmp_path, name, content, message):
    with pytest.raises(InvalidArgument, match=message) as caught:
        read_table(write(tmp_path, content, name))
    assert caught.value.name == "path"
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet", "folder.csv"])
def test_an_unreadable_file_is_refused_with_the_systems_reason(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidArgument, match=r"readable file \((No such file|Is a directory)"):
        read_table(tmp_path / name)


def test_missing_columns_are_listed_together_with_those_that_exist(tmp_path):
    path = write(tmp_path, "arm,gain\na,1\n")
    with pytest.raises(InvalidArgument, match="'arm', 'gain'; missing: 'group', 'reward'"):
        read_table(path, ["arm", "group", "reward"])


words = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters="\x00\ufeff"), min_size=1, max_size=8
)


@given(rows=st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_any_text_survives_writing_and_reading(tmp_path_factory, rows):
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("left", "right"), *rows])
    path = write(tmp_path_factory.mktemp("tables"), stream.getvalue())
    table = read_table(path, text=["left", "right"])
    assert list(zip(table["left"], table["right"], strict=True)) == rows


@given(numbers=st.lists(st.floats(allow_nan=False), min_size=1, max_size=8))
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
    with pytest.raises(InvalidArgument, match="must have the column 'reward'; it has"):
        column_of(table, "reward")


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"a\n")
        for _ in range(40):
            stream.write(b"0\n" * 500_000)
    with pytest.raises(InvalidArgument, match="must unpack to 32,000,000 bytes or fewer"):
        read_table(path)


def test_a_pipe_is_not_read(tmp_path):
    path = tmp_path / "table.csv"
    os.mkfifo(path)
    with pytest.raises(InvalidArgument, match="must be a regular file, not a pipe or device"):
        read_table(path)
