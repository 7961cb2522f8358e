"""Checks for your own policies, problems and environments, the same as for ours."""

from fairtrial.testing.environments import check_environment
from fairtrial.testing.policies import check_policy
from fairtrial.testing.problems import check_problem

__all__ = ["check_environment", "check_policy", "check_problem"]
