"""Compiled parts of optimal designs: exchanges, interior point, and the search of directions.

Arms are rows of full column rank (`Problem.reduced`). For shares lam of the pulls, the information
matrix is ``L = sum lam_k x_k x_k'``, and ``P`` is its inverse. The form of a row y is ``y' P y``.
Masses are shares whose sum need not be one.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import copy_into, cube, square, sum_of
from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_REFACTOR = 500
"""Rank-one updates of an inverse before it is recomputed."""

_BLOCK = 512
"""Rows per block in a product with a large matrix."""

_TINY = 1e-300
_LEAST_PIVOT = 1e-15

_LARGE = 20_000_000
"""Multiplications from which a product uses BLAS.

With less work, a multithreaded BLAS stalls when other processes keep the cores busy.
"""

_START = 0.1
"""Relative duality gap at the start; closer to the border, steps are short."""

_CENTRING = 10.0
"""Factor by which each interior-point step aims to reduce the duality gap."""

_PASS_OVER = 0.8
_TO_THE_BORDER = 0.99
_DECREASE = 0.01
_MOST_HALVINGS = 30
_MOST_STEPS = 80


# ------------------------------------------------------------------------------ both solvers


@kernel
def information(arms: Floats, weights: Floats) -> Floats:
    """Return ``sum weights_k x_k x_k'``."""
    width = arms.shape[1]
    total = np.zeros((width, width))
    for k in range(arms.shape[0]):
        if weights[k] != 0.0:
            for i in range(width):
                factor = weights[k] * arms[k, i]
                for j in range(width):
                    total[i, j] += factor * arms[k, j]
    return total


@kernel
def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    size = matrix.shape[0]
    rows = _triangular_inverse(_cholesky(matrix))
    found = np.zeros_like(matrix)
    for k in range(size):
        for i in range(k + 1):
            for j in range(k + 1):
                found[i, j] += rows[k, i] * rows[k, j]
    return found


@kernel
def _cholesky(matrix: Floats) -> Floats:
    """Return the lower factor; pivots lost to rounding are replaced by a floor relative to the row.

    The floor keeps the solvers going; no certificate depends on it.
    """
    size = matrix.shape[0]
    upper = matrix.copy()
    for k in range(size):
        pivot = math.sqrt(max(upper[k, k], _LEAST_PIVOT * matrix[k, k], _TINY))
        for j in range(k, size):
            upper[k, j] /= pivot
        upper[k, k] = pivot
        for i in range(k + 1, size):
            factor = upper[k, i]
            for j in range(i, size):
                upper[i, j] -= factor * upper[k, j]
    lower = np.zeros_like(matrix)
    for i in range(size):
        for j in range(i, size):
            lower[j, i] = upper[i, j]
    return lower


@kernel
def _triangular_inverse(lower: Floats) -> Floats:
    size = lower.shape[0]
    rows = np.zeros_like(lower)
    for i in range(size):
        rows[i, i] = 1.0
        for k in range(i):
            for j in range(k + 1):
                rows[i, j] -= lower[i, k] * rows[k, j]
        for j in range(i + 1):
            rows[i, j] /= lower[i, i]
    return rows


@kernel
def forward_solved(upper: Floats, rows: Floats) -> Floats:
    """Return the solution w of ``upper' w = y`` for every row y."""
    number, width = rows.shape
    solved = np.empty((number, width))
    for k in range(number):
        for j in range(width):
            total = rows[k, j]
            for i in range(j):
                total -= upper[i, j] * solved[k, i]
            solved[k, j] = total / upper[j, j]
    return solved


@kernel
def quadratic_forms(rows: Floats, matrix: Floats) -> Floats:
    """Return ``x' matrix x`` for every row x."""
    number, width = rows.shape
    forms = np.empty(number)
    image = np.empty(width)
    for k in range(number):
        _apply(matrix, rows[k], image)
        total = 0.0
        for j in range(width):
            total += image[j] * rows[k, j]
        forms[k] = total
    return forms


@kernel
def _apply(matrix: Floats, vector: Floats, image: Floats) -> None:
    """Fill `image` with the product of a symmetric matrix and a vector."""
    width = vector.size
    image[:] = 0.0
    for i in range(width):
        factor = vector[i]
        for j in range(width):
            image[j] += factor * matrix[i, j]


# ---------------------------------------------------------------------------------- G-optimal


@kernel
def exchange(rows: Floats, shares: Floats, tol: float) -> None:
    """Move shares to the worst measured row, or away from the best, until within `tol`.

    Then no row has a form above ``r (1 + tol)``. Todd, Yildirim (2007), "On Khachiyan's algorithm
    for the computation of minimum-volume enclosing ellipsoids".
    """
    number, rank = rows.shape
    image = np.empty(rank)
    forms = np.empty(number)
    precision = np.empty((rank, rank))
    for step in range(200 * _REFACTOR):
        if step % _REFACTOR == 0:
            precision = inverse(information(rows, shares))
            forms = quadratic_forms(rows, precision)
        worst, best = _worst_and_best(forms, shares)
        if forms[worst] <= rank * (1.0 + tol):
            break
        chosen = worst if forms[worst] - rank >= rank - forms[best] else best
        _shift(rows, shares, forms, precision, image, chosen)


@kernel
def _worst_and_best(forms: Floats, shares: Floats) -> tuple[int, int]:
    """Return the row with the largest form, and the row with a share that has the smallest."""
    worst, best = 0, -1
    for k in range(forms.size):
        if forms[k] > forms[worst]:
            worst = k
        if shares[k] > 0.0 and (best < 0 or forms[k] < forms[best]):
            best = k
    return worst, best


@kernel
def _shift(
    rows: Floats, shares: Floats, forms: Floats, precision: Floats, image: Floats, chosen: int
) -> None:
    """Change the share of one row by the step that maximises det L."""
    number, rank = rows.shape
    form = forms[chosen]
    least = -shares[chosen] / (1.0 - shares[chosen])
    step = max(least, (form / rank - 1.0) / (form - 1.0)) if form > 1.0 else least
    factor = step / (1.0 - step + step * form)
    _apply(precision, rows[chosen], image)
    for i in range(rank):
        for j in range(rank):
            precision[i, j] = (precision[i, j] - factor * image[i] * image[j]) / (1.0 - step)
    for k in range(number):
        total = 0.0
        for j in range(rank):
            total += rows[k, j] * image[j]
        forms[k] = (forms[k] - factor * total * total) / (1.0 - step)
        shares[k] *= 1.0 - step
    shares[chosen] = 0.0 if step == least else shares[chosen] + step


# --------------------------------------------------------------------------- directions


@kernel
def farthest_partners(images: Floats, squares: Floats, above: float) -> tuple[Floats, Integers]:
    """Return for every point its farthest partner, and the squared distance to it.

    `images`: points around a common centre, farthest first; `squares`: their squared norms. The
    result is exact for the farthest pair of all if its squared distance exceeds `above`; other
    pairs may be missed. Points are compared block by block, so there is never a table of all pairs.
    """
    number = images.shape[0]
    forms = np.zeros(number)
    partners = np.zeros(number, dtype=np.int64)
    most = above
    for start in range(0, number, _BLOCK):
        stop = min(start + _BLOCK, number)
        for other in range(start, number, _BLOCK):
            if square(math.sqrt(squares[start]) + math.sqrt(squares[other])) <= most:
                break
            end = min(other + _BLOCK, number)
            products = np.dot(images[start:stop], images[other:end].T)
            for i in range(start, stop):
                farthest, partner = forms[i], partners[i]
                for j in range(other, end):
                    form = squares[i] + squares[j] - 2.0 * products[i - start, j - other]
                    if form > farthest:
                        farthest, partner = form, j
                    if form > forms[j]:
                        forms[j], partners[j] = form, i
                forms[i], partners[i] = farthest, partner
                most = max(most, _PASS_OVER * farthest)
    return forms, partners


# -------------------------------------------------------------------------- the interior point


@kernel
def interior_point(
    rows: Floats, directions: Floats, masses: Floats, prices: Floats, tol: float
) -> None:
    """Minimise the sum of masses in place, with all forms below 1, starting from feasible masses.

    Stop when the certified gap of this problem is within `tol`. The method is primal-dual: Boyd,
    Vandenberghe, "Convex optimization", section 11.7. The constraints have the form
    ``1 / (y' P y) - 1 >= 0``, which is concave in the masses and linear along rays, so full steps
    seldom leave the feasible set.
    """
    number, many = rows.shape[0], directions.shape[0]
    images, cross, slack, gains = _evaluate(rows, directions, masses, prices)
    level = _START * sum_of(masses) / (number + many)
    rest = np.empty(number)
    for i in range(many):
        prices[i] = max(prices[i], level / slack[i])
    for k in range(number):
        rest[k] = level / masses[k]
    images, cross, slack, gains = _evaluate(rows, directions, masses, prices)
    new_masses, new_rest, new_prices = np.empty(number), np.empty(number), np.empty(many)
    for _step in range(_MOST_STEPS):
        if _local_gap(masses, prices, slack, gains) <= tol:
            break
        goal = _complementarity(masses, rest, prices, slack) / _CENTRING
        change = _newton(rows, images, cross, masses, rest, prices, slack, goal)
        price_change = _followed(prices, slack, _slopes(cross, slack, change), goal)
        rest_change = _followed(rest, masses, change, goal)
        step = min(_room(masses, change), _room(rest, rest_change), _room(prices, price_change))
        before = _residual(masses, masses, rest, gains, prices, slack, goal)
        for _halving in range(_MOST_HALVINGS):
            _move(masses, change, step, new_masses)
            _move(rest, rest_change, step, new_rest)
            _move(prices, price_change, step, new_prices)
            images, cross, slack, gains = _evaluate(rows, directions, new_masses, new_prices)
            after = _residual(masses, new_masses, new_rest, gains, new_prices, slack, goal)
            if slack.min() > 0.0 and after <= (1.0 - _DECREASE * step) * before:
                break
            step *= 0.5
        else:
            return
        copy_into(masses, new_masses)
        copy_into(rest, new_rest)
        copy_into(prices, new_prices)


@kernel
def _local_gap(masses: Floats, prices: Floats, slack: Floats, gains: Floats) -> float:
    """Return the certified relative gap if there were no other arms and directions."""
    total, worth, most = 0.0, 0.0, 0.0
    for i in range(prices.size):
        # By Cauchy's inequality, with weights p / f^2 on the directions.
        form = 1.0 / (1.0 + slack[i])
        total += prices[i] / square(form)
        worth += prices[i] / form
        most = max(most, form)
    return most * sum_of(masses) * total * gains.max() / (worth * worth) - 1.0


@kernel
def _complementarity(masses: Floats, rest: Floats, prices: Floats, slack: Floats) -> float:
    """Return the mean product of a multiplier and its constraint."""
    total = 0.0
    for k in range(masses.size):
        total += rest[k] * masses[k]
    for i in range(prices.size):
        total += prices[i] * slack[i]
    return total / (masses.size + prices.size)


@kernel
def _slopes(cross: Floats, slack: Floats, change: Floats) -> Floats:
    """Return the derivatives of every direction's slack by the masses."""
    slopes = np.zeros(cross.shape[1])
    for k in range(cross.shape[0]):
        for i in range(cross.shape[1]):
            slopes[i] += change[k] * square(cross[k, i])
    for i in range(slopes.size):
        slopes[i] *= square(1.0 + slack[i])
    return slopes


@kernel
def _followed(multipliers: Floats, values: Floats, changes: Floats, goal: float) -> Floats:
    """Return the change of multipliers that moves each product with its value to the goal."""
    found = np.empty(values.size)
    for i in range(values.size):
        found[i] = (goal - multipliers[i] * changes[i]) / values[i] - multipliers[i]
    return found


@kernel
def _move(values: Floats, changes: Floats, step: float, moved: Floats) -> None:
    for i in range(values.size):
        moved[i] = values[i] + step * changes[i]


@kernel
def _evaluate(
    rows: Floats, directions: Floats, masses: Floats, prices: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return ``X P``, ``X P Y'``, the slack ``1 / (y' P y) - 1``, and each row's gain.

    The gain is the sum over directions of the price times the slack's derivative by the mass.
    """
    number, many = rows.shape[0], directions.shape[0]
    images = _products(rows, inverse(information(rows, masses)))
    cross = _products(images, directions)
    forms = np.zeros(many)
    gains = np.zeros(number)
    for k in range(number):
        for i in range(many):
            forms[i] += masses[k] * square(cross[k, i])
    slack = np.empty(many)
    weights = np.empty(many)
    for i in range(many):
        slack[i] = 1.0 / max(forms[i], _TINY) - 1.0
        weights[i] = prices[i] * square(1.0 + slack[i])
    for k in range(number):
        for i in range(many):
            gains[k] += weights[i] * square(cross[k, i])
    return images, cross, slack, gains


@kernel
def _newton(
    rows: Floats,
    images: Floats,
    cross: Floats,
    masses: Floats,
    rest: Floats,
    prices: Floats,
    slack: Floats,
    goal: float,
) -> Floats:
    """Return the change of the masses; the system is solved in units of the masses.

    With f a form, the second derivatives of ``1 / f`` are ``2 f' f'' / f^3 - f'' / f^2``.
    """
    number, many = cross.shape
    matrix = _products(images, rows)
    inner, outer, pull = np.empty(many), np.empty(many), np.empty(many)
    for i in range(many):
        over = 1.0 + slack[i]
        inner[i] = prices[i] * square(over)
        outer[i] = prices[i] * cube(over) * (over / slack[i] - 2.0)
        pull[i] = goal / slack[i] * square(over)
    first, second = _curvature(cross, inner, outer)
    right = np.empty(number)
    for k in range(number):
        total = goal / masses[k] - 1.0
        for i in range(many):
            total += square(cross[k, i]) * pull[i]
        right[k] = total * masses[k]
        for j in range(number):
            matrix[k, j] = 2.0 * matrix[k, j] * first[k, j] + second[k, j]
            matrix[k, j] *= masses[k] * masses[j]
        matrix[k, k] += rest[k] * masses[k]
    change = np.zeros(number)
    if not np.isfinite(matrix.sum() + right.sum()):
        return change
    solved = np.linalg.solve(matrix, right)
    for k in range(number):
        change[k] = solved[k] * masses[k]
    return change


@kernel(fastmath={"reassoc", "contract"})
def _products(left: Floats, right: Floats) -> Floats:
    """Return the products of all rows of one matrix with all rows of the other."""
    if left.size * right.shape[0] >= _LARGE:
        return np.dot(left, right.T)
    found = np.empty((left.shape[0], right.shape[0]))
    for k in range(left.shape[0]):
        for i in range(right.shape[0]):
            total = 0.0
            for j in range(left.shape[1]):
                total += left[k, j] * right[i, j]
            found[k, i] = total
    return found


@kernel(fastmath={"reassoc", "contract"})
def _curvature(cross: Floats, inner: Floats, outer: Floats) -> tuple[Floats, Floats]:
    """Return ``B inner B'`` and ``B^2 outer B^2'``, where B^2 squares the entries of B."""
    number, many = cross.shape
    first = np.empty((number, number))
    second = np.empty((number, number))
    if number * number * many < _LARGE:
        for k in range(number):
            for j in range(k + 1):
                total, squares = 0.0, 0.0
                for i in range(many):
                    product = cross[k, i] * cross[j, i]
                    total += inner[i] * product
                    squares += outer[i] * product * product
                first[k, j] = first[j, k] = total
                second[k, j] = second[j, k] = squares
        return first, second
    weighted = np.empty_like(cross)
    squared = np.empty_like(cross)
    for k in range(number):
        for i in range(many):
            weighted[k, i] = cross[k, i] * math.sqrt(inner[i])
    np.dot(weighted, weighted.T, first)
    for k in range(number):
        for i in range(many):
            squared[k, i] = square(cross[k, i])
            weighted[k, i] = squared[k, i] * outer[i]
    np.dot(weighted, squared.T, second)
    return first, second


@kernel
def _room(values: Floats, changes: Floats) -> float:
    """Return the largest step, at most 1, that keeps positive values clear of zero."""
    step = 1.0
    for i in range(values.size):
        if changes[i] < 0.0:
            step = min(step, -_TO_THE_BORDER * values[i] / changes[i])
    return step


@kernel
def _residual(
    units: Floats,
    masses: Floats,
    rest: Floats,
    gains: Floats,
    prices: Floats,
    slack: Floats,
    goal: float,
) -> float:
    """Return the violation of the conditions of optimality."""
    total = 0.0
    for k in range(masses.size):
        total += square(units[k] * (1.0 - gains[k] - rest[k]))
        total += square(rest[k] * masses[k] - goal)
    for i in range(prices.size):
        total += square(prices[i] * slack[i] - goal)
    return math.sqrt(total)
