"""What every family provides to callers that serve all of them: the command, and a service."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from fairtrial.core.compilation import use_tier
from fairtrial.core.environment import Environment
from fairtrial.core.loading import uninterrupted
from fairtrial.core.mistakes import Mistakes, did_you_mean
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from fairtrial.confidence.complexity import Complexity
    from fairtrial.confidence.fixed_sample import FixedDesign
    from fairtrial.core.policy import Policy
    from fairtrial.core.scenario import Scenario

__all__ = ["FAMILIES", "Family", "compile_family", "family_module", "family_of"]

FAMILIES = ("subpopulations", "linear", "delayed", "causal", "allocation")


def family_module(family: str) -> Any:
    """Return a family's package, imported when first needed."""
    if family not in FAMILIES:
        raise InvalidArgument(
            "family", f"must be a family; {did_you_mean(str(family), FAMILIES)}", family
        )
    name = f"fairtrial.{family}"
    try:
        with uninterrupted():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InvalidArgument("family", "is not available in this version", family) from None


def family_of(name: str) -> Family:
    """Return the `Family` object of that name; its module is imported when first needed.

    Raises
    ------
    InvalidArgument
        If there is no such family.
    """
    family_module(name)
    with uninterrupted():
        family: Family = importlib.import_module(f"fairtrial.{name}.family").FAMILY
    return family


def compile_family(name: str) -> None:
    """Compile everything that a family's policies run, keep it on disk, and use it from now on."""
    family_module(name)
    with uninterrupted():
        compiling = importlib.import_module(f"fairtrial.{name}.compiling")
    use_tier("compile")
    compiling.compile_kernels()


def _no_design(_environment: Any) -> None:
    """Return None: there is no usual experiment to compare with."""


def _nothing(_: Any) -> tuple[Any, ...]:
    return ()


def _no_values(_: Any) -> dict[str, float]:
    return {}


def _always(_: Any) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family provides. Each has one such object, `FAMILY` in its module ``family``.

    Parameters
    ----------
    environment : callable
        ``(problem, given, mistakes)``, where `given` has the values of `environment_keys`: returns
        the simulated environment that a file describes, or None after adding to the mistakes.
    environment_keys : mapping of str to type
        The keys that describe a simulated environment in a file, and the types of their values.
    means_key : str
        The one of these keys that states how good the arms are.
    replay : type of Environment or None
        The environment that draws rows of a table, chosen by the labels of an action.
    replay_keys : frozenset of str
        The arguments of that environment besides the columns.
    path_arguments, row_arguments : tuple of str
        Arguments of the problem that may name a file; and those that may name a table of rows.
    feature_arguments : mapping of str to str
        Arguments that may name a table of numbers, with the argument that labels its rows.
    stand_ins : mapping of str to callable
        A harmless value to replace an argument that was refused, so that the other arguments can
        still be checked; a function of the number of entries of the refused value.
    learners : tuple of str
        Names of the learners that can be given to policies.
    doubts : callable
        ``(environment)``: warnings, in sentences.
    doubts_of_table : callable
        ``(problem)``: warnings if the features come from a table, in sentences.
    complexity : callable or None
        ``(environment)``: the lower bound that no rule beats.
    has_bound : callable
        ``(environment)``: whether that bound is known, and holds for every rule.
    stds : callable or None
        ``(environment)``: the standard deviation of a result by action. Such environments have
        `reward_span` and `evidence_price`. None in a family whose bound does not assume normal
        rewards.
    certifying_budgets : callable or None
        ``(environment, delta)``: for each arm the number of rows at which its verdict is expected
        to be certain, or None if no number is enough; None in a family without fixed budgets.
        Rules without a `delta` are planned with these numbers instead of the bound.
    analysis : callable or None
        ``(problem, actions, delta)``: the policy that analyses a finished experiment in which units
        received these actions, in this order; None in a family without such a policy.
    at_effect : callable or None
        ``(environment, effect, control)``: the environment in which all differences from the
        control (a label, or None for the worst arm) are multiplied by `effect`; None in a family
        without scenarios.
    with_means : callable or None
        ``(environment, means)``: the environment of a table with its rows shifted to other means;
        None in a family without this.
    with_arrivals : callable or None
        ``(environment, arrivals)``: the environment in which groups arrive by themselves, in these
        proportions; None in a family without groups.
    with_losses : callable or None
        ``(environment, rate, depends_on_outcome)``: the environment in which that share of the
        results is lost; None in a family that simulates no losses.
    with_drift : callable or None
        ``(environment, drift)``: the environment whose means move by `drift` from pull to pull;
        None in a family that simulates no drift.
    harms : callable
        ``(environment)``: the scenarios in which its answer would do harm.
    values : callable
        ``(environment)``: the true value of everything that an answer may name, by label.
    fixed_design : callable
        ``(environment)``: the usual experiment of fixed size, to compare with; None if there is
        none.
    """

    environment: Callable[[Any, Mapping[str, Any], Mistakes], Environment | None]
    environment_keys: Mapping[str, Any] = field(
        default_factory=lambda: {
            "means": Any,
            "std": Any,
            "noise": Literal["gaussian", "bernoulli"],
        }
    )
    means_key: str = "means"
    replay: type[Environment] | None = None
    replay_keys: frozenset[str] = frozenset()
    path_arguments: tuple[str, ...] = ()
    row_arguments: tuple[str, ...] = ()
    feature_arguments: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    learners: tuple[str, ...] = ()
    doubts: Callable[[Any], Sequence[str]] = _nothing
    doubts_of_table: Callable[[Any], Sequence[str]] = _nothing
    complexity: Callable[[Any], Complexity] | None = None
    has_bound: Callable[[Any], bool] = _always
    stds: Callable[[Any], ArrayLike] | None = attrgetter("arm_stds")
    certifying_budgets: Callable[[Any, float], Mapping[str, int | None] | None] | None = None
    analysis: Callable[[Any, Sequence[int], float], Policy] | None = None
    at_effect: Callable[[Any, float, str | None], Environment] | None = None
    with_means: Callable[[Any, Any], Environment] | None = None
    with_arrivals: Callable[[Any, Any], Environment] | None = None
    with_losses: Callable[[Any, float, bool], Environment] | None = None
    with_drift: Callable[[Any, float], Environment] | None = None
    harms: Callable[[Any], Iterable[Scenario]] = _nothing
    values: Callable[[Any], Mapping[str, float]] = _no_values
    fixed_design: Callable[[Any], FixedDesign | None] = _no_design
