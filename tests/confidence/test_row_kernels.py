"""The nearest point that satisfies several linear conditions, compared with other solvers."""

import numpy as np
import pytest
from scipy.optimize import nnls

from fairtrial.confidence.row_kernels import solve_rows
from tests.effort import runs


def reference(rows: np.ndarray, short: np.ndarray, spreads: np.ndarray) -> float | None:
    """Return the distance by non-negative least squares; None if no point satisfies all rows."""
    scaled = rows * np.sqrt(spreads)
    wanted = np.append(np.zeros(len(spreads)), 1.0)
    used, left = nnls(np.vstack([scaled.T, short]), wanted, maxiter=10_000)
    if left < 1e-6:
        return None
    residual = np.vstack([scaled.T, short]) @ used - wanted
    return float(np.sum((residual[:-1] / residual[-1]) ** 2))


def test_the_distance_is_that_of_non_negative_least_squares() -> None:
    rng, compared = np.random.default_rng(0), 0
    for _ in range(runs(400, whole=4_000)):
        number, size = rng.integers(1, 12), rng.integers(1, 10)
        rows = rng.normal(size=(number, size)) * (rng.random((number, size)) < 0.5)
        if number > 1 and rng.random() < 0.3:
            rows[-1] = rows[0]
        short, spreads = rng.normal(size=number), 10.0 ** rng.uniform(-2, 2, size)
        multipliers = np.zeros(number)
        value = solve_rows(rows, short, spreads, multipliers)
        assert (multipliers >= 0.0).all()
        wanted = reference(rows, short, spreads)
        if wanted is not None:
            assert value == pytest.approx(wanted, rel=1e-6, abs=1e-9)
            compared += 1
    assert compared > 150


def test_the_multipliers_move_the_point_to_where_all_rows_are_satisfied() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        rows = np.abs(rng.normal(size=(5, 4)))
        short, spreads = rng.normal(size=5), rng.uniform(0.1, 10.0, 4)
        multipliers = np.zeros(5)
        value = solve_rows(rows, short, spreads, multipliers)
        left = short - rows @ (spreads * (rows.T @ multipliers))
        assert left.max() <= 1e-9
        assert np.abs(multipliers * left).max() <= 1e-9
        assert value == pytest.approx(np.sum(spreads * (rows.T @ multipliers) ** 2), abs=1e-9)


@pytest.mark.parametrize("scale", [1e-140, 1e-9, 1.0, 1e9, 1e140])
def test_the_distance_does_not_depend_on_the_unit(scale: float) -> None:
    rows = np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0], [0.0, 1.0, 0.0]])
    short = np.array([0.3, 0.2, -0.1])
    plain = solve_rows(rows, short, np.array([1.0, 2.0, 0.5]), np.zeros(3))
    moved = solve_rows(rows, scale * short, scale**2 * np.array([1.0, 2.0, 0.5]), np.zeros(3))
    assert moved == pytest.approx(plain, rel=1e-9)


def test_where_all_rows_are_satisfied_nothing_moves() -> None:
    multipliers = np.zeros(2)
    rows = np.array([[1.0, -1.0], [2.0, 0.0]])
    assert solve_rows(rows, np.array([0.0, -1.0]), np.ones(2), multipliers) == 0.0
    assert not multipliers.any()
    assert solve_rows(np.zeros((0, 2)), np.zeros(0), np.ones(2), np.zeros(0)) == 0.0


def test_rows_that_say_the_same_are_worth_as_much_as_one() -> None:
    row, spreads = np.array([[1.0, -2.0]]), np.array([1.0, 0.5])
    alone = solve_rows(row, np.array([0.4]), spreads, np.zeros(1))
    twice = solve_rows(np.vstack([row] * 4), np.full(4, 0.4), spreads, np.zeros(4))
    assert twice == pytest.approx(alone, rel=1e-9)


def test_a_row_that_no_coordinate_can_satisfy_adds_nothing() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    value = solve_rows(rows, np.array([5.0, 2.0]), np.ones(2), np.zeros(2))
    assert value == pytest.approx(4.0)
