"""An arm or a group that people have closed is marked wherever its row is."""

import re

import pytest

from fairtrial.cli.status_tables import print_standing
from fairtrial.client.documents import progress_of
from fairtrial.report.arms import arms
from fairtrial.report.findings import Findings
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem

PROBLEM = Problem(["a", "b", "c"], ["young", "old"], control="a", reward_range=(0, 1))


@pytest.fixture
def study():
    given = {"storage": MemoryStore(), "name": "trial", "seed": 7, "secret": "s"}
    with Study.create(PROBLEM, BlockBetting(PROBLEM), **given) as made:
        for pull in made.ask(24):
            made.tell(pull, 0.5)
        yield made


def rows_with(text, label):
    return [row for row in text.splitlines() if re.search(rf"(?<![\w(]){label}\b", row)]


def test_every_table_of_the_command_marks_what_is_closed(study, capsys):
    print_standing(study.progress(), minimize=False)
    before = capsys.readouterr().out
    assert "closed" not in before
    study.close_arm("c", "harm")
    study.close_group("old", "no more patients")
    print_standing(study.progress(), minimize=False)
    after = capsys.readouterr().out
    # The first cell of a row is the arm: in the tables of arms and of cells.
    rows = [row for row in after.splitlines() if re.match(r"\W*c\b", row)]
    assert len(rows) == 3
    assert all("c (closed)" in row for row in rows)
    assert all("old (closed)" in row for row in rows_with(after, "old") if "│" in row)
    assert not re.search(r"[ab] \(closed\)|young \(closed\)", after)


def test_the_report_marks_what_is_closed(study):
    study.close_arm("c", "harm")
    study.close_group("old", "no more patients")
    text = str(arms(Findings.of(study, None)))
    cells = re.findall(r"<(?:td|th)[^>]*><bdi[^>]*>([^<]*)</bdi>", text)
    assert "c (closed)" in cells
    assert "old (closed)" in cells
    assert "c" not in cells
    assert "old" not in cells
    assert {"a", "b"} <= set(cells)


def test_a_client_knows_what_is_closed(study):
    assert "closed" not in study.progress().to_dict()
    assert progress_of(study.progress().to_dict()).closed == {}
    study.close_arm("c", "harm")
    assert progress_of(study.progress().to_dict()).closed == {"arm": ("c",)}
