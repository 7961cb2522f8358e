"""A report about limits on several measures."""

import re

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.subpopulations import OVERALL, BernoulliEnvironment, BlockBetting, Problem


def text_of(study, folder) -> str:
    ft.write_report(study, folder / "report.html")
    page = (folder / "report.html").read_text()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_every_limit_is_shown_with_its_standing_overall_ones_too(tmp_path) -> None:
    problem = Problem(
        ["low", "high"],
        1,
        measures={"cured": (0, 1), "harmed": (0, 1)},
        objective="cured",
        ceilings={"harmed": 0.5, ("harmed", OVERALL): 0.4},
    )
    means = {"cured": [[0.3], [0.6]], "harmed": [[0.1], [0.2]]}
    environment, generator = BernoulliEnvironment(problem, means), np.random.default_rng(1)
    policy = BlockBetting(problem, delta=0.1)
    study = ft.Study.create(problem, policy, storage="memory://", name="dose", seed=1)
    for _ in range(40):
        pull = study.ask()
        study.tell(pull, environment.sample(pull, generator))
    text = text_of(study, tmp_path)
    assert "Every limit of a measure" in text
    stands = "(met|missed)( so far, not settled)?"
    assert re.search(rf"high harmed overall 0\.\d+ at most 0\.400 (\S+ )?{stands}", text)
    assert re.search(rf"low harmed 0 0\.\d+ at most 0\.500 (\S+ )?{stands}", text)
    assert "Where the results come from" in text
    assert "Of 40 results, most came from" in text


def test_limits_are_followed_over_time_each_measure_in_its_unit(tmp_path) -> None:
    problem = Problem(
        ["low", "high"],
        1,
        measures={"cured": (0, 1), "harmed": (0, 1), "cost": (0, 9_000)},
        objective="cured",
        ceilings={"harmed": 0.55, "cost": 2_500.0, ("cost", OVERALL): 5_000.0},
    )
    means = {"cured": [[0.1], [0.9]], "harmed": [[0.1], [0.1]], "cost": [[900.0], [900.0]]}
    environment, generator = BernoulliEnvironment(problem, means), np.random.default_rng(1)
    policy = BlockBetting(problem, delta=1e-9)
    study = ft.Study.create(problem, policy, storage="memory://", name="dose", seed=1)
    for _ in range(120):
        pull = study.ask()
        study.tell(pull, environment.sample(pull, generator))
    text = text_of(study, tmp_path)
    assert "Distance from each limit, over time" in text
    assert "distance from the limit, in units of cost" in text
    assert re.search(r"Measure cost: how far the means of high .* at most 2,500 \(1,\d+", text)
    assert "Strength of evidence that high keeps each limit" in text
    # Compared as multiples of the intervals' widths: 0.55 of a range of 1 exceeds 1,600 of 9,000.
    assert "narrowest ceiling, 2,500, is that of high / 0 / cost" in text
    # The small measure keeps its decimals beside the large one.
    assert re.search(r"high harmed 0 0\.\d{3} at most 0\.550 ", text)
    assert re.search(r"high 0 harmed \d+ (\d+ )?0\.\d{3,} ", text)


def test_values_that_never_will_be_known_are_counted_by_cell_and_measure(tmp_path) -> None:
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    problem = Problem(["low", "high"], 1, measures=measures, objective="cured")
    study = ft.Study.create(
        problem, BlockBetting(problem, delta=1e-9), storage="memory://", name="dose", seed=1
    )
    for _ in range(10):
        study.tell(study.ask(), {"cured": 1, "harmed": 0})
    assert "No value of a measure is missing" in text_of(study, tmp_path)
    for number in range(30):
        pull = study.ask()
        study.tell(pull, {"cured": number % 2, "harmed": None if pull.arm == "high" else 0})
    text = text_of(study, tmp_path)
    said = study.progress().measures[3]
    assert (said.arm, said.measure) == ("high", "harmed")
    assert said.missing > 0
    assert re.search(rf"high 0 harmed {said.values} {said.missing} \d+\.\d %", text)
    assert "low 0 harmed" not in text.split("Values that will never be known")[1]
    assert "counts as the worst one" in text


def test_every_measure_of_every_arm_is_shown_and_an_arm_that_misses_a_limit_is_marked(
    tmp_path,
) -> None:
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    problem = Problem(
        ["low", "high"], 1, measures=measures, objective="cured", ceilings={"harmed": 0.3}
    )
    study = ft.Study.create(
        problem, BlockBetting(problem, delta=1e-9), storage="memory://", name="dose", seed=1
    )
    for _ in range(60):
        pull = study.ask()
        high = pull.arm == "high"
        study.tell(pull, {"cured": int(high), "harmed": int(high)})
    text = text_of(study, tmp_path)
    assert "How good each arm is: cured" in text
    assert re.search(r"high: misses a limit of harmed( so far)?", text)
    assert "However good the means are: high misses a limit of harmed" in text
    rows = text.split("Every measure by arm", 2)[2].split("Difference from")[0]
    assert re.search(r"high 0 harmed \d+ .*1\.000 .*at most 0\.30 missed so far", rows)
    assert re.search(r"low 0 cured \d+ ", rows)
    assert "low: misses" not in text


@pytest.mark.parametrize("limits", [{}, {"ceilings": {"harmed": 0.3}}], ids=["none", "own"])
def test_limits_against_the_control_are_not_explained_where_there_are_none(tmp_path, limits):
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    problem = Problem(["low", "high"], 1, measures=measures, objective="cured", **limits)
    with ft.Study.create(
        problem, BlockBetting(problem), storage="memory://", name="dose", seed=1
    ) as study:
        study.tell(study.ask(), {"cured": 1, "harmed": 0})
        text = text_of(study, tmp_path)
    assert "Every measure by arm" in text
    assert "Limits against the control" not in text


@pytest.mark.parametrize(("groups", "where"), [(1, "0"), (2, "overall")])
def test_limits_on_means_over_all_groups_stand_beside_these_means(tmp_path, groups, where):
    problem = Problem(
        ["low", "high"],
        groups,
        measures={"cured": (0, 1), "harmed": (0, 1)},
        objective="cured",
        control="low",
        superiority=0.0,
        ceilings={("harmed", OVERALL): 0.4},
    )
    with ft.Study.create(
        problem, BlockBetting(problem), storage="memory://", name="dose", seed=1
    ) as study:
        for _ in range(60):
            if study.status != "running":
                break
            pull = study.ask()
            study.tell(pull, {"cured": int(pull.arm == "high"), "harmed": 0})
        rows = text_of(study, tmp_path).split("Every measure by arm", 2)[2]
    rows = rows.split("Difference from")[0]
    assert re.search(rf"high {where} cured \d+ .*?1\.000 .*?not below low met", rows)
    assert re.search(rf"high {where} harmed \d+ .*?0\.000 .*?at most 0\.40* met", rows)
