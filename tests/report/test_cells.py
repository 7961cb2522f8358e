"""What the cells of a notebook hold after a run, in a kernel of Jupyter."""

from __future__ import annotations

from typing import Any

import nbclient
import nbformat
import pytest

SETUP = """
import threading, time
import fairtrial as ft
from fairtrial.core import counting
from fairtrial.subpopulations import GaussianEnvironment, Problem, RoundRobin
counting._SHOWN_AFTER, counting._REFRESH_SECONDS = 0.02, 0.02

problem = Problem(["old", "new"], 1, floors=None, noise_std=1.0)
environment = GaussianEnvironment(problem, [[0.0], [0.25]])

class Slow(RoundRobin):
    def choose(self):
        time.sleep(0.005)
        if self.seed == broken:
            raise ValueError("broken")
        return super().choose()

broken = None
def run(name):
    ft.simulate(Slow(problem), environment, 20, horizon=4, workers=2, progress=name)
"""

CELLS = {
    "one bar": "run(True)",
    "two bars": "run('first'); print('between'); run('second')",
    "a thread": "other = threading.Thread(target=run, args=('other',))\n"
    "other.start(); run('this'); other.join()",
    "an error": "from fairtrial.simulation._replications import start\n"
    "broken = start(Slow(problem), 0, 19)[0].seed\nrun(True)",
    "a table": "rows = {'arm': ['old', 'new'] * 5_000, 'outcome': [0, 1, 1] * 3_333 + [1], "
    "'day': range(10_000)}\n"
    "question = Problem(['old', 'new'], ['all'], floors=None, reward_range=(0, 1))\n"
    "ft.analyse(question, rows, order='day').close()",
    "a race": "def score(candidate, item):\n    time.sleep(0.002)\n    return candidate\n"
    "race = ft.race({'weak': 0.1, 'middle': 0.4, 'strong': 0.9}, range(60), score, "
    "reward_range=(0, 1), progress=True)",
    "a command": "import sys\n"
    '!{sys.executable} -c "from fairtrial.simulation import simulate; from fairtrial import '
    "subpopulations as s; p = s.Problem(2, 1, floors=None, noise_std=1.0); "
    "simulate(s.RoundRobin(p), s.GaussianEnvironment(p, [[0.0], [1.0]]), 3, horizon=9, "
    "engine='python')\"",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """Return the outputs of each cell, as a notebook is saved."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *CELLS.values())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, timeout=300
    ).execute()
    nbformat.validate(notebook)
    return {
        name: cell.outputs for name, cell in zip(("setup", *CELLS), notebook.cells, strict=True)
    }


def kinds(outputs: list[Any]) -> set[str]:
    return {output.output_type for output in outputs}


@pytest.mark.parametrize("name", ["setup", *CELLS])
def test_nothing_is_written_on_standard_error(outputs, name):
    assert [each for each in outputs[name] if each.get("name") == "stderr"] == []


@pytest.mark.parametrize("name", ["one bar", "two bars", "a thread", "an error"])
def test_no_bar_stays_behind(outputs, name):
    bars = [each for each in outputs[name] if each.output_type == "display_data"]
    assert bars, "no bar was shown"
    assert all(each.data == {"text/plain": ""} for each in bars)


def test_every_bar_has_one_output(outputs):
    assert kinds(outputs["one bar"]) == {"display_data"}
    for name in ("two bars", "a thread"):
        assert sum(each.output_type == "display_data" for each in outputs[name]) == 2
    assert outputs["two bars"][1].text == "between\n"


def test_an_error_is_shown_as_always(outputs):
    assert kinds(outputs["an error"]) == {"display_data", "error"}
    assert outputs["an error"][-1].ename == "ValueError"


def test_an_analysis_leaves_nothing_but_its_bar(outputs):
    assert all(each.data == {"text/plain": ""} for each in outputs["a table"])


def test_a_race_leaves_one_sentence(outputs):
    (output,) = outputs["a race"]
    assert output.data.keys() == {"text/plain"}
    assert output.data["text/plain"].startswith("'strong' is the best")
    assert "\n" not in output.data["text/plain"]


def test_a_command_draws_no_bar(outputs):
    assert outputs["a command"] == []
