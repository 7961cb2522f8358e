"""Make text from any author safe to print."""

from __future__ import annotations

import re

__all__ = ["printable"]

# Characters that move the cursor, set colours or titles or ring the bell; that change the
# direction of writing; and halves of surrogate pairs, which no stream can encode.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return a text with its control characters spelled out: labels may contain any text.

    Examples
    --------
    >>> print(printable("new\x1b[2J"))
    new\x1b[2J
    """
    return _UNPRINTABLE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
