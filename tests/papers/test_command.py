import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from papers import __main__ as command
from papers.report import Section, Table


def sections(cache):
    rows = ({"seed": cache.seed, "quick": cache.quick, "agrees": True},)
    yield Section("small", "A small section", "Text.", (Table(rows),))


@pytest.fixture
def invoke(monkeypatch):
    for name, paper in command.PAPERS.items():
        monkeypatch.setitem(command.PAPERS, name, replace(paper, sections=sections))
    return lambda *words: CliRunner().invoke(command.main, words)


@pytest.mark.parametrize("name", ["baics", "linear", "delayed", "causal", "fair-mab"])
def test_every_paper_prints_its_sections_and_gives_them_as_json(invoke, name):
    printed = invoke(name, "--quick", "--seed", "3")
    assert printed.exit_code == 0
    assert "## A small section" in printed.stdout
    assert "1 of 1 comparisons agree" in printed.stdout
    document = json.loads(invoke(name, "--json").stdout)
    assert document["sections"][0]["tables"][0]["rows"] == [
        {"seed": 1, "quick": False, "agrees": True}
    ]


def test_bad_words_are_refused_in_one_line(invoke, tmp_path):
    assert "'soare' is not one of" in invoke("soare").stderr
    (tmp_path / "file").write_text("")
    refused = invoke("linear", "--email-data", str(tmp_path / "file"))
    assert (refused.exit_code, "for baics only" in refused.stderr) == (2, True)
    refused = invoke("baics", "--email-data", str(tmp_path / "missing.csv"))
    assert (refused.exit_code, "missing.csv" in refused.stderr) == (1, True)
    below_a_file = invoke("linear", "--output", str(tmp_path / "file" / "folder"))
    assert (below_a_file.exit_code, "output" in below_a_file.stderr) == (1, True)
