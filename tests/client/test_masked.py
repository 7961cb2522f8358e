"""A client of a masked study: kits for wards, and the unmasking list for admins."""

import pytest

from fairtrial.errors import AccessRefused, NotSupported
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
        assert not any(arm in lines[1].split(",") for arm in NAMES)
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
