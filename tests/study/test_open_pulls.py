"""Open pulls that count as their worst are named to those who may read the study."""

from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem

PROBLEM = Problem(["A", "B"], ["x", "y"], reward_range=(0, 1), floors=None)
NAMED = "open and counted as their worst: "


def carry_on(study, pulls, first=0):
    """Ask for participants and tell their results."""
    for place in range(first, first + pulls):
        study.tell(study.ask(participant=f"W1-{place:04}", group="xy"[place % 2]), 0.5)


def named(study, **options):
    return [one for one in study.health(**options)["warnings"] if one.startswith(NAMED)]


def test_health_names_open_pulls_that_count_as_their_worst_by_participant_and_date():
    policy = BlockBetting(PROBLEM, delta=1e-9)
    rules = {"participants": "W#-####", "require_group": True}
    with Study.create(
        PROBLEM, policy, storage=MemoryStore(), name="trial", seed=1, **rules
    ) as study:
        carry_on(study, 40)
        held = study.ask(participant="W1-9999", group="x")
        assert named(study) == []
        carry_on(study, 400, first=40)
        [asked] = study.asked_for([held])
        day = f"{asked.at:%Y-%m-%d}"
        assert named(study) == [f"{NAMED}pull 40 (W1-9999, asked for on {day})"]
        # A blinded view names no pulls: readers on a ward see those that they asked for.
        assert named(study, blinded=True) == []
        study.tell(held, 0.5)
        assert named(study) == []
