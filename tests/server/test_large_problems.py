"""Problems that are too large for a shared service are refused before anything is computed."""

import pytest

from fairtrial import allocation, delayed, subpopulations
from fairtrial.errors import InvalidArgument
from fairtrial.study import Study
from tests.messages import raises

BETTING = {"name": "BlockBetting", "delta": 0.05}
RANGE = {"schema": 1, "reward_range": [0, 1]}
NETWORK = {
    "edges": [["S", "Y"], ["V", "Y"]],
    "states": {"S": 2_000_000, "V": 2, "Y": 2},
    "tables": {},
}


def posted(service, problem, policy=BETTING):
    body = {"name": "large", "problem": problem, "policy": policy, "seed": 1}
    return service.admin.post("/v1/studies", body)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        ({"family": "subpopulations", "arms": 2000, "groups": 2000, **RANGE}, "arms, groups"),
        ({"family": "subpopulations", "arms": 10**9, "groups": 1, **RANGE}, "arms"),
        ({"family": "subpopulations", "arms": 1, "groups": 10**30, **RANGE}, "groups"),
        ({"family": "delayed", "arms": 10**6, **RANGE}, "arms"),
        ({"family": "delayed", "arms": 2_000, "top": 1_000, **RANGE}, "top"),
        ({"family": "allocation", "arms": 10**6, "shares": 0, **RANGE}, "arms"),
        ({"family": "linear", "features": [[1, 2]] * 9_000, **RANGE}, "features"),
        ({"family": "linear", "features": [list(range(400))] * 400, **RANGE}, "features"),
        (
            {"family": "linear", "features": [[1.0, 0.0]], "candidates": [[1, 2]] * 9_000, **RANGE},
            "candidates",
        ),
        (
            {
                "family": "subpopulations",
                "schema": 1,
                "arms": 2,
                "groups": 2,
                "measures": {f"m{number}": [0, 1] for number in range(900)},
                "objective": "m0",
            },
            "measures",
        ),
        (
            {
                "family": "causal",
                "schema": 1,
                "model": NETWORK,
                "sensitive": "S",
                "intervened": "V",
                "outcome": "Y",
                "arms": {"a": [0.5, 0.5]},
                "fairness_bound": 0.1,
            },
            "model.states",
        ),
    ],
)
def test_a_problem_that_is_too_large_is_refused_by_the_argument_that_makes_it_so(
    service, problem, name
):
    answer = posted(service, problem)
    assert answer.status_code == 422, answer.text
    assert [mistake["name"] for mistake in answer.json()["errors"]] == [name]


def test_a_larger_study_that_was_made_elsewhere_is_served(service):
    problem = subpopulations.Problem(2_500, 1, reward_range=(0, 1))
    policy = subpopulations.UniformSampling(problem, delta=0.05)
    Study.create(problem, policy, storage=service.store, name="large", seed=1).close()
    assert len(service.run.ask(study="large")) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: subpopulations.Problem(30_000, 30_000, reward_range=(0, 1)),
        lambda: delayed.Problem(10**7, reward_range=(0, 1)),
        lambda: allocation.Problem(10**7, 0),
    ],
)
def test_no_problem_has_more_actions_than_fit_into_memory(make):
    with raises(InvalidArgument):
        make()
