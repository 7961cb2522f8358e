"""The how-to for web applications holds for several processes, and for the role that it grants."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairtrial.allocation import FairLearn, LocalAllocator, Problem
from fairtrial.study import SharedStatistics, Study

PAGE = Path(__file__).parent.parent / "docs/how-to/use-in-a-web-application.md"
TEXT = PAGE.read_text(encoding="utf-8")
MODULE = re.search(r"```python\n(import functools.*?)```", TEXT, re.DOTALL)[1]
[GRANTS] = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)

WORKER = """
import json, sys
sys.stdin.readline()                              # all processes begin at the same moment
seen = {str(n): variant(f"v{n}", "phone") for n in range(6)}
counted = [converted("v0", 1.0), converted("stranger", 1.0)]
print(json.dumps([seen, counted]))
"""


def test_processes_that_start_at_once_share_one_study_and_show_the_same(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MODULE + WORKER],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][1] == [True, False]
    with Study.open(f"sqlite:///{tmp_path}/shop.db", "checkout") as study:
        assert [event.kind for event in study.events()].count("ask") == 6
        assert study.progress().told == 1


@pytest.fixture
def module(monkeypatch):
    """Return a function that runs the page's module with a storage."""

    def loaded(storage):
        monkeypatch.setenv("EXPERIMENT_STORAGE", storage)
        names = {"__name__": "experiment"}
        exec(compile(MODULE, str(PAGE), "exec"), names)
        return names

    return loaded


def test_a_page_gets_the_usual_variant_if_the_storage_fails(module, tmp_path):
    names = module(f"sqlite:///{tmp_path}/nowhere/shop.db")
    assert names["variant"]("v1", "phone") == "short"


def test_after_the_end_new_visitors_see_the_answer_and_old_ones_what_they_saw(module):
    names = module("memory://")
    first = names["variant"]("v1", "phone")
    names["checkout_study"]().stop("enough")
    assert names["variant"]("v1", "phone") == first
    assert names["variant"]("v2", "phone") == "short"


def test_the_role_of_the_application_can_do_all_that_the_page_says(
    module, postgresql_server, postgresql_url
):
    name = postgresql_url.rpartition("/")[2]
    module(postgresql_url)["checkout_study"]().close()
    offers = Problem(["old", "new"], shares="1/4")
    Study.create(offers, FairLearn(offers), storage=postgresql_url, name="offers").close()
    with postgresql_server.administrator(name) as connection:
        for statement in filter(None, map(str.strip, GRANTS.split(";"))):
            connection.execute(statement)
    theirs = postgresql_server.url(name, "shop", "change me")
    names = module(theirs)
    shown = names["variant"]("v1", "phone")
    assert names["variant"]("v1", "desktop") == shown
    assert names["converted"]("v1", 1.0)
    assert names["checkout_study"]().verify().ok
    names["checkout_study"]().close()
    with (
        Study.open(theirs, "offers") as study,
        LocalAllocator(study.policy, SharedStatistics(study), interval=None) as local,
    ):
        local.tell(local.ask(), 1.0)
        assert local.exchange() == 0
        assert local.overall().processes == 1
