"""From names in a file or a log to objects: the families' classes, and a user's own."""

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from fairtrial.core import Parametrized, Policy, Problem
from fairtrial.core import family as family_answers
from fairtrial.core.family import family_module
from fairtrial.core.specification import (
    policy_class,
    policy_from_dict,
    problem_from_dict,
)
from fairtrial.errors import InvalidArgument
from tests.core.toys import LeadRace, PartialRace, ToyProblem

TOY = ToyProblem(["a", "b"])


class Problem0(ToyProblem):
    family = "causal"


class Estimator(Parametrized):
    def __init__(self, clip: float = 2.0) -> None:
        self.clip = clip


class Search(LeadRace):
    def __init__(
        self, problem: Problem, delta: float = 0.1, estimator: Any = None, seed: Any = None
    ) -> None:
        super().__init__(problem, delta, seed)
        self.estimator = estimator


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """Replace `fairtrial.causal` by a small family; return a problem of it."""
    module = ModuleType("fairtrial.causal")
    vars(module).update(
        Problem=Problem0, Search=Search, Estimator=Estimator, Policy=Policy, limit=3, json=json
    )
    monkeypatch.setitem(sys.modules, "fairtrial.causal", module)
    return Problem0(["a", "b"])


def refused(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        call(*arguments, **named)
    return str(caught.value)


# ---------------------------------------------------------------------------- problems


def test_a_problem_comes_back_from_its_family(family: Problem) -> None:
    again = problem_from_dict(json.loads(json.dumps(family.to_dict())))
    assert type(again) is Problem0
    assert again == family


def test_a_users_own_problem_is_found_by_its_family() -> None:
    assert problem_from_dict(TOY.to_dict(), problems=[Problem0, ToyProblem]) == TOY


@pytest.mark.parametrize("data", [{}, {"family": "toy"}, {"family": None}, {"family": "../evil"}])
def test_an_unknown_family_is_refused(data: dict[str, Any]) -> None:
    message = refused(problem_from_dict, data)
    assert message.startswith("family must be a family; ")
    assert "accepted: allocation, causal, delayed, linear, subpopulations" in message


def test_a_family_that_is_not_there_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_answers, "FAMILIES", ("unborn",))
    expected = "family is not available in this version; got 'unborn'"
    assert refused(family_module, "unborn") == expected


def test_a_broken_installation_is_not_called_a_missing_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

    monkeypatch.setattr(family_answers.importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="scipy"):
        family_module("causal")


# ---------------------------------------------------------------------------- policies


def test_a_policy_comes_back_with_its_parts(family: Problem) -> None:
    policy = Search(family, delta=0.2, estimator=Estimator(clip=3.0), seed=5)
    data = json.loads(json.dumps(policy.to_dict()))
    assert data == {"name": "Search", "delta": 0.2, "estimator": {"name": "Estimator", "clip": 3.0}}
    again = policy_from_dict(data, family, seed=5)
    assert type(again) is Search
    assert again.problem is family
    assert (again.delta, again.estimator.clip, again.seed) == (0.2, 3.0, 5)
    assert again.to_dict() == data


def test_a_threshold_may_be_a_part(family: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    class Threshold(Estimator):
        pass

    module = ModuleType("fairtrial.confidence")
    vars(module).update(Threshold=Threshold)
    monkeypatch.setitem(sys.modules, "fairtrial.confidence", module)
    data = {"name": "Search", "estimator": {"name": "Threshold", "clip": 4.0}}
    policy = policy_from_dict(data, family, seed=5)
    assert type(policy.estimator) is Threshold
    assert policy.estimator.clip == 4.0


def test_a_users_own_policy_is_found_by_name(family: Problem) -> None:
    assert policy_class("LeadRace", TOY, [PartialRace, LeadRace]) is LeadRace
    assert policy_class("PartialRace", family, [PartialRace]) is PartialRace
    assert policy_from_dict({"name": "LeadRace"}, TOY, None, [LeadRace]).delta == 0.1


@pytest.mark.parametrize("name", ["Policy", "Estimator", "Problem", "limit", "json", "search", ""])
def test_what_is_no_policy_of_the_family_is_refused(family: Problem, name: str) -> None:
    message = refused(policy_class, name, family, [PartialRace])
    assert message == f"policy must be one of PartialRace, Search; got {name!r}"


def test_without_a_family_the_class_must_be_given() -> None:
    message = refused(policy_from_dict, {"name": "LeadRace"}, TOY, 1)
    assert message == "policy must be one of a class given as policies=[...]; got 'LeadRace'"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"name": "Search", "Delta": 0.1},
            "Delta is not an argument of Search",
        ),
        (
            {"name": "Search", "seed": 1},
            "seed is not an argument of Search",
        ),
        (
            {"name": "Search", "problem": 1},
            "problem is not an argument of Search",
        ),
        (
            {"name": "Search", "estimator": {"name": "json"}},
            "estimator.name must be a part of causal or confidence; got 'json'",
        ),
        (
            {"name": "Search", "estimator": {"name": "Guess"}},
            "estimator.name must be a part of causal or confidence; got 'Guess'",
        ),
        (
            {"name": "Search", "estimator": {"name": "Estimator", "cut": 1}},
            "estimator.cut is not an argument of Estimator",
        ),
    ],
)
def test_bad_parameters_are_refused_by_name(
    family: Problem, data: dict[str, Any], message: str
) -> None:
    assert refused(policy_from_dict, data, family, 1).startswith(message)


def test_a_mapping_of_a_users_own_policy_stays_a_mapping() -> None:
    class Labelled(LeadRace):
        def __init__(self, problem: Problem, note: Any = None, seed: Any = None) -> None:
            super().__init__(problem, seed=seed)
            self.note = note

    data = {"name": "Labelled", "note": {"name": "first trial"}}
    assert policy_from_dict(data, TOY, 1, [Labelled]).note == {"name": "first trial"}


def test_a_part_of_a_users_own_is_found_before_the_familys(family: Problem) -> None:
    own = type("Estimator", (Estimator,), {"__init__": Estimator.__init__})
    data = {"name": "Search", "estimator": {"name": "Estimator", "clip": 3.0}}
    policy = policy_from_dict(data, family, 1, [own])
    assert type(policy.estimator) is own
    assert policy.estimator.clip == 3.0
    assert refused(policy_class, "Estimator", family, [own]).startswith("policy must be one of Sea")


def test_a_part_may_be_given_by_its_name_alone(family: Problem) -> None:
    policy = policy_from_dict({"name": "Search", "estimator": "Estimator"}, family, 1)
    assert policy.estimator.get_params() == Estimator().get_params()
