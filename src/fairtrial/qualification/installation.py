"""Checks of an installation: its files against their checksums, and the libraries it needs."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, version
from pathlib import Path

from fairtrial.qualification.checks import Check, CheckFailed, carried_out

__all__ = ["digest_of", "installation_checks", "required_libraries"]

_PACKAGE = "fairtrial"
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)")
_NAMED = 10


def installation_checks(distribution: Distribution, package: Path) -> Iterator[Check]:
    """Check the files and the libraries of an installation.

    Parameters
    ----------
    distribution : Distribution
        The installed distribution.
    package : Path
        The folder of the package that runs.
    """
    yield carried_out(
        "installation",
        "files are those of the wheel, by the checksums in RECORD",
        lambda: _check_files(distribution, package),
    )
    yield carried_out(
        "installation",
        "required libraries are installed",
        lambda: _check_libraries(distribution),
    )


def _check_files(distribution: Distribution, package: Path) -> str:
    recorded = _recorded(distribution)
    if not recorded:
        raise CheckFailed(
            "RECORD has no checksums of the package: it was installed from a checkout (editable), "
            "or by a tool that writes none. Install the wheel"
        )
    expected = Path(str(distribution.locate_file(_PACKAGE)))
    if not package.samefile(expected):
        raise CheckFailed(f"the package that runs is {package}, but RECORD describes {expected}")
    faults: list[str] = []
    for name, checksum in sorted(recorded.items()):
        path = Path(str(distribution.locate_file(name)))
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif _checksum(path, checksum.partition("=")[0]) != checksum:
            faults.append(f"{name} was altered")
    faults += [f"{name} is not in RECORD" for name in sorted(_names(package) - recorded.keys())]
    if faults:
        more = f"\nand {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise CheckFailed("\n".join(faults[:_NAMED]) + more)
    return f"{len(recorded)} files, none missing, altered or added"


def _recorded(distribution: Distribution) -> dict[str, str]:
    """Return the files of the package that RECORD lists, with their checksums.

    `Distribution.files` leaves out missing files since Python 3.12.
    """
    rows = [row for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()) if row]
    return {
        name: checksum
        for name, checksum, *_ in rows
        if name.startswith(f"{_PACKAGE}/") and checksum
    }


def _checksum(path: Path, mode: str) -> str:
    """Return a checksum as RECORD writes it."""
    digest = hashlib.new(mode, path.read_bytes()).digest()
    return f"{mode}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _names(package: Path) -> set[str]:
    """Return the files of the package, without those that Python and numba make from them."""
    return {
        f"{_PACKAGE}/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts[len(package.parts) :]
    }


def digest_of(package: Path) -> str:
    """Return one SHA-256 of all files of the package.

    It is that of the list which ``sha256sum`` prints for them, in the order of their names. So it
    can be compared with the wheel: see `how-to/qualify-an-installation.md`.
    """
    lines = (
        f"{hashlib.sha256((package.parent / name).read_bytes()).hexdigest()}  {name}\n"
        for name in sorted(_names(package))
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def required_libraries(distribution: Distribution) -> dict[str, str]:
    """Return the lowest version of each library that the package cannot do without."""
    return dict(_required(distribution.requires or ()))


def _required(requirements: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in requirements:
        found = _REQUIREMENT.match(text)
        if found and "extra ==" not in text:
            yield found[1], found[2]


def _check_libraries(distribution: Distribution) -> str:
    required = required_libraries(distribution)
    faults = []
    for name, lowest in required.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            faults.append(f"{name} is not installed")
            continue
        if _numbers(installed) < _numbers(lowest):
            faults.append(f"{name} is {installed}, and {lowest} or newer is needed")
    if faults or not required:
        raise CheckFailed("\n".join(faults) or "the installed metadata name no libraries")
    return ", ".join(f"{name} {version(name)}" for name in required)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
