"""The questions that every policy of a family must answer: at least six kinds for each family.

They are small, large, nearly tied, without an answer, adversarial, and real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import fairtrial as ft
from fairtrial.core import Environment

__all__ = ["DELTA", "QUESTIONS", "Question", "question"]

DELTA = 0.1
"""The error probability that every policy with fixed confidence is given."""

_NEVER = 2_000
"""Most pulls where there is nothing to find: a valid rule hardly ever stops by itself."""


@dataclass(frozen=True)
class Question:
    """An environment, and how long a run may be.

    Parameters
    ----------
    family, kind, name : str
        The family; what makes it hard; its name in the tables.
    make : callable
        Returns the environment.
    horizon : int
        Most pulls of a run.
    budget : int
        Pulls of a policy with a fixed budget.
    parallel : int
        Most pulls in flight at once.
    bounded : bool
        Whether a lower bound for it is computed.
    broken : str
        The assumption of the family's guarantees that is false here.
    """

    family: str
    kind: str
    name: str
    make: Callable[[], Environment]
    horizon: int
    budget: int = 500
    parallel: int = 1
    bounded: bool = True
    broken: str = ""

    def lower_bound(self) -> float:
        """Return the smallest mean number of pulls of any rule with this error probability."""
        found = getattr(ft, self.family).complexity(self.make())
        return float(found.lower_bound(DELTA))


# --------------------------------------------------------------------------- subpopulations


def _large_groups() -> Environment:
    arms, groups = 20, 5
    problem = ft.subpopulations.Problem(arms, groups, floors=0.0, noise_std=1.0)
    behind = np.where(np.arange(arms) > 0, 0.3 + 0.02 * np.arange(arms), 0.0)
    tilt = np.linspace(-0.3, 0.3, groups)
    return ft.subpopulations.GaussianEnvironment(problem, 1.0 - behind[:, None] + tilt)


def _near_groups() -> Environment:
    problem = ft.subpopulations.Problem(2, 2, floors=-1.0, noise_std=1.0)
    return ft.subpopulations.GaussianEnvironment(problem, [[0.05, 0.05], [0.0, 0.0]])


def _baics(name: str) -> Callable[[], Environment]:
    def made() -> Environment:
        from papers.baics import instances

        return getattr(instances, name).environment  # type: ignore[no-any-return]

    return made


def _just_infeasible() -> Environment:
    from papers.baics.instances import hard_nulls

    named = {one.name: one.environment for one in hard_nulls("normal")}
    return named["better arm infeasible by 1e-6"]


def _hiv() -> Environment:
    from papers.baics.instances import trial

    return trial("cd4", 0.0).environment


_SUBPOPULATIONS = [
    Question("subpopulations", "small", "E1, 3 x 3", _baics("E1"), 100_000),
    Question("subpopulations", "large", "20 arms x 5 groups", _large_groups, 100_000),
    Question("subpopulations", "near-tied", "two arms, .05 apart", _near_groups, 200_000),
    Question(
        "subpopulations", "infeasible", "no arm keeps its floors", _baics("NONE_FEASIBLE"), 20_000
    ),
    Question("subpopulations", "adversarial", "nine floors just kept", _baics("TRAP"), 1_000),
    Question(
        "subpopulations", "adversarial", "better arm infeasible by 1e-6", _just_infeasible, _NEVER
    ),
    Question("subpopulations", "real", "ACTG 175, CD4 gain", _hiv, 100_000),
]

# -------------------------------------------------------------------------------------- linear


def _soare(dimension: int, angle: float) -> Callable[[], Environment]:
    def made() -> Environment:
        from papers.linear.instances import paper_instance

        return paper_instance(dimension, angle).environment

    return made


def _many_vectors() -> Environment:
    arms = np.random.default_rng(5).standard_normal((200, 10))
    arms /= np.linalg.norm(arms, axis=1)[:, None]
    problem = ft.linear.Problem(arms, noise_std=1.0)
    return ft.linear.GaussianEnvironment(problem, 2.0 * arms[0])


def _no_good_vector() -> Environment:
    problem = ft.linear.Problem(np.vstack([np.eye(3), [0.6, 0.8, 0]]), noise_std=1.0, floors=1.5)
    return ft.linear.GaussianEnvironment(problem, [1.0, 0.5, 0.0])


def _flasks() -> Environment:
    from fairtrial.data import direct_arylation

    reactions = direct_arylation()
    chosen = np.random.default_rng(3).permutation(len(reactions["arm"]))[:60]
    arms, rewards = (np.array(reactions[name])[chosen].tolist() for name in ("arm", "reward"))
    features = np.array(reactions["features"])[chosen]
    problem = ft.linear.Problem(features, arms=arms, noise_std=0.03)
    table = {"arm": arms, "reward": rewards}
    return ft.linear.ReplayEnvironment(problem, table, noise_std=0.03)


_LINEAR = [
    Question("linear", "small", "3 arms in 2 dimensions", _soare(2, 0.3), 100_000),
    Question("linear", "large", "200 arms in 10 dimensions", _many_vectors, 100_000),
    Question("linear", "near-tied", "6 arms in 5 dimensions, angle .1", _soare(5, 0.1), 200_000),
    Question("linear", "infeasible", "no arm reaches its floor", _no_good_vector, 20_000),
    Question("linear", "adversarial", "two arms 1e-5 apart", _soare(3, 1e-5), _NEVER),
    Question(
        "linear",
        "real",
        "60 flasks, not linear",
        _flasks,
        _NEVER,
        budget=300,
        bounded=False,
        broken="means are not linear in the features",
    ),
]

# ------------------------------------------------------------------------------------- delayed


def _race(
    means: Any, top: int = 1, noise_std: float = 1.0, *, readings: bool = True
) -> Callable[[], Environment]:
    early: dict[str, Any] = {"feedback": "unbiased", "reading_std": 0.5} if readings else {}

    def made() -> Environment:
        problem = ft.delayed.Problem(len(means), top=top, noise_std=noise_std, **early)
        return ft.delayed.SimulatedEnvironment(problem, means, delay=30.0)

    return made


def _bad_news_first() -> Environment:
    problem = ft.delayed.Problem(4, noise_std=0.3, delay_depends_on_outcome=True)
    delay = ft.delayed.OutcomeDelay(low=1.0, high=40.0)
    return ft.delayed.SimulatedEnvironment(problem, [0.7, 0.5, 0.5, 0.4], delay=delay)


def _classifiers() -> Environment:
    from papers.delayed.instances import curves

    task = curves("mfeat-fourier")
    return task.environment("biased", 2.0 * task.early_errors)


def _final_errors() -> Environment:
    from papers.delayed.instances import curves

    return curves("mfeat-fourier").environment()


_DELAYED = [
    Question("delayed", "small", "3 arms, delay 30", _race([0.0, 0.5, 2.0]), 20_000, 60, 6),
    Question(
        "delayed", "large", "5 of 50 arms", _race(np.linspace(5, 0, 50), 5, 0.3), 50_000, 2_000, 20
    ),
    Question("delayed", "near-tied", "3 arms, .1 apart", _race([0.2, 0.1, 0.0]), 50_000, 2_000, 6),
    Question("delayed", "infeasible", "all arms equal", _race([0.0] * 4), _NEVER, 500, 6),
    Question("delayed", "adversarial", "bad results come first", _bad_news_first, 20_000, 500, 10),
    Question("delayed", "real", "20 classifiers, mfeat-fourier", _classifiers, 5_000, 500, 10),
    Question(
        "delayed",
        "small",
        "3 arms, no readings",
        _race([0.0, 0.5, 2.0], readings=False),
        20_000,
        60,
        6,
    ),
    Question(
        "delayed",
        "large",
        "1 of 30 arms, no readings",
        _race(np.linspace(3, 0, 30), readings=False),
        50_000,
        2_000,
        20,
    ),
    Question(
        "delayed",
        "near-tied",
        "3 arms, .1 apart, no readings",
        _race([0.2, 0.1, 0.0], readings=False),
        50_000,
        2_000,
        6,
    ),
    Question(
        "delayed",
        "infeasible",
        "all arms equal, no readings",
        _race([0.0] * 4, readings=False),
        _NEVER,
        500,
        6,
    ),
    Question("delayed", "real", "20 classifiers, final errors only", _final_errors, 5_000, 500, 10),
]

# -------------------------------------------------------------------------------------- causal


def _short_chain() -> Environment:
    arms = {
        "a": [[0.9, 0.1], [0.8, 0.2]],
        "b": [[0.4, 0.6], [0.3, 0.7]],
        "c": [[0.1, 0.9], [0.9, 0.1]],
    }
    return ft.causal.chain(0.5, arms, [0.2, 0.8], 0.2)[1]


def _causal(name: str, place: int = 0) -> Callable[[], Environment]:
    def made() -> Environment:
        from papers.causal import instances

        setting = getattr(instances, name)
        setting = setting if name != "OFFERS" else setting[place]
        return setting.instances[0].make(2_000)  # type: ignore[no-any-return]

    return made


_CAUSAL = [
    Question("causal", "small", "chain, 3 arms", _short_chain, 20_000, 100),
    Question("causal", "large", "tight chain, 30 arms", _causal("TIGHT"), 20_000, 2_000),
    Question("causal", "near-tied", "offers, hard", _causal("OFFERS", 1), 20_000, 2_000),
    Question("causal", "infeasible", "offers, none fair", _causal("OFFERS", 2), 20_000, 2_000),
    Question(
        "causal", "adversarial", "HEPAR-II, a rare table in use", _causal("OWN"), 20_000, 2_000
    ),
    Question("causal", "real", "offers, easy (census)", _causal("OFFERS", 0), 20_000, 2_000),
]

# ---------------------------------------------------------------------------------- allocation


def _coins(means: Any, shares: Any) -> Callable[[], Environment]:
    def made() -> Environment:
        problem = ft.allocation.Problem(len(means), shares)
        return ft.allocation.BernoulliEnvironment(problem, means)

    return made


def _drifting() -> Environment:
    problem = ft.allocation.Problem(3, ["1/5", "1/5", "1/5"])
    phases = [[0.9, 0.5, 0.1], [0.1, 0.5, 0.9], [0.5, 0.9, 0.1]]
    return ft.allocation.DriftingEnvironment(problem, phases, [3_000, 6_000])


def _headlines() -> Environment:
    from papers.fair_mab.instances import headlines

    return max(headlines(), key=lambda one: one.lead).environment()


_NEAR = [0.8, *(0.79 - 0.01 * step for step in range(9))]
_ROUNDS = 10_000
_ALLOCATION = [
    Question(
        "allocation",
        "small",
        "3 arms, .75 guaranteed",
        _coins([0.7, 0.5, 0.4], ["1/5", "3/10", "1/4"]),
        _ROUNDS,
    ),
    Question(
        "allocation",
        "large",
        "200 arms, half guaranteed",
        _coins(np.linspace(0.2, 0.8, 200), "1/400"),
        _ROUNDS,
    ),
    Question("allocation", "near-tied", "10 arms, .01 apart", _coins(_NEAR, "1/20"), _ROUNDS),
    Question(
        "allocation",
        "infeasible",
        "nothing is free",
        _coins([0.7, 0.5, 0.4], ["1/2", "1/4", "1/4"]),
        _ROUNDS,
    ),
    Question("allocation", "adversarial", "the best arm changes twice", _drifting, _ROUNDS),
    Question("allocation", "real", "headlines, clearest test", _headlines, _ROUNDS),
]


QUESTIONS: dict[str, list[Question]] = {
    "subpopulations": _SUBPOPULATIONS,
    "linear": _LINEAR,
    "delayed": _DELAYED,
    "causal": _CAUSAL,
    "allocation": _ALLOCATION,
}
"""The questions of each family, in the order of the tables."""


@cache
def question(family: str, name: str) -> Question:
    """Return a question by its name."""
    return next(one for one in QUESTIONS[family] if one.name == name)
