"""Causal problems as durable studies."""

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.causal import (
    BlockBetting,
    ConstraintSuccessiveRejection,
    NetworkEnvironment,
    PlugIn,
)
from fairtrial.core.run import run_policy
from fairtrial.report import write_report
from tests import effort
from tests.causal.betting_instances import region, small, three
from tests.causal.slow import confounded, tiny
from tests.messages import raises


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
    with raises(ft.errors.InvalidOutcome, "outcome: V"):
        study.tell(pull, {"S": "s", "V": 7, "Y": 1})
    study.tell(pull, {"S": pull.sensitive if pull.sensitive != "natural" else "s", "V": 1, "Y": 1})
    assert study.verify().ok


# ------------------------------------------------------------------ what a study is checked for


def run_study(problem, environment, *, seed, skip=lambda pull: False, rows=400, **options):
    """Return a study of block betting after N rows, with some rows skipped."""
    policy = BlockBetting(problem, delta=1e-9, **options)
    study = ft.Study.create(problem, policy, storage="memory://", name="fair", seed=seed)
    generator = np.random.default_rng(seed)
    for _ in range(rows):
        pull = study.ask()
        outcome = environment.sample(pull, generator)
        if not skip(pull):
            study.tell(pull, outcome)
    return study


@pytest.mark.parametrize("randomize", [True, "bernoulli"])
@pytest.mark.parametrize("make", [small, region])
def test_nobody_is_suspected_where_every_row_is_told(make, randomize):
    problem, environment = make()
    for seed in range(effort.runs(1, whole=3)):
        with run_study(problem, environment, seed=seed, randomize=randomize) as study:
            assert study.health()["warnings"] == []


def test_rows_of_an_arm_that_are_preferred_are_found():
    problem, environment = three()
    with run_study(problem, environment, seed=1, skip=lambda pull: pull.arm != "0") as study:
        warnings = study.health()["warnings"]
    said = "more results came from '0' than pulls drawn at random can explain"
    assert any(warning.startswith(said) for warning in warnings)


@pytest.mark.parametrize("make", [small, region])
def test_the_propensity_is_that_of_the_arm_among_pulls_of_its_mode(make):
    problem, _ = make()
    policy = BlockBetting(problem, seed=4)
    modes = len(problem.modes)
    pulls = policy.ask(20)
    left = np.bincount([pull.action for pull in pulls], minlength=problem.n_actions)
    for pull in pulls:
        same = left[pull.action % modes :: modes]
        assert pull.propensity == pytest.approx(left[pull.action] / same.sum())
        left[pull.action] -= 1


# ---------------------------------------------------------------------------- what is shown


def test_gaps_are_reported_with_their_bound_and_the_evidence_for_it(tmp_path):
    problem, environment = small()
    policy = BlockBetting(problem, delta=0.05)
    with ft.Study.create(problem, policy, storage="memory://", name="fair", seed=3) as study:
        generator = np.random.default_rng(3)
        while not study.recommend().decided:
            pull = study.ask()
            study.tell(pull, environment.sample(pull, generator))
        limits = study.progress().value_limits
        page = write_report(study, tmp_path / "fair.html").read_text(encoding="utf-8")
    assert len(limits) == problem.n_arms
    own = {row.arm: row for row in limits}
    (gap,) = {row.of for row in limits}
    assert gap == "s instead of s'"
    best = own[environment.truth.best]
    assert abs(best.value) < best.bound == problem.fairness_bound
    # "No arm is fair" was ruled out by this arm's limits alone.
    assert best.log_wealth >= np.log(20)
    assert own["0"].log_wealth is None
    assert "Counterfactual gaps, to be between" in page
    assert "Evidence that it is kept" in page
    assert "none interval" not in page


def test_where_the_attribute_has_parents_both_gaps_of_a_pair_are_limits():
    problem, environment = region()
    with run_study(problem, environment, seed=2, rows=600) as study:
        limits = study.progress().value_limits
    assert [row.of for row in limits[:2]] == ["s instead of t", "t instead of s"]
    assert len(limits) == 2 * problem.n_arms


def test_rules_with_a_budget_report_gaps_without_evidence():
    problem, environment = three()
    policy = PlugIn(problem, 60)
    run_policy(policy, environment, np.random.default_rng(0))
    limits = policy.progress().value_limits
    assert len(limits) == 3 * problem.n_arms
    assert limits[0].log_wealth is None
