"""Arguments that a function does not take are refused by name."""

import pytest

from fairtrial.core.keywords import named_arguments
from fairtrial.errors import InvalidArgument
from tests.messages import raises


@named_arguments
def plan(delta, *, power=0.8, rounds):
    return delta, power, rounds


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [
        ((0.05, 0.9), {"rounds": 3}, "arguments"),
        ((0.05, 0.9), {}, "arguments"),
        ((0.05,), {}, "rounds"),
        ((), {"rounds": 3}, "delta"),
        ((0.05,), {"rounds": 3, "powr": 0.9}, "powr"),
        ((0.05,), {"delta": 0.1, "rounds": 3}, "delta"),
        ((0.05,), {"delta": 0.1}, "delta"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(args, kwargs, name):
    with raises(InvalidArgument) as error:
        plan(*args, **kwargs)
    assert error.value.name == name


def test_an_error_inside_the_function_stays_what_it_is():
    @named_arguments
    def add(a, b):
        return a + b

    with pytest.raises(TypeError):
        add(1, "2")
