"""The next epoch of an allocation: other arms and shares."""

from collections.abc import Callable

from fairtrial import allocation
from tests.testing import families
from tests.testing.families import Instance


def other_shares() -> Instance:
    """One arm leaves, and another one comes."""
    problem = allocation.Problem(["b", "c", "d"], ["1/4", "1/5", "1/10"], unfairness_tolerance=1)
    return problem, allocation.BernoulliEnvironment(problem, [0.6, 0.3, 0.5])


def tighter_shares() -> Instance:
    problem = allocation.Problem(4, ["1/5", 0.24, "1/6", "1/10"], reward_range=(-1, 1))
    return problem, allocation.BernoulliEnvironment(problem, [0.7, 0.4, 0.2, 0.6])


def other_groups() -> Instance:
    problem = allocation.Problem(
        ["a", "b", "c", "d"], {"b": "1/10"}, groups={"new": ("1/2", ["b", "c"])}
    )
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.5, 0.4, 0.2])


def more_plays() -> Instance:
    problem = allocation.Problem(4, ["1/2", "2/5", "3/4", "1/10"], plays=3)
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5, 0.6])


def other_sleepers() -> Instance:
    problem = allocation.Problem(["a", "b", "c"], ["1/4", "1/10", "1/4"], unfairness_tolerance=2)
    return problem, allocation.SleepingEnvironment(problem, [0.3, 0.4, 0.5], 0.6)


def other_contexts() -> Instance:
    problem = allocation.Problem(3, ["1/10", "1/3", "1/5"])
    return problem, allocation.ContextualEnvironment(problem, [[0.3, 0.6, 0.1], [0.5, 0.2, 0.9]])


EPOCHS: dict[Callable[[], Instance], Callable[[], Instance]] = {
    families.shares: other_shares,
    families.loose_shares: tighter_shares,
    families.share_groups: other_groups,
    families.several_plays: more_plays,
    families.sleepers: other_sleepers,
    families.contexts: other_contexts,
}
"""The next epoch, by the name of the one before."""
