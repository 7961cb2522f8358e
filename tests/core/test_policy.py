"""What the base provides to every policy: ask, tell, report, fail, amend, and its refusals."""

import math
from typing import Any

import numpy as np
import pytest

from fairtrial.core import Guarantee, Policy, Pull, Recommendation
from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    NotSupported,
    UnknownPull,
)
from tests.core.toys import (
    ArrivalBalance,
    FairChoice,
    GroupProblem,
    Halving,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    RecordProblem,
    ToyProblem,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])


class Scripted(Policy):
    """Chooses what it is told to choose, and records all calls."""

    def __init__(self, problem: ToyProblem, choices: Any = (0, 1, 2), seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.choices = choices
        self.heard: list[tuple[Any, ...]] = []
        self.over = False

    def choose(self, **context: Any) -> Any:
        return self.choices[self.asked] if self.asked < len(self.choices) else None

    def learn(self, pull: Pull, outcome: Any) -> None:
        self.heard.append(("learn", pull.number, pull.arm, pull.tag, outcome))

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.heard.append(("lose", pull.number, pull.arm, pull.tag, reason))

    @property
    def stopped(self) -> bool:
        return self.over

    def recommend(self) -> Recommendation:
        return Recommendation(None, "undecided" if self.over else "running")


class Reader(Scripted):
    def read(self, pull: Pull, value: float, **details: Any) -> None:
        self.heard.append(("read", pull.number, pull.arm, pull.tag, value, details))

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        self.heard.append(("revise", pull.number, pull.arm, pull.tag, old, new))


def unchanged(policy: Policy) -> tuple[Any, ...]:
    """Return everything that a refused call must leave unchanged."""
    heard = list(getattr(policy, "heard", []))
    return (
        policy.asked,
        policy.told,
        policy.outstanding(),
        policy.get_state()["lost"].tolist(),
        heard,
    )


# ------------------------------------------------------------------------------- ask


def test_pulls_are_numbered_and_labelled() -> None:
    policy = Scripted(PROBLEM, choices=[2, (1, 7)])
    first, second = policy.ask(), policy.ask()
    assert (first.number, first.action, first.arm, first.tag) == (0, 2, "c", 0)
    assert (second.number, second.action, second.arm, second.tag) == (1, 1, "b", 7)
    assert policy.outstanding() == [first, second]
    assert [pull.tag for pull in policy.outstanding()] == [0, 7]
    assert (policy.asked, policy.told) == (2, 0)


def test_asking_for_several_gives_a_list_of_what_there_is() -> None:
    policy = Scripted(PROBLEM)
    assert policy.ask(0) == []
    assert [pull.action for pull in policy.ask(2)] == [0, 1]
    assert [pull.action for pull in policy.ask(5)] == [2]
    assert policy.ask(5) == []


@pytest.mark.parametrize("n", [-1, 1.5, "2", True])
def test_a_bad_number_of_pulls_is_refused(n: object) -> None:
    policy = Scripted(PROBLEM)
    with raises(InvalidArgument, "n", given=n):
        policy.ask(n)
    assert policy.asked == 0


def test_nothing_to_ask_is_not_the_same_as_finished() -> None:
    policy = Scripted(PROBLEM, choices=[])
    with raises(NothingToAsk):
        policy.ask()
    policy.over = True
    with raises(ExperimentFinished):
        policy.ask()
    assert policy.ask(3) == []


@pytest.mark.parametrize("choice", [np.int64(1), np.uint8(1), (np.int32(1), np.int64(4))])
def test_any_integer_is_a_choice_and_becomes_pythons(choice: Any) -> None:
    pull = Scripted(PROBLEM, choices=[choice]).ask()
    assert (type(pull.action), type(pull.tag)) == (int, int)
    assert pull.arm == "b"


@pytest.mark.parametrize(
    "choice", [3, -1, 1.0, "a", (0, 1.5), (5, 0), np.float64(1), (), (0,), (0, 0, 0.5, 1)]
)
def test_a_choice_that_is_no_action_is_refused(choice: Any) -> None:
    policy = Scripted(PROBLEM, choices=[choice])
    with raises(InvalidArgument, "Scripted.choose", given=choice):
        policy.ask()
    assert unchanged(policy) == (0, 0, [], [], [])


def test_what_the_environment_says_beforehand_reaches_the_policy() -> None:
    policy = ArrivalBalance(GroupProblem(["a", "b"], ["x", "y"]))
    pulls = policy.ask(3, group="y")
    assert [(pull.arm, pull.group) for pull in pulls] == [("a", "y"), ("b", "y"), ("a", "y")]
    with raises(InvalidArgument, "group", given="z"):
        policy.ask(group="z")
    assert policy.asked == 3


def test_what_is_said_beforehand_may_be_anything_that_is_no_label() -> None:
    class TakesFeatures(Scripted):
        def choose(self, features: Any = None) -> int:
            return int(np.argmax(features))

    assert TakesFeatures(PROBLEM).ask(features=np.array([0.1, 0.9, 0.3])).arm == "b"


# ------------------------------------------------------------------------------ tell


def test_results_may_come_in_any_order() -> None:
    policy = Scripted(PROBLEM)
    pulls = policy.ask(3)
    for pull in (pulls[2], pulls[0]):
        policy.tell(pull, 1)
    assert policy.heard == [("learn", 2, "c", 0, 1.0), ("learn", 0, "a", 0, 1.0)]
    assert policy.outstanding() == [pulls[1]]
    assert (policy.asked, policy.told) == (3, 2)


def test_a_second_tell_is_refused() -> None:
    policy = Scripted(PROBLEM)
    pull = policy.ask()
    policy.tell(pull, 1.0)
    before = unchanged(policy)
    with raises(AlreadyTold):
        policy.tell(pull, 2.0)
    assert unchanged(policy) == before


@pytest.mark.parametrize("call", ["tell", "report", "fail", "amend"])
@pytest.mark.parametrize(
    "pull",
    [
        Pull(7, 0, {"arm": "a"}),
        Pull(-2, 0, {"arm": "a"}),
        Pull(0, 1, {"arm": "b"}),
        Pull(0, 0, {"arm": "a"}, tag=3),
    ],
    ids=["not yet", "never", "another action", "another tag"],
)
def test_a_pull_that_was_never_issued_is_refused(call: str, pull: Pull) -> None:
    policy = Reader(PROBLEM)
    policy.ask()
    before = unchanged(policy)
    arguments = {"tell": (1.0,), "report": (1.0,), "fail": (), "amend": (1.0, 2.0)}[call]
    with raises(UnknownPull):
        getattr(policy, call)(pull, *arguments)
    assert unchanged(policy) == before


@pytest.mark.parametrize("outcome", [math.nan, math.inf, "1", None])
def test_a_refused_outcome_changes_nothing(outcome: object) -> None:
    policy = Reader(PROBLEM)
    pull = policy.ask()
    before = unchanged(policy)
    for call in (policy.tell, policy.report):
        with raises(InvalidOutcome):
            call(pull, outcome)
    assert unchanged(policy) == before
    policy.tell(pull, 1.0)


def test_a_policy_that_fails_to_learn_still_waits_for_the_result() -> None:
    class Stumbling(Scripted):
        def learn(self, pull: Pull, outcome: Any) -> None:
            raise ZeroDivisionError

    policy = Stumbling(PROBLEM)
    pull = policy.ask()
    with pytest.raises(ZeroDivisionError):
        policy.tell(pull, 1.0)
    assert (policy.outstanding(), policy.told) == ([pull], 0)


def test_results_count_after_the_stop_too() -> None:
    policy = Scripted(PROBLEM)
    first, second = policy.ask(2)
    policy.over = True
    policy.tell(second, 1.0)
    assert policy.to_cancel() == [first]
    assert policy.told == 1


# ----------------------------------------------------------------- unsolicited results


def test_data_that_nobody_asked_for_are_learnt() -> None:
    policy = Scripted(PROBLEM)
    policy.tell(PROBLEM.pull(arm="b"), 2)
    policy.tell(PROBLEM.pull(arm="b"), 2)
    assert policy.heard == [("learn", -1, "b", 0, 2.0)] * 2
    assert (policy.asked, policy.told, policy.outstanding()) == (0, 2, [])


def test_unsolicited_data_of_another_problem_are_refused() -> None:
    policy = Scripted(PROBLEM)
    for stranger in (ToyProblem(["b", "a"]).pull(arm="b"), ToyProblem(9).pull(arm="8")):
        with raises(UnknownPull):
            policy.tell(stranger, 1.0)
    assert unchanged(policy) == (0, 0, [], [], [])


# -------------------------------------------------------------- losses and late results


def test_a_lost_pull_is_no_longer_waited_for_but_its_result_is_taken() -> None:
    policy = Scripted(PROBLEM, choices=[(2, 5)])
    pull = policy.ask()
    policy.fail(pull)
    assert policy.outstanding() == []
    assert policy.in_flight(0) == pull
    policy.tell(pull, 3.0)
    assert policy.heard == [("lose", 0, "c", 5, "lost"), ("learn", 0, "c", 5, 3.0)]
    with raises(AlreadyTold):
        policy.tell(pull, 3.0)
    with raises(UnknownPull):
        policy.in_flight(0)


def test_a_pull_cannot_fail_twice_nor_after_its_result() -> None:
    policy = Scripted(PROBLEM)
    first, second = policy.ask(2)
    policy.fail(first, "timeout")
    policy.tell(second, 1.0)
    before = unchanged(policy)
    for pull in (first, second):
        with raises(AlreadyTold):
            policy.fail(pull)
    assert unchanged(policy) == before
    assert policy.heard[0] == ("lose", 0, "a", 0, "timeout")


def test_a_pull_in_flight_is_found_by_its_number() -> None:
    policy = Scripted(PROBLEM, choices=[(2, 5)])
    pull = policy.ask()
    found = policy.in_flight(0)
    assert (found, found.tag) == (pull, 5)
    with raises(UnknownPull):
        policy.in_flight(1)


def test_only_a_stopped_policy_cancels_by_itself() -> None:
    policy = Scripted(PROBLEM)
    pulls = policy.ask(2)
    assert policy.to_cancel() == []
    policy.over = True
    assert policy.to_cancel() == pulls


# --------------------------------------------------------------------------- readings


def test_readings_reach_the_policy_with_their_details() -> None:
    policy = Reader(PROBLEM)
    pull = policy.ask()
    policy.report(pull, True, place=3, sd=0.5)
    assert policy.heard == [("read", 0, "a", 0, 1.0, {"place": 3, "sd": 0.5})]
    assert (policy.told, policy.outstanding()) == (0, [pull])


def test_readings_of_a_lost_pull_are_taken() -> None:
    policy = Reader(PROBLEM)
    pull = policy.ask()
    policy.fail(pull)
    policy.report(pull, 2.0)
    assert policy.heard[-1][0] == "read"


def test_a_reading_after_the_result_is_refused_unless_the_policy_has_a_use_for_it() -> None:
    policy = Reader(PROBLEM)
    pull = policy.ask()
    policy.tell(pull, 1.0)
    with raises(AlreadyTold):
        policy.report(pull, 2.0)

    tolerant = PartialRace(PROBLEM)
    pull = tolerant.ask()
    tolerant.tell(pull, 1.0)
    tolerant.report(pull, 2.0, place=4)
    assert tolerant.late == 1


def test_readings_are_refused_where_there_are_none() -> None:
    policy = LeadRace(PROBLEM)
    pull = policy.ask()
    with raises(NotSupported):
        policy.report(pull, 1.0)


# ------------------------------------------------------------------------- corrections


def test_a_told_outcome_can_be_corrected() -> None:
    policy = Reader(PROBLEM)
    pull, waiting = policy.ask(2)
    policy.tell(pull, 1.0)
    policy.amend(pull, 1, True)
    assert policy.heard[-1] == ("revise", 0, "a", 0, 1.0, 1.0)
    policy.tell(PROBLEM.pull(arm="c"), 5.0)
    policy.amend(PROBLEM.pull(arm="c"), 5.0, 4.0)
    assert policy.heard[-1] == ("revise", -1, "c", 0, 5.0, 4.0)
    policy.fail(waiting)
    with raises(UnknownPull):
        policy.amend(waiting, 1.0, 2.0)
    with raises(UnknownPull):
        policy.amend(ToyProblem(9).pull(arm="8"), 1.0, 2.0)
    with raises(InvalidOutcome):
        policy.amend(pull, 1.0, math.nan)
    assert policy.told == 2


def test_a_policy_says_when_it_cannot_correct() -> None:
    policy = LeadRace(PROBLEM)
    pull = policy.ask()
    policy.tell(pull, 1.0)
    with raises(NotSupported):
        policy.amend(pull, 1.0, 2.0)


# ------------------------------------------------------------- construction and the rest


@pytest.mark.parametrize("problem", [None, "toy", {"family": "toy"}, ToyProblem])
def test_a_policy_needs_a_problem(problem: object) -> None:
    with raises(InvalidArgument, "problem", given=problem):
        Scripted(problem)


def test_the_seed_is_written_down() -> None:
    assert Scripted(PROBLEM, seed=5).seed == 5
    assert isinstance(Scripted(PROBLEM).seed, int)
    with raises(InvalidArgument, "seed"):
        Scripted(PROBLEM, seed=-1)


def test_a_clone_is_fresh_and_keeps_the_seed_unless_told_otherwise() -> None:
    policy = PartialRace(PROBLEM, k=2, margin=1.5, seed=3)
    policy.ask(2)
    copy = policy.clone()
    assert (copy.asked, copy.seed, copy.k, copy.margin) == (0, 3, 2, 1.5)
    assert copy.problem is PROBLEM
    assert policy.clone(seed=4, k=1).get_params() == {**policy.get_params(), "k": 1}
    assert policy.clone(seed=4).seed == 4


def test_a_constructor_without_a_seed_is_named() -> None:
    class Careless(Scripted):
        def __init__(self, problem: ToyProblem, size: int = 1) -> None:
            super().__init__(problem)
            self.size = size

    with raises(InvalidArgument, "seed"):
        Careless(PROBLEM).clone()


def test_a_policy_is_written_as_name_and_parameters() -> None:
    policy = PartialRace(PROBLEM, k=2, seed=1)
    assert policy.to_dict() == {
        "name": "PartialRace",
        "k": 2,
        "margin": 2.0,
        "max_in_flight": 4,
        "max_per_arm": 2,
    }
    assert repr(policy) == "PartialRace(k=2)"


def test_the_plain_answers_of_the_base() -> None:
    policy = Scripted(PROBLEM)
    policy.tell(policy.ask(), 1.0)
    policy.ask()
    progress = policy.progress()
    assert (progress.asked, progress.told, progress.outstanding) == (2, 1, 1)
    assert progress.recommendation == policy.recommend()
    assert policy.guarantee == Guarantee("none", False, "no guarantee is claimed")
    assert policy.metrics() == {}
    assert policy.compiled_run(None, None, None) is None


def test_random_numbers_depend_on_the_seed_and_the_place_only() -> None:
    def draws(seed: int, asked: int, told: int) -> list[float]:
        policy = QuotaKeeper(PROBLEM, [1, 1, 1], 10, seed=seed)
        policy.asked, policy.told = asked, told
        return policy.generator().random(100).tolist()

    places = [(1, 4, 2), (2, 4, 2), (1, 5, 2), (1, 4, 3)]
    assert draws(*places[0]) == draws(*places[0])
    assert len({number for place in places for number in draws(*place)}) == 400


@pytest.mark.statistical
def test_random_numbers_of_successive_decisions_are_uniform() -> None:
    policy = QuotaKeeper(PROBLEM, [1, 1, 1], 10, seed=1)
    first = []
    for policy.asked in range(4000):
        first.append(policy.generator().random())
    # Four standard errors: of the mean, and of the correlation with the draw before.
    assert abs(np.mean(first) - 0.5) < 4 * math.sqrt(1 / 12 / 4000)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4 / math.sqrt(4000)


# ------------------------------------------------------------ the toys' own behaviours


def test_records_are_told_whole_or_not_at_all() -> None:
    policy = FairChoice(RecordProblem(["a", "b"], bound=0.1), budget=6)
    pull = policy.ask()
    assert (pull.arm, pull.s) == ("a", "natural")
    with raises(InvalidOutcome, "record"):
        policy.tell(pull, 0.5)
    policy.tell(pull, {"s": 1, "v": 0, "y": 1})
    assert policy.sums.tolist() == [1, 0, 0, 0, 0, 0]


def test_a_fixed_budget_policy_issues_exactly_its_budget() -> None:
    policy = FairChoice(RecordProblem(["a", "b"], bound=0.1), budget=7)
    pulls = policy.ask(100)
    assert len(pulls) == 7
    with raises(NothingToAsk):
        policy.ask()
    for pull in pulls:
        policy.tell(pull, {"s": 0, "v": 0, "y": 0})
    with raises(ExperimentFinished):
        policy.ask()


def test_a_batch_policy_waits_for_the_whole_batch() -> None:
    policy = Halving(PROBLEM, batch=4)
    pulls = policy.ask(100)
    assert [pull.arm for pull in pulls] == ["a", "b", "c", "a"]
    for pull in pulls[:3]:
        policy.tell(pull, float(pull.action))
        with raises(NothingToAsk):
            policy.ask()
    policy.fail(pulls[3])
    assert [pull.arm for pull in policy.ask(100)] == ["b", "c", "b", "c"]


class Capped(LeadRace):
    """Stops undecided after that many results."""

    def __init__(self, problem: ToyProblem, max_pulls: int | None = None, seed: int | None = None):
        super().__init__(problem, seed=seed)
        self.max_pulls = max_pulls

    @property
    def stopped(self) -> bool:
        return self.max_pulls is not None and self.told >= self.max_pulls


def test_no_more_pulls_are_issued_than_may_be_told() -> None:
    policy = Capped(PROBLEM, max_pulls=5)
    first = policy.ask(3)
    assert len(policy.ask(40)) == 2
    with raises(NothingToAsk):
        policy.ask()
    policy.fail(first[0])
    assert len(policy.ask(40)) == 1, "a lost pull makes room"
    for pull in policy.outstanding():
        policy.tell(pull, 0.0)
    assert policy.stopped
    assert policy.told == 5


@pytest.mark.parametrize("call", ["tell", "report", "fail"])
@pytest.mark.parametrize("pull", [None, "a", 3])
def test_what_is_no_pull_is_refused(call: str, pull: Any) -> None:
    arguments = [] if call == "fail" else [0.5]
    with raises(InvalidArgument, "pull", given=pull):
        getattr(LeadRace(PROBLEM), call)(pull, *arguments)
