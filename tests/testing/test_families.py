"""Every policy, problem and environment of every family keeps the contract."""

import pickle
from collections.abc import Callable

import pytest

from fairtrial.testing import check_environment, check_policy, check_problem
from tests import effort
from tests.testing.families import INSTANCES, POLICIES, POLICY, Instance, Row


@pytest.mark.parametrize("instance", INSTANCES)
def test_problems_and_environments_keep_the_contract(instance: Callable[[], Instance]) -> None:
    problem, environment = instance()
    check_problem(problem)
    check_environment(environment, draws=5)


@pytest.mark.parametrize("row", effort.alternate(POLICIES, POLICY), ids=lambda row: row.name)
def test_policies_keep_the_contract(row: Row) -> None:
    policy, environment = row.make()
    assert pickle.loads(pickle.dumps(policy)).to_dict() == policy.to_dict()
    check_policy(policy, environment, pulls=effort.runs(12, whole=20))
