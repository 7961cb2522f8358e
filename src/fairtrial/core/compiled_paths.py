"""Which compiled paths a class of policies may take: none that ignores what it overrides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

__all__ = ["CompiledPaths", "compiled_paths_of"]

_SAVING = {"clone", "get_params", "get_state", "set_state", "state_fields", "to_dict", "version"}
_REMARKS = {"open_as_worst", "remarks", "remarks_on_arms", "warnings", "why_no_pull"}
_REPORTING = {"guarantee", "metrics", "progress"} | _REMARKS
_IN_STUDIES = {"expiry", "has_shared_blocks", "results_are_independent"}
_PATHS = {"compiled_run", "compiled_runs", "environments"}

_NO_PART_OF_A_RUN = _SAVING | _REPORTING | _IN_STUDIES | _PATHS
"""Public members that do not decide what happens in a run; all others do."""


class CompiledPaths(NamedTuple):
    """The compiled paths that make exactly the runs that a class describes.

    Attributes
    ----------
    one : bool
        Whether compiled code may make a run: only reports are overridden.
    many : bool
        Whether one call may make many runs: nothing is overridden.
    """

    one: bool
    many: bool


_KNOWN: WeakKeyDictionary[type, CompiledPaths] = WeakKeyDictionary()


def compiled_paths_of(cls: type, base: type) -> CompiledPaths:
    """Return the compiled paths that a subclass of `base`, the class of all policies, may take.

    The compiled path of one run belongs to the last class that declares `environments`, that of
    many runs to the last one that defines `_run_all`. What classes below it define again, the path
    does not know.
    """
    known = _KNOWN.get(cls)
    if known is None:
        public = {name for name in dir(base) if not name.startswith("_")}
        decisive = public - _NO_PART_OF_A_RUN
        known = CompiledPaths(
            one=decisive.isdisjoint(_overridden(cls, "environments")),
            many=not any(_overridden(cls, "_run_all")),
        )
        _KNOWN[cls] = known
    return known


def _overridden(cls: type, declaration: str) -> Iterator[str]:
    """Yield the members that are defined again below the last class with this declaration."""
    known = _definer(cls, declaration).__mro__
    for kind in cls.__mro__:
        if kind in known:
            continue
        for name in vars(kind):
            is_member = any(name in vars(one) for one in known) and not _is_internal(name)
            if is_member and _definer(cls, name) not in known:
                yield name


def _definer(cls: type, name: str) -> type:
    return next(kind for kind in cls.__mro__ if name in vars(kind))


def _is_internal(name: str) -> bool:
    """Whether Python itself gives every class a member with this name."""
    is_special = name.startswith("__") and name.endswith("__")
    return name == "_abc_impl" or (is_special and name not in {"__init__", "__new__"})
