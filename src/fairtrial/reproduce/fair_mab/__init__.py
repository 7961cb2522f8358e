"""Achieving fairness in the stochastic multi-armed bandit problem (Patil, Ghalme, Nair, Narahari).

The published figures and ours, and a study on real headline tests. Every world is defined once,
in `instances`; every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairtrial.core.seeds import as_seed
from fairtrial.reproduce.fair_mab.cost import cost
from fairtrial.reproduce.fair_mab.figures import write_figures
from fairtrial.reproduce.fair_mab.headlines import headlines
from fairtrial.reproduce.fair_mab.laboratory import Laboratory
from fairtrial.reproduce.fair_mab.regret import regret
from fairtrial.reproduce.fair_mab.violations import violations
from fairtrial.reproduce.publish import publish, writable_folder
from fairtrial.reproduce.report import Report, Section

__all__ = ["Report", "main"]

TITLE = "Achieving fairness in the stochastic multi-armed bandit problem: theirs and ours"


def main(quick: bool = False, output: str | Path | None = None, seed: int = 1) -> Report:
    """Play the paper's figures again, and serve real headlines with guaranteed shares.

    Parameters
    ----------
    quick : bool
        With few replications, shorter curves and 100 of the 1,700 headline tests: some
        seconds; else some minutes.
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
    yield cost(lab)
    yield regret(lab)
    yield violations(lab)
    yield headlines(lab)
