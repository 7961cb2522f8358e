"""Mixed-integer programmes for comparing the settings of a solver."""

from __future__ import annotations

from pathlib import Path

__all__ = ["solver_models"]


def solver_models() -> dict[str, Path]:
    """Return 11 classic mixed-integer programmes, as files that a solver reads.

    HiGHS with default settings solves each in 0.01 to 2 seconds on one core: a real but small task
    for comparing its settings.

    Returns
    -------
    dict of str to pathlib.Path
        Name and file (gzip-compressed MPS) of every model, by name.

    References
    ----------
    Bixby, Ceria, McZeal, Savelsbergh, "An updated mixed integer programming library: MIPLIB
    3.0", Optima 58, 1998. The files' origin and licence are in ``ORIGIN.md`` and ``LICENSE``
    beside them.

    Examples
    --------
    >>> models = solver_models()
    >>> len(models), models["egout"].name
    (11, 'egout.mps.gz')
    """
    folder = Path(__file__).parent / "solver_models"
    return {path.name.partition(".")[0]: path for path in sorted(folder.glob("*.mps.gz"))}
