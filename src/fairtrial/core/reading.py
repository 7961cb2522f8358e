"""Read files safely: every failure names the file, and nothing huge is unpacked."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zipfile import ZipFile

from fairtrial.errors import InvalidArgument

__all__ = ["read_bytes", "readable", "require_small_archive"]

_MOST_UNPACKED = 32_000_000
_MOST_EXPANSION = 50
"""A compressed file may hold that many bytes, or that many times its own size."""


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn any error from reading a file into one error that names the file.

    A pipe or a device is refused before it is read: reading it may never end.
    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise InvalidArgument("path", "must be a regular file, not a pipe or device", str(file))
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument("path", f"must be a readable file ({reason})", str(file)) from error
    except (EOFError, zlib.error) as error:
        raise InvalidArgument("path", f"must be an intact file ({error})", str(file)) from error
    except UnicodeDecodeError as error:
        raise InvalidArgument("path", f"must be UTF-8 text ({error.reason})", str(file)) from error


def read_bytes(file: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends in .gz.

    Raises
    ------
    InvalidArgument
        If it unpacks to far more than is usual for a file of its size.
    """
    if not file.name.lower().endswith(".gz"):
        return file.read_bytes()
    with gzip.open(file) as stream:
        content = stream.read(_most_unpacked(file) + 1)
    _require_small(file, len(content))
    return content


def require_small_archive(file: Path, stream: BinaryIO) -> None:
    """Raise if a zip archive states that it unpacks to far more than is usual for its size.

    Raises
    ------
    InvalidArgument
        If it may; the error says how much it may unpack to.
    BadZipFile
        If it is not a zip archive.
    """
    with ZipFile(stream) as archive:
        size = sum(part.file_size for part in archive.infolist())
    _require_small(file, size)
    stream.seek(0)


def _most_unpacked(file: Path) -> int:
    return max(_MOST_UNPACKED, _MOST_EXPANSION * file.stat().st_size)


def _require_small(file: Path, size: int) -> None:
    most = _most_unpacked(file)
    if size > most:
        accepted = (
            f"must unpack to {most:,} bytes or fewer, {_MOST_EXPANSION} times its size; "
            "unpack it yourself if you trust it"
        )
        raise InvalidArgument("path", accepted, str(file))
