"""Documents from a service become complete objects."""

import json
from dataclasses import fields

import pytest

from fairtrial.client.documents import progress_of
from fairtrial.core import Effect, Estimate, Guarantee, Progress, Recommendation

GUARANTEE = Guarantee("mixture", False, "wrong at most", ("honest coins",), "a paper", True)
RECOMMENDATION = Recommendation(
    arm=("a", "b"),
    status="decided",
    leader=("a", "b"),
    confidence=0.95,
    guarantee=GUARANTEE,
    reason="there is enough evidence",
    evidence={"pulls": 3},
    candidates=("a", None),
)
ESTIMATE = Estimate({"arm": "a", "prediction": "cold"}, 3, 0.5, 0.1, 0.9, 0.2, 0.8)
EFFECT = Effect("a", "b", "x", 0.5, 0.1, 0.9, 0.2, 0.8)
PROGRESS = Progress(
    recommendation=RECOMMENDATION,
    asked=5,
    told=3,
    outstanding=2,
    evidence=1.5,
    threshold=3.0,
    remaining=60.0,
    no_forecast="nothing can be forecast until then",
    actions=(ESTIMATE,),
    arms=(ESTIMATE, ESTIMATE),
    details={"answers": [{"answer": "a", "rejected": False}]},
    intervals="approximate",
    evidence_scale="log_e_value",
    quantity="share",
    find_effects=lambda: (EFFECT,),
    limited=(ESTIMATE, ESTIMATE, ESTIMATE),
)


@pytest.mark.parametrize("whole", [PROGRESS, RECOMMENDATION, GUARANTEE, ESTIMATE, EFFECT])
def test_no_field_is_left_at_its_default_here(whole):
    for one in fields(whole):
        assert getattr(whole, one.name) not in (one.default, (), None)


def test_every_field_of_a_progress_comes_through():
    read = progress_of(json.loads(json.dumps(PROGRESS.to_dict())))
    assert read == PROGRESS
    assert read.effects == PROGRESS.effects
