"""A good reaction in few plates: optimisers beside random choice and beside our first plates."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

import fairtrial as ft
from fairtrial.data import direct_arylation

__all__ = ["PLATES", "WELLS", "baybe", "first_plates", "optuna", "proposals", "random_choice"]

PLATES, WELLS = 4, 12
_NAMES = ("base", "ligand", "solvent", "concentration", "temperature")
_FEWEST, _MOST = 3, 200

Propose = Callable[[int], list[float]]
"""Makes the run of a seed; returns the yields of its reactions."""


@cache
def _reactions() -> dict[str, Any]:
    return direct_arylation()


@cache
def _yields() -> dict[tuple[Any, ...], float]:
    """Return the yield of each reaction by its conditions."""
    table = _reactions()
    conditions = zip(*(table[name] for name in _NAMES), strict=True)
    return dict(zip(conditions, table["reward"], strict=True))


def random_choice(seed: int) -> list[float]:
    """Try reactions that are chosen at random, each at most once."""
    yields = np.array(_reactions()["reward"])
    chosen = np.random.default_rng(seed).choice(len(yields), PLATES * WELLS, replace=False)
    found: list[float] = yields[chosen].tolist()
    return found


def first_plates(seed: int) -> list[float]:
    """Try the first plates of `linear.BlockBetting`.

    They depend on the description of the reactions only, so each run describes them by other
    features with the same meaning, and in another order.
    """
    table, generator = _reactions(), np.random.default_rng(seed)
    features, yields = np.array(table["features"]), np.array(table["reward"])
    order = generator.permutation(len(yields))
    width = features.shape[1]
    rotation = np.linalg.qr(generator.standard_normal((width, width)))[0]
    problem = ft.linear.Problem(features[order] @ rotation, noise_std=0.03)
    policy = ft.linear.BlockBetting(problem, delta=0.05, batch=WELLS, seed=seed)
    found = []
    for _ in range(PLATES):
        for pull in policy.ask(WELLS):
            found.append(float(yields[order[pull.action]]))
            policy.tell(pull, found[-1])
    return found


def optuna(seed: int) -> list[float]:
    """Try what Optuna's TPE proposes, one plate after the other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    found = []
    for _ in range(PLATES):
        plate = [study.ask() for _ in range(WELLS)]
        for trial in plate:
            chosen = tuple(trial.suggest_categorical(name, _levels(name)) for name in _NAMES)
            found.append(_yields()[chosen])
            study.tell(trial, found[-1])
    return found


def baybe(seed: int) -> list[float]:
    """Try what BayBE proposes, one plate after the other."""
    parameters: Any = import_module("baybe.parameters")
    import_module("baybe.utils.random").set_random_seed(seed)
    space = import_module("baybe.searchspace").SearchSpace.from_product(
        [
            *(parameters.CategoricalParameter(name, _levels(name)) for name in _NAMES[:3]),
            *(parameters.NumericalDiscreteParameter(name, _levels(name)) for name in _NAMES[3:]),
        ]
    )
    target = import_module("baybe.targets").NumericalTarget("yield")
    objective = import_module("baybe.objectives").SingleTargetObjective(target)
    campaign = import_module("baybe").Campaign(space, objective)
    for _ in range(PLATES):
        plate = campaign.recommend(WELLS)
        chosen = plate[list(_NAMES)].itertuples(index=False)
        plate["yield"] = [_yields()[tuple(row)] for row in chosen]
        campaign.add_measurements(plate)
    found: list[float] = campaign.measurements["yield"].tolist()
    return found


def _levels(name: str) -> list[Any]:
    return sorted(set(_reactions()[name]))


def proposals(propose: Propose, effort: float, seed: int) -> dict[str, Any]:
    """Return how good the best reaction of a run is, over as many runs as fit, at least three."""
    propose(seed)  # loads or compiles the machine code
    best: list[float] = []
    started = time.process_time()
    while len(best) < _FEWEST or (
        time.process_time() - started < 5.0 * effort and len(best) < _MOST
    ):
        best.append(max(propose(seed + 1 + len(best))))
    return {
        "replications": len(best),
        "mean": float(np.mean(best)),
        "standard_error": float(np.std(best, ddof=1) / len(best) ** 0.5),
        "worst": min(best),
        "cpu_seconds": (time.process_time() - started) / len(best),
    }
