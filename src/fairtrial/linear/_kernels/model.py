"""The problem as the kernels see it: reduced features, packed into one array."""

from typing import NamedTuple

from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.matrices import Floats, dot


class Model(NamedTuple):
    """Arms and candidates in coordinates of full rank, in units of the noise.

    K arms, M distinct candidates, r coordinates.
    """

    arms: Floats  # (K, r)
    candidates: Floats  # (M, r)
    rest: Floats  # (M, r), what rounding took from the candidates
    start: Floats  # arms that are pulled first: a basis, and a few to test the fit by
    slack: Floats  # (K,), what an arm's mean may differ by from the linear function


@kernel
def open_model(packed: Floats, arms: int, candidates: int, rank: int) -> Model:
    """Return the named views of a packed problem; its first number is that of the first arms."""
    starting = int(packed[0])
    packed = packed[1:]
    at = arms * rank
    middle = at + candidates * rank
    end = middle + candidates * rank
    return Model(
        packed[:at].reshape((arms, rank)),
        packed[at:middle].reshape((candidates, rank)),
        packed[middle:end].reshape((candidates, rank)),
        packed[end : end + starting],
        packed[end + starting : end + starting + arms],
    )


@kernel
def difference(model: Model, first: int, second: int, out: Floats) -> None:
    """Fill `out` with the first candidate minus the second."""
    for i in range(out.size):
        out[i] = model.candidates[first, i] - model.candidates[second, i]
        out[i] += model.rest[first, i] - model.rest[second, i]


@kernel
def is_zero(model: Model, arm: int) -> bool:
    """Return whether an arm measures nothing."""
    largest = 0.0
    for i in range(model.arms.shape[1]):
        largest = max(largest, abs(model.arms[arm, i]))
    return largest == 0.0


@kernel
def resolution(model: Model, misspecification: float, counts: Floats, direction: Floats) -> float:
    """Return by how much misspecified means can move an estimated gap, and its truth.

    `direction` is the inverse of the counts' Gram matrix times the gap's direction.
    """
    if misspecification == 0.0:
        return 0.0
    bias = 2.0 * misspecification
    for k in range(counts.size):
        if counts[k] > 0.0:
            bias += counts[k] * model.slack[k] * abs(dot(model.arms[k], direction))
    return bias
