"""Boundaries and sizes of group-sequential designs, compared with published tables."""

import numpy as np
import pytest
from scipy import stats

from fairtrial.confidence.group_sequential import GroupSequential, boundaries
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.messages import raises


# Jennison and Turnbull (2000), tables 2.1 and 2.3: two-sided tests at level 0.05 and 0.1.
@pytest.mark.parametrize(
    ("level", "shape", "looks", "constant"),
    [
        (0.025, "pocock", 2, 2.178),
        (0.025, "pocock", 5, 2.413),
        (0.05, "pocock", 5, 2.122),
        (0.025, "obrien-fleming", 2, 1.977),
        (0.025, "obrien-fleming", 5, 2.040),
        (0.05, "obrien-fleming", 5, 1.751),
    ],
)
def test_the_last_boundary_is_the_published_constant(level, shape, looks, constant):
    # A one-sided test never crosses the other side, which changes the third decimal at most.
    assert boundaries(looks, level, shape)[-1] == pytest.approx(constant, abs=4e-3)


def test_obrien_flemings_boundary_falls_with_the_square_root_of_the_information():
    found = boundaries(5, 0.025, "obrien-fleming")
    assert found * np.sqrt(np.arange(1, 6)) == pytest.approx(np.full(5, found[-1] * np.sqrt(5)))


# Jennison and Turnbull (2000), tables 2.2 and 2.4: largest size relative to a fixed sample.
@pytest.mark.parametrize(
    ("shape", "power", "ratio"),
    [
        ("pocock", 0.8, 1.229),
        ("pocock", 0.9, 1.207),
        ("obrien-fleming", 0.8, 1.028),
        ("obrien-fleming", 0.9, 1.026),
    ][:: effort.runs(3, whole=1)],
)
def test_the_largest_size_is_the_published_multiple_of_the_fixed_one(shape, power, ratio):
    found = GroupSequential(1, 0.025, shape).size(0.01, 2.0, power)
    fixed = 2 * 2.0 * (stats.norm.ppf(0.975) + stats.norm.ppf(power)) ** 2 / 0.01**2
    assert found / fixed == pytest.approx(ratio, abs=2e-3)


def test_one_look_is_the_closed_formula():
    needed = (stats.norm.ppf(1 - 0.05 / 3) + stats.norm.ppf(0.8)) ** 2 * 0.48 / 0.15**2
    assert GroupSequential(3, 0.05, "pocock", 1).size(0.15, 0.48, 0.8) == 4 * int(np.ceil(needed))


def test_no_size_shows_that_a_worse_arm_is_better():
    assert GroupSequential(1, 0.05, "pocock").size(0.0, 1.0, 0.8) is None


@pytest.mark.parametrize("bad", [{"looks": 0}, {"level": 0.0}, {"shape": "other"}])
def test_senseless_designs_are_refused(bad):
    given = {"looks": 5, "level": 0.05, "shape": "pocock", **bad}
    with raises(InvalidArgument) as refusal:
        boundaries(**given)
    assert refusal.value.name == next(iter(bad))
