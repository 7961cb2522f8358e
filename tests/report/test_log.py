"""The events of a log in words."""

import re

import pytest

from fairtrial import Study
from fairtrial.report.log import event_table
from fairtrial.subpopulations import BlockBetting, Problem

PROBLEM = Problem(
    ["a", "b"],
    ["x"],
    floors=None,
    measures={"cured": (0, 1), "harmed": (0, 1)},
    objective="cured",
)


@pytest.mark.parametrize(
    ("corrected", "said"),
    [
        ({"harmed": None}, "result withdrawn"),
        ({"harmed": 0.0}, "result corrected"),
        ({"cured": 0.0, "harmed": None}, "result corrected"),
    ],
    ids=str,
)
def test_a_correction_that_only_takes_values_back_is_called_withdrawn(corrected, said):
    study = Study.create(PROBLEM, BlockBetting(PROBLEM), storage="memory://", name="t", seed=0)
    with study:
        pull = study.ask()
        study.tell(pull, {"cured": 1.0, "harmed": 1.0})
        study.amend(pull, corrected, "of another patient")
        shown = str(event_table(PROBLEM, "Log", list(study.events())))
    assert re.findall(r"result (?:withdrawn|corrected)", shown) == [said]
