"""Environments with densities: divergences and truth by integration or by a large sample."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from fairtrial.causal import (
    CausalModel,
    Density,
    ModelError,
    NetworkEnvironment,
    PlugIn,
    Problem,
    divergences,
)
from tests.causal.test_estimation import gaussian_environment
from tests.effort import first
from tests.messages import raises

# Four standard errors: by chance, one score in 16,000 is larger.
SIGMAS = 4.0


def shifted(law, shift, sampled=True):
    """Return the density of a distribution that is shifted by a function of the parents."""

    def sample(parents, n, generator):
        return law.rvs(shift(parents), size=n, random_state=generator)

    return Density(lambda x, parents: law.logpdf(x, shift(parents)), sample if sampled else None)


def probit(names):
    """Return P(Y = 1) = Phi(sum of some parents)."""

    def total(parents):
        return sum(parents[name] for name in names)

    return Density(
        lambda y, parents: norm.logcdf(np.where(y == 1, 1, -1) * total(parents)),
        lambda parents, n, generator: generator.random(n) < norm.cdf(total(parents)),
    )


def laplace_chain(shift=0.2, location=0.0, sampled=True):
    arms = {
        name: shifted(laplace, lambda p, m=mean: location + m + shift * p["S"], sampled)
        for name, mean in (("low", 0.0), ("high", 0.5))
    }
    model = CausalModel(
        [("S", "V"), ("V", "Y")],
        {"S": ["s", "t"], "Y": 2},
        {"S": [0.4, 0.6]},
        {"Y": probit(["V"])},
    )
    return Problem(model, "S", "V", "Y", arms, 0.3)


@pytest.mark.parametrize("location", first(1, [300.0, 0.0]))
def test_divergences_equal_those_of_an_integrator(location):
    problem = laplace_chain(location=location)
    found = divergences(problem)

    def p(x, k, u):
        return laplace.pdf(x, 0.5 * k + 0.2 * u)

    def integral(term):
        return quad(term, -40, 40, points=[0, 0.2, 0.5, 0.7], limit=500)[0]

    def outcome(k, j, u):
        return integral(lambda x: p(x, k, u) * math.exp(p(x, k, u) / p(x, j, u)))

    def gap(k, j):
        def term(x):
            a, b = p(x, k, 0), p(x, k, 1)
            return (a + b) * math.exp(abs(a - b) / p(x, j, 1))

        return integral(term)

    for k in range(2):
        for j in range(2):
            total = 0.4 * outcome(k, j, 0) + 0.6 * outcome(k, j, 1)
            assert found.outcome[k, j] == pytest.approx(math.log(total), rel=1e-6)
            assert found.gap[("s", "t")][k, j] == pytest.approx(math.log(gap(k, j)), rel=1e-6)
    assert found.outcome_error.max() < 1e-6
    assert found.gap_error[("s", "t")].max() < 1e-6


def test_densities_that_are_wrong_or_not_found_are_refused():
    def sample(parents, n, generator):
        return generator.laplace(size=n)

    wrong = Density(lambda x, parents: laplace.logpdf(x) - 1.0, sample)
    environment = NetworkEnvironment(laplace_chain().clone(arms={"wrong": wrong}))
    with raises(ModelError, "densities"):
        _ = environment.truth
    far = laplace_chain(location=3000.0, sampled=False)
    with raises(ModelError, "densities"):
        divergences(far)


def test_a_density_without_a_sampler_is_integrated_around_zero():
    found = divergences(laplace_chain(sampled=False))
    expected = divergences(laplace_chain())
    assert found.outcome == pytest.approx(expected.outcome, rel=1e-6)


def test_the_truth_of_a_density_is_its_integral():
    _, environment = gaussian_environment()
    truth = environment.truth
    # E Phi(V) = Phi(mean / sqrt 2) for a normal V of variance 1.
    expected = norm.cdf(np.array([[-0.3, 0.2], [0.3, 0.8]]) / math.sqrt(2))
    assert truth.means_by_value == pytest.approx(expected, abs=1e-7)
    assert truth.means == pytest.approx(expected @ [0.4, 0.6], abs=1e-7)
    assert truth.details["method"] == "quadrature"
    assert truth.details["error"] < 1e-6
    assert truth.best == "high"


def normal_network(mediators):
    """Return normal V and mediators X0, X1, ... around .3 S; Y is a probit of their sum."""
    names = [f"X{i}" for i in range(mediators)]
    edges = [("S", name) for name in names] + [(name, "Y") for name in names] + [("V", "Y")]
    carrier = shifted(norm, lambda p: 0.3 * p["S"])
    model = CausalModel(
        edges,
        {"S": ["s", "t"], "Y": 2},
        {"S": [0.4, 0.6]},
        {**dict.fromkeys(names, carrier), "Y": probit([*names, "V"])},
    )
    arms = {f"{mean}": shifted(norm, lambda p, m=mean: m) for mean in (0.0, 1.0)}
    problem = Problem(model, "S", "V", "Y", arms, 0.3)
    means = np.array([[0.0, 0.3 * mediators], [1.0, 1.0 + 0.3 * mediators]])
    return problem, norm.cdf(means / math.sqrt(2 + mediators))


def test_two_real_valued_nodes_are_integrated_together():
    problem, expected = normal_network(1)
    truth = NetworkEnvironment(problem).truth
    assert truth.means_by_value == pytest.approx(expected, abs=1e-6)
    assert truth.details["method"] == "quadrature"


@pytest.mark.statistical
def test_more_real_valued_nodes_are_sampled_with_a_stated_error():
    problem, expected = normal_network(2)
    truth = NetworkEnvironment(problem).truth
    assert truth.details["method"] == "sampling"
    assert 0 < truth.details["error"] < 0.002
    assert np.abs(truth.means_by_value - expected).max() < SIGMAS * truth.details["error"]


def observed_environment():
    """Return A -> S -> V -> Y <- A with a normal V, in which S is never forced."""
    table = [[0.7, 0.3], [0.2, 0.8]]
    outcome = Density(
        lambda y, p: norm.logcdf(np.where(y == 1, 1, -1) * (p["V"] + p["A"])),
        lambda p, n, generator: generator.random(n) < norm.cdf(p["V"] + p["A"]),
    )
    model = CausalModel(
        [("A", "S"), ("S", "V"), ("V", "Y"), ("A", "Y")],
        {"A": 2, "S": ["s", "t"], "Y": 2},
        {"A": [0.5, 0.5], "S": table},
        {"Y": outcome},
    )
    arms = {"a": shifted(norm, lambda p: 0.5 * p["S"])}
    return Problem(model, "S", "V", "Y", arms, 0.3, forcing="never")


@pytest.mark.statistical
@pytest.mark.parametrize("dimensions", [0, 2])
def test_an_attribute_with_causes_has_its_own_gaps(monkeypatch, dimensions):
    monkeypatch.setattr("fairtrial.causal._quadrature._MOST_DIMENSIONS", dimensions)
    truth = NetworkEnvironment(observed_environment()).truth
    # The probability that A = 1, by S; then the mean of Phi, by A and the value of S.
    causes = np.array([0.2 / 0.9, 0.8 / 1.1])
    rise = norm.cdf((np.array([0, 1])[:, None] + np.array([0.0, 0.5])) / math.sqrt(2))
    expected = [
        (1 - c) * (rise[0, a] - rise[0, b]) + c * (rise[1, a] - rise[1, b])
        for (a, b), c in (((0, 1), causes[1]), ((1, 0), causes[0]))
    ]
    error = SIGMAS * 2 * truth.details["error"] + 1e-6
    assert [float(gap[0]) for gap in truth.gaps.values()] == pytest.approx(expected, abs=error)


@pytest.mark.statistical
def test_policies_run_in_environments_of_densities():
    problem = laplace_chain()
    environment = NetworkEnvironment(problem)
    policy = PlugIn(problem, 600)
    generator = np.random.default_rng(0)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    assert policy.recommend().arm == environment.truth.best == "high"
