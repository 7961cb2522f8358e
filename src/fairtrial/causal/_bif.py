"""The Bayesian-network interchange format (BIF): discrete networks as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal.errors import BIFError
from fairtrial.core.reading import read_bytes, readable

__all__ = ["Network", "parse_bif", "read_bif"]

Floats = NDArray[np.float64]

_TOLERANCE = 1e-4
_MOST_CELLS = 1_000_000
"""Largest number of entries in all tables, because a single line can declare a huge table."""

# Punctuation, comments, quoted words, and everything between spaces and punctuation.
_TOKEN = re.compile(
    r'(?P<space>[\s]+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<mark>[{}()\[\];,|])|"(?P<quoted>[^"\n]*)"'
    r'|(?P<word>(?:(?!//|/\*)[^\s{}()\[\];,|"])+)',
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


_QUOTES = '; a state with spaces needs quotation marks, such as "not at all"'


class Network(NamedTuple):
    """A discrete network: edges (parent, child), states and tables by node."""

    edges: list[tuple[str, str]]
    states: dict[str, list[str]]
    tables: dict[str, Floats]


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_bif(path: str | Path) -> Network:
    """Return the network in a BIF file, which may be compressed (.gz).

    Raises
    ------
    BIFError
        If the text is not well-formed; the message names the line.
    InvalidArgument
        If the file cannot be read.
    """
    file = Path(path)
    with readable(file):
        text = read_bytes(file).decode("utf-8-sig")
    return parse_bif(text, str(path))


def parse_bif(text: str, source: str = "text") -> Network:
    """Return the network that a BIF text describes.

    Rows of a table may differ from a sum of one by 1e-4; they are scaled to a sum of one.

    Parameters
    ----------
    text : str
        The content of a BIF file.
    source : str
        Name of the text in error messages.

    Raises
    ------
    BIFError
        If the text is not well-formed; the message names the line.

    Examples
    --------
    >>> network = parse_bif('''
    ... network example { }
    ... variable S { type discrete [ 2 ] { s, t }; }
    ... variable V { type discrete [ 2 ] { no, yes }; }
    ... probability ( S ) { table 0.4, 0.6; }
    ... probability ( V | S ) { (t) 0.1, 0.9; (s) 0.5, 0.5; }
    ... ''')
    >>> network.edges, network.tables["V"].tolist()
    ([('S', 'V')], [[0.5, 0.5], [0.1, 0.9]])
    """
    return _Parser(text, source).network()


class _Parser:
    """Recursive-descent parser: every method reads one element of the grammar."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.tokens = list(_tokens(text, source))
        self.place = 0
        self.states: dict[str, list[str]] = {}
        self.parents: dict[str, list[str]] = {}
        self.tables: dict[str, Floats] = {}
        self.cells = 0
        self.blocks: list[int] = []
        """Where the probability blocks begin: they are read last, as variables may follow them."""

    # ---------------------------------------------------------------------- grammar

    def network(self) -> Network:
        """Return the network in the file, after reading it to its end."""
        if self._peek().kind == "end":
            raise self._error("the file is empty")
        while self._peek().kind != "end":
            keyword = self._word("'network', 'variable' or 'probability'")
            if keyword == "network":
                self._skip_header()
            elif keyword == "variable":
                self._variable()
            elif keyword == "probability":
                self._skip_block()
            else:
                self._back()
                raise self._expected("'network', 'variable' or 'probability'")
        end = self.place
        for begin in self.blocks:
            self.place = begin
            self._probability()
        self.place = end
        for node in self.states:
            if node not in self.tables:
                raise self._error(f"variable {node!r} has no probability block")
        edges = [(parent, node) for node, names in self.parents.items() for parent in names]
        return Network(edges, self.states, self.tables)

    def _skip_header(self) -> None:
        while not self._at("{"):
            self._word("the network's name or '{'")
        self._mark("{")
        while not self._at("}"):
            self._skip_property()
        self._mark("}")

    def _skip_block(self) -> None:
        """Note where a probability block begins, and skip it."""
        self.blocks.append(self.place)
        while not self._at("}"):
            if self._peek().kind == "end":
                # Reading the block says what is wrong with it.
                return
            self.place += 1
        self._mark("}")

    def _skip_property(self) -> None:
        keyword = self._word("'property' or '}'")
        if keyword != "property":
            self._back()
            raise self._expected("'property' or '}'")
        while not self._at(";"):
            if self._peek().kind == "end" or self._at("}"):
                raise self._expected("';'")
            self.place += 1
        self._mark(";")

    def _variable(self) -> None:
        name = self._word("the variable's name")
        if name in self.states:
            raise self._error(f"variable {name!r} is declared twice", back=1)
        self._mark("{")
        states: list[str] | None = None
        while not self._at("}"):
            if self._peek().text == "type" and states is None:
                states = self._states()
            else:
                self._skip_property()
        self._mark("}")
        if states is None:
            raise self._error(f"variable {name!r} has no states", back=1)
        self.states[name] = states

    def _states(self) -> list[str]:
        self._word("'type'")
        if self._word("'discrete'") != "discrete":
            raise self._error("only discrete variables can be read", back=1)
        self._mark("[")
        declared = self._word("the number of states")
        if not declared.isdecimal():
            raise self._error(f"the number of states is {declared!r}, not a whole number", back=1)
        self._mark("]")
        self._mark("{")
        states = self._words("}", "a state")
        self._mark("}")
        self._mark(";")
        if str(len(states)) != declared.lstrip("0"):
            message = f"{declared} states are declared and {len(states)} given{_QUOTES}"
            raise self._error(message, back=1)
        if len(set(states)) != len(states):
            raise self._error("the states are not distinct", back=1)
        return states

    def _probability(self) -> None:
        self._mark("(")
        node = self._known_variable()
        parents: list[str] = []
        if self._at("|"):
            self._mark("|")
        # Older files list the parents after the node without a bar.
        while not self._at(")"):
            if self._at(","):
                self._mark(",")
            parents.append(self._known_variable())
        self._mark(")")
        if node in self.tables:
            raise self._error(f"variable {node!r} has two probability blocks", back=1)
        if node in parents or len(set(parents)) != len(parents):
            raise self._error(f"the parents of {node!r} are not distinct other variables", back=1)
        self._mark("{")
        rows = self._rows(node, parents)
        self._mark("}")
        self.parents[node] = parents
        self.tables[node] = self._table(node, parents, rows)

    def _rows(self, node: str, parents: list[str]) -> dict[tuple[str, ...] | str, Floats]:
        """Return rows by the parents' states, and whole tables by their keyword."""
        rows: dict[tuple[str, ...] | str, Floats] = {}
        size = len(self.states[node])
        while not self._at("}"):
            line = self._peek().line
            if self._at("("):
                key: tuple[str, ...] | str = self._parent_states(parents)
                values = self._distribution(size, line)
            else:
                key = self._word("'(', 'table', 'default' or '}'")
                if key == "property":
                    self._back()
                    self._skip_property()
                    continue
                if key == "table":
                    values = self._whole_table(parents, size, line)
                elif key == "default":
                    values = self._distribution(size, line)
                else:
                    self._back()
                    raise self._expected("'(', 'table', 'default' or '}'")
            if key in rows:
                raise self._error(f"the row {key} of {node!r} is given twice", line=line)
            rows[key] = values
        return rows

    def _parent_states(self, parents: list[str]) -> tuple[str, ...]:
        self._mark("(")
        line = self._peek().line
        states = tuple(self._words(")", "a state"))
        self._mark(")")
        if len(states) != len(parents):
            message = (
                f"{len(parents)} states of parents are needed and {len(states)} given{_QUOTES}"
            )
            raise self._error(message, line=line)
        for parent, state in zip(parents, states, strict=True):
            if state not in self.states[parent]:
                raise self._error(f"{parent!r} has no state {state!r}", line=line)
        return states

    def _whole_table(self, parents: list[str], size: int, line: int) -> Floats:
        shape = [len(self.states[parent]) for parent in parents]
        numbers = self._numbers()
        if len(numbers) != math.prod(shape) * size:
            needed = math.prod(shape) * size
            raise self._error(f"{needed} numbers are needed and {len(numbers)} given", line=line)
        # In a whole table, the node's own states vary slowest.
        table = np.moveaxis(np.array(numbers).reshape([size, *shape]), 0, -1)
        return self._normalised(table, line)

    def _distribution(self, size: int, line: int) -> Floats:
        numbers = self._numbers()
        if len(numbers) != size:
            raise self._error(f"{size} numbers are needed and {len(numbers)} given", line=line)
        return self._normalised(np.array(numbers), line)

    def _normalised(self, table: Floats, line: int) -> Floats:
        totals = table.sum(axis=-1, keepdims=True)
        if (table < 0).any() or not (np.abs(totals - 1.0) <= _TOLERANCE).all():
            raise self._error("probabilities must not be negative and must add to 1", line=line)
        return np.asarray(table / totals)

    def _table(
        self, node: str, parents: list[str], rows: dict[tuple[str, ...] | str, Floats]
    ) -> Floats:
        self.cells += math.prod(len(self.states[name]) for name in (*parents, node))
        if self.cells > _MOST_CELLS:
            message = (
                f"the table of {node!r} is too large; all tables may have {_MOST_CELLS:,} numbers"
            )
            raise self._error(message, back=1)
        if "table" in rows:
            if len(rows) > 1:
                raise self._error(f"{node!r} has a whole table and single rows", back=1)
            return rows["table"]
        default = rows.pop("default", None)
        shape = [len(self.states[parent]) for parent in parents]
        needed, size = math.prod(shape), len(self.states[node])
        if default is None and len(rows) != needed:
            message = f"{needed} rows of {node!r} are needed and {len(rows)} given"
            raise self._error(message, back=1)
        table = np.empty([*shape, size])
        table[...] = np.nan if default is None else default
        for states, values in rows.items():
            position = [self.states[p].index(s) for p, s in zip(parents, states, strict=True)]
            table[tuple(position)] = values
        return table

    # ----------------------------------------------------------------------- tokens

    def _known_variable(self) -> str:
        name = self._word("a variable")
        if name not in self.states:
            raise self._error(f"variable {name!r} is not declared", back=1)
        return name

    def _words(self, closing: str, what: str) -> list[str]:
        """Return the words of a list, with commas between all of them or between none."""
        words, commas = [self._word(what)], 0
        while not self._at(closing):
            if self._at(","):
                self._mark(",")
                commas += 1
            words.append(self._word(what))
            if 0 < commas < len(words) - 1:
                message = f"expected ',' or {closing!r}, found {words[-1]!r}{_QUOTES}"
                raise self._error(message, back=1)
        return words

    def _numbers(self) -> list[float]:
        numbers = [self._number()]
        while not self._at(";"):
            if self._at(","):
                self._mark(",")
            numbers.append(self._number())
        self._mark(";")
        return numbers

    def _number(self) -> float:
        text = self._word("a number")
        if not _NUMBER.fullmatch(text):
            raise self._error(f"expected a number, found {text!r}", back=1)
        return float(text)

    def _peek(self) -> _Token:
        return self.tokens[self.place]

    def _at(self, mark: str) -> bool:
        token = self._peek()
        return token.kind == "mark" and token.text == mark

    def _mark(self, mark: str) -> None:
        if not self._at(mark):
            raise self._expected(f"{mark!r}")
        self.place += 1

    def _word(self, what: str) -> str:
        token = self._peek()
        if token.kind != "word":
            raise self._expected(what)
        self.place += 1
        return token.text

    def _back(self) -> None:
        self.place -= 1

    def _expected(self, what: str) -> BIFError:
        token = self._peek()
        found = "the end of the file" if token.kind == "end" else repr(token.text[:40])
        return self._error(f"expected {what}, found {found}")

    def _error(self, message: str, line: int | None = None, back: int = 0) -> BIFError:
        where = self.tokens[self.place - back].line if line is None else line
        return BIFError(self.source, where, message)


def _tokens(text: str, source: str) -> Iterator[_Token]:
    line, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BIFError(source, line, f"cannot read {text[position : position + 20]!r}")
        kind = match.lastgroup or ""
        if kind == "mark":
            yield _Token("mark", match.group(), line)
        elif kind in ("word", "quoted"):
            yield _Token("word", match.group(kind), line)
        line += match.group().count("\n")
        position = match.end()
    yield _Token("end", "", line)
