"""Means weighted by propensities, against the sums over the events of a log."""

import numpy as np
import pytest

from fairtrial import Study, allocation, delayed, linear, report, subpopulations

RANGE = {"reward_range": (0, 1)}
FAMILIES = {
    "subpopulations": lambda **options: subpopulations.BlockBetting(
        subpopulations.Problem(["a", "b"], ["x", "y"], floors=None, **RANGE), **options
    ),
    "delayed": lambda **options: delayed.BlockBetting(
        delayed.Problem(["a", "b"], **RANGE), **options
    ),
    "linear": lambda **options: linear.BlockBetting(
        linear.Problem([[1.0, 0.0], [1.0, 1.0]], **RANGE), **options
    ),
}


def study_of(policy):
    return Study.create(policy.problem, policy, storage="memory://", name="t", seed=3)


def slow_means(study):
    """Return the weighted means, from the last outcome of every pull that was drawn."""
    weights, values = {}, {}
    for event in study.events():
        if event.kind == "ask" and "propensity" in event.body:
            weights[event.pull_id] = (event.action, 1 / event.body["propensity"])
        elif event.kind in ("tell", "late_tell", "amend"):
            values[event.pull_id] = event.value
    found = []
    for action in range(study.problem.n_actions):
        known = [(values[i], w) for i, (a, w) in weights.items() if a == action and i in values]
        found.append(_average(known))
    return found


def _average(known):
    if not known:
        return None
    values, weights = zip(*known, strict=True)
    return np.average(values, weights=weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_weighted_by_the_inverse_of_their_propensity(family):
    study = study_of(FAMILIES[family](delta=0.05))
    generator = np.random.default_rng(2)
    assert study.weighted_means() == [None] * study.problem.n_actions
    for number in range(120):
        pull = study.ask()
        if number % 7 == 3:
            study.fail(pull, reason="lost")
            if number % 2:
                study.tell(pull, 0.9)
            continue
        study.tell(pull, float(generator.random()))
        if number % 11 == 5:
            study.amend(pull, 0.1, reason="typo")
    assert study.weighted_means() == pytest.approx(slow_means(study))


def test_pulls_in_a_fixed_order_have_no_weights():
    study = study_of(FAMILIES["delayed"](delta=0.05, randomize=False))
    study.tell(study.ask(), 0.5)
    assert study.weighted_means() == [None, None]


def test_a_policy_that_draws_nothing_has_no_weighted_means():
    problem = allocation.Problem(["a", "b"], shares=["1/3", "1/3"])
    study = study_of(allocation.FairLearn(problem, learner=allocation.UCB1()))
    study.tell(study.ask(), 1.0)
    assert study.weighted_means() == [None, None]


def test_the_report_shows_them_beside_the_estimates(tmp_path):
    study = study_of(FAMILIES["subpopulations"](delta=0.05))
    plain = report.write_report(study, tmp_path / "none.html").read_text()
    assert "Weighted means" not in plain
    for value in np.linspace(0, 1, 40):
        study.tell(study.ask(), float(value))
    page = report.write_report(study, tmp_path / "some.html").read_text()
    assert "Weighted means: 4 rows" in page
    for mean in study.weighted_means():
        assert f"{mean:.3f}" in page
    blinded = report.write_report(study, tmp_path / "blind.html", blinded=True).read_text()
    assert "Weighted means" not in blinded
