"""What a language model is shown of documents with many arms."""

from fairtrial.core import Recommendation
from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.mcp.short_forms import short_form
from fairtrial.presentation.cuts import MOST_ARMS

NAMES = ["status", *(f"arm {number}" for number in range(2 * MOST_ARMS))]


def progress_of(names):
    """Return a progress in which later arms have larger means."""
    arms = tuple(
        Estimate(labels={"arm": name}, pulls=9, mean=float(place), lower=-1.0, upper=99.0)
        for place, name in enumerate(names)
    )
    return Progress(Recommendation(None, "running"), len(names), 0, 0, arms=arms)


def test_a_field_is_shown_although_a_hidden_arm_has_its_name():
    document = {
        "recommendation": {"arm": NAMES[-1], "status": "running"},
        "costs": dict.fromkeys(NAMES, 2),
        "arms": NAMES,
    }
    found = short_form(document, progress_of(NAMES), minimize=False)
    assert found["recommendation"] == document["recommendation"]
    assert "status" not in found["costs"]
    assert "status" not in found["arms"]
    assert len(found["costs"]) == len(found["arms"]) == MOST_ARMS
    assert "arms" in found["left_out"]
