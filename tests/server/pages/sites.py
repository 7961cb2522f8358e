"""A service with a study of every family, for tests of pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import uvicorn

from fairtrial import allocation, causal, delayed, linear, subpopulations
from fairtrial.core import Environment, Policy
from fairtrial.server.app import create_app
from fairtrial.study import Study, Tokens
from tests.testing import families

NASTY = "<script>alert('x')</script> & \"ward\" 3/4"
"""A name that nobody should use; it is shown as text everywhere."""

SCOPES = {"chief": ["read", "run", "admin"], "board": ["read"], "clinic": ["run"]}


def wards() -> tuple[Policy, Environment]:
    problem = subpopulations.Problem(
        ["usual care", "nurse calls", "app"],
        {"under 65": 0.6, "65 and over": 0.4},
        floors=0.3,
        reward_range=(0, 1),
    )
    means = [[0.45, 0.40], [0.80, 0.75], [0.85, 0.20]]
    environment = subpopulations.BernoulliEnvironment(problem, means)
    return subpopulations.BlockBetting(problem, delta=0.05), environment


def checkouts() -> tuple[Policy, Environment]:
    problem = subpopulations.Problem(
        ["today", "one page", "express"],
        {"phone": 0.6, "desktop": 0.4},
        measures={"bought": (0, 1), "bounced": (0, 1), "load": (0, 10_000)},
        objective="bought",
        floors={("bought", "phone"): 0.05},
        ceilings={"bounced": 0.5, ("load", subpopulations.OVERALL): 6_000.0},
    )
    means = {
        "bought": [[0.1, 0.2], [0.5, 0.6], [0.7, 0.7]],
        "bounced": [[0.3, 0.2], [0.1, 0.2], [0.9, 0.8]],
        "load": [[2_000, 2_000], [2_500, 1_000], [2_000, 2_000]],
    }
    environment = subpopulations.BernoulliEnvironment(problem, means)
    return subpopulations.BlockBetting(problem, delta=0.05), environment


def of_family(instance, policy, **options) -> tuple[Policy, Environment]:
    problem, environment = instance()
    return policy(problem, **options), environment


def articles() -> tuple[Policy, Environment]:
    return of_family(families.shares, allocation.FairLearn, learner=allocation.Thompson())


STUDIES = {
    "wards": wards,
    "checkouts": checkouts,
    "catalysts": lambda: of_family(families.clicks, linear.BlockBetting),
    "scores": lambda: of_family(families.late_scores, delayed.BlockBetting),
    "readings": lambda: of_family(families.early_readings, delayed.Racing, delta=0.05),
    "loans": lambda: of_family(families.interventions, causal.BlockBetting),
    "articles": articles,
}
"""Functions that make a study, by name; at least one per family."""


def carry_on(study: Study, environment: Environment, pulls: int, seed: int = 1) -> None:
    """Ask and tell as long as the study issues pulls."""
    generator = np.random.default_rng(seed)
    for _ in range(pulls):
        asked = study.ask(1, worker="dr. adams")
        if not asked:
            return
        study.tell(asked[0], environment.sample(asked[0], generator), actor="dr. adams")


def make_studies(url: str, pulls: int = 60) -> None:
    """Make all studies, each with results, an open pull, a lost one, and a correction."""
    for name, build in STUDIES.items():
        policy, environment = build()
        with Study.create(
            policy.problem, policy, storage=url, name=name, seed=5, durability="process"
        ) as study:
            carry_on(study, environment, pulls)
            for lost in study.ask(2, worker="dr. brown", lease=86_400.0)[1:]:
                study.fail(lost, "the sample broke", actor="dr. brown")


class Site:
    """A service that answers on a port of the loopback interface.

    Parameters
    ----------
    storage : str
        Storage of its studies.
    """

    def __init__(self, storage: str) -> None:
        self.storage = storage
        self.app = create_app(storage)
        tokens = Tokens(storage)
        self.tokens = {name: tokens.create(name, scopes)[1] for name, scopes in SCOPES.items()}
        tokens.close()
        self._cookies: dict[str, str] = {}
        settings = uvicorn.Config(self.app, port=0, log_level="error", access_log=False)
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run)

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def cookie(self, who: str) -> str:
        """Return the session of a user who is logged in."""
        if who not in self._cookies:
            answer = httpx.post(f"{self.url}/login", data={"token": self.tokens[who]})
            self._cookies[who] = answer.cookies["fairtrial"]
        return self._cookies[who]


@contextmanager
def running(folder: Path, pulls: int = 60) -> Iterator[Site]:
    """Yield a service with all studies until the context ends."""
    storage = f"sqlite:///{folder}/studies.db"
    make_studies(storage, pulls)
    site = Site(storage)
    site.start()
    try:
        yield site
    finally:
        site.stop()
