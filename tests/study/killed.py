"""The program that the kill -9 tests kill: it prints what was acknowledged, and continues.

python -m tests.study.killed PATH SEED
"""

import random
import sys

from fairtrial.study import Study
from tests.study.toys import OWN


def main(path: str, seed: int) -> None:
    choice = random.Random(seed)
    study = Study.open(path, "toy", **OWN)
    say("ready", study.policy.told)
    waiting = study.outstanding()
    while True:
        if not waiting:
            waiting = ask(study, choice)
        waiting = tell(study, waiting, choice)


def ask(study, choice):
    pulls = study.ask(choice.choice([1, 1, 2, 5]))
    for pull in pulls:
        say("asked", pull.id, pull.number)
    return pulls


def tell(study, waiting, choice):
    """Tell some of the pulls in one of the possible ways; return those that still wait."""
    way = choice.choice(["tell", "tell", "many", "fused"])
    first, *rest = waiting
    if way == "many":
        study.tell_many([(pull, value_of(pull)) for pull in waiting])
        told, rest = waiting, []
    elif way == "fused":
        following = study.tell_and_ask(first, value_of(first))
        told = [first]
        rest.append(following)
        say("asked", following.id, following.number)
    else:
        study.tell(first, value_of(first))
        told = [first]
    for pull in told:
        say("told", pull.id, value_of(pull))
    return rest


def value_of(pull) -> float:
    return pull.number / 8


def say(*words) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
