"""Finished runs in a folder, so that an interrupted simulation can be continued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fairtrial.core import Environment, Policy
from fairtrial.core.files import replacing
from fairtrial.core.parameters import plain
from fairtrial.core.runs import Runs
from fairtrial.errors import NotSupported
from fairtrial.simulation.results import Simulation
from fairtrial.version import __version__

__all__ = ["KeptRuns"]

_METRIC = "metric "
_ABOUT = "about"


@dataclass(frozen=True)
class KeptRuns:
    """Runs that are kept in a folder, each set under a hash of all that its results depend on.

    Parameters
    ----------
    folder : Path or None
        The folder; it is made when there is something to keep. None to keep nothing.
    seed, replications, parallel : int
        Those of all runs.
    """

    folder: Path | None
    seed: int
    replications: int
    parallel: int

    def of(
        self,
        policy: Policy,
        environment: Environment,
        horizon: int,
        make: Callable[..., Simulation],
    ) -> Simulation:
        """Return the runs that are kept, or make and keep them.

        `make` is `simulate` with everything else that it needs.
        """
        file = self._file(policy, environment, horizon)
        if file is None:
            return make(policy, environment, horizon=horizon)
        try:
            return self._read(file, policy, environment, horizon)
        except (OSError, ValueError, LookupError, TypeError, BadZipFile):
            # Missing, damaged, or with other fields: the runs are made again.
            made = make(policy, environment, horizon=horizon)
            _write(file, made)
            return made

    def _file(self, policy: Policy, environment: Environment, horizon: int) -> Path | None:
        if self.folder is None:
            return None
        try:
            depends_on = plain(
                {
                    "version": __version__,
                    "policy": policy,
                    "policy_version": str(type(policy).version),
                    "environment": environment,
                    "runs": [self.seed, self.replications, self.parallel, horizon],
                }
            )
        except NotSupported:
            # An environment of the user's own that cannot be written down.
            return None
        text = json.dumps(depends_on, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"

    def _read(
        self, file: Path, policy: Policy, environment: Environment, horizon: int
    ) -> Simulation:
        with np.load(file, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        about = json.loads(str(arrays.pop(_ABOUT)))
        metrics = {
            name.removeprefix(_METRIC): arrays.pop(name)
            for name in list(arrays)
            if name.startswith(_METRIC)
        }
        answers = np.empty(len(about["answers"]), dtype=object)
        for index, answer in enumerate(about["answers"]):
            answers[index] = tuple(answer) if isinstance(answer, list) else answer
        return Simulation.from_runs(
            Runs(answer=answers, metrics=metrics, **arrays),
            policy=policy,
            environment=environment,
            seed=self.seed,
            horizon=horizon,
            parallel=self.parallel,
            lower_bound=None,
            seconds=about["seconds"],
        )


def _write(file: Path, made: Simulation) -> None:
    file.parent.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {
        field.name: getattr(made, field.name)
        for field in fields(Runs)
        if field.name not in ("answer", "metrics")
    }
    arrays |= {_METRIC + name: values for name, values in made.metrics.items()}
    about = {"answers": plain(list(made.answer)), "seconds": made.seconds}
    arrays[_ABOUT] = np.array(json.dumps(about))
    with replacing(file) as part, part.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
