"""Bayesian networks as questions about fair interventions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from fairtrial.core.tables import read_table
from fairtrial.core.validation import check_choice

__all__ = ["adult_offer", "hepar2"]

_HERE = Path(__file__).parent


def hepar2() -> Path:
    """Return the file of HEPAR-II, a network for the diagnosis of liver disorders.

    70 discrete nodes and 123 arcs, in the BIF format, gzip-compressed.

    References
    ----------
    A. Onisko, Probabilistic Causal Models in Medicine, Ph.D. dissertation, Warsaw, 2003. The
    file's origin and licence are in ``ORIGIN.md`` and ``LICENSE`` beside it.

    Examples
    --------
    >>> hepar2().name
    'hepar2.bif.gz'
    """
    return _HERE / "hepar2" / "hepar2.bif.gz"


def adult_offer(variant: Literal["easy", "hard", "none_fair"] = "easy") -> dict[str, Any]:
    """Return the question to whom to make an offer, in a network estimated from census records.

    The arms are rules P(Offer | Edu, Marital, Occ, Hours); the outcome rewards offers to high
    incomes. The frequencies come from 45,222 records; the graph is an assumption.

    Parameters
    ----------
    variant : {"easy", "hard", "none_fair"}
        Which arms exist, and how tight the fairness bound is: 12 arms and margins of .012, 15 arms
        and margins of .003, or a bound that no arm keeps.

    Returns
    -------
    dict of str to object
        ``network``, the path of a BIF file, and the arguments of a causal problem:
        ``sensitive``, ``intervened``, ``outcome``, ``arms`` (nested lists), ``fairness_bound``.

    Raises
    ------
    InvalidArgument
        If `variant` is unknown.

    References
    ----------
    B. Becker, R. Kohavi, Adult, UCI Machine Learning Repository, 1996. Origin and licence
    are in ``ORIGIN.md`` and ``LICENSE`` beside the files.

    Examples
    --------
    >>> question = adult_offer("hard")
    >>> len(question["arms"]), question["fairness_bound"], question["network"].name
    (15, 0.041, 'adult_offer.bif')
    """
    folder = _HERE / "adult_offer"
    experiment = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    chosen = experiment["variants"][check_choice("variant", variant, list(experiment["variants"]))]
    arms = _offers(folder / "arms.csv.gz")
    wanted = list(arms) if chosen["arms"] == "all" else chosen["arms"]
    return {
        "network": folder / "adult_offer.bif",
        "sensitive": experiment["sensitive"],
        "intervened": experiment["intervened"],
        "outcome": (experiment["target"], experiment["target_values"]),
        "arms": {arm: arms[arm] for arm in wanted},
        "fairness_bound": chosen["epsilon"],
    }


def _offers(path: Path) -> dict[str, Any]:
    """Return every arm's table, nested by the parents in the order of the columns."""
    parents = ("Edu", "Marital", "Occ", "Hours")
    table = read_table(path, text=("arm", *parents))
    keys = zip(*(table[name] for name in ("arm", *parents)), strict=True)
    found = {key: [1.0 - p, p] for key, p in zip(keys, table["p_Offer_yes"], strict=True)}
    return {arm: _nested(found, (arm,), 1 + len(parents)) for arm in dict.fromkeys(table["arm"])}


def _nested(rows: dict[tuple[str, ...], list[float]], start: tuple[str, ...], depth: int) -> Any:
    """Return the rows that begin with `start` as nested lists, in the order of the file."""
    if len(start) == depth:
        return rows[start]
    following = dict.fromkeys(key[len(start)] for key in rows if key[: len(start)] == start)
    return [_nested(rows, (*start, state), depth) for state in following]
