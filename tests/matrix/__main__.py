"""Run the matrix; see the docstring of the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.matrix.checks import HEAD, Row, build_wheel, copy_repository, try_out
from tests.matrix.places import FOLDER, Place, Unavailable, debian, interpreters

SUITES = ("trixie", "forky")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LIBRARIES = ("newest", "oldest")
SHORT_SECONDS = 600.0
"""The longest time for making a root in the short form."""
STEP_SECONDS = 3600.0
"""The longest time of one step: one that hangs must not hang everything."""
SHORT_STEP_SECONDS = 900.0
"""The same in the short form."""


def main(arguments: list[str]) -> int:
    """Run the whole matrix, a part of it, or a command in the root of Debian 13."""
    if arguments[:1] == ["--tests"]:
        return in_root(["./dev", "test", *arguments[1:]])
    if arguments[:1] == ["--run"]:
        return in_root(arguments[1:])
    part = part_of(arguments)
    seconds = SHORT_STEP_SECONDS if part.short else STEP_SECONDS
    wheel = build_wheel(FOLDER / "wheel", sys.executable)
    rows: list[Row] = []
    for place in places(part):
        for libraries in part.libraries:
            print(f"{place.name}, {libraries} libraries", flush=True)
            oldest = libraries == "oldest"
            try:
                rows.append(try_out(place, wheel, oldest=oldest, short=part.short, seconds=seconds))
            except Unavailable as reason:
                print(f"not tried: {place.name}: {reason}", flush=True)
    if not rows:
        print("nothing was tried")
        return 0
    show(rows)
    return 1 if any(row.failed for row in rows) else 0


@dataclass(frozen=True)
class Part:
    """Which part of the matrix is run.

    Attributes
    ----------
    short : bool
        Whether checks that take minutes are left out.
    libraries : tuple of str
        ``newest``, ``oldest``, or both.
    suites : tuple of str
        Which roots of Debian.
    versions : tuple of str
        Which Pythons of this machine, for example ``3.12``.
    """

    short: bool
    libraries: tuple[str, ...]
    suites: tuple[str, ...]
    versions: tuple[str, ...]


def part_of(arguments: list[str]) -> Part:
    """Return the part that these arguments select.

    >>> part_of([]).suites, part_of([]).libraries
    (('trixie', 'forky'), ('newest', 'oldest'))
    >>> part_of(["--short"])
    Part(short=True, libraries=('newest',), suites=('trixie',), versions=())
    >>> part_of(["--short", "--oldest", "trixie", "3.12"])
    Part(short=True, libraries=('oldest',), suites=('trixie',), versions=('3.12',))
    """
    parser = argparse.ArgumentParser(
        "./dev matrix", epilog="Also: ./dev matrix --tests [ARGUMENT ...] | --run COMMAND ..."
    )
    parser.add_argument("place", nargs="*", help=f"any of {', '.join((*SUITES, *VERSIONS))}")
    parser.add_argument("--short", action="store_true", help="only the checks that take seconds")
    libraries = parser.add_mutually_exclusive_group()
    for name in LIBRARIES:
        libraries.add_argument(f"--{name}", dest="only", action="store_const", const=name)
    given = parser.parse_args(arguments)
    for unknown in set(given.place) - {*SUITES, *VERSIONS}:
        parser.error(f"no place is called {unknown}")
    everywhere = SUITES[:1] if given.short else (*SUITES, *VERSIONS)
    chosen = given.place or everywhere
    usual = LIBRARIES[:1] if given.short else LIBRARIES
    return Part(
        short=given.short,
        libraries=(given.only,) if given.only else usual,
        suites=tuple(suite for suite in SUITES if suite in chosen),
        versions=tuple(version for version in VERSIONS if version in chosen),
    )


def places(part: Part) -> Iterator[Place]:
    """Yield the places that this machine has or can make; say which ones it cannot."""
    for suite in part.suites:
        try:
            print(f"making the root of Debian {suite}, if it is not there", flush=True)
            yield debian(suite, SHORT_SECONDS if part.short else STEP_SECONDS)
        except Unavailable as reason:
            print(f"not tried: Debian {suite}: {reason}", flush=True)
    yield from interpreters(part.versions)


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
