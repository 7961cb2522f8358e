"""Closing an arm or a group by hand: what is asked, answered and recorded afterwards."""

import numpy as np
import pytest

from fairtrial import linear
from fairtrial.errors import (
    CorruptLog,
    ExperimentFinished,
    InvalidArgument,
    NothingToAsk,
    NotSupported,
)
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.messages import raises

ARMS, GROUPS = ["a", "b", "c"], ["young", "old"]
PROBLEM = Problem(ARMS, GROUPS, reward_range=(0, 1), floors=None)
VALUES = {"a": 0.1, "b": 0.6, "c": 0.9}


def made(store, problem=PROBLEM, **options):
    policy = BlockBetting(problem, delta=0.05)
    return Study.create(problem, policy, storage=store, name="trial", seed=7, secret="s", **options)


def carry_on(study, pulls, **context):
    """Carry out pulls whose results do not vary; return the arms."""
    issued = []
    for _ in range(pulls):
        if study.stopped:
            break
        pull = study.ask(**context)
        study.tell(pull, VALUES[pull.arm])
        issued.append(pull.arm)
    return issued


@pytest.fixture
def study(store):
    return made(store)


def test_a_closed_arm_is_neither_asked_nor_named_and_the_best_open_one_is(study):
    carry_on(study, 20)
    study.close_arm("c", "two deaths", actor="safety board")
    assert "c" not in carry_on(study, 2_000)
    found = study.recommend()
    assert (found.arm, found.status) == ("b", "decided")
    assert "two deaths" in found.reason
    assert study.verify().ok


def test_an_answer_after_a_closing_promises_less_and_says_so(study):
    carry_on(study, 20)
    assert study.recommend().confidence == pytest.approx(0.95)
    study.close_arm("c", "harm")
    found = study.recommend()
    assert found.confidence == pytest.approx(0.9)
    assert found.candidates is not None
    assert "c" not in found.candidates
    assert "without c" in found.guarantee.statement
    assert "0.1" in found.guarantee.statement


def test_the_event_has_the_reason_and_the_actor_and_is_written_once(study):
    first = study.close_arm("c", "harm", actor="safety board")
    assert study.close_arm("c", "another reason") == first
    assert (first.kind, first.actor) == ("close", "safety board")
    assert dict(first.body)["reason"] == "harm"
    assert dict(first.body)["arm"] == "c"
    with Study.open(study._store, "trial") as again:
        assert "harm" in again.recommend().reason
        assert again.policy.closed_arms == ("c",)


def test_results_of_open_pulls_of_a_closed_arm_still_count(study):
    pulls = study.ask(12)
    study.close_arm("c", "harm")
    for pull in pulls:
        study.tell(pull, VALUES[pull.arm])
    assert study.policy.told == 12
    assert study.verify().ok


def test_a_correction_after_a_closing_keeps_the_arm_closed(study):
    [pull] = study.ask(1)
    study.tell(pull, 0.5)
    carry_on(study, 60)
    study.close_arm("c", "harm")
    study.amend(pull, VALUES[pull.arm], "typing error")
    assert "c" not in carry_on(study, 2_000)
    assert study.recommend().arm == "b"
    assert study.verify().ok


def test_a_closing_survives_snapshots_and_an_export(study, tmp_path):
    carry_on(study, 30)
    study.close_arm("c", "harm")
    study.close_group("old", "contraindicated")
    carry_on(study, 5, group="young")
    study.close()  # saves a snapshot
    with Study.open(study._store, "trial") as again:
        path = again.export(tmp_path / "log.jsonl")
        head = again.head_hash
        with raises(InvalidArgument):
            again.ask(group="old")
    moved = Study.import_log(path, storage=MemoryStore())
    assert moved.head_hash == head
    assert "contraindicated" in moved.recommend().reason


def test_a_closed_group_is_refused_and_every_request_names_another(study):
    carry_on(study, 10)
    study.close_group("old", "contraindicated", actor="safety board")
    before = study.head_hash
    for context in ({"group": "old"}, {}):
        with raises(InvalidArgument) as caught:
            study.ask(**context)
        assert caught.value.name == "group"
        # Whoever recruits sees this, and the reason could reveal results.
        assert "contraindicated" not in str(caught.value)
    assert study.head_hash == before
    assert study.ask(group="young").group == "young"
    assert study.recommend().confidence == pytest.approx(0.95)
    assert study.verify().ok


def test_arrivals_after_a_closing_are_not_held_against_the_stated_proportions(study):
    def arrive(groups):
        for group in groups:
            study.tell(study.ask(group=group), 0.5)

    arrive(["young", "old"] * 5)
    study.close_group("old", "contraindicated")
    arrive(["young"] * 100)
    assert not [said for said in study.health()["warnings"] if "proportions" in said]


def test_while_a_study_goes_on_health_says_what_a_closed_group_does_to_its_evidence(store):
    study = made(store)
    carry_on(study, 20)
    assert not any("is closed" in said for said in study.health()["warnings"])
    study.close_group("old", "contraindicated")
    (said,) = [
        said for said in study.health()["warnings"] if said.startswith("group old is closed")
    ]
    assert "may never decide" in said
    assert said not in study.health(blinded=True)["warnings"]
    study.stop("begin a new one")
    assert not any("may never decide" in said for said in study.health()["warnings"])


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.05}, {"floors": 0.2}])
@pytest.mark.parametrize("before", [0, 3, 40])
def test_an_arm_can_be_closed_at_any_time_of_any_question(options, before):
    study = made(MemoryStore(), PROBLEM.clone(**options))
    carry_on(study, before)
    study.close_arm("c", "harm")
    assert "c" not in carry_on(study, 3_000)
    assert study.recommend().arm == "b"


def test_an_arm_of_a_question_with_measures_is_closed():
    problem = Problem(
        ARMS, 1, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured",
        ceilings={"harmed": 0.5},
    )  # fmt: skip
    study = made(MemoryStore(), problem)
    study.close_arm("c", "harm")
    for _ in range(2_000):
        if study.stopped:
            break
        pull = study.ask(group="0")
        assert pull.arm != "c"
        study.tell(pull, {"cured": VALUES[pull.arm], "harmed": 0.0})
    assert study.recommend().arm == "b"
    assert study.verify().ok


# ------------------------------------------------------- a closed group and a planned end

MEASURES = Problem(
    ["a", "b"], GROUPS, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured",
    ceilings={"harmed": 0.6},
)  # fmt: skip
ENDING = {
    "one measure": Problem(["a", "b"], GROUPS, reward_range=(0, 1), floors=None),
    "measures": MEASURES,
    "three groups": Problem(["a", "b"], [*GROUPS, "middle"], reward_range=(0, 1), floors=0.1),
}


def arrive_until_the_end(study, closing, seed, gives_up=0.1):
    """Let people arrive, and close the group "old" after some of them; return their number."""
    random = np.random.default_rng(seed)
    for number in range(500):
        if study.stopped:
            return number
        if number == closing:
            study.close_group("old", "contraindicated")
            if study.stopped:
                return number
        groups = [name for name in study.problem.groups if name != "old" or number < closing]
        for group in random.permutation(groups).tolist():
            try:
                pull = study.ask(group=group)
                break
            except NothingToAsk:
                continue
        else:
            raise AssertionError("nobody who comes gets a pull, but the study goes on")
        if random.random() < gives_up:
            study.fail(pull, "left")
            continue
        value = float(random.random() < 0.5)
        harm = float(random.random() < 0.3)
        study.tell(pull, {"cured": value, "harmed": harm} if study.problem.measures else value)
    raise AssertionError("the study does not end")


@pytest.mark.parametrize(
    ("name", "losses", "closing"),
    effort.covering(ENDING, ["informative", "ignorable"], [0, 50, 78]),
)
def test_a_planned_end_does_not_wait_for_a_closed_group(name, losses, closing):
    problem, store = ENDING[name], MemoryStore()
    policy = BlockBetting(problem, max_pulls=80, planned_end=True, losses=losses)
    for seed in range(2):
        with Study.create(problem, policy, storage=store, name=f"trial {seed}", seed=seed) as study:
            arrive_until_the_end(study, closing, seed)
            assert study.status in ("decided", "undecided")
            assert study.verify().ok
            head, answer = study.head_hash, study.recommend()
        with Study.open(store, f"trial {seed}") as again:
            assert again.stopped
            assert (again.head_hash, again.recommend()) == (head, answer)


def test_pulls_of_a_closed_group_that_a_planned_end_leaves_count_as_their_worst():
    problem = ENDING["three groups"]
    options = {"max_pulls": 80, "planned_end": True, "seed": 3}
    closes, twin = BlockBetting(problem, **options), BlockBetting(problem, **options)
    random = np.random.default_rng(1)
    for number in range(400):
        if closes.stopped:
            break
        if number == 50:
            closes.close_group("old")
            state = closes.get_state()
            closes = BlockBetting(problem, **options)
            closes.set_state(state)
        group = str(random.choice(["young", "middle", *["old"] * (number < 50)]))
        for pull in closes.ask(1, group=group):
            (same,) = twin.ask(1, group=group)
            value = float(random.random() < 0.5)
            for policy, own in ((closes, pull), (twin, same)):
                policy.tell(own, value)
    assert not twin.stopped
    # Without a closing, the rest is for the group; a lost pull counts as its worst, too.
    while rest := twin.ask(1, group="old"):
        twin.fail(rest[0], "never made")
    assert twin.stopped
    assert closes.asked < twin.asked == 80
    np.testing.assert_allclose(closes._wealth, twin._wealth, rtol=1e-12)


def test_with_known_noise_a_planned_end_without_its_closed_group_is_undecided():
    problem = Problem(["a", "b"], GROUPS, noise_std=1.0, floors=None)
    policy = BlockBetting(problem, max_pulls=60, planned_end=True)
    with Study.create(problem, policy, storage=MemoryStore(), name="trial", seed=1) as study:
        arrive_until_the_end(study, 40, seed=1, gives_up=0.0)
        assert study.status == "undecided"
        assert study.verify().ok


def refused(study):
    """Return what cannot be closed, with the error and the argument that it names."""
    return [
        (lambda: study.close_arm("d", "harm"), InvalidArgument, "arm"),
        (lambda: study.close_group("middle", "harm"), InvalidArgument, "group"),
        (lambda: study.close_arm("a", " "), InvalidArgument, "reason"),
    ]


def test_what_cannot_be_closed_is_refused_and_changes_nothing(study):
    before = study.head_hash
    for attempt, error, name in refused(study):
        with raises(error) as caught:
            attempt()
        assert caught.value.name == name
    assert study.head_hash == before


def test_the_last_open_arm_and_group_stay_open(study):
    study.close_group("old", "harm")
    with raises(InvalidArgument):
        study.close_group("young", "harm")
    study.close_arm("a", "harm")
    study.close_arm("b", "harm")
    # The only arm that is left is the answer: nothing can be closed any more.
    assert (study.status, study.recommend().arm) == ("decided", "c")
    with raises(ExperimentFinished):
        study.close_arm("c", "harm")


def test_a_control_that_limits_refer_to_stays_open():
    study = made(MemoryStore(), PROBLEM.clone(control="a", margin=0.1))
    with raises(InvalidArgument) as caught:
        study.close_arm("a", "harm")
    assert caught.value.name == "arm"


def test_with_known_noise_the_best_open_arm_is_named_too():
    study = made(MemoryStore(), PROBLEM.clone(reward_range=None, noise_std=0.2))
    carry_on(study, 33)
    study.close_arm("c", "two deaths")
    assert "c" not in carry_on(study, 2_000)
    assert study.recommend().arm == "b"
    assert study.verify().ok


def test_other_policies_refuse_to_close_an_arm():
    problem = linear.Problem([[1.0, 0.0], [0.0, 1.0]], noise_std=1.0)
    policy = linear.BlockBetting(problem)
    study = Study.create(problem, policy, storage="memory://", name="trial")
    with raises(NotSupported):
        study.close_arm(problem.answer_labels[0], "harm")


def test_a_log_in_which_a_closed_arm_is_pulled_does_not_verify(study):
    carry_on(study, 5)
    study.close_arm("c", "harm")
    carry_on(study, 5)
    records = list(study.session.store.records(study.session.id))
    without = [record for record in records if record.kind != "close"]
    fresh = study.session.build()
    from fairtrial.study.replica import Replica

    with raises(CorruptLog):
        Replica(fresh).replay(record.step for record in without)


MEASURED = Problem(
    ARMS, GROUPS, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured"
)  # fmt: skip


@pytest.mark.parametrize(
    ("measures", "losses", "before"),
    effort.covering(["one", "two"], ["informative", "ignorable"], [0, 2, 35, 70]),
)
def test_everything_can_be_shown_after_a_closing_at_any_time(measures, losses, before):
    problem = PROBLEM if measures == "one" else MEASURED
    policy = BlockBetting(problem, delta=0.05, losses=losses)
    study = Study.create(problem, policy, storage=MemoryStore(), name="trial", seed=7)
    for step in range(before + 40):
        if step == before:
            study.close_arm("c", "harm")
        if step in (before, before + 1, before + 39):
            assert study.health()["warnings"] is not None
            progress = study.progress()
            assert all(one.pulls >= 0 for one in progress.actions)
            assert progress.losses.share >= 0.0
        pull = study.ask()
        value = VALUES[pull.arm]
        if step % 9 == 4:
            study.fail(pull, "left")
        else:
            study.tell(pull, value if problem is PROBLEM else {"cured": value, "harmed": 0.1})
    assert study.verify().ok


def test_a_closed_control_is_told_to_readers_of_the_full_view_only(store):
    problem = Problem(ARMS, GROUPS, reward_range=(0, 1), floors=None, control="a")
    study = made(store, problem)
    carry_on(study, 60)
    assert not any("control" in said for said in study.health()["warnings"])
    study.close_arm("a", "two deaths")
    (said,) = [said for said in study.health()["warnings"] if "control" in said]
    assert said.startswith("the control a is closed: intervals of differences from it use only")
    assert not any("control" in said for said in study.health(blinded=True)["warnings"])
    assert "the control a" not in study.recommend().reason


def test_intervals_of_differences_from_a_closed_control_get_no_narrower():
    problem = Problem(ARMS, GROUPS, reward_range=(0, 1), floors=None, control="a")
    study = Study.create(
        problem, BlockBetting(problem, delta=1e-6), storage=MemoryStore(), name="long", seed=7
    )

    def carry_on(pulls):
        for number in range(pulls):
            pull = study.ask()
            study.tell(pull, (number % 5) / 4)
        return [(one.arm, one.lower, one.upper) for one in study.progress().effects]

    before = carry_on(200)
    assert carry_on(100) != before
    study.close_arm("a", "two deaths")
    closed = carry_on(100)  # until the blocks that were open are paid
    assert carry_on(300) == closed
    assert not study.stopped
