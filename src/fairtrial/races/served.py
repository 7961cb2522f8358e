"""Races that a service keeps: many machines make the same call, and share the evaluations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from fairtrial import client
from fairtrial.client.address import is_service
from fairtrial.core.notebooks import CellOutput, in_notebook
from fairtrial.core.printing import printable
from fairtrial.core.wording import plural
from fairtrial.presentation.words import more_expected
from fairtrial.study import Study

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy
    from fairtrial.core.seeds import Seed
    from fairtrial.delayed import PairedRacing
    from fairtrial.races.budget import Budget
    from fairtrial.study.location import Storage

__all__ = ["LEASE", "Scores", "carry_out", "opened"]

LEASE = 60.0
"""Seconds after which an evaluation of a process that has died is handed out again."""
_BETWEEN_LINES = 2.0


class Scores(Protocol):
    """Where scores come from."""

    def work(self, study: RemoteStudy, budget: Budget, watch: Callable[[str], None] | None) -> None:
        """Carry out pulls until the study has stopped or a limit is reached."""


def opened(storage: Storage, name: str) -> Study:
    """Return a stored race; that of a service as a copy in memory.

    Raises
    ------
    StudyNotFound
        If there is no study of that name.
    """
    if not isinstance(storage, str) or not is_service(storage):
        return Study.open(storage, name)
    with client.connect(storage) as connection:
        return _copy_of(connection.study(name))


def carry_out(
    policy: PairedRacing,
    url: str,
    name: str,
    seed: Seed,
    scores: Scores,
    budget: Budget,
    *,
    progress: bool,
) -> Study:
    """Create or continue a race on a service, evaluate until it ends, and return a copy of it.

    Parameters
    ----------
    policy : PairedRacing
        The rule.
    url, name : str
        The address of the service, and the name of the race there.
    seed : None, int or numpy.random.Generator
        Seed of the study.
    scores : Scores
        Carries out pulls.
    budget : Budget
        The limits of the race.
    progress : bool
        Whether to show who leads, in a notebook below its cell, otherwise on standard error.
    """
    with client.connect(url) as connection:
        study = connection.create(policy.problem, policy, name=name, seed=seed, exist_ok=True)
        with closing(study):
            scores.work(study, budget, _printer(study) if progress else None)
            return _copy_of(study)


def _copy_of(study: RemoteStudy) -> Study:
    # The order of the items comes from the study's secret, so a copy needs it.
    with TemporaryDirectory(prefix="fairtrial-") as folder:
        log = study.export(Path(folder) / "race.jsonl", secret=True)
        return Study.import_log(log, storage="memory://")


def _printer(study: RemoteStudy) -> Callable[[str], None]:
    """Return a function that shows the state of a race now and then, called after each pull."""
    next_line, cell = 0.0, CellOutput() if in_notebook() else None

    def watch(_: str) -> None:
        nonlocal next_line
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + _BETWEEN_LINES
            progress = study.progress()
            answer, spent = progress.recommendation, plural(progress.told, "evaluation")
            line = f"{answer.leader!r} leads after {spent}: {answer.reason}"
            if more := more_expected(progress):
                line = f"{line}; {more}"
            if cell is not None:
                cell.show(printable(line))
            else:
                print(line, file=sys.stderr, flush=True)  # noqa: T201

    return watch
