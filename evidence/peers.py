"""Peers from PyPI beside fairtrial, each on what it is made for.

A peer that is not installed keeps the figures of its last measurement. Install those that are not
locked into a folder of their own, and name it: ``EVIDENCE_PEERS=folder ./dev evidence peers``.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import fairtrial as ft
from evidence import looking, proposing, sequences
from fairtrial.core.compilation import compiled
from fairtrial.simulation.summary import error_interval

__all__ = ["PEERS", "measure_peer"]

_DELTA = 0.1
_RATES = (0.8, 0.5, 0.5, 0.5, 0.5)
_TRIALS = 200
"""Pulls of a rule that does not stop by itself: about as many as our proven rule takes."""
_LONGEST = 20_000
_ROUNDS = 2_000
_MEANS = np.linspace(0.2, 0.8, 10)

if folder := os.environ.get("EVIDENCE_PEERS"):
    sys.path.append(folder)


# --------------------------------------------------------------------- the best of five coins

Play = Callable[[int], tuple[int | None, int]]
"""Makes the run of a seed; returns the arm that was named, and the number of pulls."""


def _ours(name: str, seed: int) -> tuple[int | None, int]:
    problem = ft.subpopulations.Problem(5, 1, floors=None, reward_range=(0, 1))
    environment = ft.subpopulations.BernoulliEnvironment(problem, np.reshape(_RATES, (-1, 1)))
    policy = getattr(ft.subpopulations, name)(problem, delta=_DELTA)
    runs = ft.simulate(policy, environment, 1, seed=seed, horizon=_LONGEST, workers=1)
    answer = runs.answer[0]
    return None if answer is None else int(answer), int(runs.stopping_time[0])


def _best_arm(algorithm: str, options: dict[str, Any], seed: int) -> tuple[int | None, int]:
    from best_arm.bandit import Bandit
    from best_arm.environment import BernoulliEnvironment

    np.random.seed(seed)  # noqa: NPY002 - this package uses the global generator
    world = BernoulliEnvironment(len(_RATES), "uniform")
    world.probs = list(_RATES)
    bandit = Bandit(
        env_instance=world, algo_name=algorithm, algo_args={"confidence": _DELTA}, **options
    )
    arm, counts = bandit.run()[:2]
    return int(arm), int(np.sum(counts))


def _optuna(seed: int) -> tuple[int | None, int]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    generator = np.random.default_rng(seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    values: list[list[float]] = [[] for _ in _RATES]

    def toss(trial: optuna.Trial) -> float:
        arm = trial.suggest_categorical("arm", list(range(len(_RATES))))
        values[arm].append(float(generator.random() < _RATES[arm]))
        return values[arm][-1]

    study.optimize(toss, n_trials=_TRIALS)
    # best_params would name the arm of the first trial with a 1; its mean is a fairer reading.
    return int(np.argmax([float(np.mean(each)) if each else -1.0 for each in values])), _TRIALS


def _best_of_coins(play: Play, effort: float, seed: int) -> dict[str, Any]:
    play(seed)
    started = time.process_time()
    play(seed + 1)
    each = time.process_time() - started
    replications = int(min(max(effort / max(each, 1e-9), 5), 200))
    started = time.process_time()
    runs = [play(seed + 2 + number) for number in range(replications)]
    seconds = time.process_time() - started
    wrong = sum(arm not in (0, None) for arm, _ in runs)
    pulls = [number for _, number in runs]
    return {
        "replications": replications,
        "mean": float(np.mean(pulls)),
        "quantile_99": float(np.quantile(pulls, 0.99)),
        "undecided": sum(arm is None for arm, _ in runs),
        "wrong": wrong,
        "interval": error_interval(wrong, replications, 0.95),
        "microseconds": 1e6 * seconds / sum(pulls),
    }


# ------------------------------------------------------------------------------ serving traffic

Serve = Callable[[np.ndarray[Any, Any]], list[int]]
"""Plays a table of rewards, one row for each round, and returns the arms."""


def _serve_ours(policy: str, learner: str, rewards: np.ndarray[Any, Any]) -> list[int]:
    problem = ft.allocation.Problem(len(_MEANS), f"1/{2 * len(_MEANS)}")
    chosen = getattr(ft.allocation, learner)()
    playing = getattr(ft.allocation, policy)(problem, learner=chosen, seed=1)
    arms = []
    for row in rewards.tolist():
        pull = playing.ask()
        playing.tell(pull, row[pull.action])
        arms.append(pull.action)
    return arms


def _serve_mabwiser(name: str, rewards: np.ndarray[Any, Any]) -> list[int]:
    from mabwiser.mab import MAB, LearningPolicy

    rule = LearningPolicy.UCB1(alpha=1) if name == "UCB1" else LearningPolicy.ThompsonSampling()
    arms = list(range(len(_MEANS)))
    player = MAB(list(arms), rule, seed=1)
    # It must be fitted before it predicts, so every arm is pulled once.
    player.fit(list(arms), [rewards[arm, arm] for arm in arms])
    for row in rewards[len(_MEANS) :].tolist():
        arm = player.predict()
        player.partial_fit([arm], [row[arm]])
        arms.append(arm)
    return arms


def _serve_river(name: str, rewards: np.ndarray[Any, Any]) -> list[int]:
    from river import bandit, proba

    player: Any = (
        bandit.UCB(delta=1, seed=1)
        if name == "UCB1"
        else bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=1)
    )
    labels = list(range(len(_MEANS)))
    arms: list[int] = []
    for row in rewards.tolist():
        arm = player.pull(labels)
        player.update(arm, row[arm])
        arms.append(arm)
    return arms


def _traffic(serve: Serve, effort: float, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    rewards = (generator.random((_ROUNDS, len(_MEANS))) < _MEANS).astype(float)
    serve(rewards[:50])
    started = time.process_time()
    arms = np.array(serve(rewards))
    seconds = time.process_time() - started
    pulled = np.eye(len(_MEANS), dtype=int)[arms].cumsum(axis=0)
    owed = np.arange(1, len(arms) + 1) // (2 * len(_MEANS))
    return {
        "rounds": _ROUNDS,
        "reward": float(rewards[np.arange(len(arms)), arms].mean()),
        "behind": int((owed[:, None] - pulled).max()),
        "least_share": float(pulled[-1].min() / len(arms)),
        "microseconds": 1e6 * seconds / _ROUNDS,
    }


# -------------------------------------------------------------------------- tuning a classifier

_DEPTHS = [1, 2, 3, 4, 5, 6, 8, 12]


def _search(kind: str, effort: float, seed: int) -> dict[str, Any]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - this enables it
    from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    from fairtrial.sklearn import RacingSearchCV

    features, labels = load_breast_cancer(return_X_y=True)
    tree, grid = DecisionTreeClassifier(random_state=0), {"max_depth": _DEPTHS}
    searches: dict[str, Any] = {
        "racing": lambda: RacingSearchCV(tree, grid, tolerance=0.02, random_state=seed),
        "halving": lambda: HalvingGridSearchCV(tree, grid, random_state=seed, refit=True),
        "grid": lambda: GridSearchCV(tree, grid, cv=50),
    }
    started = time.process_time()
    search = searches[kind]().fit(features, labels)
    seconds = time.process_time() - started
    fits = search.n_pulls_ if kind == "racing" else _number_of_fits(search)
    promise = search.guarantee_.label if kind == "racing" else "none"
    return {
        "fits": int(fits),
        "chosen": str(search.best_params_["max_depth"]),
        "promise": promise,
        "cpu_seconds": seconds,
    }


def _number_of_fits(search: Any) -> int:
    splits = getattr(search, "n_splits_", 5)
    return len(search.cv_results_["params"]) * splits


# --------------------------------------------------------------------------------- the table

_CHERNOFF = {"stopping_name": "chernoff", "stopping_args": {"mode": "practice"}}
_TRACKING = {"tracker_name": "d_tracking", **_CHERNOFF}

PEERS: dict[str, dict[str, tuple[str | None, Callable[[float, int], dict[str, Any]]]]] = {
    "coins": {
        "fairtrial, BlockBetting": (None, partial(_best_of_coins, partial(_ours, "BlockBetting"))),
        "best-arm, LUCB": (
            "best-arm",
            partial(_best_of_coins, partial(_best_arm, "lucb", {"stopping_name": "lucb"})),
        ),
        "best-arm, lil' UCB": (
            "best-arm",
            partial(
                _best_of_coins,
                partial(_best_arm, "lil_ucb", {"stopping_name": "lil_ucb_original"}),
            ),
        ),
        "best-arm, Track-and-Stop": (
            "best-arm",
            partial(_best_of_coins, partial(_best_arm, "track_and_stop", _TRACKING)),
        ),
        "Optuna, TPE": ("optuna", partial(_best_of_coins, _optuna)),
    },
    "traffic": {
        "fairtrial, shares + UCB1": (
            None,
            partial(_traffic, partial(_serve_ours, "FairLearn", "UCB1")),
        ),
        "fairtrial, shares + Thompson": (
            None,
            partial(_traffic, partial(_serve_ours, "FairLearn", "Thompson")),
        ),
        "fairtrial, Thompson alone": (
            None,
            partial(_traffic, partial(_serve_ours, "UnconstrainedLearner", "Thompson")),
        ),
        "MABWiser, UCB1": ("mabwiser", partial(_traffic, partial(_serve_mabwiser, "UCB1"))),
        "MABWiser, Thompson": ("mabwiser", partial(_traffic, partial(_serve_mabwiser, "TS"))),
        "river, UCB": ("river", partial(_traffic, partial(_serve_river, "UCB1"))),
        "river, Thompson": ("river", partial(_traffic, partial(_serve_river, "TS"))),
    },
    "tuning": {
        "fairtrial, RacingSearchCV": (None, partial(_search, "racing")),
        "scikit-learn, HalvingGridSearchCV": ("scikit-learn", partial(_search, "halving")),
        "scikit-learn, GridSearchCV, 50 splits": ("scikit-learn", partial(_search, "grid")),
    },
    "looks": {
        "fairtrial, BlockBetting": (None, partial(looking.looks, looking.betting)),
        "fairtrial, BlockBetting with a planned end": (
            None,
            partial(looking.looks, partial(looking.betting, planned_end=True)),
        ),
        "tea-tasting, p < .05 at any of ten looks": (
            "tea-tasting",
            partial(looking.looks, looking.significance),
        ),
        "tea-tasting, p < .05 at the end": (
            "tea-tasting",
            partial(looking.looks, partial(looking.significance, looks=1)),
        ),
    },
    "intervals": {
        "fairtrial, means of an analysis": (
            None,
            partial(sequences.intervals, sequences.analysis),
        ),
        "confseq, betting": (
            "confseq",
            partial(
                sequences.intervals,
                partial(sequences.confidence_sequence, "betting", "betting_cs"),
            ),
        ),
        "confseq, empirical Bernstein": (
            "confseq",
            partial(
                sequences.intervals,
                partial(sequences.confidence_sequence, "predmix", "predmix_empbern_twosided_cs"),
            ),
        ),
        "numpy, normal interval for one look": (
            "numpy",
            partial(sequences.intervals, sequences.normal_interval),
        ),
    },
    "claims": {
        "fairtrial, BlockBetting": (None, partial(sequences.claims, sequences.claim_of_floor)),
        "fairtrial, BlockBetting with a planned end": (
            None,
            partial(sequences.claims, partial(sequences.claim_of_floor, planned_end=True)),
        ),
        "expectation, test of a proportion": (
            "expectation",
            partial(sequences.claims, partial(sequences.claim_of_batches, "proportion")),
        ),
        "expectation, test of a mean": (
            "expectation",
            partial(sequences.claims, partial(sequences.claim_of_batches, "mean")),
        ),
    },
    "proposals": {
        "numpy, random choice": (
            "numpy",
            partial(proposing.proposals, proposing.random_choice),
        ),
        "fairtrial, first plates of linear.BlockBetting": (
            None,
            partial(proposing.proposals, proposing.first_plates),
        ),
        "Optuna, TPE": ("optuna", partial(proposing.proposals, proposing.optuna)),
        "BayBE, its default": ("baybe", partial(proposing.proposals, proposing.baybe)),
    },
}
"""The package (None is this one) and the measurement of each peer, by job and name."""


def measure_peer(job: str, skip: set[str], effort: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of every peer that is installed, with its version.

    Our own rules run as machine code, as after `fairtrial compile`.
    """
    for name, (package, measure) in PEERS[job].items():
        if name in skip:
            continue
        try:
            installed = version(package or "fairtrial")
        except PackageNotFoundError:
            reason = f"{package} is not installed"
            yield {"case": name, "missing": reason, "is_untried": True}
            continue
        with compiled(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            figures = measure(effort, seed)
        yield {"case": name, "version": installed, **figures}
