"""Evaluate feature flags by studies: an evaluation asks, a tracking event tells."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import (
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    TargetingKeyMissingError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata
from openfeature.track import TrackingEventDetails

from fairtrial.core.keywords import named_arguments
from fairtrial.core.logs import LogEvent
from fairtrial.core.validation import check_instance
from fairtrial.errors import (
    ConflictingOutcome,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    NothingToAsk,
    UnknownPull,
)
from fairtrial.study import Study
from fairtrial.study.base import BaseStudy

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy

__all__ = ["Flag", "StudyProvider"]

_UNRECORDED = LogEvent(
    "openfeature", "tracking event not recorded", logging.WARNING, ("study", "error")
)


@dataclass(frozen=True, slots=True)
class Flag:
    """A feature flag whose variants are the arms of a study.

    Parameters
    ----------
    study : Study or RemoteStudy
        The study. Its problem must have arms, and outcomes that are numbers.
    values : mapping, optional
        The flag's value for each arm, by the arm's label; all of one type. By default the value is
        the label itself, a string.
    event : str, optional
        The name of the tracking event that tells the outcome: its value, or 1 without one.

    Raises
    ------
    InvalidArgument
        If an arm has no value, or a value is for none of the arms.
    """

    study: Study | RemoteStudy
    values: Mapping[str, Any] | None = None
    event: str | None = None

    def __post_init__(self) -> None:
        check_instance("study", self.study, BaseStudy)
        arms = set(map(str, self.study.problem.answer_labels))
        if self.values is not None and set(self.values) != arms:
            accepted = f"must have a value for each of the arms {sorted(arms)}, and no other"
            raise InvalidArgument("values", accepted, sorted(map(str, self.values)))

    def value_of(self, arm: str) -> Any:
        """Return the flag's value for an arm."""
        return arm if self.values is None else self.values[arm]


class StudyProvider(AbstractProvider):  # type: ignore[misc]  # the library may be absent
    """A provider for OpenFeature whose flags are evaluated by studies.

    The targeting key is the `unit` of the pull, so a user sees the same variant at every
    evaluation. An attribute of the context with the name of the groups, usually ``group``, says to
    which group the user belongs.

    Parameters
    ----------
    flags : mapping of str to Flag
        The flags by their keys.

    Examples
    --------
    >>> import fairtrial as ft
    >>> from openfeature import api
    >>> from openfeature.evaluation_context import EvaluationContext
    >>> problem = ft.subpopulations.Problem(["old", "new"], ["all"], reward_range=(0, 1))
    >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    >>> study = ft.Study.create(problem, policy, storage="memory://", name="checkout", seed=7)
    >>> flag = Flag(study, event="purchase")
    >>> api.set_provider(StudyProvider({"checkout": flag}))
    >>> client, user = api.get_client(), EvaluationContext("user-4711")
    >>> variant = client.get_string_value("checkout", "old", user)
    >>> variant == client.get_string_value("checkout", "old", user)
    True
    >>> client.track("purchase", user)
    >>> study.progress().told
    1
    """

    @named_arguments
    def __init__(self, flags: Mapping[str, Flag]) -> None:
        super().__init__()
        for flag in flags.values():
            check_instance("flags", flag, Flag)
        self._flags = dict(flags)

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata(name="fairtrial")

    def get_provider_hooks(self) -> list[Any]:
        """Return no hooks."""
        return []

    # ------------------------------------------------------------------- evaluations

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        """Evaluate a flag whose values are True and False."""
        return self._resolved(flag_key, default_value, evaluation_context, bool)

    def resolve_string_details(
        self,
        flag_key: str,
        default_value: str,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[str]:
        """Evaluate a flag whose values are strings."""
        return self._resolved(flag_key, default_value, evaluation_context, str)

    def resolve_integer_details(
        self,
        flag_key: str,
        default_value: int,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[int]:
        """Evaluate a flag whose values are integers."""
        return self._resolved(flag_key, default_value, evaluation_context, int)

    def resolve_float_details(
        self,
        flag_key: str,
        default_value: float,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[float]:
        """Evaluate a flag whose values are numbers."""
        found = self._resolved(flag_key, default_value, evaluation_context, float, int)
        return replace(found, value=float(found.value))

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[Any] | Mapping[str, Any],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Any]:
        """Evaluate a flag whose values are lists or mappings."""
        return self._resolved(flag_key, default_value, evaluation_context, list, dict)

    def _resolved(
        self,
        key: str,
        default: Any,
        context: EvaluationContext | None,
        *types: type,
    ) -> FlagResolutionDetails[Any]:
        flag = self._flags.get(key)
        if flag is None:
            raise FlagNotFoundError(f"no study evaluates a flag {key!r}")
        unit = _unit_of(context)
        if unit is None:
            raise TargetingKeyMissingError("the targeting key says whom the pull is for")
        try:
            found = _evaluated(flag, unit, context)
        except FairtrialError as error:
            raise _as_openfeature(error) from error
        if found.variant is None:
            return FlagResolutionDetails(default, reason=Reason.DEFAULT)
        if type(found.value) not in types:
            raise TypeMismatchError(f"flag {key!r} has values of type {type(found.value).__name__}")
        return found

    # ---------------------------------------------------------------------- tracking

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Tell an outcome: the first event of a user counts, for every flag that names it.

        An event of a user who has seen no variant is ignored. Like all of tracking, this raises
        nothing; what was refused is logged.
        """
        unit = _unit_of(evaluation_context)
        given = None if tracking_event_details is None else tracking_event_details.value
        for flag in self._flags.values():
            if flag.event == tracking_event_name and unit is not None:
                _tell(flag.study, unit, 1.0 if given is None else given)


def _unit_of(context: EvaluationContext | None) -> str | None:
    """Return the targeting key; an empty one says as little as none."""
    return (None if context is None else context.targeting_key) or None


def _evaluated(
    flag: Flag, unit: str, context: EvaluationContext | None
) -> FlagResolutionDetails[Any]:
    """Return the value of the unit's arm; without a variant if no arm can be given."""
    attributes: Mapping[str, Any] = {} if context is None else context.attributes
    groups = {
        name: attributes[name] for name in flag.study.problem.stated_shares if name in attributes
    }
    try:
        pull = flag.study.ask(unit=unit, **groups)
    except ExperimentFinished:
        answer = flag.study.recommend().arm
        return _details(flag, answer, Reason.STATIC)
    except NothingToAsk:
        return _details(flag, None, Reason.DEFAULT)
    return _details(flag, pull.labels["arm"], Reason.SPLIT)


def _details(flag: Flag, arm: Any, reason: Reason) -> FlagResolutionDetails[Any]:
    if arm is None:
        return FlagResolutionDetails(None, reason=reason)
    return FlagResolutionDetails(flag.value_of(str(arm)), variant=str(arm), reason=reason)


def _as_openfeature(error: FairtrialError) -> OpenFeatureError:
    """Return an error for which OpenFeature serves the default value."""
    kind = InvalidContextError if isinstance(error, InvalidArgument) else GeneralError
    return kind(str(error))


def _tell(study: Study | RemoteStudy, unit: str, value: float) -> None:
    try:
        study.tell(study.pull_of(unit=unit), float(value))
    except (UnknownPull, ConflictingOutcome):
        return
    except (FairtrialError, TypeError, ValueError) as error:
        _UNRECORDED.log(study=study.name, error=type(error).__name__)
