import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.causal import CausalModel, Density, ModelError, Problem, chain, divergences
from fairtrial.causal.divergences import _log_means
from tests.causal.slow import diamond, gap_divergence, outcome_divergence, tiny
from tests.messages import raises, warns

ST = ("s", "s'")
TS = ("s'", "s")


def test_the_textbook_chain_has_the_reference_values():
    found = divergences(tiny()[0])
    expected = [
        [1, 2.81969027, 3.47063066],
        [1.80966995, 1, 2.23332513],
        [2.42011237, 3.8402678, 1],
    ]
    assert found.outcome == pytest.approx(np.array(expected), abs=1e-7)
    expected = [
        [0.89748667, 1.29119597, 0.92569561],
        [0.9244102, 0.99878496, 1.02245604],
        [1.95922347, 3.57030914, 2.56474744],
    ]
    assert found.gap[ST] == pytest.approx(np.array(expected), abs=1e-7)
    expected = [
        [0.92569561, 0.99123141, 1.28736759],
        [1.02245604, 0.89124342, 0.98745949],
        [2.56474744, 2.02520887, 3.56732477],
    ]
    assert found.gap[TS] == pytest.approx(np.array(expected), abs=1e-7)


def test_ratios_near_a_thousand_do_not_overflow():
    arms = {"k0": [[0.999, 0.001]] * 2, "k1": [[0.001, 0.999], [0.002, 0.998]]}
    found = divergences(chain(0.5, arms, [0.1, 0.9], 0.2)[0]).outcome
    expected = [[1, 998.305852], [998.618845, 1]]
    assert found == pytest.approx(np.array(expected), rel=1e-8)


def test_without_overlap_a_divergence_is_infinite_and_its_information_zero():
    arms = {"k0": [[0.5, 0.5, 0], [0.4, 0.6, 0]], "k1": [[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]}
    found = divergences(chain(0.5, arms, [0.1, 0.1, 0.9], 0.2)[0])
    assert found.outcome == pytest.approx(np.array([[1, 1.993978], [math.inf, 1]]), abs=1e-6)
    assert found.outcome_information[1, 0] == 0.0


@pytest.mark.parametrize("carrier", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_enumeration_by_cells_equals_enumeration_of_all_nodes(seed, carrier):
    problem = diamond(seed, arms=2, intervened_is_carrier=carrier)
    found = divergences(problem)
    labels = problem.arm_labels
    for k, target in enumerate(labels):
        for j, source in enumerate(labels):
            slow = outcome_divergence(problem, target, source)
            assert found.outcome[k, j] == pytest.approx(slow, rel=1e-10)
            for a, b in ((0, 1), (1, 0)):
                pair = (problem.values[a], problem.values[b])
                slow = gap_divergence(problem, target, source, a, b)
                assert found.gap[pair][k, j] == pytest.approx(slow, rel=1e-10)


@given(st.integers(0, 10_000))
def test_divergences_keep_their_lower_bounds(seed):
    generator = np.random.default_rng(seed)
    arms = generator.dirichlet(np.full(4, 0.5), size=(3, 2))
    found = divergences(chain(generator.random(), arms, np.ones(4), 0.2)[0])
    assert (found.outcome >= 1 - 1e-12).all()
    assert np.diag(found.outcome) == pytest.approx(1.0)
    assert all((matrix >= math.log(2) - 1e-12).all() for matrix in found.gap.values())


def test_equal_distributions_under_both_values_give_log_two():
    found = divergences(chain(0.4, {"a": [[0.3, 0.7]] * 2}, [0.1, 0.9], 0.2)[0])
    assert found.gap[ST] == pytest.approx(math.log(2))


def test_nothing_carries_the_attribute_then_there_are_no_gaps():
    model = CausalModel([("V", "Y")], {"S": ["a", "b"], "V": 2, "Y": 2}, {"S": [0.5, 0.5]})
    problem = Problem(model, "S", "V", "Y", {"a": [0.5, 0.5], "b": [0.9, 0.1]}, 0.1)
    found = divergences(problem)
    assert found.gap == {}
    assert found.outcome.shape == (2, 2)


def test_missing_distributions_are_named():
    edges = [("S", "X"), ("A", "X"), ("X", "Y"), ("V", "Y")]
    sizes = {"S": 2, "A": 2, "X": 2, "V": 2, "Y": 2}
    tables = {"X": np.full((2, 2, 2), 0.5), "S": [0.5, 0.5]}
    problem = Problem(CausalModel(edges, sizes, tables), "S", "V", "Y", {"a": [0.5, 0.5]}, 0.1)
    with raises(ModelError, "model"):
        divergences(problem)


def gaussian_chain(shift=0.5):
    """Return a chain in which S shifts V's mean by `shift`, and arms by 0 and 1; var V = 1."""

    def arm(mean):
        def logpdf(x, parents):
            centre = mean + shift * parents["S"]
            return -0.5 * (x - centre) ** 2 - 0.5 * math.log(2 * math.pi)

        def sample(parents, n, generator):
            return mean + shift * parents["S"] + generator.standard_normal(n)

        return Density(logpdf, sample)

    model = CausalModel([("S", "V"), ("V", "Y")], {"S": ["s", "s'"]}, {"S": [0.4, 0.6]})
    return Problem(model, "S", "V", "Y", {"zero": arm(0.0), "one": arm(0.3)}, 0.2)


@pytest.mark.statistical
def test_densities_are_sampled_with_a_jackknife_error_that_covers_the_truth(monkeypatch):
    monkeypatch.setattr("fairtrial.causal._quadrature._MOST_DIMENSIONS", 0)
    from scipy.integrate import quad
    from scipy.stats import norm

    problem = gaussian_chain(shift=0.2)
    found = divergences(problem, samples=20_000, seed=1)

    def direct(k, j):
        means = [0.0, 0.3]

        def term(x, u):
            a, b = (norm.pdf(x, means[i] + 0.2 * u) for i in (k, j))
            return a * math.exp(a / b)

        # Cut where no sample falls, because the ratio's tail makes the integral infinite.
        parts = [quad(term, -9, 4.5, args=(u,), limit=200)[0] for u in (0, 1)]
        return math.log(0.4 * parts[0] + 0.6 * parts[1])

    assert found.outcome[0, 0] == pytest.approx(1.0)
    assert found.outcome_error[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert 0 < found.outcome_error[1, 0] < 0.02
    assert abs(found.outcome[1, 0] - direct(1, 0)) < 4 * found.outcome_error[1, 0]
    assert found.gap[ST].shape == (2, 2)


@pytest.mark.parametrize("dimensions", [0, 2])
def test_a_heavy_tail_is_warned_of(monkeypatch, dimensions):
    monkeypatch.setattr("fairtrial.causal._quadrature._MOST_DIMENSIONS", dimensions)
    problem = gaussian_chain(shift=4.0)
    with warns(RuntimeWarning):
        divergences(problem, samples=1000)


def test_a_sample_says_nothing_of_its_error_where_one_row_carries_more_than_half():
    exponents = np.log([[6.0, 4.0], [2.0, 3.0], [2.0, 3.0]])
    value, error = _log_means(exponents, 3)
    assert value == pytest.approx([math.log(10.0 / 3.0)] * 2)
    left_out = np.log([0.6, 0.7, 0.7])
    jackknife = math.sqrt(2.0 / 3.0 * ((left_out - left_out.mean()) ** 2).sum())
    assert error == pytest.approx([math.inf, jackknife])
