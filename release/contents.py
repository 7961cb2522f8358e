"""What a package index checks in the distributions, and whether they hold what they should."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.metadata import InvalidMetadata, Metadata
from packaging.utils import parse_sdist_filename, parse_wheel_filename

__all__ = ["faults"]

_LARGEST = 100_000_000
"""Bytes of a file that PyPI accepts."""


def faults(source: Path, wheel: Path, tracked: list[str]) -> list[str]:
    """Return what is wrong with the distributions; empty if nothing is.

    Parameters
    ----------
    source, wheel : Path
        The distributions.
    tracked : list of str
        Names of the files of the commit.

    Returns
    -------
    list of str
        A sentence for each fault, without a full stop.
    """
    with tarfile.open(source) as archive:
        top = source.name.removesuffix(".tar.gz")
        names = [one.name.removeprefix(f"{top}/") for one in archive if one.isfile()]
        described = archive.extractfile(f"{top}/PKG-INFO")
        of_source = described.read() if described else b""
    with zipfile.ZipFile(wheel) as files:
        version = parse_wheel_filename(wheel.name)[1]
        information = f"fairtrial-{version}.dist-info/"
        of_wheel = files.read(f"{information}METADATA")
        inside = [name for name in files.namelist() if not name.startswith(information)]
        scripts = files.read(f"{information}entry_points.txt").decode()
    package = [name.removeprefix("src/") for name in tracked if name.startswith("src/")]
    found = [
        *_differences("the source distribution", names, [*tracked, "PKG-INFO"]),
        *_differences("the wheel", inside, package),
        *_in_metadata(of_wheel, str(version)),
    ]
    if of_source != of_wheel:
        found.append("the distributions have different metadata")
    if "fairtrial = fairtrial.cli:main" not in scripts:
        found.append("the wheel has no command fairtrial")
    if parse_sdist_filename(source.name)[1] != version:
        found.append("the distributions have different versions")
    large = [file.name for file in (source, wheel) if file.stat().st_size > _LARGEST]
    return found + [f"{name} is too large for PyPI" for name in large]


def _differences(what: str, names: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(wanted) - set(names)):
        yield f"{what} lacks {name}"
    for name in sorted(set(names) - set(wanted)):
        yield f"{what} has {name}, which is not in the commit"


def _in_metadata(content: bytes, version: str) -> Iterator[str]:
    try:
        metadata = Metadata.from_email(content, validate=True)
    except ExceptionGroup as group:
        for error in group.exceptions:
            field = error.field if isinstance(error, InvalidMetadata) else "metadata"
            yield f"{field}: {error}"
        return
    if str(metadata.version) != version:
        yield f"the metadata state version {metadata.version}, the name of the wheel {version}"
    if not (metadata.description or "").strip():
        yield "the description is empty"
    if metadata.description_content_type != "text/markdown":
        yield f"the description is {metadata.description_content_type}, not text/markdown"
