import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fairtrial.confidence import StudentMixture
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.messages import raises


def summaries(values):
    values = np.asarray(values, dtype=float)
    mean = values.mean(axis=-1)
    return values.shape[-1], mean, ((values - mean[..., None]) ** 2).sum(axis=-1)


def slow_log_evidence(values, effect, overlap):
    """Integrate the likelihood over the standard deviation and over the prior of the mean.

    The values share a normal error, so their covariance, in units of the variance, is the identity
    plus `overlap` in all entries. The density of the standard deviation s is 1/s.
    """
    n, mean, squares = summaries(values)

    def density(center, spread):
        """Return the density of the values for this standardised mean, integrated over s."""

        def of_log_s(log_s):
            s = math.exp(log_s)
            shared = 1.0 + n * spread
            form = squares / s**2 + n * (mean / s - center) ** 2 / shared
            return s**-n / math.sqrt(shared) * math.exp(-0.5 * form)

        top = math.log(math.sqrt(squares / n + mean**2))
        return integrate.quad(of_log_s, top - 12, top + 12, limit=400, epsabs=0)[0]

    def of_effect(center):
        prior = 2.0 * stats.norm.pdf(center / effect) / effect
        return prior * density(center, overlap)

    mixed, _ = integrate.quad(of_effect, 0.0, 9.0 * effect, limit=400, epsabs=0, epsrel=1e-9)
    return math.log(mixed / density(0.0, overlap))


@pytest.mark.parametrize("overlap", [0.0, 0.25, 2.0])
@pytest.mark.parametrize(
    ("effect", "values"),
    [
        (2.0, [0.3, -0.1, 0.5, 0.4, 0.2]),
        (1.0, [0.3, -0.1, 0.5, 0.4, 0.2]),
        (2.0, [-0.3, 0.1, -0.4]),
        (3.0, [1.0, 1.1]),
    ],
)
def test_the_evidence_is_the_likelihood_ratio_integrated_over_mean_and_deviation(
    effect, values, overlap
):
    mixture = StudentMixture(effect, overlap)
    expected = slow_log_evidence(values, effect, overlap)
    assert mixture.log_evidence(*summaries(values)) == pytest.approx(expected, abs=1e-6)


def test_without_the_half_normal_it_is_the_mixed_ratio_of_noncentral_t():
    values = np.array([0.3, -0.1, 0.5, 0.4, 0.2])
    t = stats.ttest_1samp(values, 0.0).statistic

    def mixed(center):
        return stats.nct.pdf(t, 4, math.sqrt(5) * center) * stats.halfnorm.pdf(center, scale=2.0)

    expected = math.log(integrate.quad(mixed, 0, 16)[0] / stats.t.pdf(t, 4))
    assert StudentMixture(2.0).log_evidence(*summaries(values)) == pytest.approx(expected, rel=1e-6)


def paths(values, mixture):
    """Return the evidence after each value, shape (runs, times)."""
    return np.column_stack(
        [mixture.log_evidence(*summaries(values[:, :n])) for n in range(1, values.shape[1] + 1)]
    )


@pytest.mark.statistical
@pytest.mark.parametrize("overlap", [0.0, 0.25])
@pytest.mark.parametrize("mean", [0.0, -0.3])
def test_it_is_ever_large_at_most_as_often_as_promised(overlap, mean):
    """If values share an error as assumed; under mean 0 its mean is one at every time."""
    runs = effort.runs(4_000, whole=40_000)
    rng = np.random.default_rng(7)
    shared = math.sqrt(overlap) * rng.normal(size=(runs, 1))
    evidence = paths(mean + shared + rng.normal(size=(runs, 60)), StudentMixture(2.0, overlap))
    for level in (0.2, 0.05, 0.01):
        often = np.mean(evidence.max(axis=1) >= math.log(1.0 / level))
        assert often <= level + 4.0 * math.sqrt(level / runs)
    if not mean:
        early = np.exp(evidence[:, :2])
        noise = early.std(axis=0) / math.sqrt(runs)
        assert (abs(early.mean(axis=0) - 1.0) <= 5.0 * noise).all()


@pytest.mark.statistical
def test_values_that_share_an_error_deceive_a_test_that_does_not_know_of_it():
    rng = np.random.default_rng(8)
    values = 0.5 * rng.normal(size=(1_000, 1)) + rng.normal(size=(1_000, 60))
    wrong = [
        np.mean(paths(values, StudentMixture(2.0, overlap)).max(axis=1) >= math.log(20.0))
        for overlap in (0.0, 0.25)
    ]
    assert wrong[0] > 0.2
    assert wrong[1] < 0.05


def test_it_finds_a_large_effect_within_few_values_and_its_limit_is_approached():
    mixture = StudentMixture(2.0, 0.25)
    assert mixture.log_evidence(6, 1.0, 0.0) > math.log(200.0)
    many = 10**7
    limit = mixture.in_the_limit([0.5, 1.5, 3.0])
    reached = mixture.log_evidence(many, [0.5, 1.5, 3.0], float(many))
    np.testing.assert_allclose(reached, limit, atol=1e-4)
    assert (
        StudentMixture().in_the_limit([-1.0, 0.0, 1.0]) == [-math.inf, -math.inf, math.inf]
    ).all()


@given(
    st.integers(1, 200),
    st.floats(-1e6, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 10),
    st.floats(0.01, 1e5),
)
def test_evidence_grows_with_the_mean_and_does_not_depend_on_units(
    count, mean, squares, overlap, more
):
    mixture = StudentMixture(2.0, overlap)
    here = mixture.log_evidence(count, mean, squares)
    assert mixture.log_evidence(count, mean + more, squares) >= here - 1e-9
    scaled = mixture.log_evidence(count, 2.0**10 * mean, 2.0**20 * squares)
    assert scaled == pytest.approx(float(here), abs=1e-9)


@pytest.mark.parametrize("scale", [1e-160, 1e-150, 1.0, 1e150])
def test_extreme_scales_neither_over_nor_underflow(scale):
    mixture = StudentMixture()
    here = mixture.log_evidence(9, scale, 9 * (0.2 * scale) ** 2)
    assert here == pytest.approx(float(mixture.log_evidence(9, 1.0, 9 * 0.2**2)), rel=2e-4)


def test_nothing_is_known_of_no_values_and_of_zeros():
    mixture = StudentMixture()
    assert mixture.log_evidence(0, 0.0, 0.0) == 0.0
    assert (mixture.log_evidence(9, [0.0, 0.0], [0.0, 1.0])[0]) == 0.0
    assert mixture.least_mean(0, 0.0, 3.0) == math.inf


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_the_least_mean_is_where_the_evidence_is_reached(overlap):
    mixture = StudentMixture(2.0, overlap)
    squares = np.array([0.3, 1e-8])
    least = mixture.least_mean(12, squares, 4.0)
    np.testing.assert_allclose(mixture.log_evidence(12, least, squares), 4.0, atol=1e-9)
    assert (mixture.least_mean(2, squares, 9.0) == math.inf).all()
    assert mixture.least_mean(12, 0.0, 4.0) == 0.0


def test_it_calls_itself_calibrated_and_names_the_shared_error():
    promise = StudentMixture(overlap=0.25).guarantee(0.05)
    assert (promise.label, promise.proven) == ("calibrated", False)
    assert "at most 0.05" in promise.statement
    assert "0.25 times the variance" in promise.assumptions[1]
    assert len(StudentMixture().guarantee(0.05).assumptions) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"effect": 0.0}, {"effect": math.nan}, {"overlap": -0.1}, {"overlap": math.inf}],
    ids=str,
)
def test_bad_parameters_are_refused(wrong):
    with raises(InvalidArgument, next(iter(wrong))):
        StudentMixture(**wrong)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ((-1, 0.0, 1.0), "count"),
        ((2.5, 0.0, 1.0), "count"),
        ((2, math.nan, 1.0), "mean"),
        ((2, 0.0, -1.0), "squares"),
        ((2, 0.0, math.inf), "squares"),
    ],
)
def test_bad_summaries_are_refused(wrong, name):
    with raises(InvalidArgument, name):
        StudentMixture().log_evidence(*wrong)
