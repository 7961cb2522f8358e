"""The end of simulated runs."""

from __future__ import annotations

from fairtrial.core import Policy

__all__ = ["ending_after"]


def ending_after(most: int, policy: Policy) -> Policy:
    """Return the policy; one that aims its bets at its end aims them at this one."""
    return policy.clone(max_pulls=most) if policy.planned_end else policy
