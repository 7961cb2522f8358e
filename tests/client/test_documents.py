"""Documents from a service become complete objects."""

import json
import math
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from fairtrial.client.documents import progress_of
from fairtrial.core import (
    AnswerStatus,
    ArmStatus,
    Decision,
    Effect,
    Estimate,
    GroupPredictions,
    Guarantee,
    Losses,
    MeasureLimit,
    MeasureValues,
    Predictions,
    Progress,
    Recommendation,
    ShareOfPulls,
    ValueLimit,
)
from fairtrial.presentation.limits import document_of
from fairtrial.server.documents import to_text

GUARANTEE = Guarantee("mixture", False, "wrong at most", ("fair",), "a paper", True, ("one",))
RECOMMENDATION = Recommendation(
    arm=("a", "b"),
    status="decided",
    leader=("a", "b"),
    confidence=0.95,
    guarantee=GUARANTEE,
    reason="there is enough evidence",
    evidence={"pulls": 3},
    candidates=("a", None),
    decisions=(
        Decision(60, datetime(2027, 2, 1, tzinfo=UTC), 75, datetime(2027, 3, 1, 12, tzinfo=UTC)),
        Decision(80, datetime(2027, 4, 1, 1, 2, 3, 4, tzinfo=UTC)),
    ),
)
ESTIMATE = Estimate(
    {"arm": "a", "prediction": "cold"},
    *(3, 0.5, 0.1, 0.9, 0.2, 0.8, 2),
    predicted=True,
    own_mean=0.4,
    mean_of_all=0.45,
)
EFFECT = Effect("a", "b", "x", 0.5, 0.1, 0.9, 0.2, 0.8)
PROGRESS = Progress(
    recommendation=RECOMMENDATION,
    asked=5,
    told=3,
    outstanding=2,
    evidence=1.5,
    threshold=3.0,
    remaining=60.0,
    remaining_at_most=80,
    no_forecast="nothing can be forecast until then",
    actions=(ESTIMATE,),
    arms=(ESTIMATE, ESTIMATE),
    details={"knowledge": "cells"},
    intervals="approximate",
    evidence_scale="log_e_value",
    quantity="share",
    find_effects=lambda: (EFFECT,),
    limited=(ESTIMATE, ESTIMATE, ESTIMATE),
    why_approximate="three results are missing",
    settled=2,
    answers=(AnswerStatus(("a", "b"), rejected=False, accepted=True, worse_than=("c",)),),
    measure_limits=(MeasureLimit("a", "harmed", None, "ceiling", 0.3, 0.2, 0.1, 0.4, 0.0),),
    value_limits=(ValueLimit("a", "gap", "s instead of t", 0.3, 0.2, 1.5),),
    measures=(MeasureValues("a", "x", "harmed", 8, 2, 0.25),),
    overall_measures=(ESTIMATE,),
    losses=Losses("made again", 0.25, False, 1, 2, 3, 4, 5, limit_reached=3),
    predictions=Predictions((GroupPredictions("x", 0.8, 0.5, 0.3),), 0.7, 120.0, 100.0, 0.1, 0.02),
    shares=(ShareOfPulls("a", 30, 0.3, 0.25, -5.0),),
    largest_shortfall=0.5,
    arm_states=(ArmStatus("a", "accepted"),),
    readings=3,
    chance_to_decide=0.6,
    live=("a",),
    decided_after=2,
    never_counted={"not asked for by the study": 3},
    assigned=40,
)

NAMES = ("NaN", "Infinity", "-Infinity")


@pytest.mark.parametrize("whole", [PROGRESS, RECOMMENDATION, GUARANTEE, ESTIMATE, EFFECT])
def test_no_field_is_left_at_its_default_here(whole):
    for one in fields(whole):
        assert getattr(whole, one.name) not in (one.default, (), None)


def test_every_field_of_a_progress_comes_through():
    read = progress_of(json.loads(json.dumps(PROGRESS.to_dict())))
    assert read == PROGRESS
    assert read.effects == PROGRESS.effects
    assert read.recommendation.decisions == RECOMMENDATION.decisions


def over_http(progress):
    return progress_of(json.loads(to_text(document_of(progress))))


@pytest.mark.parametrize("name", NAMES)
def test_an_arm_may_be_called_like_a_number_that_json_lacks(name):
    recommendation = replace(
        RECOMMENDATION,
        arm=name,
        leader=name,
        reason=name,
        candidates=(name,),
        evidence={"live": [name], "evidence": math.inf},
    )
    sent = replace(
        PROGRESS,
        recommendation=recommendation,
        details={"equal_arms": [[name]]},
        actions=(replace(ESTIMATE, labels={"arm": name, "group": name}),),
        find_effects=lambda: (Effect(name, name, name, 0.5, -math.inf, math.inf),),
        answers=(AnswerStatus(name, rejected=False, worse_than=(name,)),),
        measure_limits=(MeasureLimit(name, name, name, "floor", -math.inf),),
        value_limits=(ValueLimit(name, name, name, 0.5),),
        measures=(MeasureValues(name, name, name, 1, 0),),
        shares=(ShareOfPulls(name, 1, 1.0, 0.5),),
        arm_states=(ArmStatus(name, "rejected", 9, math.inf, 4),),
        live=(name,),
    )
    assert over_http(sent) == sent
    assert over_http(sent).effects == sent.effects


def test_numbers_that_json_lacks_come_through():
    answer = AnswerStatus("a", rejected=True, log_wealth=math.inf)
    sent = replace(PROGRESS, evidence=math.inf, threshold=-math.inf, answers=(answer,))
    assert over_http(sent) == sent
