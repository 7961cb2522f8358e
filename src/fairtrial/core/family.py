"""What every family provides to callers that serve all of them: the command, and a service."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairtrial.core.compilation import use_tier
from fairtrial.core.environment import Environment
from fairtrial.core.loading import uninterrupted
from fairtrial.core.mistakes import Mistakes, did_you_mean
from fairtrial.errors import InvalidArgument, NotSupported

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from fairtrial.confidence.complexity import Complexity
    from fairtrial.confidence.fixed_sample import FixedDesign
    from fairtrial.confidence.intersection_union import Contrasts
    from fairtrial.core.policy import Policy
    from fairtrial.core.problem import Problem
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
    """Return the family of that name; its module is imported when first needed.

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


class Family(ABC):
    """What a family provides. Each has one such object, `FAMILY` in its module ``family``.

    Not every family answers every question. By default, a question with a natural empty answer
    has that answer, and all others raise `NotSupported`; ``family.offers(Family.with_drift)`` says
    beforehand whether a family has an answer of its own.
    """

    environment_keys: ClassVar[Mapping[str, Any]] = {
        "means": Any,
        "std": Any,
        "noise": Literal["gaussian", "bernoulli"],
    }
    """The keys that describe a simulated environment in a file, and the types of their values."""

    means_key: ClassVar[str] = "means"
    """The one of these keys that states how good the arms are."""

    replay_keys: ClassVar[frozenset[str]] = frozenset()
    """The arguments of `replay` besides the columns."""

    path_arguments: ClassVar[Sequence[str]] = ()
    """Arguments of the problem that may name a file."""

    row_arguments: ClassVar[Sequence[str]] = ()
    """Arguments of the problem that may name a table of rows."""

    feature_arguments: ClassVar[Mapping[str, str]] = {}
    """Arguments that may name a table of numbers, with the argument that labels its rows."""

    stand_ins: ClassVar[Mapping[str, Callable[[int], Any]]] = {}
    """By argument, a harmless value to replace it if it was refused, so that the other arguments
    can still be checked; a function of the number of entries of the refused value."""

    learners: ClassVar[Sequence[str]] = ()
    """Names of the learners that can be given to policies."""

    def offers(self, question: Callable[..., Any]) -> bool:
        """Return whether this family answers a method of `Family` in its own way."""
        return getattr(type(self), question.__name__) is not question

    # ----------------------------------------------------------- environments

    @abstractmethod
    def environment(
        self, problem: Any, given: Mapping[str, Any], mistakes: Mistakes
    ) -> Environment | None:
        """Return the simulated environment that a file describes, or None after adding mistakes.

        `given` has the values of `environment_keys`.
        """

    def replay(self, problem: Any, table: Mapping[str, Any], **columns: Any) -> Environment:
        """Return the environment that draws rows of a table, chosen by the labels of an action."""
        raise _not_in(problem, "replayed tables")

    def at_effect(self, environment: Any, effect: float, control: str | None) -> Environment:
        """Return the environment with all differences from the control multiplied by `effect`.

        `control` is a label, or None for the worst arm. Only families with scenarios have it.
        """
        raise _not_in(environment.problem, "scenarios")

    def with_means(self, environment: Any, means: Any) -> Environment:
        """Return the environment of a table with its rows shifted to other means."""
        raise _not_in(environment.problem, "tables with other means")

    def with_arrivals(self, environment: Any, arrivals: Any) -> Environment:
        """Return the environment in which groups arrive by themselves, in these proportions."""
        raise _not_in(environment.problem, "arriving groups")

    def with_losses(self, environment: Any, rate: float, depends_on_outcome: bool) -> Environment:
        """Return the environment in which that share of the results is lost."""
        raise _not_in(environment.problem, "simulated losses")

    def with_drift(self, environment: Any, drift: float) -> Environment:
        """Return the environment whose means move by `drift` from pull to pull."""
        raise _not_in(environment.problem, "simulated drift")

    def harms(self, environment: Any) -> Iterable[Scenario]:
        """Return the scenarios in which the answer of an environment would do harm."""
        return ()

    def values(self, environment: Any) -> Mapping[str, float]:
        """Return the true value of everything that an answer may name, by label."""
        return {}

    # ----------------------------------------------------------------- doubts

    def doubts(self, environment: Any) -> Sequence[str]:
        """Return warnings about an environment, in sentences."""
        return ()

    def doubts_of_table(self, problem: Any) -> Sequence[str]:
        """Return warnings if the features come from a table, in sentences."""
        return ()

    # --------------------------------------------------------------- planning

    def complexity(self, environment: Any) -> Complexity:
        """Return the lower bound that no rule beats, if `has_bound`."""
        raise _not_in(environment.problem, "lower bound")

    def has_bound(self, environment: Any) -> bool:
        """Return whether that bound is known, and holds for every rule."""
        return self.offers(Family.complexity)

    def stds(self, environment: Any) -> ArrayLike:
        """Return the standard deviation of a result by action.

        Only families whose bound assumes normal rewards have it; their environments have
        `reward_span` and `evidence_price`.
        """
        raise _not_in(environment.problem, "normal rewards")

    def certifying_budgets(self, environment: Any, delta: float) -> Mapping[str, int | None] | None:
        """Return by arm the number of rows at which its verdict is expected to be certain.

        A number is None if no number is enough; all are None if they are not known. Where a family
        offers this, rules without a `delta` are planned with these numbers instead of the bound.
        """
        return None

    def fixed_design(self, environment: Any) -> FixedDesign | None:
        """Return the usual experiment of fixed size, to compare with; None if there is none."""
        return None

    def acceptable(self, environment: Any) -> Mapping[str, bool]:
        """Return by arm whether it keeps all its limits; empty in a family without limits."""
        return {}

    def contrasts(self, environment: Any, control: str | None) -> Contrasts | None:
        """Return what the usual designs test of each arm, and what is true of it.

        None if that is not known.
        """
        return None

    # --------------------------------------------------------------- analysis

    arms_are_separate: ClassVar[bool] = False
    """Whether outcomes of an arm inform about this arm only.

    Then finished experiments are planned with equally many units of every arm unless somebody says
    otherwise, and arms can be compared in any segment of the units.
    """

    def analysis(self, problem: Any, actions: Sequence[int], delta: float) -> Policy:
        """Return the policy that analyses a finished experiment.

        Its units received these actions, in this order.
        """
        raise _not_in(problem, "analysis of finished experiments")


def _not_in(problem: Problem, what: str) -> NotSupported:
    return NotSupported(f"the family {problem.family!r} has no {what}")
