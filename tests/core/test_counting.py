"""What shows how far work is: lines, and bars in a notebook that leave nothing behind."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fairtrial.core.compilation import noting_compilation
from fairtrial.core.counting import counting, erases


class Notebook:
    """A stand-in for IPython in a kernel: what is shown, by the name of its display."""

    def __init__(self) -> None:
        self.now: dict[str, dict[str, str]] = {}
        self.seen: list[str] = []

    def display(self, data: Any, raw: bool, display_id: str, update: bool) -> None:
        assert raw
        assert update == (display_id in self.now)
        self.now[display_id] = data
        self.seen.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made, kernel = Notebook(), SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=made.display))
    monkeypatch.setattr("fairtrial.core.counting._SHOWN_AFTER", 0.0)
    monkeypatch.setattr("fairtrial.core.counting._REFRESH_SECONDS", 0.001)
    return made


def wait_for(notebook: Notebook, words: str) -> None:
    deadline = time.monotonic() + 20
    while not any(words in each for each in notebook.seen):
        assert time.monotonic() < deadline, notebook.seen
        time.sleep(0.002)


def test_long_work_shows_lines_from_time_to_time_and_short_work_none(monkeypatch, capsys):
    moments = iter([0.0, 1.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr("fairtrial.core.counting.time.monotonic", lambda: next(moments))
    with counting("Analysing", "unit") as count:
        for done in (1_000, 2_000, 3_000):
            count(done, 400_000)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "Analysing: 2,000 of 400,000 units\n")


def test_the_last_line_is_written_if_it_is_wanted(capsys):
    for last in (False, True):
        with counting("null", "replication", last=last) as count:
            count(1, 2)
            count(2, 2)
    assert capsys.readouterr().err == "null: 2 of 2 replications\n"


def test_a_bar_in_a_notebook_says_how_far_it_is_and_leaves_nothing(notebook, capsys):
    with counting("<b>", "replication") as count:
        count(0, 1_000)
        wait_for(notebook, "<b>: 0 of 1,000")
        count(10, 1_000)
        count(250, 1_000)
        wait_for(notebook, "250 of 1,000, about ")
        (shown,) = notebook.now.values()
        assert "&lt;b&gt;" in shown["text/html"]
        assert "width: 25.0%" in shown["text/html"]
    assert list(notebook.now.values()) == [{"text/plain": ""}]
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_notebook_says_that_kernels_are_compiled(notebook):
    with counting("", "replication"):
        wait_for(notebook, "replications: starting")
        with noting_compilation():
            wait_for(notebook, "compiling")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_bar_is_gone_after_an_error(notebook, error):
    def work() -> None:
        with counting("", "run") as count:
            count(1, 2)
            wait_for(notebook, "1 of 2")
            raise error

    with pytest.raises(error):
        work()
    assert list(notebook.now.values()) == [{"text/plain": ""}]


def test_two_bars_are_shown_side_by_side(notebook):
    with counting("first", "run") as first, counting("second", "run") as second:
        first(1, 4)
        second(2, 4)
        wait_for(notebook, "first: 1 of 4")
        wait_for(notebook, "second: 2 of 4")
        assert len(notebook.now) == 2


def test_short_work_leaves_no_output_in_a_notebook(notebook, monkeypatch):
    monkeypatch.setattr("fairtrial.core.counting._SHOWN_AFTER", 60.0)
    with counting("", "run") as count:
        count(2, 2)
    assert notebook.now == {}


def test_commands_that_a_cell_starts_draw_no_bar(monkeypatch):
    terminal = Console(force_terminal=True, _environ={"TERM": "xterm"})
    for name in ("TERM", "GIT_PAGER"):
        monkeypatch.delenv(name, raising=False)
    assert erases(terminal)
    monkeypatch.setenv("GIT_PAGER", "cat")
    assert erases(terminal)
    monkeypatch.setenv("TERM", "xterm-color")
    assert not erases(terminal)
