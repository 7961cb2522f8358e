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
from tests.messages import raises

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


# ---------------------------------------------------------------------------- problems


def test_a_problem_comes_back_from_its_family(family: Problem) -> None:
    again = problem_from_dict(json.loads(json.dumps(family.to_dict())))
    assert type(again) is Problem0
    assert again == family


def test_a_users_own_problem_is_found_by_its_family() -> None:
    assert problem_from_dict(TOY.to_dict(), problems=[Problem0, ToyProblem]) == TOY


@pytest.mark.parametrize("data", [{}, {"family": "toy"}, {"family": None}, {"family": "../evil"}])
def test_an_unknown_family_is_refused(data: dict[str, Any]) -> None:
    with raises(InvalidArgument, "family"):
        problem_from_dict(data)


def test_a_family_that_is_not_there_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_answers, "FAMILIES", ("unborn",))
    with raises(InvalidArgument, "family", given="unborn"):
        family_module("unborn")


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
    with raises(InvalidArgument, "policy", given=name):
        policy_class(name, family, [PartialRace])


def test_without_a_family_the_class_must_be_given() -> None:
    with raises(InvalidArgument, "policy", given="LeadRace"):
        policy_from_dict({"name": "LeadRace"}, TOY, 1)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"name": "Search", "Delta": 0.1}, "Delta"),
        ({"name": "Search", "seed": 1}, "seed"),
        ({"name": "Search", "problem": 1}, "problem"),
        ({"name": "Search", "estimator": {"name": "json"}}, "estimator.name"),
        ({"name": "Search", "estimator": {"name": "Guess"}}, "estimator.name"),
        ({"name": "Search", "estimator": {"name": "Estimator", "cut": 1}}, "estimator.cut"),
    ],
)
def test_bad_parameters_are_refused_by_name(
    family: Problem, data: dict[str, Any], name: str
) -> None:
    with raises(InvalidArgument, name):
        policy_from_dict(data, family, 1)


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
    with raises(InvalidArgument, "policy", given="Estimator"):
        policy_class("Estimator", family, [own])


def test_a_part_may_be_given_by_its_name_alone(family: Problem) -> None:
    policy = policy_from_dict({"name": "Search", "estimator": "Estimator"}, family, 1)
    assert policy.estimator.get_params() == Estimator().get_params()
