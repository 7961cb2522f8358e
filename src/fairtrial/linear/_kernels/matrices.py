"""Small dense linear algebra in loops, which are faster here than library calls or allocation."""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, uncounted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PIVOT_TOLERANCE = 1e-13
ROW_TOLERANCE = 1e-12
EIGENVALUE_TOLERANCE = 1e-9
SEEN_TOLERANCE = 1e-11


@kernel(inline="always")
def dot(left: Floats, right: Floats) -> float:
    """Return the inner product of two vectors."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@uncounted
def multiply(matrix: Floats, vector: Floats, out: Floats) -> None:
    """Fill `out` with a square matrix times a vector."""
    for i in range(vector.size):
        total = 0.0
        for j in range(vector.size):
            total += matrix[i, j] * vector[j]
        out[i] = total


@uncounted
def quadratic(matrix: Floats, vector: Floats) -> float:
    """Return v'Mv for a symmetric matrix M."""
    total = 0.0
    for i in range(vector.size):
        row = 0.0
        for j in range(i):
            row += matrix[i, j] * vector[j]
        total += vector[i] * (2.0 * row + matrix[i, i] * vector[i])
    return total


@uncounted
def gram(rows: Floats, weights: Floats, out: Floats) -> None:
    """Fill `out` with the weighted sum of row row'."""
    size = rows.shape[1]
    for i in range(size):
        for j in range(size):
            out[i, j] = 0.0
    for k in range(rows.shape[0]):
        weight = weights[k]
        if weight != 0.0:
            for i in range(size):
                scaled = weight * rows[k, i]
                for j in range(i + 1):
                    out[i, j] += scaled * rows[k, j]
    for i in range(size):
        for j in range(i):
            out[j, i] = out[i, j]


@uncounted
def combine(rows: Floats, weights: Floats, out: Floats) -> None:
    """Fill `out` with the weighted sum of the rows."""
    for i in range(out.size):
        out[i] = 0.0
    for k in range(rows.shape[0]):
        if weights[k] != 0.0:
            for i in range(out.size):
                out[i] += weights[k] * rows[k, i]


@uncounted
def add_outer(matrix: Floats, vector: Floats, weight: float) -> None:
    """Add weight * vv' to a matrix."""
    for i in range(vector.size):
        scaled = weight * vector[i]
        for j in range(vector.size):
            matrix[i, j] += scaled * vector[j]


@uncounted
def whitener(matrix: Floats, out: Floats) -> bool:
    """Fill `out` with the lower triangle R with R M R' = I; return False if M has no inverse.

    v'M^-1 v is then the squared length of R v, at half the cost of the inverse.
    """
    size = matrix.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i == j:
                if not total > PIVOT_TOLERANCE * matrix[i, i]:
                    return False
                out[i, i] = math.sqrt(total)
            else:
                out[i, j] = total / out[j, j]
    for j in range(size):
        out[j, j] = 1.0 / out[j, j]
        for i in range(j + 1, size):
            total = out[i, j] * out[j, j]
            for k in range(j + 1, i):
                total += out[i, k] * out[k, j]
            out[i, j] = -total / out[i, i]
        for i in range(j):
            out[i, j] = 0.0
    return True


@kernel
def whitener_of_rows(rows: Floats, weights: Floats, out: Floats) -> bool:
    """Fill `out` as `whitener` does for the weighted sum of row row', but from the rows.

    It uses Givens rotations, which keep the digits that the Gram matrix loses.
    """
    size = rows.shape[1]
    upper = np.zeros((size, size))
    row = np.empty(size)
    for k in range(rows.shape[0]):
        if weights[k] > 0.0:
            for i in range(size):
                row[i] = math.sqrt(weights[k]) * rows[k, i]
            _rotate_in(upper, row)
    for j in range(size):
        norm = 0.0
        for i in range(j + 1):
            norm += square(upper[i, j])
        if not abs(upper[j, j]) > ROW_TOLERANCE * math.sqrt(norm):
            return False
    for i in range(size):
        out[i, i] = 1.0 / upper[i, i]
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += upper[k, i] * out[k, j]
            out[i, j] = -total / upper[i, i]
        for j in range(i + 1, size):
            out[i, j] = 0.0
    return True


@uncounted
def _rotate_in(upper: Floats, row: Floats) -> None:
    """Add a row to the triangle of a QR decomposition, overwriting the row."""
    size = row.size
    for i in range(size):
        if row[i] == 0.0:
            continue
        length = np.hypot(upper[i, i], row[i])
        cosine = upper[i, i] / length
        sine = row[i] / length
        for j in range(i, size):
            above = upper[i, j]
            upper[i, j] = cosine * above + sine * row[j]
            row[j] = cosine * row[j] - sine * above


@uncounted
def whitened_square(root: Floats, vector: Floats) -> float:
    """Return the squared length of a lower triangle times a vector."""
    total = 0.0
    for i in range(vector.size):
        row = 0.0
        for j in range(i + 1):
            row += root[i, j] * vector[j]
        total += row * row
    return total


@uncounted
def whiten_twice(root: Floats, vector: Floats, work: Floats, out: Floats) -> float:
    """Fill `out` with R'Rv, which is M^-1 v; return v'M^-1 v."""
    size = vector.size
    total = 0.0
    for i in range(size):
        row = 0.0
        for j in range(i + 1):
            row += root[i, j] * vector[j]
        work[i] = row
        total += row * row
    for i in range(size):
        column = 0.0
        for j in range(i, size):
            column += root[j, i] * work[j]
        out[i] = column
    return total


@uncounted
def square_of(root: Floats, out: Floats) -> None:
    """Fill `out` with R'R, the inverse that the whitener represents."""
    size = root.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, size):
                total += root[k, i] * root[k, j]
            out[i, j] = total
            out[j, i] = total


@uncounted
def log_determinant(matrix: Floats, work: Floats) -> float:
    """Return the log of the determinant of a positive definite matrix."""
    size = matrix.shape[0]
    log_det = 0.0
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if i == j:
                if total <= 0.0:
                    return -math.inf
                work[i, i] = math.sqrt(total)
                log_det += math.log(total)
            else:
                work[i, j] = total / work[j, j]
    return log_det


@uncounted
def add_row(inverse: Floats, row: Floats, work: Floats) -> float:
    """Update an inverse in place for one more row; return row' inverse row before the update.

    It uses the formula of Sherman and Morrison.
    """
    multiply(inverse, row, work)
    before = dot(row, work)
    scale = 1.0 / (1.0 + before)
    for i in range(row.size):
        scaled = scale * work[i]
        for j in range(i + 1):
            inverse[i, j] -= scaled * work[j]
            inverse[j, i] = inverse[i, j]
    return before


@kernel
def pseudo_inverse(matrix: Floats, out: Floats, null_space: Floats) -> int:
    """Fill `out` with the pseudo-inverse, and `null_space` with the projector on the null space.

    Return the rank: eigenvalues below 1e-9 of the largest count as zero.
    """
    size = matrix.shape[0]
    values, vectors = np.linalg.eigh(matrix)
    least = EIGENVALUE_TOLERANCE * max(values[size - 1], 0.0)
    rank = 0
    for i in range(size):
        for j in range(size):
            out[i, j] = 0.0
            null_space[i, j] = 0.0
    for index in range(size):
        seen = values[index] > least
        rank += seen
        for i in range(size):
            for j in range(size):
                outer = vectors[i, index] * vectors[j, index]
                if seen:
                    out[i, j] += outer / values[index]
                else:
                    null_space[i, j] += outer
    return rank


@uncounted
def is_seen(null_space: Floats, rank: int, vector: Floats) -> bool:
    """Return whether a vector lies in the row space of a singular matrix."""
    if rank == vector.size:
        return True
    outside = 0.0
    for i in range(vector.size):
        row = 0.0
        for j in range(vector.size):
            row += null_space[i, j] * vector[j]
        outside += row * row
    return outside <= square(SEEN_TOLERANCE) * dot(vector, vector)


@uncounted
def _sees_all(matrix: Floats, root: Floats) -> bool:
    """Return whether a matrix, given with its whitener, is safely invertible."""
    largest = 0.0
    least = math.inf
    for i in range(matrix.shape[0]):
        largest = max(largest, matrix[i, i])
        least = min(least, root[i, i] ** -2.0)
    return least > 1e-6 * largest


@kernel
def invert(matrix: Floats, out: Floats, null_space: Floats) -> int:
    """As `pseudo_inverse`, but faster for an invertible matrix; return the rank."""
    size = matrix.shape[0]
    root = np.empty((size, size))
    if whitener(matrix, root) and _sees_all(matrix, root):
        square_of(root, out)
        return size
    return pseudo_inverse(matrix, out, null_space)


@kernel
def root_of_inverse(matrix: Floats, out: Floats, null_space: Floats) -> int:
    """Fill `out` with a matrix R such that R'R is the (pseudo-)inverse; return the rank.

    Unless the matrix has full rank, fill `null_space` with the projector on the null space.
    """
    size = matrix.shape[0]
    if whitener(matrix, out) and _sees_all(matrix, out):
        return size
    values, vectors = np.linalg.eigh(matrix)
    threshold = EIGENVALUE_TOLERANCE * max(values[size - 1], 0.0)
    rank = 0
    for i in range(size):
        for j in range(size):
            out[i, j] = null_space[i, j] = 0.0
    for index in range(size):
        is_large = values[index] > threshold
        rank += is_large
        for i in range(size):
            if is_large:
                out[index, i] = vectors[i, index] / math.sqrt(values[index])
                continue
            for j in range(size):
                null_space[i, j] += vectors[i, index] * vectors[j, index]
    return rank
