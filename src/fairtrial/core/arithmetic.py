"""Arithmetic that gives the same digits whether a kernel is compiled or interpreted.

The interpreter computes ``x**2`` by the C function pow, and compiled code by multiplying; the last
digit can differ. NumPy adds an array in pairs, and compiled code from the first to the last.
A decision may hang on the last digit of two equal arms, so kernels use these functions instead.

Arrays are copied by a function, too: for ``target[:] = source`` numba compiles what two arrays of
any shapes need that may overlap, and dozens of functions that write an error.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import inlined, kernel, uncounted

Floats = NDArray[np.float64]


@inlined
def square(x: float) -> float:
    """Return the square of a number.

    Examples
    --------
    >>> square(3.0)
    9.0
    """
    return x * x


@inlined
def cube(x: float) -> float:
    """Return the third power of a number.

    Examples
    --------
    >>> cube(2.0)
    8.0
    """
    return x * x * x


@kernel
def sum_of(array: Floats) -> float:
    """Return the sum of an array of any shape, from its first number to its last.

    Examples
    --------
    >>> import numpy as np
    >>> float(sum_of(np.array([[1.0, 2.0], [3.0, 4.0]])))
    10.0
    """
    found = 0.0
    for value in array.flat:
        found += value
    return found


@uncounted
def copy_into(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array into another one of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.zeros(2)
    >>> copy_into(target, np.array([1.0, 2.0]))
    >>> target.tolist()
    [1.0, 2.0]
    """
    for place, value in enumerate(source.flat):
        target.flat[place] = value
