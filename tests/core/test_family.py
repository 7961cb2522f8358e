"""What every family provides to callers that know none of them."""

from __future__ import annotations

import pytest

from fairtrial.core.family import FAMILIES, Family, family_module, family_of
from fairtrial.core.mistakes import Mistakes
from fairtrial.errors import InvalidArgument, NotSupported
from tests.messages import raises


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_speaks_of_its_own_problem(name):
    family, problem = family_of(name), family_module(name).Problem
    accepted = problem.__init__.__annotations__
    named = {*family.path_arguments, *family.row_arguments, *family.feature_arguments}
    assert named | {*family.feature_arguments.values(), *family.stand_ins} <= accepted.keys()
    assert problem.family == name
    assert not family.environment_keys or family.means_key in family.environment_keys


def test_a_family_says_which_questions_it_has_an_answer_to():
    answers = {
        Family.with_arrivals: ("subpopulations",),
        Family.with_drift: ("subpopulations", "linear"),
        Family.at_effect: ("subpopulations", "linear", "delayed"),
        Family.certifying_budgets: ("causal",),
        Family.analysis: ("subpopulations", "linear", "delayed", "causal"),
    }
    for question, families in answers.items():
        assert tuple(name for name in FAMILIES if family_of(name).offers(question)) == families


def test_a_question_without_an_answer_is_refused_or_has_the_empty_one():
    family, problem = (
        family_of("allocation"),
        family_module("allocation").Problem(["a", "b"], shares=0),
    )
    with raises(NotSupported):
        family.analysis(problem, [0, 1], 0.05)
    assert family.certifying_budgets(None, 0.05) is None
    assert not family.has_bound(None)
    assert not family.harms(None)


def test_what_is_no_family_is_refused():
    with raises(InvalidArgument, "family"):
        family_of("toy")


def test_a_problem_is_blamed_for_its_own_mistakes():
    def refuse(name):
        raise InvalidArgument(name, "must hold 0 and 1")

    mistakes = Mistakes("plan", ["study: earlier"])
    assert not mistakes
    for name in ("problem", "reward_range", "std"):
        assert mistakes.build(refuse, name) is None
    assert mistakes
    assert mistakes.lines[1:] == [
        "problem: must hold 0 and 1",
        "problem.reward_range: must hold 0 and 1, for a reward of 0 or 1",
        "plan.std: must hold 0 and 1",
    ]
