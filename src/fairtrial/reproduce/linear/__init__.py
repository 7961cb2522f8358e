"""Best-arm identification in linear bandits (Soare, Lazaric, Munos).

The published figures and ours, and all rules on the same worlds. Every world is defined once,
in `instances`; every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairtrial.core.seeds import as_seed
from fairtrial.reproduce.linear.betting import block_betting
from fairtrial.reproduce.linear.complexities import complexities
from fairtrial.reproduce.linear.dimensions import dimensions
from fairtrial.reproduce.linear.figures import write_figures
from fairtrial.reproduce.linear.laboratory import Laboratory
from fairtrial.reproduce.linear.nulls import nulls
from fairtrial.reproduce.linear.published import constant_level, published
from fairtrial.reproduce.linear.rules import compared
from fairtrial.reproduce.publish import publish, writable_folder
from fairtrial.reproduce.report import Report, Section

__all__ = ["Report", "main"]

TITLE = "Best-arm identification in linear bandits: theirs and ours"


def main(
    quick: bool = False,
    output: str | Path | None = None,
    seed: int = 1,
    most_runs: int | None = None,
) -> Report:
    """Play the paper's experiment again, and compare all rules on the same worlds.

    Parameters
    ----------
    quick : bool
        With few replications: a minute or so; else some minutes.
    output : str or Path, optional
        Folder for ``report.md``, ``report.json`` and, if matplotlib is installed, the
        figures; it is made if need be.
    seed : int
        Source of all randomness.
    most_runs : int, optional
        Most replications of a simulation.

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
    lab = Laboratory(quick, as_seed(seed), most_runs)
    return publish(TITLE, quick, lab.seed, folder, _sections(lab), partial(write_figures, lab))


def _sections(lab: Laboratory) -> Iterator[Section]:
    """Yield the sections one by one, so that each can be shown as soon as it is made."""
    yield complexities()
    yield dimensions(lab)
    yield published(lab)
    yield constant_level(lab)
    yield block_betting(lab)
    yield compared(lab)
    yield nulls(lab)
