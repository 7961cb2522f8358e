"""How deep the classes of the shipped policies are: what rules share is composed, not inherited."""

import inspect

import pytest

from fairtrial.core import Policy
from fairtrial.core.family import FAMILIES, family_module

MOST_LEVELS = 4


def shipped_policies() -> list[type[Policy]]:
    exported = (
        getattr(module, name) for module in map(family_module, FAMILIES) for name in module.__all__
    )
    return [item for item in exported if inspect.isclass(item) and issubclass(item, Policy)]


def levels_of(policy: type[Policy]) -> list[type]:
    """Return a class and all above it up to `Policy`, mixins among them."""
    return [cls for cls in policy.__mro__ if cls is Policy or cls not in Policy.__mro__]


@pytest.mark.parametrize(
    "policy", shipped_policies(), ids=lambda cls: f"{cls.__module__.split('.')[1]}-{cls.__name__}"
)
def test_no_policy_is_deeper_than_four_classes(policy: type[Policy]) -> None:
    levels = levels_of(policy)
    chain = " < ".join(cls.__name__ for cls in levels)
    assert len(levels) <= MOST_LEVELS, f"{policy.__name__} has {len(levels)} levels: {chain}"


def test_policies_of_all_families_are_counted() -> None:
    families = {policy.__module__.split(".")[1] for policy in shipped_policies()}
    assert families == set(FAMILIES)


def test_a_mixin_counts_as_a_level() -> None:
    class Mixin: ...

    class Mixed(Mixin, Policy): ...

    assert levels_of(Mixed) == [Mixed, Mixin, Policy]
