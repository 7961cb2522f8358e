"""Decide a real clinical trial as a study on disk, audit it, and draw what happened.

Run it with ``python examples/actg175_study.py [FOLDER]``. Every week forty patients get the
treatment that the study asks for; each result is that of a real patient of the ACTG 175 trial,
drawn with replacement. The study stops as soon as there is enough evidence.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import fairtrial as ft
from fairtrial.data import actg175

PATIENTS_A_WEEK = 40


def main(folder: Path, dpi: int = 110) -> None:
    problem = ft.subpopulations.Problem(
        arms=["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        groups={"naive": 0.414, "upto52w": 0.192, "over52w": 0.394},
        floors=0.0,
        reward_range=(-1, 1),
    )
    policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    patients = ft.subpopulations.ReplayEnvironment(problem, actg175(), group="stratum")
    generator = np.random.default_rng(7)

    with ft.Study.create(
        problem, policy, storage=folder / "trial.db", name="actg175", seed=7
    ) as study:
        weeks = 0
        while pulls := study.ask(PATIENTS_A_WEEK):
            study.tell_many([(pull, patients.sample(pull, generator)) for pull in pulls])
            weeks += 1
        answer = study.recommend()
        print(f"after {weeks} weeks and {study.progress().told} patients: {answer.arm}")
        print(answer.guarantee.statement)
        print(study.verify())
        ft.write_report(study, folder / "actg175.html")
        best = ft.subpopulations.complexity(patients)
        figure = ft.plots.overview(study, optimal=best.allocation)
        figure.savefig(folder / "actg175.png", dpi=dpi, bbox_inches="tight")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
