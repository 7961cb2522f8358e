"""The sections of a configuration file, and what pydantic finds wrong in them, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from fairtrial.core.wording import abridged
from fairtrial.errors import InvalidArgument
from fairtrial.study.location import parse_storage

__all__ = [
    "SECTIONS",
    "CommandSource",
    "PlanSection",
    "ReplaySource",
    "SimulatedSource",
    "SourceSection",
    "StudySection",
    "WorldSection",
    "did_you_mean",
    "parse_section",
]

_LONGEST_NAME = 200

SECTIONS = ("study", "problem", "policy", "source", "plan")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StudySection(_Section):
    """Which study, and where it is kept."""

    name: str = Field(min_length=1, max_length=200)
    storage: str = Field(default="sqlite:///fairtrial.db", min_length=1)
    seed: int | None = Field(default=None, ge=0)
    durability: Literal["full", "process"] = "full"
    witness: str | None = Field(default=None, min_length=1)

    @field_validator("storage")
    @classmethod
    def _is_an_address(cls, storage: str) -> str:
        parse_storage(storage)
        return storage


class ReplaySource(_Section):
    """Rewards drawn from the rows of a table, with replacement."""

    kind: Literal["replay"]
    table: str
    arm: str = "arm"
    group: str = "group"
    reward: str = "reward"
    noise_std: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class WorldSection(_Section):
    """What a simulated world is made of."""

    means: Any = None
    theta: list[float] | None = None
    std: Any = None
    noise: Literal["gaussian", "bernoulli"] | None = None
    delay: Any = None
    bias: Any = None
    every: float | None = None

    @property
    def told(self) -> list[str]:
        """The keys of a world that are given."""
        return [key for key in WorldSection.model_fields if getattr(self, key) is not None]


class SimulatedSource(WorldSection):
    """Rewards drawn around means that are given."""

    kind: Literal["simulate"]


class CommandSource(_Section):
    """Rewards measured by a shell command: the last line that it prints."""

    kind: Literal["command"]
    run: str = Field(min_length=1)
    timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    retries: int = Field(default=0, ge=0)


SourceSection = ReplaySource | SimulatedSource | CommandSource


class PlanSection(WorldSection):
    """What `plan` and `simulate` assume."""

    parallel: int = Field(default=1, ge=1)
    replications: int = Field(default=200, ge=2)
    delta: float | None = Field(default=None, gt=0, lt=1)
    max_pulls: int | None = Field(default=None, ge=1)

    @property
    def gives_world(self) -> bool:
        """Whether it says in which world to plan."""
        return self.means is not None or self.theta is not None

    def over(self, source: SimulatedSource) -> PlanSection:
        """Return what to assume: what is said here, and of all else what the source says."""
        inherited = {key: getattr(source, key) for key in source.told if key not in self.told}
        if self.gives_world:
            inherited = {key: v for key, v in inherited.items() if key not in ("means", "theta")}
        if self.noise == "bernoulli":
            inherited.pop("std", None)
        if self.std is not None and source.noise == "bernoulli":
            inherited.pop("noise", None)
        return self.model_copy(update=inherited)


_MODELS: dict[str, Any] = {
    "study": StudySection,
    "source": Annotated[SourceSection, Field(discriminator="kind")],
    "plan": PlanSection,
}
_KINDS: dict[str, type[BaseModel]] = {
    "replay": ReplaySource,
    "simulate": SimulatedSource,
    "command": CommandSource,
}


def parse_section(name: str, data: object, mistakes: list[str]) -> Any:
    """Return the section as an object, or None after adding its mistakes to the list."""
    try:
        return TypeAdapter(_MODELS[name]).validate_python(data)
    except ValidationError as error:
        mistakes.extend(_in_words(name, mistake) for mistake in error.errors())
        return None


def did_you_mean(given: str, accepted: Iterable[str]) -> str:
    """Return a remark on a name that is not accepted.

    Examples
    --------
    >>> did_you_mean("tabel", ["table", "arm"])
    "did you mean 'table'? accepted: arm, table"
    """
    names = sorted(accepted)
    close = get_close_matches(given[:_LONGEST_NAME], names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}accepted: {', '.join(names)}"


def _in_words(section: str, mistake: Mapping[str, Any]) -> str:
    path = [section, *(str(part)[:_LONGEST_NAME] for part in mistake["loc"])]
    fields = _fields(section, path)
    if section == "source" and len(path) > 1:
        del path[1]  # the kind, which pydantic puts there
    if mistake["type"] == "extra_forbidden":
        return f"{'.'.join(path)}: is not a key here; {did_you_mean(path[-1], fields)}"
    if mistake["type"] == "missing":
        return f"{'.'.join(path)}: is required"
    if mistake["type"].startswith("union_tag"):
        return f"{section}.kind: {_about_kind(mistake['input'])}"
    if len(path) == 1:
        return f"{section}: must be a section with keys; got {abridged(mistake['input'])}"
    return f"{'.'.join(path)}: {_accepted(mistake)}; got {abridged(mistake['input'])}"


def _fields(section: str, path: list[str]) -> Iterable[str]:
    if section == "source":
        return _KINDS[path[1]].model_fields if len(path) > 1 else ()
    model: type[BaseModel] = _MODELS[section]
    return model.model_fields


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
