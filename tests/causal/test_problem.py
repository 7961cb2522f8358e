import json
import math
import os
import pickle

import numpy as np
import pytest

from fairtrial.causal import CausalModel, Density, ModelError, Problem, chain
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.causal.slow import diamond, tiny
from tests.messages import raises, warns

ARMS = {"a": [[0.5, 0.5], [0.4, 0.6]]}


def model(edges=(("S", "V"), ("V", "Y")), **states):
    return CausalModel(edges, {"S": ["s", "t"], "V": 2, "Y": 2, **states})


def problem(edges=(("S", "V"), ("V", "Y")), **changes):
    arguments = {
        "model": model(edges, A=2, X=2),
        "sensitive": "S",
        "intervened": "V",
        "outcome": "Y",
        "arms": ARMS,
        "fairness_bound": 0.1,
        "outcome_range": (0, 1),
        **changes,
    }
    return Problem(**arguments)


def test_only_children_that_lead_to_the_outcome_carry_the_attribute():
    found = diamond(0)
    assert found.carriers == ("X",)
    assert found.columns == ("S", "A", "X", "V", "Y")
    assert diamond(0, intervened_is_carrier=True).carriers == ("X", "V")


def test_actions_are_arms_by_mode():
    found = tiny()[0]
    assert found.n_actions == 9
    assert found.labels(4) == {"arm": "k1", "sensitive": "s"}
    assert found.action(arm="k2", sensitive="natural") == 6
    assert found.pairs == (("s", "s'"), ("s'", "s"))


@pytest.mark.parametrize("seed", range(3))
def test_a_problem_is_written_down_and_read_back(seed):
    first = diamond(seed, attributes=1 + seed % 2).clone(
        costs=[0, 1, math.inf], mean_budget=0.5, direction="minimize"
    )
    again = Problem.from_dict(json.loads(json.dumps(first.to_dict())))
    assert again == first
    assert hash(again) == hash(first)
    assert cell_model_of(again).g == pytest.approx(cell_model_of(first).g)


def test_outcomes_are_rows_with_labels_and_a_number():
    found = problem(outcome=("Y", {"0": -2.0, "1": 2.0}), outcome_range=(-2, 2))
    clean = {"S": "t", "V": "1", "Y": 2.0}
    assert found.check_outcome({"S": "t", "V": 1.0, "Y": "1", "other": 3}) == clean
    assert found.check_outcome(clean) == clean
    with raises(InvalidOutcome, "outcome: Y", given="x"):
        found.check_outcome({"S": "t", "V": 1, "Y": "x"})


def test_real_values_are_numbers():
    density = Density(lambda x, parents: -x)
    real = CausalModel([("S", "V"), ("V", "Y")], {"S": ["s", "t"]})
    found = problem(model=real, arms={"a": density})
    assert found.check_outcome({"S": "s", "V": 0.5, "Y": 0.25})["V"] == 0.5
    with raises(InvalidOutcome, "outcome: V"):
        found.check_outcome({"S": "s", "V": math.nan, "Y": 0.25})
    assert found == found
    assert not cell_model_of(found).is_discrete


BAD = [
    ({"sensitive": "Q"}, ModelError, "sensitive"),
    ({"intervened": "Q"}, ModelError, "intervened"),
    ({"outcome": "V"}, ModelError, "outcome"),
    ({"outcome": "S"}, ModelError, "outcome"),
    ({"intervened": "S"}, ModelError, "intervened"),
    ({"edges": [("A", "S"), ("S", "V"), ("V", "Y")]}, ModelError, "sensitive"),
    ({"edges": [("S", "V"), ("Y", "V")]}, ModelError, "intervened"),
    (
        {"edges": [("S", "V"), ("S", "X"), ("X", "Y"), ("V", "Y")]},
        ModelError,
        "table of X",
    ),
    (
        {
            "edges": [("A", "S"), ("S", "V"), ("S", "Y"), ("V", "Y")],
            "forcing": "never",
        },
        ModelError,
        "table of Y",
    ),
    ({"arms": {}}, InvalidArgument, "arms"),
    ({"arms": {"a": [[0.5, 0.5]]}}, ModelError, "arm 'a'"),
    (
        {"arms": {"a": [[0.5, 0.5], [0.4, 0.5]]}},
        ModelError,
        "arm 'a', row S=t",
    ),
    ({"fairness_bound": 0}, InvalidArgument, "fairness_bound"),
    ({"fairness_bound": -1}, ValueError, "fairness_bound"),
    ({"outcome_range": (1, 0)}, InvalidArgument, "outcome_range"),
    ({"outcome_range": (0, math.inf)}, InvalidArgument, "outcome_range"),
    ({"costs": [1, 2]}, InvalidArgument, "costs"),
    ({"costs": [-1]}, InvalidArgument, "costs"),
    ({"costs": [math.inf]}, InvalidArgument, "costs"),
    ({"direction": "up"}, InvalidArgument, "direction"),
    ({"outcome": ("Y", {"0": 1})}, ModelError, "outcome"),
    ({"outcome": 3}, ModelError, "outcome"),
    ({"outcome": ("Y", 3)}, ModelError, "outcome"),
    ({"sensitive": []}, InvalidArgument, "sensitive"),
    ({"costs": "dear"}, InvalidArgument, "costs"),
    ({"costs": 10**400}, InvalidArgument, "costs"),
    ({"model": 3}, InvalidArgument, "model"),
    ({"model": {"nodes": 3}}, InvalidArgument, "model.nodes"),
    ({"model": {"edges": []}}, InvalidArgument, "model.states"),
    ({"model": {3: "edges"}}, ModelError, "model"),
    ({"model": model(S=["natural", "t"])}, ModelError, "sensitive"),
]


@pytest.mark.parametrize(("changes", "error", "name"), BAD)
def test_bad_arguments_are_refused(changes, error, name):
    with raises(error, name):
        problem(**changes)


@pytest.mark.parametrize(
    ("p_sensitive", "arms", "name"),
    [
        (["x", "y"], [[[1, 0], [0, 1]]], "p_sensitive[0]"),
        ({"s": "x", "t": 0.5}, [[[1, 0], [0, 1]]], "p_sensitive[s]"),
        (0.5, "arms", "arms"),
        (0.5, [[1, 0], [0, 1]], "arms"),
    ],
    ids=["text", "text by label", "no tables", "one table"],
)
def test_a_chain_names_the_argument_that_is_wrong(p_sensitive, arms, name):
    with raises(InvalidArgument, name):
        chain(p_sensitive, arms, [0.1, 0.9], 0.2)


def test_a_gap_on_the_bound_is_unfair():
    found = problem(fairness_bound=0.25)
    gaps = [[0.25, 0.0], [-0.25, 0.0], [0.2499, -0.2499]]
    assert found.is_fair(gaps).tolist() == [False, False, True]


def test_values_of_several_attributes_must_differ_when_joined():
    states = {"S": ["a, b", "a"], "T": ["c", "b, c"], "V": 2, "Y": 2}
    both = CausalModel([("S", "V"), ("T", "V"), ("V", "Y")], states)
    arms = {"a": np.full((2, 2, 2), 0.5)}
    with raises(ModelError, "sensitive", given="a, b, c"):
        Problem(both, ["S", "T"], "V", "Y", arms, 0.1)


def test_a_bound_as_wide_as_the_range_is_warned_of():
    with warns(UserWarning):
        problem(fairness_bound=1.0)


def test_a_problem_travels_to_other_processes():
    first = diamond(0)
    cell_model_of(first).log_weights(np.array([0]))
    again = pickle.loads(pickle.dumps(first))
    assert again == first
    assert cell_model_of(again).g == pytest.approx(cell_model_of(first).g)


def test_a_problem_is_frozen():
    with pytest.raises(AttributeError):
        tiny()[0].fairness_bound = 1.0


def test_a_chain_takes_shares_in_every_form():
    for shares in (0.4, [0.4, 0.6], {"f": 0.4, "m": 0.6}):
        found, environment = chain(shares, ARMS, [0.1, 0.9], 0.2)
        assert found.model.tables["S"].tolist() == [0.4, 0.6]
        assert environment.truth.means == pytest.approx([0.548])
    assert chain([0.2, 0.3, 0.5], np.full((4, 3, 2), 0.5), [0, 1], 0.1)[0].arm_labels == tuple(
        "0123"
    )
    with raises(InvalidArgument, "reward"):
        chain(0.5, ARMS, [0, 2], 0.1)


def test_data_never_name_a_file_to_be_opened(tmp_path):
    secret, pipe = tmp_path / "secret", tmp_path / "pipe"
    secret.write_text("hunter2 is the password")
    os.mkfifo(pipe)
    written = tiny()[0].to_dict()
    # Opening a pipe would block forever, and /dev/zero never ends.
    for path in (secret, str(secret), str(pipe), "/dev/zero", "no such file"):
        for read in (Problem.from_dict, problem_from_dict):
            with raises(InvalidArgument, "model", given=path) as caught:
                read({**written, "model": path})
            assert "hunter2" not in str(caught.value)
