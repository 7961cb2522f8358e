"""The program that the tests of the end of a service start; it learns slowly.

python -m tests.server.ending STORAGE PORT
"""

import sys
import time

from fairtrial import server
from tests.server.toys import OWN, InTurn

_SECONDS = 0.005
"""Time that a result takes to learn: a log of 10,000 results takes a minute to read."""


def main(storage: str, port: int) -> None:
    learn = InTurn.learn

    def slow(policy, pull, outcome):
        time.sleep(_SECONDS)
        learn(policy, pull, outcome)

    InTurn.learn = slow
    app = server.create_app(storage, **OWN)
    server.serve(app, "127.0.0.1", port, lambda _: print("ready", flush=True))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
