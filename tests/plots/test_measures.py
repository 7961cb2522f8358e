"""Figures of a study whose pulls give several measures."""

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

import fairtrial as ft
from fairtrial.plots import allocation, evidence, means, overview
from fairtrial.subpopulations import OVERALL, BernoulliEnvironment, BlockBetting, Problem
from tests import effort

PAGE = Problem(
    ["now", "new", "bold"], {"phone": 0.6, "desktop": 0.4},
    measures={"bought": (0, 1), "bounced": (0, 1), "load": (0, 10_000)}, objective="bought",
    ceilings={"bounced": 0.5, ("load", OVERALL): 4_000.0}, floors={("bought", "phone"): 0.05},
)  # fmt: skip
MEANS = {
    "bought": [[0.1, 0.2], [0.3, 0.4], [0.6, 0.6]],
    "bounced": [[0.3, 0.2], [0.3, 0.2], [0.9, 0.8]],
    "load": [[2000, 2000], [2500, 1000], [2000, 2000]],
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def study_of(pulls, *, problem=PAGE, hidden=0.0, seed=1):
    environment = BernoulliEnvironment(problem, MEANS)
    rng = np.random.default_rng(seed)
    study = ft.Study.create(
        problem, BlockBetting(problem, delta=0.1), storage="memory://", name="page", seed=seed
    )
    for _ in range(pulls):
        if study.stopped:
            break
        pull = study.ask()
        row = environment.sample(pull, rng)
        if rng.random() < hidden:
            row["bounced"] = None
        study.tell(pull, row)
    return study


def titles_of(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


@pytest.mark.parametrize(
    ("pulls", "draw"), effort.pairs([0, 1, 7, 90, 1500], [overview, means, allocation, evidence])
)
def test_every_figure_is_drawn_at_every_stage(draw, pulls):
    with study_of(pulls) as study:
        figure = draw(study)
        figure.canvas.draw()


def test_each_measure_has_panels_of_its_own_with_axes_in_its_units():
    with study_of(120, hidden=0.2) as study:
        figure = means(study)
        titles = titles_of(figure)
        assert titles == ["overall"] + [
            f"{group}, {measure}"
            for group in ("phone", "desktop")
            for measure in ("bought", "bounced", "load")
        ]
        spans = {title: ax.get_xlim() for title, ax in zip(titles, figure.axes, strict=True)}
        assert spans["phone, load"][1] > 1000 > 2 > spans["phone, bounced"][1]
        marks = [
            line.get_xdata()
            for ax in figure.axes
            for line in ax.get_lines()
            if len(line.get_xdata())
        ]
        assert all(np.isfinite(np.asarray(x, dtype=float)).all() for x in marks)


def test_a_measure_that_is_never_known_has_an_empty_panel():
    problem = PAGE.clone(ceilings={("load", OVERALL): 4_000.0})
    with study_of(60, problem=problem, hidden=1.0) as study:
        assert study.progress().measures[1].mean is None
        figure = means(study)
        figure.canvas.draw()
        assert "phone, bounced" in titles_of(figure)


def test_values_at_the_ends_of_what_floats_hold_are_drawn():
    problem = Problem(
        ["a", "b"], 1, measures={"tiny": (0, 1e-130), "huge": (-1e130, 1e130)}, objective="tiny",
        ceilings={"huge": 1e129},
    )  # fmt: skip
    study = ft.Study.create(
        problem, BlockBetting(problem), storage="memory://", name="scales", seed=0
    )
    rng = np.random.default_rng(0)
    with study:
        for _ in range(60):
            huge = 1e130 * rng.uniform(-1, 0)
            study.tell(study.ask(), {"tiny": 1e-130 * rng.random(), "huge": huge})
        for draw in (means, overview):
            figure = draw(study)
            figure.canvas.draw()
            assert all(math.isfinite(end) for ax in figure.axes for end in ax.get_xlim())
