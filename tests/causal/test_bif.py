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
from tests.messages import raises

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
    ("old", "new", "line"),
    [
        ("0.1, 0.2, 0.7;", "0.1, 0.2, 0.8;", 10),
        ("0.1, 0.2, 0.7;", "0.5, -0.2, 0.7;", 10),
        ("0.1, 0.2, 0.7;", "0.1, 0.9;", 10),
        ("0.1, 0.2, 0.7;", "0.1, nan, 0.9;", 10),
        ("0.1, 0.2, 0.7;", "1e999, 0, 0;", 10),
        ("(t) 0.1", "(s) 0.1", 11),
        ("(t) 0.1", "(u) 0.1", 10),
        ("(t) 0.1", "(t, t) 0.1", 10),
        ("  (t) 0.1, 0.2, 0.7;\n", "", 11),
        ("[ 3 ]", "[ 2 ]", 4),
        ("[ 3 ]", "[ x ]", 4),
        ("yes, maybe", "no, maybe", 4),
        ("type discrete [ 3 ]", "type continuous [ 3 ]", 4),
        ("variable V", "variable S", 4),
        ("( V | S )", "( V | Q )", 9),
        ("( V | S )", "( V | V )", 9),
        ("( V | S )", "( S | V )", 9),
        ("probability ( S )", "likelihood ( S )", 8),
        ("table 0.4, 0.6;", "table 0.4, 0.6", 8),
        ("(t) 0.1", "row 0.1", 10),
        ("/* another", "/ * another", 6),
        ("comment */", "comment", 6),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, line):
    assert old in GOOD
    with raises(BIFError, "net.bif", line=line):
        parse_bif(GOOD.replace(old, new, 1), "net.bif")


def test_a_variable_without_a_distribution_and_an_empty_file_are_refused():
    with raises(BIFError, "text", line=1):
        parse_bif("variable V { type discrete [ 1 ] { a }; }")
    with raises(BIFError, "text", line=1):
        parse_bif("")


def test_a_cycle_is_refused():
    block = "variable {0} {{ type discrete [ 1 ] {{ a }}; }}"
    text = block.format("A") + block.format("B")
    text += "probability ( A | B ) { (a) 1; } probability ( B | A ) { (a) 1; }"
    network = parse_bif(text)
    with raises(InvalidArgument, "edges"):
        CausalModel(network.edges, network.states, network.tables)


def test_a_default_for_an_impossibly_large_table_is_refused_before_it_is_made():
    names = [f"P{i}" for i in range(40)]
    text = "".join(f"variable {n} {{ type discrete [ 4 ] {{ a, b, c, d }}; }}\n" for n in names)
    text += f"probability ( P0 | {', '.join(names[1:])} ) {{ default 0.25, 0.25, 0.25, 0.25; }}"
    with raises(BIFError, "text", line=41):
        parse_bif(text)


def test_a_few_lines_cannot_make_a_table_of_millions(tmp_path):
    names = [f"P{i}" for i in range(20)]
    block = "variable {0} {{ type discrete [ 2 ] {{ a, b }}; }}\n"
    text = "".join(block.format(name) for name in [*names, "Y"])
    text += f"probability ( Y | {', '.join(names)} ) {{ default 0.5, 0.5; }}"
    with raises(BIFError, "text", line=22):
        parse_bif(text)


def test_many_tables_count_together():
    names = [f"P{i}" for i in range(17)]
    block = "variable {0} {{ type discrete [ 2 ] {{ a, b }}; }}\n"
    text = "".join(block.format(name) for name in [*names, *(f"Y{k}" for k in range(5))])
    text += "".join(
        f"probability ( Y{k} | {', '.join(names)} ) {{ default 0.5, 0.5; }}" for k in range(5)
    )
    with raises(BIFError, "text", line=23):
        parse_bif(text)


def test_a_network_that_hangs_together_too_much_is_not_summed_up():
    """All pairs of 30 nodes are connected, so their joint table has 2 to the 30 entries."""
    causes = [f"A{k}" for k in range(30)]
    pairs = list(combinations(causes, 2))
    factors = [Factor(pair, np.full((2, 2), 0.5)) for pair in pairs]
    with raises(ModelError, "model"):
        sum_product(factors, ("A0",))
    with raises(ModelError, "model"):
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
    for path in (short, other, tmp_path / "none.bif"):
        with raises(InvalidArgument, "path"):
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
    with raises(InvalidArgument, "path"):
        CausalModel.from_bif(path)


def test_what_is_no_file_is_not_read(tmp_path):
    pipe = tmp_path / "pipe.bif"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):
        with raises(InvalidArgument, "path"):
            CausalModel.from_bif(path)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path):
    path = tmp_path / "net.bif.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(40):
            stream.write(bytes(1_000_000))
    assert path.stat().st_size < 500_000
    with raises(InvalidArgument, "path"):
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
    with raises(BIFError, "text", line=2) as caught:
        parse_bif(text)
    assert caught.value.line == line
