"""What a study asks of a policy, once each, so that all that it runs is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairtrial.core.policy import Policy
from fairtrial.core.pull import Pull

__all__ = ["use_once"]


def use_once(policy: Policy, outcome: Callable[[Pull], Any]) -> None:
    """Ask, tell, fail, tell late, correct, and look.

    Parameters
    ----------
    policy : Policy
        A rule that takes corrections.
    outcome : callable
        ``(pull)``: an outcome.
    """
    first, second = policy.ask(), policy.ask()
    told = outcome(first)
    policy.tell(first, told)
    policy.fail(second)
    policy.tell(second, outcome(second))
    policy.amend(first, told, told)
    policy.progress()
