"""Read files safely: every failure names the file, and nothing huge is unpacked."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zipfile import ZipFile

from fairtrial.errors import InvalidArgument

__all__ = [
    "OLD_OFFICE",
    "read_bytes",
    "readable",
    "require_small_archive",
    "require_table",
    "text_of",
]

_MOST_UNPACKED = 32_000_000
_MOST_EXPANSION = 50
"""A compressed file may hold that many bytes, or that many times its own size."""

OLD_OFFICE = b"\xd0\xcf\x11\xe0"
"""How files of Office before 2007 begin, and newer ones that have a password."""
_WORKBOOK = "a workbook or another zip archive; the name of a workbook must end in .xlsx"
_OTHER_KINDS = {
    b"PK\x03\x04": _WORKBOOK,
    OLD_OFFICE: "an old workbook (.xls), or one with a password; save it as .xlsx or .csv",
    b"\x1f\x8b": "compressed; its name must end in .gz",
    b"PAR1": "a Parquet file; its name must end in .parquet",
    b"%PDF": "a PDF document",
    b"SQLite format 3": "an SQLite database",
    b"{\\rtf": "a text with formats (RTF); save it as plain text",
}
"""What a file is that begins with these bytes."""
_WEB_PAGE = re.compile(rb"\s*<(!doctype|html|head|body|table|\?xml|!--)", re.IGNORECASE)
_JSON = re.compile(rb"\s*(\{\s*\"|\[\s*[\[{])")
_UTF_8 = b"\xef\xbb\xbf"
_MARKED = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    _UTF_8: "utf-8-sig",
}
"""Encodings by the byte order mark that shows them."""


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


def require_table(file: Path, content: bytes) -> None:
    """Raise if a file that should be a table as text is of another kind.

    Raises
    ------
    InvalidArgument
        If it is; the error says what it is.
    """
    kind = next((what for start, what in _OTHER_KINDS.items() if content.startswith(start)), None)
    if kind is None and _WEB_PAGE.match(content.removeprefix(_UTF_8)):
        kind = "a web page, or XML"
    if kind is None and _JSON.match(content.removeprefix(_UTF_8)):
        kind = "JSON"
    if kind is not None:
        raise InvalidArgument("path", f"must be a table as text; it is {kind}", str(file))


def text_of(file: Path, content: bytes) -> str:
    """Return the text in a file's content: UTF-8, or the encoding that a byte order mark shows.

    Raises
    ------
    InvalidArgument
        If it is in another encoding; the error names the line.
    """
    encoding = next((name for mark, name in _MARKED.items() if content.startswith(mark)), "utf-8")
    cure = "in a spreadsheet, save it as 'CSV UTF-8'"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = 1 + len(re.findall(rb"\r\n|\r|\n", content[: error.start]))
        accepted = f"must be UTF-8 text; line {line} has a byte of another encoding: {cure}"
        raise InvalidArgument("path", accepted, str(file)) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidArgument("path", f"must be text; line {line} has a NUL: {cure}", str(file))
    return text


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
