"""Best arm identification with delayed feedback (Grover and others): theirs and ours.

The paper's figures and what its public code makes of them, what its slips cost, how often rules
that are proven err, and races on recorded learning curves. Every world is defined once, in
`instances`; every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairtrial.core.seeds import as_seed
from fairtrial.reproduce.delayed.figures import write_figures
from fairtrial.reproduce.delayed.laboratory import Laboratory
from fairtrial.reproduce.delayed.learning import learning
from fairtrial.reproduce.delayed.promises import promises
from fairtrial.reproduce.delayed.reference import exact, mean_times
from fairtrial.reproduce.delayed.savings import savings
from fairtrial.reproduce.delayed.slips import slips
from fairtrial.reproduce.publish import publish, writable_folder
from fairtrial.reproduce.report import Report, Section

__all__ = ["Report", "main"]

TITLE = "Best arm identification in bandits with delayed feedback: theirs and ours"


def main(quick: bool = False, output: str | Path | None = None, seed: int = 1) -> Report:
    """Play the paper's figures again, and race real classifiers.

    Parameters
    ----------
    quick : bool
        With few replications and fewer points of the curves: under a minute; else some
        minutes.
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
    yield exact()
    yield mean_times(lab)
    yield savings(lab)
    yield slips(lab)
    yield promises(lab)
    yield learning(lab)
