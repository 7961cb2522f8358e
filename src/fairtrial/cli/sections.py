"""The sections of a configuration file, and pydantic's findings in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import reduce
from math import inf
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
)

from fairtrial.core.accrual import in_flight_at_most
from fairtrial.core.family import Family
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.validation import check_error_probability
from fairtrial.core.wording import abridged
from fairtrial.errors import InvalidArgument
from fairtrial.study.location import parse_storage

__all__ = [
    "SECTIONS",
    "CommandSource",
    "LossSection",
    "PlanSection",
    "ProtocolSection",
    "ReplaySource",
    "ScenarioSection",
    "SimulatedSource",
    "SourceSection",
    "StudySection",
    "TablesSection",
    "assumed_over",
    "parse_scenarios",
    "parse_section",
]

_LONGEST_NAME = 200

SECTIONS = ("study", "problem", "policy", "source", "tables", "plan", "protocol", "scenario")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StudySection(_Section):
    """The study, and where it is kept."""

    name: str = Field(min_length=1, max_length=200)
    # It may contain a password.
    storage: str = Field(default="sqlite:///fairtrial.db", min_length=1, repr=False)
    seed: int | None = Field(default=None, ge=0)
    durability: Literal["full", "process"] = "full"
    witness: str | None = Field(default=None, min_length=1)
    require_group: bool = False
    participants: str | None = None
    kits: str | None = None
    masked: bool = False

    @property
    def conduct(self) -> dict[str, Any]:
        """What requests for pulls must state, by name."""
        names = ("require_group", "participants", "kits", "masked")
        return {name: getattr(self, name) for name in names}

    @field_validator("storage")
    @classmethod
    def _is_an_address(cls, storage: str) -> str:
        parse_storage(storage)
        return storage


class TablesSection(_Section):
    """How the tables are read that the file names, and those that are analysed with it."""

    decimal: Literal[".", ","] | None = None
    unit: str | None = Field(default=None, min_length=1)
    count: str | None = Field(default=None, min_length=1)
    successes: str | None = Field(default=None, min_length=1)
    shares: dict[str, float] | None = None


class ReplaySource(_Section):
    """Rewards drawn from the rows of a table, with replacement."""

    kind: Literal["replay"]
    table: str
    arm: str = "arm"
    group: str = "group"
    reward: str | dict[str, str] = "reward"
    prediction: str | dict[str, str] | None = None
    noise_std: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class _EnvironmentSection(_Section):
    """A simulated environment: the keys of the problem's family are added to these."""

    environment_keys: ClassVar[tuple[str, ...]] = ()

    @property
    def given(self) -> dict[str, Any]:
        """The values of the family's keys."""
        values = {key: getattr(self, key) for key in self.environment_keys}
        return {key: value for key, value in values.items() if value is not None}


class SimulatedSource(_EnvironmentSection):
    """Rewards drawn around given means."""

    kind: Literal["simulate"]


class CommandSource(_Section):
    """Rewards measured by a shell command: the last line that it prints."""

    kind: Literal["command"]
    run: str = Field(min_length=1)
    timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    retries: int = Field(default=0, ge=0)


SourceSection = ReplaySource | SimulatedSource | CommandSource


class PlanSection(_EnvironmentSection):
    """The assumptions of `plan` and `simulate`."""

    parallel: int = Field(default=1, ge=1)
    replications: int | None = Field(default=None, ge=2)
    delta: float | None = None
    max_pulls: Any = None
    control: str | None = Field(default=None, min_length=1)
    pulls_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    arrivals: Any = None
    delay_days: float | dict[str, float] | None = None
    starts: date | None = None
    looks: list[date | float] = Field(default_factory=list)

    @field_validator("delay_days")
    @classmethod
    def _are_days(cls, given: float | dict[str, float] | None) -> object:
        days = [*given.values()] if isinstance(given, dict) else [given]
        if given is not None and not (days and all(d is not None and 0 <= d < inf for d in days)):
            accepted = "must be a number of days, or one for each measure"
            raise InvalidArgument("delay_days", accepted, given)
        return given

    @property
    def days_to_result(self) -> float | None:
        """Days from a pull to its complete result: the longest, if each measure has its own."""
        given = self.delay_days
        return max(given.values()) if isinstance(given, dict) else given

    @property
    def in_flight(self) -> int:
        """Most pulls in flight: `parallel`, or what accrual and delay amount to."""
        if self.days_to_result is None or self.pulls_per_day is None:
            return self.parallel
        return in_flight_at_most(self.pulls_per_day, self.days_to_result)

    @property
    def look_days(self) -> list[float]:
        """Days of the interim looks, counted from the first pull."""
        days = []
        for look in self.looks:
            if not isinstance(look, date):
                days.append(look)
            elif self.starts is not None:
                days.append(float((look - self.starts).days))
        return sorted(days)

    @field_validator("delta")
    @classmethod
    def _is_an_error_probability(cls, given: float | None) -> float | None:
        return None if given is None else check_error_probability("delta", given)

    @field_validator("max_pulls")
    @classmethod
    def _are_numbers_of_pulls(cls, given: object) -> object:
        numbers = given if isinstance(given, list) else [given]
        if given is not None and not (numbers and all(map(_is_number_of_pulls, numbers))):
            accepted = "must be an integer of at least 1, or a list of them"
            raise InvalidArgument("max_pulls", accepted, given)
        return given

    @property
    def budgets(self) -> list[int]:
        """The limits of pulls per run: every given number, in order."""
        given = self.max_pulls
        return [] if given is None else sorted(set(given if isinstance(given, list) else [given]))

    @property
    def longest(self) -> int | None:
        """The largest of them, if there are any."""
        return max(self.budgets, default=None)


class ProtocolSection(_Section):
    """What the study estimates, in the words of its protocol (ICH E9(R1)); for the report."""

    treatment: str | None = None
    population: str | None = None
    endpoint: str | None = None
    intercurrent_events: str | dict[str, str] | None = None
    summary: str | None = None
    missing_data: str | None = None
    monitoring: str | None = None

    @property
    def in_words(self) -> dict[str, str]:
        """What was stated, by topic."""
        events = self.intercurrent_events
        by_event = events if isinstance(events, dict) else {"": events}
        stated = {
            "Treatment": self.treatment,
            "Population": self.population,
            "Endpoint": self.endpoint,
            **{f"Intercurrent event {name}".strip(): said for name, said in by_event.items()},
            "Summary measure": self.summary,
            "Missing data": self.missing_data,
            "Monitoring": self.monitoring,
        }
        return {topic: said for topic, said in stated.items() if said}


def _is_number_of_pulls(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**62


class LossSection(_Section):
    """The share of results that gets lost, and whether losses depend on values."""

    rate: float = Field(gt=0, lt=1)
    depends_on_outcome: bool = False


class ScenarioSection(_EnvironmentSection):
    """Changes to what is assumed that may turn out to be true."""

    name: str = Field(min_length=1, max_length=100)
    why: str = ""
    effect: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    loss: LossSection | None = None
    drift: float | None = Field(default=None, allow_inf_nan=False)


_MODELS: dict[str, type[BaseModel]] = {
    "study": StudySection,
    "tables": TablesSection,
    "plan": PlanSection,
    "protocol": ProtocolSection,
    "scenario": ScenarioSection,
}
_KINDS: dict[str, type[BaseModel]] = {
    "replay": ReplaySource,
    "simulate": SimulatedSource,
    "command": CommandSource,
}


def parse_section(
    name: str, data: object, mistakes: list[str], family: Family | None = None
) -> Any:
    """Return the section as an object, or None after adding its mistakes to the list.

    The keys that describe an environment are those of the family; if it is unknown, any keys.
    """
    if name in _MODELS:
        models = {name: _with_keys(_MODELS[name], family)}
        accepted: Any = models[name]
    else:
        models = {kind: _with_keys(model, family) for kind, model in _KINDS.items()}
        accepted = Annotated[reduce(or_, models.values()), Field(discriminator="kind")]
    try:
        return TypeAdapter(accepted).validate_python(data)
    except ValidationError as error:
        mistakes.extend(_in_words(name, models, mistake) for mistake in error.errors())
        return None


def parse_scenarios(
    data: object, mistakes: list[str], family: Family | None = None
) -> list[ScenarioSection]:
    """Return the blocks [[scenario]] without mistakes; add the mistakes of the others."""
    if not isinstance(data, list):
        mistakes.append(f"scenario: must be blocks [[scenario]]; got {abridged(data)}")
        return []
    found: list[ScenarioSection] = []
    for number, block in enumerate(data, 1):
        own: list[str] = []
        section = parse_section("scenario", block, own, family)
        place = f"scenario {number}"
        mistakes.extend(line.replace("scenario", place, 1) for line in own)
        if section is not None and section.name in [one.name for one in found]:
            mistakes.append(f"{place}.name: must be different; got {section.name!r} again")
        elif section is not None:
            found.append(section)
    return found


def _with_keys(model: type[BaseModel], family: Family | None) -> type[BaseModel]:
    """Return the section with the keys by which a family describes an environment."""
    if not issubclass(model, _EnvironmentSection):
        return model
    if family is None:
        return type(model.__name__, (model,), {"model_config": ConfigDict(extra="allow")})
    keys: Any = {key: (kind | None, None) for key, kind in family.environment_keys.items()}
    made: Any = create_model(model.__name__, __base__=model, **keys)
    made.environment_keys = tuple(keys)
    return cast("type[BaseModel]", made)


def assumed_over(plan: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the assumptions about an environment: the plan's values, or else the source's.

    Examples
    --------
    >>> assumed_over({"noise": "bernoulli"}, {"means": [0.2, 0.5], "std": 0.1})
    {'means': [0.2, 0.5], 'noise': 'bernoulli'}
    """
    inherited = dict(source)
    if plan.get("noise") == "bernoulli":
        inherited.pop("std", None)
    if "std" in plan and source.get("noise") == "bernoulli":
        inherited.pop("noise")
    return {**inherited, **plan}


def _in_words(
    section: str, models: Mapping[str, type[BaseModel]], mistake: Mapping[str, Any]
) -> str:
    path = [section, *(str(part)[:_LONGEST_NAME] for part in mistake["loc"])]
    if section == "source" and len(path) > 1:
        model = models[path.pop(1)]  # the kind, which pydantic inserts
    else:
        model = models.get(section, BaseModel)
    if mistake["type"] == "extra_forbidden":
        accepted = did_you_mean(path[-1], model.model_fields)
        return f"{'.'.join(path)}: is not a key here; {accepted}"
    if mistake["type"] == "missing":
        return f"{'.'.join(path)}: is required"
    if mistake["type"].startswith("union_tag"):
        return f"{section}.kind: {_about_kind(mistake['input'])}"
    if path == ["study"] or path[:2] == ["study", "storage"]:
        # The given value may contain a password.
        accepted = "must be a section with keys" if len(path) == 1 else _accepted(mistake)
        return f"{'.'.join(path)}: {accepted}"
    if len(path) == 1:
        return f"{section}: must be a section with keys; got {abridged(mistake['input'])}"
    return f"{'.'.join(path)}: {_accepted(mistake)}; got {abridged(mistake['input'])}"


def _about_kind(given: Mapping[str, Any]) -> str:
    accepted = ", ".join(map(repr, _KINDS))
    if "kind" not in given:
        return f"is required: one of {accepted}"
    return f"must be one of {accepted}; got {given['kind']!r}"


def _accepted(mistake: Mapping[str, Any]) -> str:
    refusal = mistake.get("ctx", {}).get("error")
    if isinstance(refusal, InvalidArgument):
        return refusal.accepted
    text: str = mistake["msg"]
    for said, meant in (
        ("Input should", "must"),
        ("String should", "must"),
        ("a valid integer", "an integer"),
        ("a valid ", "a "),
        ("at least 1 character", "at least one character"),
    ):
        text = text.replace(said, meant)
    return text
