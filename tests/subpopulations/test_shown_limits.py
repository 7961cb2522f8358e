"""Limits that no mean can miss are not shown as findings."""

import pytest

from fairtrial import linear, write_report
from fairtrial.presentation.limits import document_of
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem


def study_of(problem, policy=BlockBetting):
    """A study with a few results of every action."""
    study = Study.create(problem, policy(problem), storage="memory://", name="shown", seed=1)
    for pull in study.ask(24):
        study.tell(pull, 0.5 if not problem.measures else dict.fromkeys(problem.measures, 0.5))
    return study


def limits_in(study):
    return {(one.lower_limit, one.upper_limit) for one in study.progress().actions}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, {(None, None)}),
        ({"floors": 0.0, "ceilings": 1.0}, {(None, None)}),
        ({"floors": 1e-9, "ceilings": 1.0}, {(1e-9, None)}),
        ({"floors": {"x": 0.0, "y": 0.2}}, {(None, None), (0.2, None)}),
        ({"direction": "minimize", "floors": 1.0}, {(None, None)}),
        ({"direction": "minimize", "floors": 0.9}, {(None, 0.9)}),
    ],
)
def test_a_limit_at_an_end_of_the_range_is_no_limit_of_a_mean(given, shown):
    study = study_of(Problem(["a", "b"], ["x", "y"], reward_range=(0, 1), **given))
    assert limits_in(study) == shown


def test_the_usual_floor_is_shown_where_means_can_miss_it(tmp_path):
    for low, is_shown in ((0, False), (-1, True)):
        study = study_of(Problem(["a", "b"], ["x"], reward_range=(low, 1)))
        page = write_report(study, tmp_path / "report.html").read_text()
        assert ("This study sets no limit" in page) is not is_shown
        assert ("Every floor" in page) is is_shown
        met = {one["met"] for one in document_of(study.progress())["actions"]}
        assert is_shown or met == {None}


def test_a_limit_of_a_measure_at_the_end_of_its_range_is_left_out():
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    ceilings = [{"measure": "harmed", "bound": {"a": 0.4, "b": 1.0}}]
    problem = Problem(["a", "b"], ["x"], measures=measures, objective="cured", ceilings=ceilings)
    study = study_of(problem)
    progress = study.progress()
    assert [(one.arm, one.bound) for one in progress.measure_limits] == [("a", 0.4)]
    ends = {(one.labels["arm"], one.labels["measure"]): one.upper_limit for one in progress.actions}
    assert ends["a", "harmed"] == 0.4
    assert ends["b", "harmed"] is None


def test_a_limit_of_arms_with_features_at_the_end_of_the_range_is_left_out():
    for floor, shown in ((0.0, {(None, None)}), (0.1, {(0.1, None)})):
        problem = linear.Problem([[1, 0], [0, 1]], reward_range=(0, 1), floors=floor)
        assert limits_in(study_of(problem, linear.BlockBetting)) == shown
