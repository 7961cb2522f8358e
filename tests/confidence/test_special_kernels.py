import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from fairtrial.confidence import thresholds
from fairtrial.confidence.special_kernels import (
    iterated_logarithm_penalty,
    log_ndtr,
    log_scaled_ndtr,
    mixture_cell_log_evalue,
    mixture_cell_log_evalue_mean,
    mixture_penalty,
    stylised_threshold,
)
from fairtrial.confidence.thresholds import KAPPA_GRID
from fairtrial.core.compilation import compiled, kernel
from tests import effort

counts = st.integers(1, 10**6)
kappas = st.floats(0.1, 1e5)

# z, ln Phi(z) and z^2 / 2 + ln Phi(z), computed with 60 digits.
LOG_NDTR = [
    (-1e8, -5000000000000019.3396, -19.339619277157038314),
    (-1e3, -500007.82669481218431, -7.8266948121843098062),
    (-37.5, -707.66898931750719107, -4.5439893175071910661),
    (-20.5, -214.06672896326380017, -3.9417289632638001665),
    (-19.5, -194.01696577749749941, -3.8919657774974994076),
    (-5.0, -15.064998393988725736, -2.5649983939887257361),
    (-1.0, -1.8410216450092635058, -1.3410216450092635058),
    (-1e-3, -0.69394538346696517879, -0.69394488346696517879),
    (0.0, -0.69314718055994530942, -0.69314718055994530942),
    (0.5, -0.36894641528865639307, -0.24394641528865639307),
    (3.0, -0.0013508099647481937988, 4.4986491900352518062),
    (8.0, -6.2209605742717860585e-16, 31.999999999999999378),
    (20.0, -2.7536241186062336951e-89, 200.0),
    (30.0, -4.9067139271481870595e-198, 450.0),
]


# ------------------------------------------------------------------ normal distribution


@pytest.mark.parametrize(("z", "expected", "scaled"), LOG_NDTR)
def test_log_ndtr_has_thirteen_digits(z: float, expected: float, scaled: float) -> None:
    assert log_ndtr(z) == pytest.approx(expected, rel=1.5e-13, abs=0.0)
    assert log_scaled_ndtr(z) == pytest.approx(scaled, rel=1e-13, abs=0.0)


def test_log_ndtr_agrees_with_scipy_over_the_whole_line() -> None:
    tails = np.logspace(-12, 8, 500)
    z = np.concatenate([-tails, np.linspace(-21.0, -19.0, 201), tails[tails < 37.0]])
    ours = np.array([log_ndtr(value) for value in z])
    np.testing.assert_allclose(ours, special.log_ndtr(z), rtol=3e-13)


def test_log_ndtr_at_the_ends() -> None:
    assert log_ndtr(math.inf) == 0.0
    assert log_ndtr(60.0) == 0.0
    assert log_ndtr(-math.inf) == -math.inf
    assert math.isnan(log_ndtr(math.nan))


def test_scaled_log_ndtr_keeps_its_digits_where_a_difference_has_none() -> None:
    z = -3e7
    assert log_scaled_ndtr(z) == pytest.approx(
        -math.log(-z) - 0.5 * math.log(2 * math.pi), abs=1e-14
    )


# ------------------------------------------------------------------------ cell e-values


@pytest.mark.parametrize("pulls", [1, 7, 100, 5000])
@pytest.mark.parametrize("distance", [-0.8, -0.1, 0.0, 0.05, 0.3])
@pytest.mark.parametrize("kappa", [0.5, 8.0, 512.0])
def test_evalue_is_the_mixture_of_likelihood_ratios(
    pulls: int, distance: float, kappa: float
) -> None:
    """The half-normal mixture over effects theta > 0 has prior precision kappa."""
    spread = 1.0 / math.sqrt(pulls + kappa)
    peak = max(0.0, pulls * distance / (pulls + kappa))
    top = pulls * distance * peak - 0.5 * (pulls + kappa) * peak**2

    def likelihood_times_prior(theta: float) -> float:
        exponent = pulls * distance * theta - 0.5 * (pulls + kappa) * theta**2
        return 2.0 * math.sqrt(kappa / (2.0 * math.pi)) * math.exp(exponent - top)

    low, high = max(0.0, peak - 12.0 * spread), peak + 12.0 * spread
    value, _ = integrate.quad(likelihood_times_prior, low, high, epsabs=0, epsrel=1e-12)
    expected = math.log(value) + top
    assert mixture_cell_log_evalue(pulls, distance, kappa) == pytest.approx(expected, abs=1e-10)


def averaged_log_evalue(pulls: int, distance: float) -> float:
    return mixture_cell_log_evalue_mean(pulls, distance, KAPPA_GRID)


def expectation(pulls: int, mean: float, log_evalue) -> float:  # type: ignore[no-untyped-def]
    """Return the expected e-value by quadrature if the mean is `mean` beyond the limit."""

    def integrand(x: float) -> float:
        log_density = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        return math.exp(log_density + log_evalue(pulls, mean + x / math.sqrt(pulls)))

    reach = 14.0 * math.sqrt((pulls + KAPPA_GRID[0]) / KAPPA_GRID[0])
    value, _ = integrate.quad(integrand, -reach, reach, points=[0.0], limit=500, epsrel=1e-11)
    return value


@pytest.mark.parametrize("pulls", [1, 10, 300, 20_000])
@pytest.mark.parametrize("kappa", [8.0, 40.0, 2048.0])
def test_evalue_has_expectation_one_on_the_boundary_and_less_inside(
    pulls: int, kappa: float
) -> None:
    def log_evalue(n: int, d: float) -> float:
        return mixture_cell_log_evalue(n, d, kappa)

    assert expectation(pulls, 0.0, log_evalue) == pytest.approx(1.0, abs=1e-8)
    assert expectation(pulls, -0.5 / math.sqrt(pulls), log_evalue) < 0.999
    assert expectation(pulls, 0.5 / math.sqrt(pulls), log_evalue) > 1.001


@pytest.mark.parametrize("pulls", [1, 10, 300, 20_000])
def test_mean_of_evalues_has_expectation_one_on_the_boundary(pulls: int) -> None:
    assert expectation(pulls, 0.0, averaged_log_evalue) == pytest.approx(1.0, abs=1e-8)


@settings(deadline=None)
@given(st.integers(0, 10**4), st.floats(-6.0, 6.0), st.sampled_from(KAPPA_GRID.tolist()))
def test_one_more_fair_coin_never_raises_the_expected_evalue(
    pulls: int, z: float, kappa: float
) -> None:
    """The exact supermartingale property for coins of +-1 on the boundary of the null."""
    total = z * math.sqrt(pulls)
    before = mixture_cell_log_evalue(pulls, total / max(pulls, 1), kappa)
    after = [mixture_cell_log_evalue(pulls + 1, (total + x) / (pulls + 1), kappa) for x in (-1, 1)]
    assert np.logaddexp(*after) - math.log(2.0) <= before + 1e-12


@settings(deadline=None)
@given(counts, st.floats(-3.0, 3.0), st.floats(0.0, 1.0), kappas)
def test_log_evalue_grows_with_the_distance(
    pulls: int, distance: float, step: float, kappa: float
) -> None:
    def at(d: float) -> tuple[float, float]:
        return mixture_cell_log_evalue(pulls, d, kappa), averaged_log_evalue(pulls, d)

    slack = 1e-12 * (1.0 + pulls * 16.0)
    assert all(
        low <= high + slack for low, high in zip(at(distance), at(distance + step), strict=True)
    )
    assert at(3.5)[0] > at(-3.5)[0]


@settings(deadline=None)
@given(counts, st.floats(0.0, 3.0), kappas)
def test_log_evalue_is_at_most_the_pitfall_plus_log_two(
    pulls: int, distance: float, kappa: float
) -> None:
    """So half the pitfall is a valid filter before the certified test is computed."""
    most = 0.5 * pulls * distance**2 + math.log(2.0)
    assert mixture_cell_log_evalue(pulls, distance, kappa) <= most * (1.0 + 1e-14)
    assert averaged_log_evalue(pulls, distance) <= most * (1.0 + 1e-14)


@settings(deadline=None)
@given(counts, st.floats(-50.0, 50.0), st.lists(kappas, min_size=1, max_size=9))
def test_mean_over_prior_counts_is_the_log_mean_exp(
    pulls: int, distance: float, priors: list[float]
) -> None:
    each = [mixture_cell_log_evalue(pulls, distance, kappa) for kappa in priors]
    expected = special.logsumexp(each) - math.log(len(priors))
    ours = mixture_cell_log_evalue_mean(pulls, distance, np.array(priors))
    assert ours == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_the_grid_has_seven_prior_counts() -> None:
    assert KAPPA_GRID.tolist() == [8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0]


def test_without_data_the_evalue_is_one() -> None:
    assert mixture_cell_log_evalue(0, 0.7, 40.0) == pytest.approx(0.0, abs=1e-15)
    assert averaged_log_evalue(0, 0.7) == pytest.approx(0.0, abs=1e-15)


def test_extreme_counts_neither_overflow_nor_lose_the_sign() -> None:
    assert mixture_cell_log_evalue(10**12, 1.0, 8.0) == pytest.approx(5e11, rel=1e-9)
    assert -60.0 < mixture_cell_log_evalue(10**12, -1.0, 8.0) < -20.0


@kernel
def _largest_evalue(noise):  # type: ignore[no-untyped-def]
    """Return the largest log e-value along each row of noise."""
    largest = np.full(noise.shape[0], -np.inf)
    for path in range(noise.shape[0]):
        total = 0.0
        for n in range(noise.shape[1]):
            total += noise[path, n]
            value = mixture_cell_log_evalue_mean(n + 1, total / (n + 1), KAPPA_GRID)
            largest[path] = max(largest[path], value)
    return largest


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", "coins"])
def test_evalues_ever_reach_one_over_level_with_at_most_that_probability(kind: str) -> None:
    level, paths = 0.1, effort.runs(1000, whole=3000)
    generator = np.random.default_rng(20)
    shape = (paths, 1000)
    noise = (
        generator.standard_normal(shape)
        if kind == "gaussian"
        else 2.0 * generator.integers(0, 2, shape) - 1.0
    )
    with compiled():
        rate = (_largest_evalue(noise) >= math.log(1.0 / level)).mean()
    # Four standard errors of a rate of 0.1.
    assert rate <= level + 4.0 * math.sqrt(level * (1.0 - level) / paths)
    # The test is not vacuous: the e-value does reach 10 on some paths.
    assert rate > 0.01


# ------------------------------------------------------------- one formula, two callers


@settings(deadline=None)
@given(counts, st.floats(1e-6, 0.49), kappas)
def test_compiled_formulas_are_those_of_the_thresholds(
    pulls: int, delta: float, kappa: float
) -> None:
    assert stylised_threshold(pulls, delta) == pytest.approx(
        thresholds.Stylised().threshold(pulls, delta), rel=1e-14
    )
    assert iterated_logarithm_penalty(pulls) == pytest.approx(
        2.0 * math.log(4.0 + math.log(pulls)), rel=1e-14
    )
    assert mixture_penalty(pulls, kappa) == pytest.approx(
        0.5 * math.log1p(pulls / kappa), rel=1e-14
    )
