"""Call once everything that a study calls on a policy, so that all kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairtrial.core.policy import Policy
from fairtrial.core.pull import Pull

__all__ = ["use_once"]


def use_once(policy: Policy, outcome: Callable[[Pull], Any]) -> None:
    """Ask, tell, fail, tell late, amend, and read the results.

    Parameters
    ----------
    policy : Policy
        A policy that accepts corrections.
    outcome : callable
        ``(pull)``: returns an outcome.
    """
    first, second = policy.ask(), policy.ask()
    told = outcome(first)
    policy.tell(first, told)
    policy.fail(second)
    policy.tell(second, outcome(second))
    policy.amend(first, told, told)
    policy.progress()
