import gzip
import os
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairtrial.causal import BIFError, CausalModel, ModelError
from fairtrial.causal._bif import parse_bif
from fairtrial.causal._factors import Factor, sum_product
from fairtrial.data import hepar2
from fairtrial.errors import InvalidArgument

GOOD = """// a comment
network "example" { property author = "nobody (at all)" ; }
variable S { type discrete [ 2 ] { s, t }; property position = (1, 2) ; }
variable V { type discrete [ 3 ] { no, yes, maybe }; }
variable W { type discrete [ 2 ] { lo-1, 1e3 }; }
/* another
comment */
probability ( S ) { table 0.4, 0.6; }
probability ( V | S ) {
  (t) 0.1, 0.2, 0.7;
  (s) 0.5, 0.3, 0.2;
}
probability ( W | S, V ) { default 0.5, 0.5; (s, yes) 0.25, 0.75; }
"""


def test_rows_are_found_by_the_names_of_their_states():
    network = parse_bif(GOOD)
    assert network.edges == [("S", "V"), ("S", "W"), ("V", "W")]
    assert network.states["W"] == ["lo-1", "1e3"]
    assert network.tables["V"].tolist() == [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
    assert network.tables["W"][0, 1].tolist() == [0.25, 0.75]
    assert network.tables["W"][1, 2].tolist() == [0.5, 0.5]


def test_a_whole_table_has_the_nodes_own_states_slowest():
    text = GOOD.replace("(t) 0.1, 0.2, 0.7;", "").replace(
        "(s) 0.5, 0.3, 0.2;", "table 0.5, 0.1, 0.3, 0.2, 0.2, 0.7;"
    )
    assert parse_bif(text).tables["V"].tolist() == [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]


def test_rows_are_scaled_when_they_nearly_add_to_one():
    table = parse_bif(GOOD.replace("0.1, 0.2, 0.7", "0.10005, 0.2, 0.7")).tables["V"]
    assert table.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("0.1, 0.2, 0.7;", "0.1, 0.2, 0.8;", 10, "must add to 1"),
        ("0.1, 0.2, 0.7;", "0.5, -0.2, 0.7;", 10, "must not be negative"),
        ("0.1, 0.2, 0.7;", "0.1, 0.9;", 10, "3 numbers are needed and 2 given"),
        ("0.1, 0.2, 0.7;", "0.1, nan, 0.9;", 10, "expected a number, found 'nan'"),
        ("0.1, 0.2, 0.7;", "1e999, 0, 0;", 10, "must add to 1"),
        ("(t) 0.1", "(s) 0.1", 11, r"row \('s',\) of 'V' is given twice"),
        ("(t) 0.1", "(u) 0.1", 10, "'S' has no state 'u'"),
        ("(t) 0.1", "(t, t) 0.1", 10, "1 states of parents are needed and 2 given"),
        ("  (t) 0.1, 0.2, 0.7;\n", "", 11, "2 rows of 'V' are needed and 1 given"),
        ("[ 3 ]", "[ 2 ]", 4, "2 states are declared and 3 given"),
        ("[ 3 ]", "[ x ]", 4, "is 'x', not a whole number"),
        ("yes, maybe", "no, maybe", 4, "states are not distinct"),
        ("type discrete [ 3 ]", "type continuous [ 3 ]", 4, "only discrete variables"),
        ("variable V", "variable S", 4, "'S' is declared twice"),
        ("( V | S )", "( V | Q )", 9, "'Q' is not declared"),
        ("( V | S )", "( V | V )", 9, "not distinct other variables"),
        ("( V | S )", "( S | V )", 9, "'S' has two probability blocks"),
        ("probability ( S )", "likelihood ( S )", 8, "expected 'network', 'variable'"),
        ("table 0.4, 0.6;", "table 0.4, 0.6", 8, "expected a number, found '}'"),
        ("(t) 0.1", "row 0.1", 10, "expected '\\(', 'table', 'default' or '}'"),
        ("/* another", "/ * another", 6, "expected 'network'"),
        ("comment */", "comment", 6, "cannot read"),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, line, message):
    assert old in GOOD
    with pytest.raises(BIFError, match=message) as caught:
        parse_bif(GOOD.replace(old, new, 1), "net.bif")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"net.bif is not a well-formed BIF file: line {line}: ")


def test_a_variable_without_a_distribution_and_an_empty_file_are_refused():
    with pytest.raises(BIFError, match="'V' has no probability block"):
        parse_bif("variable V { type discrete [ 1 ] { a }; }")
    with pytest.raises(BIFError, match="line 1: the file is empty"):
        parse_bif("")


def test_a_cycle_is_refused():
    block = "variable {0} {{ type discrete [ 1 ] {{ a }}; }}"
    text = block.format("A") + block.format("B")
    text += "probability ( A | B ) { (a) 1; } probability ( B | A ) { (a) 1; }"
    network = parse_bif(text)
    with pytest.raises(InvalidArgument, match="no directed cycle"):
        CausalModel(network.edges, network.states, network.tables)


def test_a_default_for_an_impossibly_large_table_is_refused_before_it_is_made():
    names = [f"P{i}" for i in range(40)]
    text = "".join(f"variable {n} {{ type discrete [ 4 ] {{ a, b, c, d }}; }}\n" for n in names)
    text += f"probability ( P0 | {', '.join(names[1:])} ) {{ default 0.25, 0.25, 0.25, 0.25; }}"
    with pytest.raises(BIFError, match="line 41: the table of 'P0' is too large"):
        parse_bif(text)


def test_a_few_lines_cannot_make_a_table_of_millions(tmp_path):
    names = [f"P{i}" for i in range(20)]
    block = "variable {0} {{ type discrete [ 2 ] {{ a, b }}; }}\n"
    text = "".join(block.format(name) for name in [*names, "Y"])
    text += f"probability ( Y | {', '.join(names)} ) {{ default 0.5, 0.5; }}"
    with pytest.raises(BIFError, match="all tables may have 1,000,000 numbers"):
        parse_bif(text)


def test_many_tables_count_together():
    names = [f"P{i}" for i in range(17)]
    block = "variable {0} {{ type discrete [ 2 ] {{ a, b }}; }}\n"
    text = "".join(block.format(name) for name in [*names, *(f"Y{k}" for k in range(5))])
    text += "".join(
        f"probability ( Y{k} | {', '.join(names)} ) {{ default 0.5, 0.5; }}" for k in range(5)
    )
    with pytest.raises(BIFError, match="the table of 'Y3' is too large"):
        parse_bif(text)


def test_a_network_that_hangs_together_too_much_is_not_summed_up():
    """All pairs of 30 nodes are connected, so their joint table has 2 to the 30 entries."""
    causes = [f"A{k}" for k in range(30)]
    pairs = list(combinations(causes, 2))
    factors = [Factor(pair, np.full((2, 2), 0.5)) for pair in pairs]
    with pytest.raises(ModelError, match="too many nodes are connected"):
        sum_product(factors, ("A0",))
    with pytest.raises(ModelError, match="cells to be listed"):
        sum_product(factors, causes)


WORDS = "network variable probability type discrete table default property S V s t 0.5 1 -1 2"
PIECES = st.sampled_from([*WORDS.split(), *"{}()[];,|", "//", "/*", "*/", '"', "\n"])


@given(st.lists(PIECES, max_size=40).map(" ".join) | st.text(max_size=60))
@example("network {")
@example("probability")
@example("/*")
def test_any_text_is_read_or_refused_with_a_line(text):
    check(text)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 12), st.text(max_size=4) | PIECES)
def test_any_damage_to_a_good_file_is_read_or_refused_with_a_line(start, length, new):
    check(GOOD[:start] + new + GOOD[start + length :])


@given(st.integers(0, 60), st.integers(0, 60))
def test_lost_and_repeated_lines_are_read_or_refused_with_a_line(first, second):
    lines = GOOD.splitlines()
    lines.insert(second % len(lines), lines[first % len(lines)])
    check("\n".join(lines))
    del lines[(first * 7) % len(lines)]
    check("\n".join(lines))


def check(text):
    line, tables = 1, {}
    try:
        tables = parse_bif(text).tables
    except BIFError as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1
    for table in tables.values():
        assert np.isfinite(table).all()
        assert table.sum(axis=-1) == pytest.approx(1.0)


# ------------------------------------------------------------------------------ files


def test_damaged_and_missing_files_are_refused(tmp_path):
    whole = hepar2().read_bytes()
    short, other = tmp_path / "short.bif.gz", tmp_path / "other.bif"
    short.write_bytes(whole[:5000])
    other.write_bytes(b"\xff\xfe\x00")
    for path, message in (
        (short, "must be an intact file"),
        (other, "must be UTF-8 text"),
        (tmp_path / "none.bif", "must be a readable file"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            CausalModel.from_bif(path)


def test_a_plain_and_a_compressed_file_are_the_same(tmp_path):
    plain, packed = tmp_path / "net.bif", tmp_path / "net.bif.gz"
    plain.write_text(GOOD)
    packed.write_bytes(gzip.compress(GOOD.encode()))
    first, second = CausalModel.from_bif(plain), CausalModel.from_bif(packed)
    assert first.edges == second.edges
    assert (first.tables["W"] == second.tables["W"]).all()


def test_a_file_that_is_not_compressed_but_says_so_is_refused(tmp_path):
    path = tmp_path / "net.bif.gz"
    path.write_text(GOOD)
    with pytest.raises(InvalidArgument, match="must be"):
        CausalModel.from_bif(path)


def test_what_is_no_file_is_not_read(tmp_path):
    pipe = tmp_path / "pipe.bif"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):
        with pytest.raises(InvalidArgument, match="must be a regular file, not a pipe or device"):
            CausalModel.from_bif(path)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path):
    path = tmp_path / "net.bif.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(40):
            stream.write(bytes(1_000_000))
    assert path.stat().st_size < 500_000
    with pytest.raises(InvalidArgument, match="must unpack to 32,000,000 bytes or fewer"):
        CausalModel.from_bif(path)


def test_the_files_of_older_tools_are_read():
    """Names in quotes, lists without commas, tables before variables: as JavaBayes writes."""
    network = parse_bif(
        """network "Dog-Problem" { //2 variables
        property "credal-set constant-density-bounded 1.1" ;
        }
        probability ( "light-on" "family-out" ) { //2 variable(s) and 4 values
            table 0.6 0.05 0.4 0.95 ;
        }
        variable  "light-on" { //2 values
            type discrete[2] {  "true"  "false" };
            property "position = (73, 165)" ;
        }
        variable  "family-out" { type discrete[2] { out "not out" }; }
        probability (  "family-out" ) { table 0.15 0.85 ; }
        """
    )
    assert network.edges == [("family-out", "light-on")]
    assert network.states["family-out"] == ["out", "not out"]
    assert network.tables["light-on"].tolist() == [[0.6, 0.4], [0.05, 0.95]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("variable S {\ntype discrete [ 2 ] { not at all, yes }; }", 2),
        ("variable S {\ntype discrete [ 2 ] { yes, not at all }; }", 2),
        ("variable S {\ntype discrete [ 2 ] { not at all yes }; }", 2),
    ],
)
def test_a_state_with_spaces_and_without_quotation_marks_is_refused_with_a_hint(text, line):
    with pytest.raises(BIFError, match="needs quotation marks") as caught:
        parse_bif(text)
    assert caught.value.line == line
