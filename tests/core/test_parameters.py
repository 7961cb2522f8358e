"""Objects that remember how they were made, and how they are written as data."""

import inspect
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial.core import Parametrized
from fairtrial.core.parameters import build, plain
from fairtrial.errors import InvalidArgument, NotSupported
from tests.messages import raises


class Learner(Parametrized):
    def __init__(self, rate, decay=0.5, arms=("a", "b"), table=None):
        self.rate = rate
        self.decay = decay
        self.arms = arms
        self.table = table


def test_parameters_are_kept_as_given() -> None:
    arms = ["x", "y"]
    learner = Learner(1, arms=arms)
    assert learner.get_params() == {"rate": 1, "decay": 0.5, "arms": arms, "table": None}
    assert learner.get_params()["arms"] is arms


@pytest.mark.parametrize(
    ("learner", "text"),
    [
        (Learner(1), "Learner(rate=1)"),
        (Learner(1, decay=0.5), "Learner(rate=1)"),
        (Learner(1, decay=0.25), "Learner(rate=1, decay=0.25)"),
        (Learner(1, arms=[[1], [2, 3]]), "Learner(rate=1, arms=[[1], [2, 3]])"),
        (Learner(1, table=np.arange(2)), "Learner(rate=1, table=array([0, 1]))"),
    ],
)
def test_repr_shows_what_differs_from_the_defaults(learner: Learner, text: str) -> None:
    assert repr(learner) == text


def test_a_clone_is_new_and_may_differ() -> None:
    learner = Learner(1)
    other = learner.clone(decay=0.1)
    assert other is not learner
    assert (other.rate, other.decay, learner.decay) == (1, 0.1, 0.5)
    with raises(InvalidArgument, "rats"):
        learner.clone(rats=3)


def test_build_names_the_unknown_and_the_missing() -> None:
    assert build(Learner, {"decay": 0.1}, rate=2).rate == 2
    with raises(InvalidArgument, "rate"):
        build(Learner, {"decay": 0.1})
    with raises(InvalidArgument, "Decay") as error:
        build(Learner, {"rate": 1, "Decay": 3})
    assert (error.value.name, error.value.given) == ("Decay", 3)
    with raises(InvalidArgument) as error:
        build(Learner, {"rate": 1}, rate=2)
    assert error.value.name == "rate"


def test_a_constructor_names_the_argument_that_it_does_not_take_or_lacks() -> None:
    with raises(InvalidArgument, "deccay") as error:
        Learner(1, deccay=0.1)  # type: ignore[call-arg]
    with raises(InvalidArgument) as error:
        Learner()  # type: ignore[call-arg]
    assert error.value.name == "rate"
    with raises(InvalidArgument) as error:
        Learner(1, 2, 3, 4, 5)  # type: ignore[call-arg]
    assert error.value.name == "arguments"


def test_a_type_error_inside_a_constructor_stays_what_it_is() -> None:
    class Broken(Parametrized):
        def __init__(self, size: int = 1) -> None:
            self.size = size + "1"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        Broken(size=2)


def test_a_signature_is_that_of_the_constructor() -> None:
    assert list(inspect.signature(Learner).parameters) == ["rate", "decay", "arms", "table"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_is_written_as_it_is(value: object) -> None:
    assert plain(value) == value
    assert json.loads(json.dumps(plain(value))) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["a", None], dtype=object), ["a", None]),
        (np.array(2.5), 2.5),
        ((1, (2, 3)), [1, [2, 3]]),
        (set("sequential"), sorted(set("sequential"))),
        (Fraction(1, 3), "1/3"),
        ({1: {"x": np.float32(0.5)}}, {"1": {"x": 0.5}}),
        (
            Learner(Fraction(1, 5)),
            {"name": "Learner", "rate": "1/5", "decay": 0.5, "arms": ["a", "b"], "table": None},
        ),
    ],
)
def test_other_types_become_json(value: object, expected: object) -> None:
    written = plain(value)
    assert written == expected
    assert type(written) is type(expected)
    json.dumps(written)


@pytest.mark.parametrize("value", [len, object(), {"deep": {"inside": len}}, 1j, np.complex128(1)])
def test_what_is_no_data_is_refused_by_name(value: object) -> None:
    with raises(NotSupported):
        plain(value, "learner")


def test_a_repr_abridges_what_nobody_would_read():
    many = [f"arm {number}" for number in range(2000)]
    text = repr(ft.allocation.Problem(many, "1/4000"))
    assert "arm 0" in text
    assert len(text) < 500
