"""Recommendations, guarantees and progress: their content, and how they are written as data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fairtrial.core import (
    AnswerStatus,
    ArmStatus,
    Effect,
    Estimate,
    Guarantee,
    Losses,
    Progress,
    Recommendation,
)

GUARANTEE = Guarantee("union bound", True, "right with probability .9", ("Gaussian",), "section 1")


def test_a_weakened_guarantee_is_a_heuristic_that_says_why() -> None:
    weak = GUARANTEE.weakened("two outcomes were corrected")
    assert (GUARANTEE.label, weak.label) == ("proven", "heuristic")
    assert weak.assumptions == ("Gaussian", "two outcomes were corrected")
    assert (GUARANTEE.doubts, weak.doubts) == ((), ("two outcomes were corrected",))
    assert (weak.name, weak.statement, weak.source) == (
        "union bound",
        GUARANTEE.statement,
        "section 1",
    )
    assert GUARANTEE.proven


def test_a_calibrated_guarantee_is_called_so_until_it_is_weakened() -> None:
    measured = Guarantee("t test", False, "seldom wrong", calibrated=True)
    assert (measured.label, measured.proven) == ("calibrated", False)
    assert measured.assuming("normal values").label == "calibrated"
    assert measured.weakened("one outcome was corrected").label == "heuristic"
    assert measured.to_dict()["label"] == "calibrated"
    assert replace(measured, proven=True).label == "proven"


@pytest.mark.parametrize(
    ("arm", "status", "decided"),
    [
        ("a", "decided", True),
        (None, "decided", True),
        (None, "undecided", False),
        (None, "running", False),
    ],
)
def test_decided_means_stopped_with_an_answer(arm: object, status: str, decided: bool) -> None:
    assert Recommendation(arm, status).decided is decided


def test_all_of_it_is_json() -> None:
    recommendation = Recommendation(
        ("a", "b"),
        "decided",
        leader=("a", "b"),
        confidence=0.9,
        guarantee=GUARANTEE,
        reason="all others are worse",
        evidence={"gaps": np.array([0.5, 0.25]), "n": np.int64(3)},
        candidates=(np.str_("a"), None),
    )
    estimate = Estimate(
        {"arm": "a", "group": "x"}, 3, 0.5, 0.25, 0.75, lower_limit=0.0, upper_limit=0.9, counted=2
    )
    effect = Effect("b", np.str_("a"), "x", 0.25, None, 0.5)
    progress = Progress(
        recommendation,
        5,
        3,
        2,
        4.5,
        6.0,
        12.0,
        (estimate,),
        (estimate,),
        {"phase": np.int8(2)},
        find_effects=lambda: (effect,),
        answers=(AnswerStatus(None, rejected=True, log_wealth=4.5, worse_than=("a",)),),
        losses=Losses("not drawn", np.float64(0.25), in_no_bet=3),
        arm_states=(ArmStatus("a", "rejected", 9, 0.5, 4),),
        live=("a",),
    )
    written = json.loads(json.dumps(progress.to_dict()))
    assert written == {
        "intervals": "anytime",
        "limited": [],
        "quantity": "mean",
        "recommendation": {
            "arm": ["a", "b"],
            "status": "decided",
            "leader": ["a", "b"],
            "confidence": 0.9,
            "guarantee": {
                "name": "union bound",
                "proven": True,
                "label": "proven",
                "statement": "right with probability .9",
                "assumptions": ["Gaussian"],
                "source": "section 1",
                "doubts": [],
            },
            "reason": "all others are worse",
            "evidence": {"gaps": [0.5, 0.25], "n": 3},
            "candidates": ["a", None],
            "decisions": [],
        },
        "asked": 5,
        "told": 3,
        "outstanding": 2,
        "evidence": 4.5,
        "threshold": 6.0,
        "evidence_scale": "statistic",
        "remaining": 12.0,
        "remaining_at_most": None,
        "no_forecast": "",
        "actions": [written["arms"][0]],
        "effects": [
            {
                "arm": "b",
                "reference": "a",
                "group": "x",
                "difference": 0.25,
                "lower": None,
                "upper": 0.5,
                "lower_limit": None,
                "upper_limit": None,
            }
        ],
        "arms": [
            {
                "arm": "a",
                "group": "x",
                "pulls": 3,
                "mean": 0.5,
                "lower": 0.25,
                "upper": 0.75,
                "lower_limit": 0.0,
                "upper_limit": 0.9,
                "counted": 2,
                "predicted": False,
                "own_mean": None,
                "mean_of_all": None,
            }
        ],
        "details": {"phase": 2},
        "why_approximate": "",
        "settled": None,
        "decided_after": None,
        "never_counted": {},
        "assigned": None,
        "answers": [
            {
                "answer": None,
                "rejected": True,
                "accepted": False,
                "log_wealth": 4.5,
                "worse_than": ["a"],
            }
        ],
        "measure_limits": [],
        "value_limits": [],
        "measures": [],
        "overall_measures": [],
        "losses": {
            "counted_as": "not drawn",
            "share": 0.25,
            "too_many_to_decide": False,
            "made_again": 0,
            "to_make_again": 0,
            "as_worst": 0,
            "partly": 0,
            "in_no_bet": 3,
            "limit_reached": None,
        },
        "predictions": None,
        "shares": [],
        "largest_shortfall": None,
        "arm_states": [
            {"arm": "a", "status": "rejected", "compared": 9, "behind": 0.5, "differ": 4}
        ],
        "readings": None,
        "chance_to_decide": None,
        "live": ["a"],
    }


def test_a_bare_recommendation_is_json_too() -> None:
    written = Recommendation(None, "running", leader="a").to_dict()
    assert json.loads(json.dumps(written)) == written
    assert (written["guarantee"], written["confidence"], written["evidence"]) == (None, None, {})


def test_they_are_frozen() -> None:
    with pytest.raises(AttributeError):
        GUARANTEE.proven = False
    with pytest.raises(AttributeError):
        Recommendation(None, "running").arm = "a"
