"""A client of a masked study: kits for wards, and the unmasking list for admins."""

import pytest

from fairtrial.errors import AccessRefused, InvalidTable, NotSupported
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.writes import Mask
from fairtrial.subpopulations import BlockBetting, Problem
from tests.client.served import served
from tests.messages import raises

PROBLEM = Problem(["A", "B"], ["x"], reward_range=(0, 1))
NAMES = {"A": "placebo", "B": "20 mg"}


@pytest.fixture(scope="module")
def trial():
    store = MemoryStore()
    given = {"storage": store, "name": "m", "kits": "K####", "masked": True}
    study = Study.create(PROBLEM, BlockBetting(PROBLEM), **given)
    with served(store) as service:
        yield service, study


def test_a_ward_works_with_kits_and_an_admin_unmasks(trial, tmp_path):
    service, study = trial
    with service.connect("ward", "run") as ward, service.connect("boss", "admin") as boss:
        mine, theirs = ward.study("m"), boss.study("m")
        kits = theirs.supply(5).body["kits"]
        sealed = study.seal_names(NAMES)
        pull = mine.ask()
        assert (pull.action, dict(pull.labels)) == (-1, {"group": "x"})
        assert mine.outstanding()[0].kits == pull.kits
        [own] = theirs.outstanding()
        assert pull.kits[0] in kits[own.arm]
        assert mine.record_kit(pull).body["kit"] in kits[own.arm]
        table = mine.write_pulls([pull], tmp_path / "pulls.csv")
        lines = table.read_text().splitlines()
        assert lines[0].split(",") == ["kits", "pull_id", "number", "group", "value"]
        assert lines[1].startswith(f"{pull.kits[0]},{pull.id}")
        table.write_text("\n".join([lines[0], lines[1] + "0.5"]))
        assert mine.tell_table(table)[0].value == 0.5
        with raises(AccessRefused):
            mine.unmask(sealed, "curious")
        assert theirs.unmask(sealed, "overdose", pull=own) == {own.arm: NAMES[own.arm]}
        assert theirs.unmask(sealed, "the end") == NAMES
    accesses = [event for event in study.events() if event.kind == "unmask"]
    assert [event.actor for event in accesses] == ["boss", "boss"]


def test_the_list_is_made_where_the_storage_is(trial):
    service, _ = trial
    with service.connect("admin", "admin") as connection, raises(NotSupported):
        connection.study("m").write(Mask("0" * 64))


def test_a_masked_ward_fills_in_a_table_by_participant(tmp_path):
    store = MemoryStore()
    rules = {"participants": "W#-###", "kits": "K####", "masked": True}
    study = Study.create(PROBLEM, BlockBetting(PROBLEM), storage=store, name="m", **rules)
    study.supply(5)
    path = tmp_path / "files.csv"
    with (
        served(store) as service,
        service.connect("one", "run") as one,
        service.connect("two", "run") as two,
    ):
        mine, theirs = one.study("m"), two.study("m")
        pulls = [mine.ask(participant=f"W1-00{number}") for number in (1, 2)]
        theirs.ask(participant="W2-001")
        header, *rows = mine.write_pulls(pulls, path).read_text().splitlines()
        assert header == "participant,kits,pull_id,number,group,value"
        assert rows[1].startswith(f"W1-002,{pulls[1].kits[0]},{pulls[1].id}")
        path.write_text("participant,value\nW1-002,1\nW2-001,0.5\nW1-008,1\nW1-002,0\n")
        with raises(InvalidTable) as caught:
            mine.tell_table(path)
        lines = [mistake.partition(": ")[0] for mistake in caught.value.mistakes]
        assert lines == ["line 3", "line 4", "line 5"]
        assert study.progress().told == 0
        path.write_text("participant,value\nW1-002,1\nW1-001,0.5\n")
        events = mine.tell_table(path)
        assert [event.pull_id for event in events] == [pulls[1].id, pulls[0].id]
        # Its pulls are not open any more, and are found all the same.
        assert mine.tell_table(path) == events
