"""The environments of the tables: chains as in the paper's simulations, HEPAR-II, and offers.

The paper does not print its tables of probabilities. Ours are drawn from the seeds below by the
rules stated here, which use the paper's numbers if it gives any.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal import CausalModel, NetworkEnvironment, Problem, chain
from fairtrial.data import adult_offer, hepar2

__all__ = [
    "BINDING",
    "HEPAR",
    "LOOSE",
    "OFFERS",
    "OWN",
    "TIGHT",
    "UNCONSTRAINED",
    "Instance",
    "Setting",
    "liver_environment",
    "liver_network",
]

Floats = NDArray[np.float64]

_CHAIN_ARMS, _CHAIN_STATES = 30, 20
_LIVER_ARMS = 10
_CARCINOMA = ("carcinoma", {"present": 1.0, "absent": 0.0})


@dataclass(frozen=True)
class Instance:
    """One environment for every budget, because the allowed mean cost of a row depends on it.

    Parameters
    ----------
    name : str
        Its name in the tables.
    make : callable
        Returns the environment for a number of rows.
    """

    name: str
    make: Callable[[int], NetworkEnvironment]


@dataclass(frozen=True)
class Setting:
    """Environments of one kind, whose errors are pooled, and the budgets to try.

    Quick runs try only the first two environments.

    Parameters
    ----------
    name : str
        Its name in the tables.
    instances : tuple of Instance
        The environments.
    budgets : (tuple of int, tuple of int)
        Numbers of rows, full and quick.
    runs : (int, int)
        Replications of each environment, full and quick.
    """

    name: str
    instances: tuple[Instance, ...]
    budgets: tuple[tuple[int, ...], tuple[int, ...]]
    runs: tuple[int, int]


# ------------------------------------------------------------------- chains S -> V -> Y


@cache
def _chain(seed: int, bound: float, budget: int) -> NetworkEnvironment:
    """Return 30 arms over 20 states; the outcome is a bit of V, flipped once in a hundred.

    Every arm has a random distribution for one value of S, and for the other value a random mixture
    of this distribution with another random one. Only the first arm is free: all others together
    may take one row in sqrt(budget).
    """
    generator = np.random.default_rng(seed)
    for_first = _distributions(generator)
    other = _distributions(generator)
    mixed = generator.random(_CHAIN_ARMS)[:, None]
    good = generator.permutation(_CHAIN_STATES) < _CHAIN_STATES // 2
    arms = np.stack([for_first, (1.0 - mixed) * for_first + mixed * other], axis=1)
    costs, allowed = _one_free_arm(_CHAIN_ARMS, budget)
    reward = np.where(good, 0.99, 0.01)
    with warnings.catch_warnings():
        # The paper's "no constraint" is intentionally a bound that cannot bind.
        warnings.simplefilter("ignore", UserWarning)
        return chain(0.5, arms, reward, bound, costs=costs, mean_budget=allowed)[1]


def _distributions(generator: np.random.Generator) -> Floats:
    """Return a distribution for every arm, uniform on the simplex."""
    weights: Floats = -np.log1p(-generator.random((_CHAIN_ARMS, _CHAIN_STATES)))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _one_free_arm(arms: int, budget: int) -> tuple[Floats, float]:
    return np.append(0.0, np.ones(arms - 1)), budget**-0.5


def _chains(name: str, bound: float, *seeds: int) -> tuple[Instance, ...]:
    def made(seed: int) -> Callable[[int], NetworkEnvironment]:
        return lambda budget: _chain(seed, bound, budget)

    return tuple(Instance(f"{name} {seed}", made(seed)) for seed in seeds)


_CHAIN_BUDGETS = ((2_000, 10_000, 50_000, 100_000), (2_000, 10_000))

# The first seeds among 0, 1, 2, ... for which the two best (fair) arms differ by .05 to .07 and no
# arm is anywhere more than 150 times as likely as the first one, so that divergences from it stay
# below 30 sqrt(30), the paper's limit. Loose: the bound is in the middle of a gap of .006 or more
# between arms and makes 8 arms unfair, including the best arm (by .02). Tight: the bound is .03 and
# leaves 9 arms fair; no arm is within .0025 of it, and the best arm is unfair.
UNCONSTRAINED = Setting("no constraint", _chains("chain", 2.0, 15), _CHAIN_BUDGETS, (200, 8))
LOOSE = Setting("loose", _chains("chain", 0.0907, 412), _CHAIN_BUDGETS, (200, 8))
TIGHT = Setting("tight", _chains("chain", 0.03, 136, 1867, 1958, 1961), _CHAIN_BUDGETS, (100, 6))


# ------------------------------------------------------------------------------ HEPAR-II


@cache
def liver_network() -> CausalModel:
    """Return HEPAR-II, the network for the diagnosis of liver disorders."""
    return CausalModel.from_bif(hepar2())


def liver_environment(
    intervened: str, arms: dict[str, Floats], bound: float, budget: int | None = None
) -> NetworkEnvironment:
    """Return the problem of the paper's section 6, with arms for one of the network's nodes.

    The sensitive attribute is the sex; the outcome is whether there is a carcinoma. With a budget,
    only the first arm is free.
    """
    costs, allowed = (None, None) if budget is None else _one_free_arm(len(arms), budget)
    problem = Problem(
        liver_network(),
        "sex",
        intervened,
        _CARCINOMA,
        arms,
        bound,
        costs=costs,
        mean_budget=allowed,
    )
    return NetworkEnvironment(problem)


@cache
def _liver(
    intervened: str, bound: float, deploys_own: bool, seed: int, budget: int
) -> NetworkEnvironment:
    """Return ten arms with uniform random probabilities of "present".

    The first arm, which is free, can be the network's own table instead.
    """
    own = liver_network().tables[intervened]
    generator = np.random.default_rng(seed)
    arms = {}
    for number in range(_LIVER_ARMS):
        present = generator.random(own.shape[:-1])
        arms[f"arm {number}"] = np.stack([present, 1.0 - present], axis=-1)
    if deploys_own:
        arms["arm 0"] = own
    return liver_environment(intervened, arms, bound, budget)


def _livers(
    intervened: str, bound: float, *seeds: int, deploys_own: bool = False
) -> tuple[Instance, ...]:
    def made(seed: int) -> Callable[[int], NetworkEnvironment]:
        return lambda budget: _liver(intervened, bound, deploys_own, seed, budget)

    return tuple(Instance(f"{intervened} {seed}", made(seed)) for seed in seeds)


_LIVER_BUDGETS = ((2_000, 4_000, 6_000, 8_000, 10_000), (2_000, 10_000))
_LIVER_RUNS = (50, 5)
# The first six seeds whose two best arms differ by at least .01.
_FIBROSIS = (0, 5, 8, 9, 10, 11)
# The first six seeds for which a bound of .02 leaves two or more fair arms, has no arm within .002,
# and excludes the best arm; the best fair arm differs by .005 from it and from the next fair one.
_PBC = (76, 87, 113, 131, 139, 160)

HEPAR = Setting("HEPAR-II", _livers("fibrosis", 0.2, *_FIBROSIS), _LIVER_BUDGETS, _LIVER_RUNS)
OWN = Setting(
    "HEPAR-II, own table deployed",
    _livers("fibrosis", 0.2, *_FIBROSIS, deploys_own=True),
    _LIVER_BUDGETS,
    _LIVER_RUNS,
)
BINDING = Setting("HEPAR-II, binding", _livers("PBC", 0.02, *_PBC), _LIVER_BUDGETS, _LIVER_RUNS)


# -------------------------------------------------------------------------------- offers

Variant = Literal["easy", "hard", "none_fair"]


@cache
def _offer(variant: Variant) -> NetworkEnvironment:
    question = adult_offer(variant)
    network = CausalModel.from_bif(question.pop("network"))
    return NetworkEnvironment(Problem(network, **question))


def _offers(variant: Variant, runs: tuple[int, int]) -> Setting:
    instance = Instance(f"offers, {variant.replace('_', ' ')}", lambda _: _offer(variant))
    budgets = ((2_000, 10_000, 50_000), (2_000, 10_000))
    return Setting(instance.name, (instance,), budgets, runs)


OFFERS = tuple(_offers(variant, (100, 4)) for variant in get_args(Variant))
