"""Best arm identification with fairness constraints on subpopulations (Wu, Zheng, Zhu).

The published tables, the reference's, and ours. Every world is defined once, in `instances`;
every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairtrial.core.seeds import as_seed
from fairtrial.reproduce.baics.betting import block_betting, bounded_rewards
from fairtrial.reproduce.baics.complexities import complexities
from fairtrial.reproduce.baics.figures import write_figures
from fairtrial.reproduce.baics.instances import Instance
from fairtrial.reproduce.baics.instances import email as load_email
from fairtrial.reproduce.baics.laboratory import Laboratory
from fairtrial.reproduce.baics.published import published
from fairtrial.reproduce.baics.robustness import broken_rule, hard_nulls
from fairtrial.reproduce.baics.stopping_times import stopping_times
from fairtrial.reproduce.publish import publish, writable_folder
from fairtrial.reproduce.report import Report, Section

__all__ = ["Report", "main"]

TITLE = "Best arm identification with fairness constraints on subpopulations: theirs and ours"


def main(
    quick: bool = False,
    output: str | Path | None = None,
    seed: int = 1,
    email_data: str | Path | None = None,
) -> Report:
    """Compute the paper's tables and the reference's again, and print them beside ours.

    Parameters
    ----------
    quick : bool
        With few replications: well under a minute on two cores; else about ten minutes.
    output : str or Path, optional
        Folder for ``report.md``, ``report.json`` and, if matplotlib is installed, the
        paper's two figures; it is made if need be.
    seed : int
        Source of all randomness.
    email_data : str or Path, optional
        Hillstrom's e-mail table, which cannot be shipped; without it that world is left out.

    Returns
    -------
    Report
        All tables; ``to_dict()`` gives them as data.

    Raises
    ------
    InvalidArgument
        If `output` cannot be written, or `email_data` cannot be read.
    """
    folder = writable_folder(output)
    email = None if email_data is None else load_email(email_data)
    lab = Laboratory(quick, as_seed(seed))
    return publish(
        TITLE, quick, lab.seed, folder, _sections(lab, email), partial(write_figures, lab)
    )


def _sections(lab: Laboratory, email: Instance | None) -> Iterator[Section]:
    """Yield the sections one by one, so that each can be shown as soon as it is made."""
    yield complexities(email)
    yield stopping_times(lab)
    yield published(lab)
    yield broken_rule(lab)
    yield block_betting(lab)
    yield bounded_rewards(lab, email)
    yield hard_nulls(lab)
