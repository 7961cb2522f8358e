"""Identifying best fair intervention (Gao, Feng).

The published claims and ours. Every world is defined once, in `instances`; every comparison
once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairtrial.core.seeds import as_seed
from fairtrial.reproduce.causal.chains import chains
from fairtrial.reproduce.causal.default import recommended
from fairtrial.reproduce.causal.figures import write_figures
from fairtrial.reproduce.causal.laboratory import Laboratory
from fairtrial.reproduce.causal.livers import liver_errors, liver_model
from fairtrial.reproduce.causal.offers import offers
from fairtrial.reproduce.publish import publish, writable_folder
from fairtrial.reproduce.report import Report, Section

__all__ = ["Report", "main"]

TITLE = "Identifying best fair intervention: theirs and ours"


def main(quick: bool = False, output: str | Path | None = None, seed: int = 1) -> Report:
    """Play the paper's experiments again, and print its claims beside what is seen.

    Parameters
    ----------
    quick : bool
        With few replications and budgets: some seconds; else about a quarter of an hour.
    output : str or Path, optional
        Folder for ``report.md``, ``report.json`` and, if matplotlib is installed, the
        figures; it is made if need be.
    seed : int
        Source of all randomness.

    Returns
    -------
    Report
        All tables; ``to_dict()`` gives them as data.

    Raises
    ------
    InvalidArgument
        If `output` cannot be written.
    """
    folder = writable_folder(output)
    lab = Laboratory(quick, as_seed(seed))
    return publish(TITLE, quick, lab.seed, folder, _sections(lab), partial(write_figures, lab))


def _sections(lab: Laboratory) -> Iterator[Section]:
    """Yield the sections one by one, so that each can be shown as soon as it is made."""
    yield chains(lab)
    yield liver_model()
    yield liver_errors(lab)
    yield offers(lab)
    yield recommended(lab)
