"""Means and gaps as sums over cells."""

import numpy as np
import pytest

from fairtrial.causal import CausalModel, ModelError, NetworkEnvironment, Problem, chain
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._functionals import KNOWLEDGE, Functionals, knowledge_of
from fairtrial.errors import InvalidArgument
from tests.causal.betting_instances import region, tiny
from tests.causal.slow import confounded, diamond, without_overlap
from tests.messages import raises

PROBLEMS = {
    "chain": lambda: tiny()[0],
    "region": lambda: region()[0],
    "diamond": lambda: diamond(1, intervened_is_carrier=True),
    "diamond of three values": lambda: diamond(2, sensitive=3),
    "two attributes": lambda: diamond(3, attributes=2),
    "each attribute": lambda: diamond(4, attributes=2).clone(gap_set="attributes"),
    "minimised": lambda: diamond(5).clone(direction="minimize", outcome_range=(-1.0, 2.0)),
    "observed only": lambda: diamond(6).clone(forcing="never"),
    "confounded": lambda: confounded(1),
    "confounded, three values": lambda: confounded(2, states=3),
    "groups that share no cell": lambda: without_overlap(cause_leads_to_outcome=False),
    "the same, not joined": lambda: without_overlap(cause_leads_to_outcome=True),
    "confounded, each attribute": lambda: confounded(3, attributes=2, gap_set="attributes"),
}


def parts(problem, known):
    """Return the law and mean outcome by place, from the environment's truth."""
    model = cell_model_of(problem)
    moments = NetworkEnvironment(problem).cell_moments()[0]
    law = np.broadcast_to(model.h, moments.shape)
    if problem.is_root:
        moments, law = moments[:1], law[:1]
    else:
        law = law * model.shares[:, None]
    places = known.place_of
    weight, mean = np.zeros(known.n_places), np.zeros(known.n_places)
    np.add.at(weight, places, law)
    np.add.at(mean, places, law * moments)
    if known.knowledge == "covariates":
        # The law of the covariates alone: cells of a place and stratum share it.
        weight = np.zeros(known.n_places)
        weight[places] = law
    first = {place: moments.ravel()[i] for i, place in enumerate(places.ravel())}
    return weight, np.array([first[place] for place in range(known.n_places)])


def law_of(known, weight):
    return np.ones_like(weight) if known.knowledge == "cells" else weight


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_they_add_up_to_the_means_and_gaps(name, knowledge):
    problem = PROBLEMS[name]()
    known = Functionals(problem, knowledge)
    weight, mean = parts(problem, known)
    truth = NetworkEnvironment(problem).truth
    law = law_of(known, weight)
    assert known.means @ (law * mean) == pytest.approx(problem.scaled(truth.means))
    gaps = np.column_stack([truth.gaps[pair] for pair in problem.pairs]) / problem.width
    found = known.gaps @ (law * mean)
    signs = 1 if problem.is_root else 2
    assert found.shape[1] == signs * gaps.shape[1]
    assert np.abs(found) == pytest.approx(np.abs(np.tile(gaps, signs)))
    # Every gap is there with both signs.
    assert np.sort(found) == pytest.approx(np.sort(-found))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_the_rows_of_every_action_fall_somewhere(name, knowledge):
    problem = PROBLEMS[name]()
    known = Functionals(problem, knowledge)
    law = law_of(known, parts(problem, known)[0])
    assert known.actions @ law == pytest.approx(np.ones(problem.n_actions))
    assert known.basis @ law == pytest.approx(known.totals)
    generator = np.random.default_rng(0)
    rows = NetworkEnvironment(problem).batch(np.repeat(0, 20_000), generator)
    model = cell_model_of(problem)
    places = known.place_of[model.group(rows.value), rows.cells]
    shares = np.bincount(places, minlength=known.n_places) / len(places)
    expected = known.actions[0] * law
    assert np.abs(shares - expected).max() < 5 * np.sqrt(0.25 / len(places))


@pytest.mark.parametrize("name", PROBLEMS)
def test_joined_cells_have_the_same_mean_outcome(name):
    problem = PROBLEMS[name]()
    known = Functionals(problem, "cells")
    moments = NetworkEnvironment(problem).cell_moments()[0]
    moments = moments[:1] if problem.is_root else moments
    for place in range(known.n_places):
        own = moments[known.place_of == place]
        assert own == pytest.approx(np.full_like(own, own[0]))


def test_the_attribute_tells_of_the_outcome_where_their_cause_is_not_seen():
    """A leads to S and Y and is in no cell, so cells are not joined over the values of S."""
    model = CausalModel(
        [("A", "S"), ("A", "Y"), ("S", "V"), ("V", "Y")],
        {"A": 2, "S": 2, "V": 2, "Y": 2},
        {
            "A": [0.4, 0.6],
            "S": [[0.2, 0.8], [0.7, 0.3]],
            "Y": [[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]],
        },
    )
    arms = {"a": [[0.5, 0.5], [0.1, 0.9]], "b": [[0.3, 0.7], [0.4, 0.6]]}
    problem = Problem(model, "S", "V", "Y", arms, 0.1, forcing="never")
    known = Functionals(problem, "cells")
    assert known.n_places == 4
    mean = parts(problem, known)[1]
    assert known.means @ mean == pytest.approx(NetworkEnvironment(problem).truth.means)


# ------------------------------------------------------------------------- knowledge


def test_the_most_that_the_model_tells_is_used():
    problem = diamond(0)
    assert knowledge_of(problem, "auto") == "cells"
    assert knowledge_of(problem, "covariates") == "covariates"
    assert knowledge_of(problem, "ratios") == "ratios"


def test_without_a_table_of_a_covariate_its_law_is_not_known():
    problem = diamond(0)
    model = problem.model
    tables = {node: table for node, table in model.tables.items() if node != "A"}
    problem = problem.clone(model=CausalModel(model.edges, dict(model.states), tables))
    assert knowledge_of(problem, "auto") == "covariates"
    with raises(ModelError, "knowledge"):
        knowledge_of(problem, "cells")


def test_a_covariate_that_the_attribute_influences_is_none():
    """S -> B -> V and S -> X: B is a parent of V, and S influences it."""
    model = CausalModel(
        [("S", "C"), ("C", "B"), ("B", "V"), ("V", "Y"), ("C", "Y")],
        {"S": 2, "C": 2, "B": 2, "V": 2, "Y": 2},
        {"S": [0.5, 0.5], "C": [[0.3, 0.7], [0.6, 0.4]], "B": [[0.2, 0.8], [0.7, 0.3]]},
    )
    arms = {"a": [[0.5, 0.5], [0.1, 0.9]]}
    problem = Problem(model, "S", "V", "Y", arms, 0.1)
    assert knowledge_of(problem, "auto") in ("cells", "ratios")
    with raises(ModelError, "knowledge"):
        knowledge_of(problem, "covariates")


def test_estimated_tables_are_not_the_law():
    problem, environment = tiny()
    log = environment.table([0] * 200, np.random.default_rng(0))
    fitted = problem.clone(model=problem.model.fit(log, ["S"]))
    assert knowledge_of(fitted, "auto") == "covariates"
    with raises(InvalidArgument, "knowledge"):
        knowledge_of(fitted, "cells")


# ------------------------------------------------------------------------------ limits


def test_a_limit_that_no_outcome_breaks_is_known_to_hold():
    problem, _ = tiny()
    known = Functionals(problem, "cells")
    # The largest possible gap is the distance of the two distributions: .1, .1 and .5.
    assert known.breakable.tolist() == [[False] * 2, [False] * 2, [True] * 2]
    assert Functionals(problem, "ratios").breakable.all()
    same = chain(0.5, {"a": [[0.3, 0.7]] * 2, "b": [[0.1, 0.9], [0.6, 0.4]]}, [0, 1], 0.2)[0]
    assert Functionals(same, "ratios").breakable.tolist() == [[False] * 2, [True] * 2]


@pytest.mark.parametrize("knowledge", ["cells", "covariates"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_breakable_limits_are_those_that_some_outcomes_reach(name, knowledge):
    problem = PROBLEMS[name]()
    known = Functionals(problem, knowledge)
    law = law_of(known, parts(problem, known)[0])
    largest = (np.maximum(known.gaps, 0.0) * law).sum(axis=2)
    # With the true law of the covariates, a gap is at most that of the worst law.
    assert (largest[~known.breakable] < problem.bound).all()
    if knowledge == "cells":
        assert (largest[known.breakable] >= problem.bound).all()


def test_arms_that_no_outcome_tells_apart_are_one():
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8]] * 2, "c": [[0.5, 0.5], [0.4, 0.6]]}
    known = Functionals(chain(0.4, arms, [0.1, 0.9], 0.2)[0], "cells")
    assert known.twins == ((0, 2), (1,))
    assert len(known.means) == 2
