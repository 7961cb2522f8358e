"""What notebooks show: the answer and its guarantee, safe text, both themes."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import fairtrial as ft
from fairtrial.report.notebook import html_of

ARMS = ["old", "<script>alert(1)</script>", "new & better"]
PROBLEM = ft.subpopulations.Problem(ARMS, ["all"], floors=None, reward_range=(0, 1))


class Reader(HTMLParser):
    """Collects the tags and the text of an output, and checks that every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def policy() -> ft.subpopulations.BlockBetting:
    return ft.subpopulations.BlockBetting(PROBLEM, delta=0.05)


def study(results: int) -> ft.Study:
    """A study in which the last arm is the best."""
    found = ft.Study.create(PROBLEM, policy(), storage="memory://", name="a < b", seed=1)
    for _ in range(results):
        for pull in found.ask(1):
            found.tell(pull, 0.9 if pull.arm == ARMS[2] else 0.1)
    return found


def simulation() -> ft.Simulation:
    problem = ft.subpopulations.Problem(["a", "b"], ["all"], floors=None, noise_std=1.0)
    environment = ft.subpopulations.GaussianEnvironment(problem, [[0.0], [3.0]])
    rule = ft.subpopulations.BlockBetting(problem, delta=0.1)
    return ft.simulate(rule, environment, replications=5, seed=0, horizon=200)


def server() -> ft.Policy:
    problem = ft.allocation.Problem(arms=["a", "b"], shares=["1/5", "1/4"])
    return ft.allocation.FairLearn(problem, learner=ft.allocation.Thompson(), seed=1)


SHOWN = {
    "problem": (lambda: PROBLEM, "has the largest mean"),
    "linear problem": (lambda: ft.linear.Problem([[1, 0], [0, 1]], noise_std=1.0), "2 features"),
    "policy": (policy, "There are no results yet."),
    "endless policy": (server, "Serving continues"),
    "running study": (lambda: study(5), "No decision yet"),
    "decided study": (lambda: study(200), "Answer: new & better"),
    "recommendation": (lambda: study(200).recommend(), "every reward lies in [0, 1]"),
    "simulation": (simulation, "stopping time"),
    "summary": (lambda: simulation().summary(), "stopping time"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_notebook_shows_what_matters_and_nothing_that_runs(kind: str) -> None:
    make, words = SHOWN[kind]
    read = Reader(make()._repr_html_())
    assert words in read.text
    assert not {"script", "iframe", "link", "img"} & set(read.tags)


def test_a_study_shows_its_name_arms_and_guarantee() -> None:
    read = Reader(study(200)._repr_html_())
    for words in ("a < b", *ARMS, "whatever the true means are"):
        assert words in read.text


def test_the_style_concerns_the_output_only_and_knows_both_themes() -> None:
    html = html_of(PROBLEM)
    style = html.split("<style>")[1].split("</style>")[0]
    assert ":root" not in style
    assert "color-scheme: light dark" in style
    for theme in ("true", "false"):
        assert f'body[data-jp-theme-light="{theme}"] .fairtrial-output' in style
    before_themes = style.split("body[data-jp")[0]
    assert before_themes.count("{") == before_themes.count("}")
    assert before_themes.startswith(".fairtrial-output {")


def test_many_arms_are_cut_and_counted() -> None:
    problem = ft.subpopulations.Problem(
        [f"arm {k}" for k in range(60)], ["all"], floors=None, reward_range=(0, 1)
    )
    read = Reader(ft.subpopulations.BlockBetting(problem, delta=0.05)._repr_html_())
    assert "10 more are not shown" in read.text
    assert read.tags.count("tr") == 1 + 50


def test_an_object_without_a_view_is_refused() -> None:
    with pytest.raises(TypeError):
        html_of(3)
