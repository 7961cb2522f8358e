"""Labels in any script: drawn with a font that has their characters, or spelled out."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, wraps
from typing import ParamSpec

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from fairtrial.core.warning import warn_caller

__all__ = ["legible"]

_Arguments = ParamSpec("_Arguments")

_is_part: ContextVar[bool] = ContextVar("_is_part", default=False)
"""Whether the current drawing is part of another figure, which is checked as a whole."""

_DRAWS_BOXES = "Last Resort"
"""A font that has a glyph for every character: a box."""

_WITHOUT_INK = {"Mn", "Cf"}
"""Categories of characters that only change the character before them."""


def legible(draw: Callable[_Arguments, Figure]) -> Callable[_Arguments, Figure]:
    """Make a function that draws a figure find fonts for all characters in it.

    Matplotlib's own font has no Chinese, Japanese, Korean or emoji: it draws a box for each such
    character, and warns about each several times.

    Parameters
    ----------
    draw : callable
        Returns a figure.

    Returns
    -------
    callable
        The same function. Characters that no installed font has are spelled out, with one warning
        for the whole figure that names the shortest text with such characters.
    """

    @wraps(draw)
    def drawn(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Figure:
        if _is_part.get():
            return draw(*args, **kwargs)
        token = _is_part.set(True)
        try:
            figure = draw(*args, **kwargs)
        finally:
            _is_part.reset(token)
        _warn_of(_make_legible(figure))
        return figure

    return drawn


def _make_legible(figure: Figure) -> dict[str, str]:
    """Return the non-ASCII texts of a figure, with the form in which they are drawn now."""
    spelled: dict[str, str] = {}
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            _spell_tick_labels(axis, spelled)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_text().isascii():
            _choose_fonts(text)
            text.set_text(_spelled(text, spelled))
    return spelled


def _warn_of(spelled: dict[str, str]) -> None:
    original = min((text for text in spelled if spelled[text] != text), key=len, default=None)
    if original is not None:
        warn_caller(
            f"no installed font has all characters of '{original}': it is drawn as "
            f"'{spelled[original]}'; fonts such as Noto Sans CJK and Noto Emoji have more"
        )


def _spell_tick_labels(axis: Axis, spelled: dict[str, str]) -> None:
    """Replace an axis's labels by ones that can be drawn; the axis rewrites its texts each time."""
    labels = axis.get_ticklabels()
    texts = [_spelled(label, spelled) for label in labels]
    if texts != [label.get_text() for label in labels]:
        axis.set_ticks(axis.get_ticklocs(), labels=texts, parse_math=False)


def _spelled(text: Text, spelled: dict[str, str]) -> str:
    original = text.get_text()
    if original.isascii():
        return original
    families = tuple(text.get_fontfamily())
    spelling = "".join(
        char if _has(families, char) or _other_font(char) else _spell(char) for char in original
    )
    return spelled.setdefault(original, spelling)


def _spell(char: str) -> str:
    category = unicodedata.category(char)
    if category in _WITHOUT_INK:
        return ""
    if category == "So":
        return f"[{unicodedata.name(char, hex(ord(char))).lower()}]"
    return char.encode("ascii", "backslashreplace").decode()


# ------------------------------------------------------------------------------ fonts


def _choose_fonts(text: Text) -> None:
    """Add fonts to a text for the characters that its own fonts lack."""
    families = list(text.get_fontfamily())
    lacking = [char for char in text.get_text() if not _has(tuple(families), char)]
    others = [font for font in map(_other_font, lacking) if font is not None]
    if others:
        text.set_fontfamily(list(dict.fromkeys([*families, *others])))


@cache
def _has(families: tuple[str, ...], char: str) -> bool:
    """Return whether one of the fonts has a character; a line break needs none."""
    if char.isascii():
        return True
    paths = [findfont(FontProperties(family=[family])) for family in families]
    return any(get_font(path).get_char_index(ord(char)) for path in paths)


@cache
def _other_font(char: str) -> str | None:
    """Return an installed font that has a character, preferably one without serifs."""

    def preference(entry: FontEntry) -> tuple[bool, bool, bool, str]:
        is_plain = entry.style == "normal" and entry.weight in (400, "normal", "regular")
        return "Sans" not in entry.name, not is_plain, "Mono" in entry.name, entry.name

    entries = sorted(fontManager.ttflist, key=preference)
    return next((entry.name for entry in entries if _can_draw(entry.name, entry.fname, char)), None)


def _can_draw(name: str, path: str, char: str) -> bool:
    """Return whether a font has an outline for a character; coloured glyphs are bitmaps."""
    if name.startswith(_DRAWS_BOXES):
        return False
    try:
        font = get_font(path)
    except (OSError, RuntimeError):  # the file was removed, or has a format that cannot be read
        return False
    return bool(font.scalable and font.get_char_index(ord(char)))
