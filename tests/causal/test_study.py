"""Causal questions as durable studies."""

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.causal import ConstraintSuccessiveRejection, NetworkEnvironment, PlugIn
from fairtrial.core.run import run_policy
from tests.causal.slow import confounded, tiny


def forced_problem():
    return tiny(costs=[0, 1, 1], mean_budget=0.7)[0]


QUESTIONS = [
    (forced_problem, PlugIn, {}),
    (forced_problem, PlugIn, {"phased": True, "estimator": "mis"}),
    (forced_problem, ConstraintSuccessiveRejection, {"variant": 1}),
    (lambda: confounded(2, fairness_bound=0.3), PlugIn, {}),
]


@pytest.mark.parametrize(("make", "cls", "options"), QUESTIONS)
def test_a_study_is_reopened_audited_and_carried_away(tmp_path, make, cls, options):
    problem = make()
    environment = NetworkEnvironment(problem)
    generator = np.random.default_rng(2)
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    study = ft.Study.create(problem, cls(problem, 40, **options), storage=storage, name="fair")
    rows = 0
    while not study.recommend().decided:
        pull = study.ask()
        study.tell(pull, environment.sample(pull, generator))
        rows += 1
        if rows in (1, 17):
            study.close()
            study = ft.Study.open(storage, "fair")
            assert study.problem == problem
    plain = run_policy(cls(problem, 40, **options), environment, np.random.default_rng(2))
    answer = study.recommend()
    assert (answer.arm, rows) == (plain.answer, plain.stopping_time)
    assert study.verify().ok
    file = study.export(tmp_path / "fair.jsonl")
    other = ft.Study.import_log(file, storage=f"sqlite:///{tmp_path / 'other.db'}")
    assert other.recommend() == answer
    assert other.verify().ok


def test_the_proven_rule_is_the_default():
    problem, _ = tiny()
    assert problem.default_policy == ft.causal.BlockBetting.__name__
    found = ft.core.specification.policy_class(problem.default_policy, problem)
    assert found is ft.causal.BlockBetting


def test_a_bad_row_is_refused_and_the_pull_stays_open(tmp_path):
    problem, _ = tiny()
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    study = ft.Study.create(problem, PlugIn(problem, 9), storage=storage, name="fair")
    pull = study.ask()
    with pytest.raises(ft.errors.InvalidOutcome, match="V must be one of"):
        study.tell(pull, {"S": "s", "V": 7, "Y": 1})
    study.tell(pull, {"S": pull.sensitive if pull.sensitive != "natural" else "s", "V": 1, "Y": 1})
    assert study.verify().ok
