"""The problem in the form that kernels use: reduced features, packed into one array."""

from typing import Annotated, NamedTuple

from fairtrial.core.compilation import uncounted
from fairtrial.core.layout import Layout
from fairtrial.linear._kernels.matrices import Floats, dot


class Model(NamedTuple):
    """Arms and distinct candidates in coordinates of full rank, in units of the noise."""

    arms: Annotated[Floats, "arms rank"]
    candidates: Annotated[Floats, "candidates rank"]
    rest: Annotated[Floats, "candidates rank"]  # rounding errors of the candidates
    start: Annotated[Floats, "starting"]  # a basis, and a few arms to test the fit
    opening: Annotated[Floats, "opened"]  # arms in the order of block betting's first pulls
    deviations: Annotated[Floats, "arms"]  # by which an arm's mean may differ from linear


MODEL = Layout(Model)
open_model = MODEL.open


@uncounted
def difference(model: Model, first: int, second: int, out: Floats) -> None:
    """Fill `out` with the first candidate minus the second."""
    for i in range(out.size):
        out[i] = model.candidates[first, i] - model.candidates[second, i]
        out[i] += model.rest[first, i] - model.rest[second, i]


@uncounted
def is_zero(model: Model, arm: int) -> bool:
    """Return whether an arm measures nothing."""
    largest = 0.0
    for i in range(model.arms.shape[1]):
        largest = max(largest, abs(model.arms[arm, i]))
    return largest == 0.0


@uncounted
def resolution(model: Model, misspecification: float, counts: Floats, direction: Floats) -> float:
    """Return how far misspecified means can move an estimated gap, and the true gap.

    `direction` is the inverse of the counts' Gram matrix times the gap's direction.
    """
    if misspecification == 0.0:
        return 0.0
    bias = 2.0 * misspecification
    for k in range(counts.size):
        if counts[k] > 0.0:
            bias += counts[k] * model.deviations[k] * abs(dot(model.arms[k], direction))
    return bias
