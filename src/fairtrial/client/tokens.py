"""Read the token that identifies a client; it is never taken from the command line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fairtrial.errors import InvalidArgument

__all__ = ["TOKEN_VARIABLE", "read_secret_file", "read_token"]

TOKEN_VARIABLE = "FAIRTRIAL_TOKEN"  # noqa: S105 - a name, not a secret
_LONGEST = 4096


def read_token(token: object = None, token_file: str | os.PathLike[str] | None = None) -> str:
    """Return the given token, or the one in a file or the environment.

    Parameters
    ----------
    token : str, optional
        The token.
    token_file : str or path, optional
        A file that contains only the token and that only its owner can read.

    Raises
    ------
    InvalidArgument
        If there is no token, or others can read the file.
    """
    if token is not None:
        return _checked("token", token)
    if token_file is not None:
        return _checked("token_file", read_secret_file("token_file", token_file))
    found = os.environ.get(TOKEN_VARIABLE)
    if not found:
        raise InvalidArgument(
            "token", f"must be given, or be in a token file or in the variable {TOKEN_VARIABLE}"
        )
    return _checked(TOKEN_VARIABLE, found.strip())


def read_secret_file(name: str, path: str | os.PathLike[str]) -> str:
    """Return the text of a file that only its owner can read, without surrounding white space.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, or others can read it.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(_LONGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument(name, f"cannot be read ({reason})", str(file)) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        accepted = "must be readable by its owner only: chmod 600 it, because it holds a secret"
        raise InvalidArgument(name, accepted, str(file))
    if len(content) > _LONGEST:
        raise InvalidArgument(name, f"must hold at most {_LONGEST:,} bytes", str(file))
    return content.decode(errors="replace").strip()


def _checked(name: str, token: object) -> str:
    """Return a token that is valid in a header; errors never show it."""
    fits = isinstance(token, str) and 0 < len(token) <= _LONGEST
    if not isinstance(token, str) or not fits or not token.isascii() or not token.isprintable():
        raise InvalidArgument(name, "must hold the text that `fairtrial token create` printed")
    if " " in token:
        raise InvalidArgument(name, "must hold one token and nothing else")
    return token
