"""Chemical reactions as arms with features: every combination of conditions, measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from fairtrial.core.tables import read_table

__all__ = ["direct_arylation", "suzuki"]


def direct_arylation() -> dict[str, list[Any]]:
    """Return the yields of 1,728 direct arylations, with features of their conditions.

    Every combination of 4 bases, 12 ligands, 4 solvents, 3 concentrations and 3
    temperatures was measured once. A linear model explains 60 per cent of the variance: it
    shows how a linear policy handles an environment that is only roughly linear.

    Returns
    -------
    dict of str to list
        ``arm`` (``"B03 L03 S01 0.153 120"``), ``reward`` (yield, from 0 to 1), ``features``
        (20 numbers per reaction: a constant; indicators of each base, ligand and solvent except the
        first; concentration and temperature, standardised), and the conditions ``base``,
        ``ligand``, ``solvent``, ``concentration`` (mol per litre) and ``temperature``
        (degrees Celsius).

    References
    ----------
    Shields et al., "Bayesian reaction optimization as a tool for chemical synthesis", Nature
    590, 2021. The data's origin and licence are in ``ORIGIN.md`` and ``LICENSE`` beside them;
    ``levels.csv`` lists the molecules behind the codes.

    Examples
    --------
    >>> reactions = direct_arylation()
    >>> reactions["arm"][785], len(reactions["features"][785]), reactions["reward"][785]
    ('B03 L03 S01 0.153 120', 20, 0.8449)
    """
    names = ["base", "ligand", "solvent"]
    table = _read("direct_arylation")
    numbers = {"concentration": table["conc_M"], "temperature": table["temp_C"]}
    return _experiment({name: table[name] for name in names}, numbers, table["yield_pct"])


def suzuki() -> dict[str, list[Any]]:
    """Return the yields of 3,696 Suzuki couplings, with features of their conditions.

    Every combination of 4 electrophiles, 3 nucleophiles, 11 ligands, 7 bases and 4
    solvents was measured once. A linear model explains 55 per cent of the variance.

    Returns
    -------
    dict of str to list
        ``arm`` (``"E01 N01 L01 B01 S01"``), ``reward`` (yield, from 0 to 1), ``features`` (25
        numbers per reaction: a constant, and indicators of each level except the first), and the
        conditions ``electrophile``, ``nucleophile``, ``ligand``, ``base`` and ``solvent``.

    References
    ----------
    Perera et al., "A platform for automated nanomole-scale reaction screening and
    micromole-scale synthesis in flow", Science 359, 2018. The data's origin and licence are in
    ``ORIGIN.md`` and ``LICENSE`` beside them; ``levels.csv`` lists the molecules behind the
    codes.

    Examples
    --------
    >>> reactions = suzuki()
    >>> len(reactions["arm"]), len(reactions["features"][0]), reactions["reward"][1828]
    (3696, 25, 1.0)
    """
    table = _read("suzuki")
    names = ["electrophile", "nucleophile", "ligand", "base", "solvent"]
    return _experiment({name: table[name] for name in names}, {}, table["yield_pct"])


def _read(name: str) -> dict[str, list[Any]]:
    return read_table(Path(__file__).parent / name / f"{name}.csv.gz")


def _experiment(
    factors: dict[str, list[str]], numbers: dict[str, list[float]], yields: Sequence[float]
) -> dict[str, list[Any]]:
    columns = [[1.0] * len(yields)]
    for codes in factors.values():
        columns += [[float(code == level) for code in codes] for level in sorted(set(codes))[1:]]
    columns += [_standardised(values) for values in numbers.values()]
    conditions: dict[str, list[Any]] = {**factors, **numbers}
    return {
        "arm": [" ".join(map(_text, row)) for row in zip(*conditions.values(), strict=True)],
        "reward": [percent / 100.0 for percent in yields],
        "features": [list(row) for row in zip(*columns, strict=True)],
        **conditions,
    }


def _standardised(values: Sequence[float]) -> list[float]:
    mean, deviation = fmean(values), pstdev(values)
    return [(value - mean) / deviation for value in values]


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"
