"""Problems: frozen, validated, written as JSON; actions by label; outcomes by type."""

import hashlib
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core import UNSOLICITED, Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.core.toys import GroupProblem, RecordProblem, ToyProblem
from tests.messages import raises

PROBLEM = GroupProblem(["a", "b"], ["x", "y", "z"])
PROBLEMS = [
    ToyProblem(3),
    ToyProblem(["a", "b"], noise_std=0.5),
    ToyProblem(np.array(["a", "b"]), np.float64(2)),
    PROBLEM,
    RecordProblem(["a"], bound=0.1),
]

# --------------------------------------------------------------------------- actions


def test_actions_and_labels_are_each_others_inverse() -> None:
    assert PROBLEM.n_actions == 6
    for action in range(PROBLEM.n_actions):
        assert PROBLEM.action(**PROBLEM.labels(action)) == action


@pytest.mark.parametrize(
    "labels", [{}, {"arm": "a"}, {"arm": "c", "group": "x"}, {"arm": "a", "group": []}]
)
def test_labels_of_no_action_are_refused(labels: dict[str, object]) -> None:
    with raises(InvalidArgument, "labels", given=labels):
        PROBLEM.action(**labels)


def test_a_pull_by_label_is_unsolicited() -> None:
    pull = PROBLEM.pull(arm="b", group="y")
    assert (pull.number, pull.action, pull.group) == (UNSOLICITED, 4, "y")


# -------------------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    ("outcome", "clean"),
    [
        (0.5, 0.5),
        (1, 1.0),
        (True, 1.0),
        (np.bool_(False), 0.0),
        (np.float32(0.5), 0.5),
        (np.int8(3), 3.0),
    ],
)
def test_a_real_number_is_an_outcome(outcome: object, clean: float) -> None:
    checked = ToyProblem(2).check_outcome(outcome)
    assert checked == clean
    assert type(checked) is float


@pytest.mark.parametrize("outcome", [math.nan, math.inf, -math.inf, np.float32("nan"), 10**400])
def test_what_is_not_finite_is_refused_not_averaged(outcome: object) -> None:
    with raises(InvalidOutcome, "reward", given=outcome):
        ToyProblem(2).check_outcome(outcome)


@pytest.mark.parametrize("outcome", ["0.5", None, [0.5], np.array([0.5]), 1j, np.complex64(1), {}])
def test_what_is_no_number_is_refused(outcome: object) -> None:
    with raises(InvalidOutcome, "reward", given=outcome):
        ToyProblem(2).check_outcome(outcome)


def test_a_family_types_its_own_outcomes() -> None:
    problem = RecordProblem(["a"], bound=0.1)
    clean = problem.check_outcome({"y": True, "s": 1, "v": np.float32(0)})
    assert clean == {"s": 1.0, "v": 0.0, "y": 1.0}
    with raises(InvalidOutcome, "record", given=0.5):
        problem.check_outcome(0.5)
    with raises(InvalidOutcome, "y"):
        problem.check_outcome({"s": 0, "v": 0, "y": math.nan})
    with raises(InvalidOutcome, "s", given=2):
        problem.check_outcome({"s": 2, "v": 0, "y": 0})


def test_a_reading_is_a_number_whatever_an_outcome_is() -> None:
    problem = RecordProblem(["a"], bound=0.1)
    assert problem.check_reading(np.int64(2)) == 2.0
    with raises(InvalidOutcome, "reading", given={}):
        problem.check_reading({})
    with raises(InvalidOutcome, "reading"):
        problem.check_reading(math.inf)


# ---------------------------------------------------------------- frozen, equal, JSON


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_json_gives_the_same_problem_back(problem: ToyProblem) -> None:
    text = json.dumps(problem.to_dict())
    again = type(problem).from_dict(json.loads(text))
    assert again == problem
    assert again.digest == problem.digest
    assert hash(again) == hash(problem)
    assert again.action_labels == problem.action_labels


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_pickle_gives_the_same_problem_back(problem: ToyProblem) -> None:
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    with pytest.raises(AttributeError):
        again.arms = 3


def test_different_problems_differ() -> None:
    assert len({problem.digest for problem in PROBLEMS}) == len(PROBLEMS)
    assert len(set(PROBLEMS)) == len(PROBLEMS)
    assert ToyProblem(2) != "ToyProblem(arms=2)"


@given(st.integers(1, 10**6))
def test_equality_and_digest_do_not_depend_on_how_a_number_is_written(number: int) -> None:
    whole, real = ToyProblem(2, noise_std=number), ToyProblem(2, noise_std=float(number))
    assert whole == real
    assert whole.digest == real.digest
    assert hash(whole) == hash(real)


@given(st.floats(0.001, 1000), st.floats(0.001, 1000))
def test_problems_are_equal_exactly_if_their_digests_are(one: float, other: float) -> None:
    left, right = ToyProblem(2, noise_std=one), ToyProblem(2, noise_std=other)
    assert (left == right) == (one == other) == (left.digest == right.digest)


class OrderedProblem(Problem):
    """The order of its arms is that of a mapping."""

    family = "ordered"

    def __init__(self, arms: dict[str, float]) -> None:
        self.arms = arms
        self._freeze()

    @property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        return tuple({"arm": arm} for arm in self.arms)


def test_the_digest_is_the_same_in_every_version() -> None:
    # The digest is stored with every study: with another rule, none would be recognised.
    text = '{"family":"toy","schema":1,"arms":["a","b"],"noise_std":2}'
    assert ToyProblem(("a", "b"), 2.0).digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_a_problem_is_frozen(problem: ToyProblem) -> None:
    with raises(AttributeError):
        problem.arms = ["other"]
    with pytest.raises(AttributeError):
        problem.anything = 1


def test_a_clone_is_validated_too() -> None:
    assert ToyProblem(["a"]).clone(noise_std=3.0).noise_std == 3.0
    with raises(InvalidArgument, "noise_std"):
        ToyProblem(["a"]).clone(noise_std=-1)


def test_repr_is_how_it_was_made() -> None:
    assert repr(ToyProblem(["a"], noise_std=2)) == "ToyProblem(arms=['a'], noise_std=2)"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"family": "toy", "arms": 2}, "family"),
        ({"schema": 3, "arms": 2, "bound": 1}, "schema"),
        ({"schema": 0, "arms": 2, "bound": 1}, "schema"),
        ({"schema": "2", "arms": 2, "bound": 1}, "schema"),
        ({"arms": 2}, "bound"),
        (
            {"arms": 2, "bound": 1, "bond": 1},
            "bond",
        ),
        ({"arms": 2, "bound": 0}, "bound"),
    ],
)
def test_bad_data_are_refused_by_name(data: dict[str, object], name: str) -> None:
    with raises(InvalidArgument, name):
        RecordProblem.from_dict(data)


def test_reading_data_does_not_change_them() -> None:
    data = ToyProblem(2).to_dict()
    before = dict(data)
    ToyProblem.from_dict(data)
    assert data == before


def test_an_older_schema_is_read() -> None:
    assert RecordProblem.from_dict({"schema": 1, "arms": 1, "bound": 1}).bound == 1


def test_fractions_are_written_as_text() -> None:
    class Shares(ToyProblem):
        family = "toy-shares"

        def __init__(self, arms, shares):
            self.shares = shares
            super().__init__(arms)

    assert Shares(2, [Fraction(1, 5), "0.25"]).to_dict()["shares"] == ["1/5", "0.25"]


def test_the_order_of_a_mapping_makes_another_problem() -> None:
    one, other = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    assert OrderedProblem(one).digest != OrderedProblem(other).digest
    copy = OrderedProblem.from_dict(json.loads(json.dumps(OrderedProblem(one).to_dict())))
    assert copy == OrderedProblem(one)
    assert copy.action_labels == ({"arm": "b"}, {"arm": "a"})
