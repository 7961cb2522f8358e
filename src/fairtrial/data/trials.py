"""Clinical trials as experiments: arms, groups and a reward for every patient."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from fairtrial.core.tables import read_table
from fairtrial.core.validation import check_choice

__all__ = ["actg175"]

_CELLS_FOR_FULL_REWARD = 200.0


def actg175(outcome: Literal["cd4", "event_free"] = "cd4") -> dict[str, list[Any]]:
    """Return the 2,139 patients of the ACTG 175 HIV trial as columns.

    Parameters
    ----------
    outcome : {"cd4", "event_free"}
        The reward: the gain of CD4 cells in 20 weeks, in units of 200 cells per cubic millimetre
        and clipped to [-1, 1]; or 1 without and 0 with disease progression or death.

    Returns
    -------
    dict of str to list
        ``arm`` (zdv, zdv_ddi, zdv_ddc or ddi), ``stratum`` of earlier treatment (naive,
        upto52w or over52w), ``cd4_base``, the CD4 cells before the treatment, and ``reward``.

    Raises
    ------
    InvalidArgument
        If `outcome` is unknown.

    References
    ----------
    Hammer et al., New England Journal of Medicine 335, 1996. The data's origin and
    licence are in ``ORIGIN.md`` and ``LICENSE`` beside them.

    Examples
    --------
    >>> patients = actg175()
    >>> len(patients["reward"]), patients["arm"][0], patients["stratum"][0]
    (2139, 'zdv_ddc', 'naive')
    >>> patients["reward"][0]
    0.275
    """
    check_choice("outcome", outcome, ("cd4", "event_free"))
    table = read_table(Path(__file__).parent / "actg175" / "actg175.csv.gz")
    if outcome == "cd4":
        reward = [
            _cd4_gain(base, week20)
            for base, week20 in zip(table["cd4_base"], table["cd4_week20"], strict=True)
        ]
    else:
        reward = [1.0 - event for event in table["event"]]
    return {name: table[name] for name in ("arm", "stratum", "cd4_base")} | {"reward": reward}


def _cd4_gain(base: float, week20: float) -> float:
    return min(max((week20 - base) / _CELLS_FOR_FULL_REWARD, -1.0), 1.0)
