"""The program that the tests of a service under load start and kill.

python -m tests.server.killed STORAGE PORT
"""

import sys

import uvicorn

from fairtrial.server import Settings, create_app
from fairtrial.server.http import configured
from fairtrial.study import postgresql
from tests.server.toys import OWN


def main(storage: str, port: int) -> None:
    # The tests' server has only just started, so nobody needs to reconnect.
    postgresql.SETTLING_SECONDS = 0
    app = create_app(storage, settings=Settings(rate=1e6), **OWN)
    uvicorn.Server(configured(app, "127.0.0.1", port)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
