"""What a report says of limits on several measures."""

import re

import numpy as np

import fairtrial as ft
from fairtrial.subpopulations import OVERALL, BernoulliEnvironment, BlockBetting, Problem


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
    ft.write_report(study, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "Every limit of a measure" in text
    stands = "(met|missed)( so far, not settled)?"
    assert re.search(rf"high harmed overall 0\.\d+ at most 0\.400 (\S+ )?{stands}", text)
    assert re.search(rf"low harmed 0 0\.\d+ at most 0\.500 (\S+ )?{stands}", text)
    assert "Of 40 results, most came from" in text
