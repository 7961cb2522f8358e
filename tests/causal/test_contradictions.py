"""Logs that contradict the model are detected; logs of the model hardly ever are."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from fairtrial.causal import (
    CausalModel,
    ContradictedModel,
    NetworkEnvironment,
    PlugIn,
    Problem,
    chain,
    estimate,
)
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._logs import encode_table
from fairtrial.causal._separation import ARM
from fairtrial.causal.contradictions import LEVEL, contradictions, implied_independences
from tests import effort
from tests.causal.slow import confounded, diamond, tiny
from tests.messages import warns


def found_in(problem, log):
    ledger = open_ledger(cell_model_of(problem))
    ledger.add(encode_table(problem, log))
    return contradictions(problem, ledger.records())


def statements(problem, log):
    return [contradiction.statement for contradiction in found_in(problem, log)]


def log_of(problem, rows, seed=0):
    generator = np.random.default_rng(seed)
    actions = generator.integers(0, problem.n_actions, rows)
    return NetworkEnvironment(problem).table(actions, generator)


# --------------------------------------------------------------------- what is noticed


def direct(rows=900, seed=0):
    """Return a log in which the attribute also leads to the outcome directly."""
    problem, environment = tiny()
    log = environment.table(np.resize(np.arange(9), rows), np.random.default_rng(seed))
    log["Y"] = [1 - y if s == "s" else y for s, y in zip(log["S"], log["Y"], strict=True)]
    return problem, log


def test_a_missing_arrow_from_the_attribute_to_the_outcome_reaches_the_verdicts_label():
    problem, log = direct()
    with warns(ContradictedModel):
        result = estimate(problem, log, fixed_allocation=True)
    assert not result.guarantee.proven
    assert (
        "the rows contradict the model: Y depends on S given V" in result.guarantee.assumptions[4]
    )
    assert result.contradictions[0].p_value < 1e-10
    assert result.to_dict()["contradictions"][0]["statement"] == "Y depends on S given V"


def test_a_certificate_says_so_too():
    problem, log = direct(3000)
    policy = PlugIn(problem, 3000)
    groups = {}
    for row in zip(log["arm"], log["s_mode"], log["S"], log["V"], log["Y"], strict=True):
        groups.setdefault(row[:2] + ((row[2],) if row[1] == "forced" else ()), []).append(row)
    while not policy.stopped:
        pull = policy.ask()
        mode = () if pull.sensitive == "natural" else (pull.sensitive,)
        rows = groups[pull.arm, "forced" if mode else "natural", *mode]
        _, _, s, v, y = rows[pull.number % len(rows)]
        policy.tell(pull, {"S": s, "V": v, "Y": y})
    with pytest.warns(ContradictedModel):
        assert not policy.certificate().guarantee.proven


def test_a_wrong_table_is_noticed_unless_it_was_counted():
    problem = diamond(2)
    log = log_of(problem, 3000)
    table = problem.model.tables["X"]
    wrong = {**problem.model.tables, "X": table[..., ::-1]}
    model = problem.model.clone(tables=wrong)
    assert "X given A, S is not distributed as in the model" in statements(
        problem.clone(model=model), log
    )
    fitted = model.clone(fitted=True)
    assert statements(problem.clone(model=fitted), log) == []


def test_an_arm_that_does_not_do_what_its_table_says_is_noticed():
    problem, environment = tiny()
    log = environment.table([0] * 1000, np.random.default_rng(0))
    relabelled = {**log, "arm": ["k2"] * 1000}
    assert statements(problem, relabelled) == [
        "V given the arm, S is not distributed as in the model"
    ]


def test_a_cause_of_the_attribute_that_the_graph_does_not_have_is_noticed():
    problem = diamond(4)
    log = log_of(problem, 4000)
    kept = [a == "0" or s == "0" for a, s in zip(log["A"], log["S"], strict=True)]
    chosen = {name: [v for v, k in zip(c, kept, strict=True) if k] for name, c in log.items()}
    assert "S depends on A" in statements(problem, chosen)


def test_dependences_that_cancel_over_strata_are_noticed_in_each():
    """Y = 1 if V and S are equal; on average over V, it does not depend on S at all."""
    arms = {"a": [[0.5, 0.5], [0.5, 0.5]]}
    problem, _ = chain(0.5, arms, [0.5, 0.5], 0.2)
    states = [(s, v) for s in ("s", "s'") for v in (0, 1)] * 100
    log = {
        "arm": ["a"] * 400,
        "S": [s for s, _ in states],
        "V": [v for _, v in states],
        "Y": [int((s == "s") == (v == 0)) for s, v in states],
    }
    assert statements(problem, log) == ["Y depends on S given V"]


# ------------------------------------------------------------------------ what is not


def rare():
    """Return a log with rare outcomes and states, on which tests must not overreact."""
    arms = {"a": [[0.998, 0.002], [0.99, 0.01]], "b": [[0.95, 0.05], [0.6, 0.4]]}
    return chain(0.05, arms, [0.003, 0.02], 0.2)[0]


@pytest.mark.statistical
def test_logs_of_the_model_itself_hardly_ever_contradict_it():
    """At most one log in 1,000 may; more than allowed here have probability 1e-5."""
    assert LEVEL == 0.001
    wrong, runs = 0, effort.runs(100, whole=500)
    for problem in (tiny()[0], rare(), diamond(3), confounded(3)):
        environment = NetworkEnvironment(problem)
        for seed in range(runs):
            generator = np.random.default_rng([31, seed])
            actions = generator.choice([0, 0, 0, 1, problem.n_actions - 1], 150)
            ledger = open_ledger(cell_model_of(problem))
            ledger.add(environment.batch(actions, generator))
            wrong += bool(contradictions(problem, ledger.records()))
    assert wrong <= stats.binom.isf(1e-5, 4 * runs, LEVEL)


def test_which_arm_gets_which_value_may_be_chosen():
    problem = diamond(5)
    environment = NetworkEnvironment(problem)
    modes = len(problem.modes)
    actions = np.repeat([1, modes + 2], 3000)
    assert statements(problem, environment.table(actions, np.random.default_rng(0))) == []


def test_rows_may_be_selected_by_the_value_where_it_has_parents():
    problem = confounded(5)
    log = log_of(problem, 6000)
    kept = [s == "0" or a != "arm0" for a, s in zip(log["arm"], log["S"], strict=True)]
    chosen = {name: [v for v, k in zip(c, kept, strict=True) if k] for name, c in log.items()}
    assert statements(problem, chosen) == []


def test_real_values_and_outcomes_without_a_range_are_left_out():
    problem, log = direct()
    without = problem.clone(outcome_range=None)
    assert statements(without, log) == []
    edges = [("S", "X"), ("X", "Y"), ("V", "Y"), ("A", "V")]
    tables = {"S": [0.5, 0.5], "X": [[0.5, 0.5], [0.2, 0.8]]}
    model = CausalModel(edges, {"S": 2, "X": 2, "V": 2, "Y": 2, "A": 2}, tables)
    problem = Problem(model, "S", "V", "Y", {"a": [[0.5, 0.5]] * 2}, 0.1)
    known = [ARM, "S", "A", "X", "V"]
    assert ("S", "A", ()) in list(implied_independences(problem, known))


def test_a_single_row_and_strata_of_single_rows_contradict_nothing():
    problem, environment = tiny()
    for rows in (1, 2, 3):
        log = environment.table([0] * rows, np.random.default_rng(rows))
        assert found_in(problem, log) == ()


def test_a_warning_survives_a_process():
    warning = ContradictedModel(found_in(*direct()))
    assert str(pickle.loads(pickle.dumps(warning))) == str(warning)
    assert math.isfinite(warning.contradictions[0].p_value)
