"""Epochs: shares, arms and groups that change, while credits, rewards and pulls go on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np

from fairtrial.allocation._kernels.counting import make_up
from fairtrial.allocation._kernels.model import BASE, QUOTA, SLOT, SUM, TOLD
from fairtrial.allocation.policies.arrays import Floats, Integers
from fairtrial.allocation.policies.base import AllocationPolicy
from fairtrial.allocation.policies.starts import MOST_CREDIT, nodes
from fairtrial.allocation.problem import Problem
from fairtrial.core.policy import State
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.validation import check_instance
from fairtrial.errors import NotSupported

__all__ = ["EpochPolicy"]


class EpochPolicy(AllocationPolicy):
    """A policy whose shares, arms and groups may change on the way."""

    contexts: int
    state_fields = (*AllocationPolicy.state_fields, "_first")

    def next_epoch(self, problem: Problem, **changes: Any) -> Self:
        """Return the policy that goes on from here with other shares, arms or groups.

        A new epoch counts its rounds from 0, and its pulls on from here. Arms and groups that
        stay, by their labels, keep their credits, cut to the tolerance where they are above it;
        new ones begin with none. The rewards of arms that stay are kept. Pulls in flight are told
        to the new policy, or failed, as to this one: a result of an arm that stays is learned,
        one of an arm that is gone forgotten. One that fails counts as if its arm had begun the
        epoch with one pull more to its credit, at most the tolerance.

        Parameters
        ----------
        problem : Problem
            Arms and shares from now on.
        **changes
            Other arguments of the policy, among them ``seed``, ``initial_credits=None`` to begin
            without credits, ``initial_rewards=None`` to begin without rewards.

        Returns
        -------
        AllocationPolicy
            A policy of the same class. Its arguments hold the credits and the rewards, so that a
            study can be made of it; what is in flight stays with the study that issued it.

        Raises
        ------
        InvalidArgument
            If the problem is not accepted.
        NotSupported
            If a round of several plays is not complete.

        Notes
        -----
        Every epoch keeps its own guarantee, counted from the initial credits. Over E epochs of
        one tolerance an arm that was there in all of them has had at least
        ``floor(owed) - tolerance - (E - 1)`` pulls, ``owed`` being the sum of its share times the
        rounds of every epoch, if no pull failed: proof in docs/explanation/fair-shares.md.

        Examples
        --------
        >>> from fairtrial.allocation import FairLearn
        >>> policy = FairLearn(Problem(["a", "b"], "1/4"), lambda t, counts, sums, allowed: 0)
        >>> _ = policy.ask(10)
        >>> policy.credits
        (Fraction(-9, 2), Fraction(-1, 2))
        >>> later = policy.next_epoch(Problem(["b", "c"], "1/3"))
        >>> later.credits
        (Fraction(-1, 2), Fraction(0, 1))
        """
        check_instance("problem", problem, Problem)
        if self._control[SLOT]:
            raise NotSupported("the round at hand is not complete: ask for the rest of it first")
        kept = {
            "problem": problem,
            "initial_credits": self._credits_for(problem),
            "initial_rewards": self._rewards_for(problem),
            "seed": self._next_seed(),
        }
        following = self.clone(**{**kept, **changes})
        following.set_state({**following.get_state(), **self._goes_on_in(following)})
        return following

    def _goes_on_in(self, following: Self) -> State:
        """Return what the next epoch takes over: numbers that run on, and pulls in flight."""
        places = {arm: place for place, arm in enumerate(following.problem.arms)}

        def known(rows: Integers) -> Integers:
            there = (
                (number, places.get(self.problem.arms[action], -1), tag)
                for number, action, tag in rows.tolist()
                if tag < following.contexts
            )
            kept = [row for row in there if row[1] >= 0]
            return np.array(kept, dtype=np.int64).reshape(len(kept), 3)

        mine = self.get_state()
        return {
            "asked": mine["asked"],
            "told": mine["told"],
            "_first": mine["asked"],
            "outstanding": known(mine["outstanding"]),
            "lost": known(mine["lost"]),
        }

    def _as_here(self, pull: Pull) -> Pull | None:
        """Return a pull, of an earlier epoch too, as one of this problem; None if it is gone."""
        if not (self._first and UNSOLICITED < getattr(pull, "number", UNSOLICITED) < self._first):
            return pull
        place = self._places.get(str(pull.labels.get("arm")))
        if place is None or pull.tag >= self.contexts:
            return None
        return self._pull(pull.number, place, pull.tag)

    def tell(self, pull: Pull, outcome: Outcome) -> None:
        """Take the reward of a pull, of an earlier epoch too."""
        here = self._as_here(pull)
        if here is not None:
            super().tell(here, outcome)

    def fail(self, pull: Pull, reason: str = "lost") -> None:
        """Say that a pull will have no reward, one of an earlier epoch too."""
        here = self._as_here(pull)
        if here is not None:
            super().fail(here, reason)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take the pull back; one of an earlier epoch is owed from the beginning of this one."""
        if pull.number >= self._first:
            super().on_failure(pull, reason)
        else:
            make_up(self._control, self._book, pull.action)

    def _credits_for(self, problem: Problem) -> tuple[Fraction, ...]:
        """Return what every arm and group of a next problem is owed, as far as it may be."""
        rounds, unit = self._rounds, self._parts
        rows = zip(
            nodes(self.problem), self._book[QUOTA].tolist(), self._book[BASE].tolist(), strict=True
        )
        owed = {node: Fraction(quota * rounds - base, unit) for node, quota, base in rows}
        highest = Fraction(min(problem.unfairness_tolerance, MOST_CREDIT))
        least = Fraction(-MOST_CREDIT)
        kept = (owed.get(node, Fraction(0)) for node in nodes(problem))
        return tuple(max(least, min(credit, highest)) for credit in kept)

    def _rewards_for(self, problem: Problem) -> tuple[tuple[float, float], ...] | None:
        if not self._known_rewards().any():
            return None
        return tuple(
            (float(row[0, place]), float(row[1, place])) if place is not None else (0.0, 0.0)
            for row in self._known_rewards()
            for place in map(self._places.get, problem.arms)
        )

    def _known_rewards(self) -> Floats:
        """Return number and sum of the rewards, shape (contexts, 2, k)."""
        shape = (self.contexts, len(self.problem.arms))
        numbers = self._stats[TOLD].reshape(shape)
        sums = self._low * numbers + self._width * self._stats[SUM].reshape(shape)
        return np.stack([numbers, sums], axis=1)

    def _next_seed(self) -> int:
        return int(np.random.SeedSequence([self.seed, self.asked]).generate_state(1, np.uint64)[0])
