"""How often a wrong answer of a race is labelled proven if the stated assumptions are false."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairtrial.core import run_policy
from fairtrial.delayed import InformationRacing, OutcomeDelay, Problem, SimulatedEnvironment

Race = Callable[[int], InformationRacing]


def run(*, quick: bool) -> None:
    runs = 20 if quick else 200
    print(
        f"\nraces whose assumptions are false, delta .05, {runs} runs: wrong; wrong, label proven"
    )
    for times in (1.0, 1.5, 2.0, 3.0, 10.0):
        _show(f"outcomes spread {times:g} times as stated", partial(_spread, times=times), runs)
    for feedback, more in (
        ("unbiased", {}),
        ("refining", {"errors": "nested"}),
        ("biased", {}),
    ):
        for times in (10.0, 100.0):
            _show(
                f"{feedback} readings err {times:g} times as stated",
                partial(_read, times=times, feedback=feedback, **more),
                runs,
            )
    _show("good results of the better arm are lost", _lose, runs)
    _show("the same, declared as random", partial(_lose, failure="independent"), runs)
    _show("delays by outcome, 100 in flight", _delay, runs // 4)
    _show("of 20 in flight, told in favour of arm 0", _pick, runs)


def _show(what: str, play: Race, runs: int) -> None:
    wrong = proven = 0
    for seed in range(runs):
        answer = play(seed).recommend()
        # Arm "1" is better, or equally good.
        wrong += answer.arm == ("0",)
        proven += answer.arm == ("0",) and answer.guarantee.proven
    print(f"  {what:<44}{wrong:>6} of {runs}{proven:>6}", flush=True)


def _spread(seed: int, times: float) -> InformationRacing:
    race, generator = InformationRacing(Problem(2, noise_std=1.0), max_pulls=60), _generator(seed)
    while not race.stopped:
        race.tell(race.ask(), times * generator.normal())
    return race


def _read(seed: int, times: float, **problem: Any) -> InformationRacing:
    race = InformationRacing(Problem(2, noise_std=1.0, reading_std=0.1, **problem), max_pulls=60)
    generator = _generator(seed)
    while not race.stopped:
        pull, outcome = race.ask(), generator.normal()
        race.report(pull, outcome + 0.1 * times * generator.normal())
        if not race.stopped:
            race.tell(pull, outcome)
    return race


def _lose(seed: int, **problem: Any) -> InformationRacing:
    race, generator = InformationRacing(Problem(2, noise_std=1.0, **problem)), _generator(seed)
    while not race.stopped and race.asked < 2000:
        pull = race.ask()
        value = generator.normal(0.5 * pull.action)
        if pull.action and value > 0.0:
            race.fail(pull, "lost")
        else:
            race.tell(pull, value)
    return race


def _delay(seed: int) -> InformationRacing:
    problem = Problem(2, noise_std=1.0)
    # The better arm's bad outcomes arrive first, its good ones after the decision.
    environment = SimulatedEnvironment(
        problem, [0.0, 0.3], delay=OutcomeDelay([50, 1], [50, 20000])
    )
    race = InformationRacing(problem, sampling="uniform")
    run_policy(race, environment, _generator(seed), horizon=400, parallel=100)
    return race


def _pick(seed: int) -> InformationRacing:
    race, generator = InformationRacing(Problem(2, noise_std=1.0)), _generator(seed)
    pending: list[tuple[Any, float]] = []
    while not race.stopped and race.asked < 200:
        pending += [
            (pull, 0.02 * pull.action + generator.normal()) for pull in race.ask(20 - len(pending))
        ]
        suits = [(1 - 2 * pull.action) * value for pull, value in pending]
        race.tell(*pending.pop(int(np.argmax(suits))))
    return race


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 41])
