"""Standard output: text for people, or one JSON document."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from fairtrial.core.printing import printable
from fairtrial.errors import MistakesFound

__all__ = [
    "answer",
    "decimal_option",
    "emit",
    "emit_long",
    "error_document",
    "json_option",
    "say",
    "shown_number",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_ROUNDING = 1e-12
_UNSAFE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_option(command: Command) -> Command:
    """Give a command the option ``--json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON document on standard output, and nothing else there.",
    )(command)


def decimal_option(command: Command) -> Command:
    """Give a command the option ``--decimal``."""
    return click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal separator of the numbers in the table, if its columns do not show it.",
    )(command)


def say(text: str, err: bool = False) -> None:
    """Print lines on standard output or standard error; labels cannot move the cursor."""
    click.echo(printable(text), err=err)


def emit(document: Mapping[str, Any]) -> None:
    """Print a document as JSON; numbers that JSON cannot express become null."""
    click.echo(_json(document, indent=2))


def _json(document: Mapping[str, Any], indent: int | None = None) -> str:
    text = json.dumps(_finite(document), indent=indent, ensure_ascii=False, allow_nan=False)
    # JSON escapes only control characters below 32.
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def answer(as_json: bool, document: Mapping[str, Any], text: str) -> None:
    """Print the result of a command: as a document, or as text for people."""
    if as_json:
        emit(document)
    else:
        say(text)


def emit_long(document: Mapping[str, Any], name: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Print a JSON document that ends with a list, without holding the list in memory."""
    click.echo(f"{_json(document)[:-1]}, {json.dumps(name)}: [")
    separator = ""
    for item in items:
        click.echo(f"{separator}  {_json(item)}", nl=False)
        separator = ",\n"
    click.echo("\n]}")


def error_document(error: BaseException, message: str) -> dict[str, Any]:
    """Return an error as a document."""
    about: dict[str, Any] = {"type": type(error).__name__, "message": message}
    if isinstance(error, MistakesFound):
        about |= {"source": error.source, "mistakes": list(error.mistakes)}
    return {"error": about}


def shown_number(value: float | None, digits: int = 4) -> str:
    """Return a number in a readable form.

    Examples
    --------
    >>> shown_number(12345.678), shown_number(0.123456), shown_number(None)
    ('12,346', '0.1235', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    if abs(value) < _ROUNDING:
        return "0"
    if abs(value) >= 1000 and math.isfinite(value):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
