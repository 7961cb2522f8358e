"""Masked studies: kits without a pattern, and the unmasking list that is kept apart."""

import json
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest

from fairtrial.errors import InvalidArgument, NothingToAsk, NotSupported
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["A", "B"], ["young", "old"], control="A", reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
NAMES = {"A": "placebo", "B": "20 mg of something with a long name"}


def made(memory, **rules):
    given = {"kits": "K####", "masked": True} | rules
    return Study.create(PROBLEM, POLICY, storage=memory, name="trial", **given)


@pytest.fixture
def memory():
    return MemoryStore()


@pytest.fixture
def study(memory):
    return made(memory)


@pytest.mark.parametrize("rules", [{"kits": None}, {"masked": 1}])
def test_a_study_is_masked_by_kits_only(memory, rules):
    with raises(InvalidArgument) as caught:
        made(memory, **rules)
    assert caught.value.name == "masked"


def test_numbers_of_kits_are_drawn_and_each_pull_gets_one_of_its_arm(store):
    study = made(store)
    kits = study.supply(40, actor="pharmacy").body["kits"]
    assert {arm: len(own) for arm, own in kits.items()} == {"A": 40, "B": 40}
    pulls = [*study.ask(7), *(study.ask() for _ in range(20))]
    assert all(pull.kits[0] in kits[pull.arm] for pull in pulls)
    assert len({pull.kits for pull in pulls}) == 27
    another = study.record_kit(pulls[0])
    assert another.body["kit"] in kits[pulls[0].arm]
    again = study.supply(40).body["kits"]
    assert not set(again["A"] + again["B"]) & set(kits["A"] + kits["B"])
    assert study.verify().ok


def test_a_kit_number_shows_nothing_about_its_arm(memory):
    kits = made(memory, kits="K#####").supply(2_000).body["kits"]
    # By chance, each digit of each place is as frequent in both arms: 50 tests, 5 standard
    # deviations of a binomial share.
    for place in range(1, 6):
        counts = [Counter(kit[place] for kit in kits[arm]) for arm in ("A", "B")]
        for digit in "0123456789":
            both = counts[0][digit] + counts[1][digit]
            assert abs(counts[0][digit] - both / 2) < 5 * (both / 4) ** 0.5
    every = sorted((kit, arm) for arm, own in kits.items() for kit in own)
    changes = sum(one[1] != two[1] for one, two in pairwise(every))
    assert abs(changes - 2_000) < 5 * 4_000**0.5 / 2


def test_half_of_the_numbers_of_a_form_stay_free(memory):
    study = made(memory, kits="K##")
    with raises(InvalidArgument) as caught:
        study.supply(26)
    assert caught.value.name == "number"
    study.supply(25)
    with raises(InvalidArgument):
        study.supply(1)


def test_without_kits_nothing_is_drawn(study):
    with raises(NothingToAsk):
        study.ask()
    assert study.n_events == 0
    study.supply(2)
    # Only as many as get a kit whatever their arms are.
    assert len(study.ask(9)) == 2
    for kind in ("A", "B"):
        assert sum(pull.arm == kind for pull in study.outstanding()) <= 2


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "9", 10_001])
def test_a_number_of_kits_is_a_whole_number(study, number):
    with raises(InvalidArgument) as caught:
        study.supply(number)
    assert caught.value.name == "number"


def test_only_masked_studies_have_kits_and_lists_of_their_own(memory):
    study = made(memory, masked=False)
    for attempt in (lambda: study.supply(5), lambda: study.seal_names(NAMES)):
        with raises(NotSupported):
            attempt()
    pull = study.ask()
    with raises(InvalidArgument):
        study.record_kit(pull)
    assert pull.kits == ()


def test_the_list_opens_pull_by_pull_and_each_access_is_recorded(study):
    sealed = json.loads(json.dumps(study.seal_names(NAMES, actor="pharmacist")))
    study.supply(10)
    pull = study.ask(worker="ward")
    found = study.unmask(sealed, "overdose", pull=pull, actor="on call")
    assert found == {pull.arm: NAMES[pull.arm]}
    study.tell(pull, 1)
    assert study.unmask(sealed, "database is locked", actor="statistician") == NAMES
    events = [event for event in study.events() if event.kind == "unmask"]
    assert [(event.actor, event.pull_id, event.body["reason"]) for event in events] == [
        ("on call", pull.id, "overdose"),
        ("statistician", None, "database is locked"),
    ]
    assert study.verify().ok


def test_neither_the_list_nor_the_log_shows_what_a_code_is(study, tmp_path):
    sealed = study.seal_names(NAMES)
    text = json.dumps(sealed)
    assert not any(name in text for name in NAMES.values())
    # A short name is as long as a long one.
    assert len({len(seal) for seal in sealed["names"].values()}) == 1
    assert sealed["names"]["A"] != study.session.unmasking_keys("A")["A"]
    study.unmask(sealed, "look", actor="me")
    log = study.export(tmp_path / "log.jsonl").read_text()
    keys = study.session.unmasking_keys().values()
    assert not any(one in log for one in (*NAMES.values(), *keys))


@pytest.mark.parametrize("change", ["other", "swapped", "cut", "empty", "none"])
def test_a_list_that_is_not_the_one_of_the_study_opens_nothing_but_is_recorded(study, change):
    sealed = study.seal_names(NAMES)
    seals = sealed["names"]
    changed = {
        "other": {**sealed, "study": "another"},
        "swapped": {**sealed, "names": {"A": seals["B"], "B": seals["A"]}},
        "cut": {**sealed, "names": {"A": seals["A"][:-2], "B": seals["B"]}},
        "empty": {},
        "none": {"names": float("nan")},
    }[change]
    with raises(InvalidArgument) as caught:
        study.unmask(changed, "look", actor="me")
    assert caught.value.name == "list"
    assert [event.kind for event in study.events()] == ["mask", "unmask"]


def test_nobody_unmasks_without_a_name_a_reason_and_a_list(study):
    for attempt, error in (
        (lambda: study.unmask({}, "look"), InvalidArgument),
        (lambda: study.unmask({}, " ", actor="me"), InvalidArgument),
        (lambda: study.unmask({}, "look", actor="me"), NotSupported),
    ):
        with raises(error):
            attempt()
    assert study.n_events == 0


@pytest.mark.parametrize(
    "names",
    [{}, {"A": "x"}, {"A": "x", "B": "x"}, {"A": "x", "B": " "}, {"A": "x", "B": 3},
     {"A": "x", "B": "y" * 101}, {"A": "x", "B": "\ud800"}, {"A": "x", "B": "y", "C": "z"}, None,
     "AB"],
)  # fmt: skip
def test_each_code_has_one_name_of_its_own(study, names):
    with raises(InvalidArgument) as caught:
        study.seal_names(names)
    assert caught.value.name == "names"
    assert study.n_events == 0


def test_a_study_has_one_list(study):
    study.seal_names(NAMES)
    with raises(InvalidArgument):
        study.seal_names(NAMES)


def test_a_long_name_of_any_letters_is_sealed(study):
    names = {"A": "\u00e9\U0001f48a" * 50, "B": '"\\' * 50}
    assert study.unmask(study.seal_names(names), "look", actor="me") == names


def test_a_study_that_is_opened_again_hands_out_the_kits_that_are_left(store):
    study = made(store)
    kits = study.supply(4, actor="pharmacy").body["kits"]
    first = [study.ask() for _ in range(3)]
    study.session.snapshot()
    first.append(study.ask())
    again = Study.open(store, "trial")
    with suppress(NothingToAsk):
        while len(first) < 9:
            first.append(again.ask())
    with raises(NothingToAsk):
        again.ask()
    assert len({kit for pull in first for kit in pull.kits}) == len(first)
    handed_out = Counter(pull.arm for pull in first)
    assert max(handed_out.values()) == 4
    assert all(pull.kits[0] in kits[pull.arm] for pull in first)
    again.supply(1)
    assert study.ask().kits
    assert study.verify().ok


def test_a_request_that_fails_hands_out_no_kit(memory, monkeypatch):
    study = made(memory)
    study.supply(1)
    store = study.session.store
    with monkeypatch.context() as broken:
        broken.setattr(store, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            study.ask()
    assert study.ask().kits


def test_the_kits_of_some_pulls_are_found_beside_those_of_others(memory):
    study = made(memory)
    study.supply(9)
    pulls = [study.ask() for _ in range(4)]
    second = study.record_kit(pulls[1]).body["kit"]
    found = {pull.id: pull.kits for pull in study.outstanding()}
    assert found == {pull.id: pull.kits for pull in pulls} | {pulls[1].id: (*pulls[1].kits, second)}


def test_readers_see_how_many_kits_of_each_arm_are_left_and_wards_do_not(memory):
    study = made(memory)
    assert study.kits_left() == {}
    assert "kits_left" not in study.health()
    study.supply(20, actor="pharmacy")
    pulls = study.ask(6)
    used = Counter(pull.arm for pull in pulls)
    left = {arm: 20 - used[arm] for arm in ("A", "B")}
    assert study.kits_left() == study.health()["kits_left"] == left
    assert "kits_left" not in study.health(blinded=True)
    # Another handle counts from the log.
    with Study.open(memory, "trial") as again:
        assert again.kits_left() == left


def test_few_kits_are_a_warning_that_names_the_arm_to_readers_only(memory):
    study = made(memory)
    study.supply(14)
    for _ in range(8):
        study.tell(study.ask(), 0.5)
    assert min(study.kits_left().values()) >= 5
    assert not any("few kits" in one for one in study.health()["warnings"])
    while min(study.kits_left().values()) >= 5:
        study.tell(study.ask(), 0.5)
    [arm] = [arm for arm, number in study.kits_left().items() if number < 5]
    said = f"few kits of {arm} are left: 4, after 10 kits of it were handed out"
    assert [one for one in study.health()["warnings"] if one.startswith(said)]
    assert not any("kits" in one for one in study.health(blinded=True)["warnings"])
    # A participant who is still treated may need another kit; nobody else does after the end.
    last = study.ask()
    study.stop("enough")
    assert any("few kits" in one for one in study.health()["warnings"])
    study.tell(last, 0.5)
    assert not any("few kits" in one for one in study.health()["warnings"])


def test_after_much_use_a_fifth_of_it_is_few(memory):
    study = made(memory)
    study.supply(60)
    while min(study.kits_left().values()) >= 12:
        study.tell(study.ask(), 0.5)
    assert not any("few kits" in one for one in study.health()["warnings"])
    while min(study.kits_left().values()) >= 9:
        study.tell(study.ask(), 0.5)
    assert any("few kits" in one for one in study.health()["warnings"])
