"""Run the matrix; see the docstring of the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.matrix.checks import HEAD, Row, build_wheel, copy_repository, try_out
from tests.matrix.places import FOLDER, Place, Unavailable, debian, interpreters

SUITES = ("trixie", "forky")
SHORT_SECONDS = 600.0
"""The longest time for making a root in the short form."""
STEP_SECONDS = 3600.0
"""The longest time of one step: one that hangs must not hang everything."""
SHORT_STEP_SECONDS = 900.0
"""The same in the short form."""


def main(arguments: list[str]) -> int:
    """Run the whole matrix, its short form, or a command in the root of Debian 13."""
    if arguments[:1] == ["--tests"]:
        return in_root(["./dev", "test", *arguments[1:]])
    if arguments[:1] == ["--run"]:
        return in_root(arguments[1:])
    short = arguments == ["--short"]
    if arguments and not short:
        sys.exit("usage: ./dev matrix [--short | --tests [ARGUMENT ...] | --run COMMAND ...]")
    seconds = SHORT_STEP_SECONDS if short else STEP_SECONDS
    wheel = build_wheel(FOLDER / "wheel", sys.executable)
    rows: list[Row] = []
    for place in places(short=short):
        for oldest in (False,) if short else (False, True):
            print(f"{place.name}, {'oldest' if oldest else 'newest'} libraries", flush=True)
            try:
                rows.append(try_out(place, wheel, oldest=oldest, short=short, seconds=seconds))
            except Unavailable as reason:
                print(f"not tried: {place.name}: {reason}", flush=True)
    if not rows:
        print("nothing was tried")
        return 0
    show(rows)
    return 1 if any(row.failed for row in rows) else 0


def places(*, short: bool) -> Iterator[Place]:
    """Yield the places that this machine has or can make; say which ones it cannot."""
    for suite in SUITES[:1] if short else SUITES:
        try:
            print(f"making the root of Debian {suite}, if it is not there", flush=True)
            yield debian(suite, SHORT_SECONDS if short else STEP_SECONDS)
        except Unavailable as reason:
            print(f"not tried: Debian {suite}: {reason}", flush=True)
    if not short:
        yield from interpreters()


def show(rows: list[Row]) -> None:
    """Print what failed, and the table."""
    for row in rows:
        for name, printed in row.failed.items():
            print(f"\n{row.place}, {row.libraries} libraries: {name} failed\n{printed[-8000:]}")
    lines = [HEAD, ["---"] * len(HEAD), *(list(row.cells()) for row in rows)]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in lines))


def in_root(command: list[str]) -> int:
    """Run a command in a copy of the repository in the root of Debian 13."""
    try:
        place = debian(SUITES[0], STEP_SECONDS)
    except Unavailable as reason:
        sys.exit(f"there is no root of Debian 13: {reason}")
    folder = place.home / "repository"
    folder.mkdir(parents=True, exist_ok=True)
    copy_repository(folder)
    return place.stream(command, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
