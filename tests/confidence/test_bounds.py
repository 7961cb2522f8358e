import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from fairtrial.confidence.bounds import Bound, FiniteLIL, NormalMixture, PolynomialStitching
from fairtrial.core.parameters import plain
from fairtrial.errors import InvalidArgument
from tests.messages import raises

BOUNDS = [FiniteLIL(), FiniteLIL(one_sided=True), PolynomialStitching(), NormalMixture()]
levels = st.floats(1e-12, 0.49)
pull_numbers = st.floats(1.0, 1e9)


def slow_zeta(s: float) -> float:
    """Return Riemann's zeta for s > 1, by a long sum and its Euler-Maclaurin remainder."""
    n = 200
    head = math.fsum(k**-s for k in range(1, n))
    return head + n ** (1 - s) / (s - 1) + 0.5 * n**-s + s * n ** (-s - 1) / 12


# ----------------------------------------------------------------------- the numbers


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (FiniteLIL(), [3.674870134158567, 1.4575724542944464, 0.4781270812003565]),
        (FiniteLIL(one_sided=True), [3.461177069393983, 1.4042881042701842, 0.46190504197816845]),
        (PolynomialStitching(), [2.933398411817317, 1.1329132326435272, 0.3805627890010029]),
        (NormalMixture(), [3.0378110214259526, 1.0350193676733173, 0.35934829268760443]),
    ],
)
def test_radius_at_the_reference_values(bound: Bound, expected: list[float]) -> None:
    np.testing.assert_allclose(bound.radius([1, 10, 100], level=0.05), expected, rtol=1e-9)


def test_finite_lil_at_other_levels_and_counts() -> None:
    assert FiniteLIL().radius(100, 0.0005) == pytest.approx(0.5743859763860103, rel=1e-9)
    assert FiniteLIL().radius(10**6, 0.05) == pytest.approx(0.005046241779232513, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1.01, 3.0), st.floats(0.02, 2.0), pull_numbers, levels, st.booleans())
def test_finite_lil_spends_exactly_its_level(
    c: float, excess: float, pulls: float, level: float, one_sided: bool
) -> None:
    """The lemma's failure probability is zeta(2a/c) exp(-2b/c) per side, at the radius's b."""
    a = 0.5 * c * (1.0 + excess)
    radius = float(FiniteLIL(a, c, one_sided).radius(pulls, level))
    b = pulls * (radius / 2.0) ** 2 - a * math.log(math.log(pulls) / math.log(c) + 1.0)
    log_spent = math.log(slow_zeta(2 * a / c)) - 2 * b / c + (0.0 if one_sided else math.log(2))
    assert log_spent == pytest.approx(math.log(level), abs=1e-7)


@settings(deadline=None)
@given(pull_numbers, st.floats(1e-12, 0.2))
def test_stitching_covers_the_theorem_that_its_constants_round(pulls: float, level: float) -> None:
    """Theorem 1 of the paper with eta = 2.04, s = 1.4 is never wider, and hardly narrower."""
    eta, s = 2.04, 1.4
    scale = (eta**0.25 + eta**-0.25) / math.sqrt(2.0)
    log_zeta = math.log(slow_zeta(s)) - s * math.log(math.log(eta))
    growth = s * math.log(math.log(eta * pulls)) + log_zeta - math.log(level)
    theorem = scale * math.sqrt(growth / pulls)
    ours = float(PolynomialStitching().radius(pulls, level))
    assert theorem <= ours <= 1.03 * theorem


@settings(deadline=None, max_examples=30)
@given(st.floats(0.2, 1e4), st.floats(1e-8, 0.49), st.floats(0.01, 100.0))
def test_normal_mixture_is_where_the_mixture_martingale_reaches_one_over_level(
    pulls: float, level: float, prior: float
) -> None:
    total = pulls * float(NormalMixture(prior).radius(pulls, level))
    precision = pulls + prior
    peak, spread = total / precision, 1.0 / math.sqrt(precision)
    top = total * peak - 0.5 * precision * peak**2

    def martingale_times_prior(s: float) -> float:
        exponent = s * total - 0.5 * s * s * precision - top
        return math.sqrt(prior / (2.0 * math.pi)) * math.exp(exponent)

    value, _ = integrate.quad(martingale_times_prior, peak - 12 * spread, peak + 12 * spread)
    assert math.log(value) + top == pytest.approx(-math.log(level), rel=1e-8)


def test_one_side_costs_half_the_level_of_two() -> None:
    one_sided = FiniteLIL(one_sided=True).radius([1, 10, 1000], 0.02)
    np.testing.assert_allclose(one_sided, FiniteLIL().radius([1, 10, 1000], 0.04), rtol=1e-14)


# ------------------------------------------------------------------------- the shape


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_radius_shrinks_with_pulls_and_grows_with_confidence(bound: Bound) -> None:
    pulls = np.unique(np.logspace(0, 9, 400).astype(int))
    assert (np.diff(bound.radius(pulls, 0.05)) < 0).all()
    assert (bound.radius(pulls, 0.01) > bound.radius(pulls, 0.05)).all()


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_radius_is_infinite_without_data_and_proportional_to_sigma(bound: Bound) -> None:
    radius = bound.radius([[0, 1, 5], [7, 0, 9]], 0.1, sigma=[0.5, 1.0, 2.0])
    assert radius.shape == (2, 3)
    assert np.isinf(radius).tolist() == [[True, False, False], [False, True, False]]
    assert radius[1, 2] == pytest.approx(2.0 * float(bound.radius(9, 0.1)), rel=1e-14)
    assert bound.radius(3, 0.1, sigma=0.0) == 0.0
    assert bound.radius(0, 0.1, sigma=0.0) == math.inf


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_below_one_pull_only_the_mixture_says_anything(bound: Bound) -> None:
    assert np.isfinite(bound.radius(0.5, 0.05)) == isinstance(bound, NormalMixture)


# ------------------------------------------------------------------------ the coverage


def paths_that_leave(bound: Bound, noise: np.ndarray, level: float, shrink: float = 1.0) -> float:
    pulls = np.arange(1, noise.shape[1] + 1)
    means = noise.cumsum(axis=1) / pulls
    away = means if bound.one_sided else np.abs(means)
    return float((away > shrink * bound.radius(pulls, level)).any(axis=1).mean())


def noise_of(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if kind == "gaussian":
        return generator.standard_normal(shape)
    if kind == "coins":
        return 2.0 * generator.integers(0, 2, shape) - 1.0
    # Asymmetric coins in [-1, 1] around their mean, as far from Gaussian as the range allows.
    return np.where(generator.random(shape) < 0.1, 0.9, -0.1) / 0.5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", "coins", "lopsided"])
@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_some_mean_of_a_path_leaves_the_bound_with_at_most_the_level(
    bound: Bound, kind: str
) -> None:
    level, paths = 0.2, 3000
    rate = paths_that_leave(bound, noise_of(kind, (paths, 1000), seed=31), level)
    # Four standard errors of a rate equal to the level.
    assert rate <= level + 4.0 * math.sqrt(level * (1.0 - level) / paths)


@pytest.mark.statistical
def test_coverage_of_the_mixture_is_not_vacuous() -> None:
    noise = noise_of("gaussian", (3000, 1000), seed=32)
    assert paths_that_leave(NormalMixture(), noise, level=0.2) > 0.03


@pytest.mark.statistical
def test_published_lemma_without_the_factor_two_does_not_hold() -> None:
    """The specification measured 29.9 % of paths at level 0.05; within four standard errors."""
    paths = 4000
    noise = noise_of("gaussian", (paths, 1000), seed=33)
    printed = paths_that_leave(FiniteLIL(), noise, level=0.05, shrink=0.5)
    assert printed == pytest.approx(
        0.299, abs=4.0 * math.sqrt(0.3 * 0.7 * (1 / paths + 1 / 20_000))
    )
    assert paths_that_leave(FiniteLIL(), noise, level=0.05) < 0.005


# ------------------------------------------------------------- names, errors, manners


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_every_bound_says_what_it_promises(bound: Bound) -> None:
    guarantee = bound.guarantee
    assert guarantee.proven
    assert guarantee.label == "proven"
    assert guarantee.name == bound.name
    assert guarantee.source == bound.source != ""
    assert len(guarantee.assumptions) == 2
    assert ("each side has its own level" in guarantee.statement) == bound.one_sided


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: FiniteLIL(c=1.0), "c"),
        (lambda: FiniteLIL(c=math.nan), "c"),
        (lambda: FiniteLIL(a=0.55, c=1.1), "a"),
        (lambda: FiniteLIL(a=math.inf), "a"),
        (lambda: FiniteLIL(one_sided="yes"), "one_sided"),  # type: ignore[arg-type]
        (lambda: NormalMixture(prior=0.0), "prior"),
        (lambda: NormalMixture(prior="few"), "prior"),  # type: ignore[arg-type]
        (lambda: NormalMixture().radius(10, level=0.0), "level"),
        (lambda: NormalMixture().radius(10, level=1.0), "level"),
        (lambda: NormalMixture().radius([3, -1], level=0.1), "pulls[1]"),
        (lambda: NormalMixture().radius([3, math.nan], level=0.1), "pulls[1]"),
        (lambda: NormalMixture().radius(math.inf, level=0.1), "pulls"),
        (lambda: NormalMixture().radius("many", level=0.1), "pulls"),
        (lambda: NormalMixture().radius("10", level=0.1), "pulls"),  # type: ignore[arg-type]
        (lambda: NormalMixture().radius(10**400, level=0.1), "pulls"),
        (lambda: NormalMixture().radius(3, level=0.1, sigma=-1.0), "sigma"),
        (lambda: NormalMixture().radius([1, 2, 3], level=0.1, sigma=[1.0, 1.0]), "sigma"),
    ],
)
def test_bad_input_is_refused_by_name(make, argument: str) -> None:  # type: ignore[no-untyped-def]
    with raises(InvalidArgument) as caught:
        make()
    assert caught.value.name == argument


def test_bounds_are_frozen_values_that_can_be_written_down() -> None:
    bound = FiniteLIL(a=0.7)
    assert bound == FiniteLIL(a=0.7) != FiniteLIL()
    assert len({bound, FiniteLIL(a=0.7)}) == 1
    assert repr(bound) == "FiniteLIL(a=0.7)"
    assert plain(bound) == {"name": "FiniteLIL", "a": 0.7, "c": 1.1, "one_sided": False}
    assert bound.clone(one_sided=True) == FiniteLIL(a=0.7, one_sided=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.a = 1.0  # type: ignore[misc]


def test_importing_bounds_and_thresholds_loads_neither_numba_nor_a_part_of_scipy() -> None:
    code = (
        "import sys, fairtrial.confidence.bounds, fairtrial.confidence.thresholds; "
        "print(*sorted({'numba', 'scipy.special', 'scipy.optimize'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
