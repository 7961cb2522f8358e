import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from fairtrial.confidence.thresholds import (
    KAPPA_GRID,
    GaussianMixture,
    KaufmannKoolen,
    Stylised,
    StylisedWithoutHalf,
    Threshold,
    kaufmann_koolen_constant,
    threshold_named,
)
from fairtrial.core.parameters import plain
from fairtrial.errors import InvalidArgument
from tests.confidence.test_bounds import slow_zeta
from tests.messages import raises

ALL = [GaussianMixture(), KaufmannKoolen(), Stylised(), StylisedWithoutHalf()]
PROVEN = [GaussianMixture(), GaussianMixture(kappa=40.0), KaufmannKoolen()]
pull_lists = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)
levels = st.floats(1e-12, 0.49)

# x and C(x), by a golden-section search with 40 digits.
CONSTANTS = [
    (0.0, 1.41690402590738196),
    (0.1, 1.5267281151342144),
    (0.5, 1.9641235889227737),
    (1.0, 2.5070945465805812),
    (3.0, 4.648365117954214),
    (10.0, 11.9546462572538762),
    (50.0, 52.5888795901044127),
    (700.0, 703.852741792302087),
    (10_000.0, 10005.1773096429988),
]


def candidate(lam: float, x: float) -> float:
    g = 2 * lam - 2 * lam * math.log(4 * lam) + math.log(slow_zeta(2 * lam))
    return (g - 0.5 * math.log(1 - lam) + x) / lam


# --------------------------------------------------------------------- Kaufmann-Koolen


@pytest.mark.parametrize(("x", "expected"), CONSTANTS)
def test_kaufmann_koolen_constant_at_exact_values(x: float, expected: float) -> None:
    assert kaufmann_koolen_constant(x) == pytest.approx(expected, rel=1e-12)


def test_kaufmann_koolen_constant_is_the_minimum_on_a_dense_grid() -> None:
    lams = 1.0 - 0.5 * np.logspace(-4, -1e-3, 3000)
    base = np.array([candidate(lam, 0.0) for lam in lams])
    for x in np.linspace(0.0, 60.0, 61):
        on_grid = (base + x / lams).min()
        ours = kaufmann_koolen_constant(float(x))
        assert ours <= on_grid * (1.0 + 1e-10)
        assert ours == pytest.approx(on_grid, rel=2e-6)


@settings(deadline=None)
@given(st.floats(0.0, 500.0), st.floats(0.0, 10.0))
def test_kaufmann_koolen_constant_grows_by_one_to_two_for_one(x: float, step: float) -> None:
    """It is a minimum of lines in x with slopes 1 / lam between 1 and 2, so it is concave."""
    low, high = kaufmann_koolen_constant(x), kaufmann_koolen_constant(x + step)
    assert low + step - 1e-9 <= high <= low + 2.0 * step + 1e-9
    middle = kaufmann_koolen_constant(x + 0.5 * step)
    assert middle >= 0.5 * (low + high) - 1e-9


@settings(deadline=None)
@given(pull_lists, levels)
def test_kaufmann_koolen_thresholds_are_the_sums_of_the_paper(
    pulls: list[int], level: float
) -> None:
    x, m = -math.log(level), len(pulls)
    rule = KaufmannKoolen()
    penalties = [2.0 * math.log(4.0 + math.log(n)) for n in pulls]
    cells = [penalty + kaufmann_koolen_constant(x) for penalty in penalties]
    np.testing.assert_allclose(rule.cell_threshold(pulls, level), cells, rtol=1e-12)
    pair = math.fsum(penalties) + m * kaufmann_koolen_constant(x / m)
    assert float(rule.pair_threshold(pulls, level)) == pytest.approx(pair, rel=1e-12)


@pytest.mark.statistical
def test_kaufmann_koolen_cell_test_keeps_its_level_on_gaussian_paths() -> None:
    level, paths = 0.2, 2000
    pulls = np.arange(1, 1001)
    means = np.random.default_rng(41).standard_normal((paths, 1000)).cumsum(axis=1) / pulls
    crossed = 0.5 * pulls * means**2 > KaufmannKoolen().cell_threshold(pulls, level)
    # Four standard errors of a rate equal to the level.
    assert crossed.any(axis=1).mean() <= level + 4.0 * math.sqrt(level * (1 - level) / paths)


# -------------------------------------------------------------------- Gaussian mixture


@settings(deadline=None)
@given(pull_lists, levels, st.none() | st.floats(0.5, 1e4))
def test_mixture_thresholds_are_those_of_the_specification(
    pulls: list[int], level: float, kappa: float | None
) -> None:
    rule = GaussianMixture(kappa)
    priors = [8.0 * 4.0**j for j in range(7)] if kappa is None else [kappa]
    expected = [
        -math.log(level)
        + math.log(len(priors))
        + 0.5 * math.fsum(math.log(1.0 + n / prior) for n in pulls)
        for prior in priors
    ]
    np.testing.assert_allclose(rule.pair_threshold(pulls, level), expected, rtol=1e-12)
    np.testing.assert_allclose(rule.cell_threshold(pulls, level), -math.log(level))


def test_prior_counts_are_the_grid_unless_one_is_fixed() -> None:
    assert GaussianMixture().kappas is KAPPA_GRID
    assert GaussianMixture(kappa=40).kappas.tolist() == [40.0]


@pytest.mark.parametrize("kappa", [8.0, 40.0, 2048.0])
@pytest.mark.parametrize("pulls", [[1, 1], [3, 400], [10, 20, 30]])
def test_pair_evalue_has_expectation_one_at_the_truth(pulls: list[int], kappa: float) -> None:
    """At the true means, a pair's log e-value is half the shrunk pitfall minus the penalties."""

    def mean_of_factor(n: int) -> float:
        shrunk = n / (n + kappa)
        reach = 12.0 / math.sqrt(1.0 - shrunk)
        normaliser = math.sqrt(2.0 * math.pi)
        return integrate.quad(
            lambda x: math.exp(-0.5 * x * x * (1.0 - shrunk)) / normaliser, -reach, reach
        )[0]

    log_expectation = math.fsum(math.log(mean_of_factor(n)) for n in pulls)
    level = 0.05
    penalty = float(GaussianMixture(kappa).pair_threshold(pulls, level)[0]) + math.log(level)
    assert log_expectation - penalty == pytest.approx(0.0, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("kappa", [None, 40.0])
def test_pair_test_keeps_its_level_when_two_arms_are_equal(kappa: float | None) -> None:
    """Two arms with equal means are drawn in turn; the pitfall is gap^2 / sum(1/w)."""
    level, paths, rounds = 0.2, 2000, 600
    rule = GaussianMixture(kappa)
    noise = np.random.default_rng(42).standard_normal((paths, 2, rounds))
    pulls = np.arange(1, rounds + 1)
    means = noise.cumsum(axis=2) / pulls
    thresholds = rule.pair_threshold(np.stack([pulls, pulls], axis=1), level)
    crossed = np.zeros(paths, dtype=bool)
    for j, prior in enumerate(rule.kappas):
        precisions = pulls**2 / (pulls + prior)
        half_pitfall = 0.5 * (means[:, 0] - means[:, 1]) ** 2 * precisions / 2.0
        crossed |= (half_pitfall >= thresholds[:, j]).any(axis=1)
    # Four standard errors of a rate equal to the level.
    assert crossed.mean() <= level + 4.0 * math.sqrt(level * (1 - level) / paths)


@pytest.mark.parametrize("rule", PROVEN, ids=repr)
def test_pair_threshold_takes_many_tests_at_once(rule: GaussianMixture | KaufmannKoolen) -> None:
    pulls = np.array([[5, 6, 7], [100, 1, 40]])
    together = rule.pair_threshold(pulls, 0.05)
    apart = [rule.pair_threshold(row, 0.05) for row in pulls]
    np.testing.assert_allclose(together, apart, rtol=1e-14)


def test_mixture_pays_less_than_kaufmann_koolen_at_the_sizes_of_experiments() -> None:
    pulls = np.full(20, 200)
    mixture = GaussianMixture().pair_threshold(pulls, 0.01).min()
    assert mixture < KaufmannKoolen().pair_threshold(pulls, 0.01)


# -------------------------------------------------------------------------- heuristics


@settings(deadline=None)
@given(st.integers(1, 10**9), levels)
def test_stylised_threshold_is_the_papers_formula(rounds: int, delta: float) -> None:
    expected = math.log((1.0 + math.log(rounds)) / delta)
    assert float(Stylised().threshold(rounds, delta)) == pytest.approx(expected, rel=1e-13)
    without_half = float(StylisedWithoutHalf().threshold(rounds, delta))
    assert without_half == pytest.approx(0.5 * expected, rel=1e-13)


def test_stylised_threshold_takes_an_array_of_rounds() -> None:
    rounds = np.array([[1, 10], [100, 1000]])
    assert Stylised().threshold(rounds, 0.1).shape == (2, 2)
    assert Stylised().threshold(1, 0.1) == pytest.approx(math.log(10.0))


# ------------------------------------------------------------- names, errors, manners


@pytest.mark.parametrize("rule", ALL, ids=repr)
def test_every_threshold_is_found_by_its_name_and_says_what_it_promises(rule: Threshold) -> None:
    assert threshold_named(rule.name) == rule
    guarantee = rule.guarantee(0.05)
    assert guarantee.name == rule.name
    assert guarantee.proven == rule.proven
    assert guarantee.label == ("heuristic" if isinstance(rule, Stylised) else "proven")
    assert "0.05" in guarantee.statement
    assert guarantee.source == rule.source != ""
    assert guarantee.assumptions


def test_only_the_proven_thresholds_are_called_proven() -> None:
    assert {rule.name for rule in ALL if rule.proven} == {"certified", "kaufmann-koolen"}


@pytest.mark.parametrize("name", ["Certified", "glr", "", None, 3])
def test_an_unknown_name_is_refused_with_those_that_are_known(name: object) -> None:
    with raises(InvalidArgument) as caught:
        threshold_named(name)  # type: ignore[arg-type]
    assert caught.value.name == "stopping"
    for known in ("certified", "kaufmann-koolen", "stylised", "stylised-without-half"):
        assert repr(known) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: GaussianMixture(kappa=0.0), "kappa"),
        (lambda: GaussianMixture(kappa=math.inf), "kappa"),
        (lambda: GaussianMixture().guarantee(1.5), "delta"),
        (lambda: GaussianMixture().pair_threshold([1, 2], level=0.0), "level"),
        (lambda: GaussianMixture().pair_threshold([1, 0], level=0.1), "pulls[1]"),
        (lambda: GaussianMixture().pair_threshold([], level=0.1), "pulls"),
        (lambda: GaussianMixture().pair_threshold(5, level=0.1), "pulls"),
        (lambda: KaufmannKoolen().cell_threshold([3, math.nan], level=0.1), "pulls[1]"),
        (lambda: KaufmannKoolen().cell_threshold(["few"], level=0.1), "pulls[0]"),
        (lambda: KaufmannKoolen().cell_threshold(["5"], level=0.1), "pulls[0]"),
        (lambda: KaufmannKoolen().pair_threshold([1, 2], level=1.0), "level"),
        (lambda: kaufmann_koolen_constant(-1.0), "x"),
        (lambda: Stylised().threshold(0, delta=0.1), "rounds"),
        (lambda: Stylised().threshold(10, delta=2.0), "delta"),
        (lambda: Stylised().guarantee(0.0), "delta"),
    ],
)
def test_bad_input_is_refused_by_name(make, argument: str) -> None:  # type: ignore[no-untyped-def]
    with raises(InvalidArgument) as caught:
        make()
    assert caught.value.name == argument


def test_thresholds_are_frozen_values_that_can_be_written_down() -> None:
    assert GaussianMixture(40.0) == GaussianMixture(kappa=40.0) != GaussianMixture()
    assert Stylised() != StylisedWithoutHalf()
    assert repr(GaussianMixture(40.0)) == "GaussianMixture(kappa=40.0)"
    assert plain(GaussianMixture(40.0)) == {"name": "GaussianMixture", "kappa": 40.0}
    assert not KAPPA_GRID.flags.writeable
