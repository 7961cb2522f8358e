"""A configuration file, checked as a whole: all mistakes are reported at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairtrial.cli.assumptions import replay_to_plan_in
from fairtrial.cli.construction import build_policy, build_problem
from fairtrial.cli.environments import build_replay, check_command, warn_of
from fairtrial.cli.files import warn_of_tables, with_files
from fairtrial.cli.scenarios import build_scenarios, check_control, with_arrivals
from fairtrial.cli.sections import (
    SECTIONS,
    CommandSource,
    PlanSection,
    ProtocolSection,
    ReplaySource,
    ScenarioSection,
    SimulatedSource,
    SourceSection,
    StudySection,
    TablesSection,
    assumed_over,
    parse_scenarios,
    parse_section,
)
from fairtrial.core import Environment, Policy, Problem
from fairtrial.core.family import FAMILIES, Family, family_of
from fairtrial.core.mistakes import Mistakes, did_you_mean
from fairtrial.core.nesting import is_deeper
from fairtrial.core.scenario import Scenario
from fairtrial.core.tables import column_of
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import ConfigurationError
from fairtrial.study.location import parse_storage
from fairtrial.study.specification import Specification

if TYPE_CHECKING:
    from fairtrial.study import Study

__all__ = [
    "Configuration",
    "difference_from",
    "load_configuration",
    "load_study_section",
    "read_toml",
    "resolve_storage",
]

_LONGEST_FILE = 4_000_000
_DEEPEST = 32
_TOO_DEEP = f"must not be nested more than {_DEEPEST} levels deep"
# A key with many parts: the parser's time grows with the square of their number.
_MANY_PARTS = re.compile(r"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){32}""")

Purpose = Literal["run", "create", "plan", "simulate", "analyse"]


@dataclass(frozen=True)
class Configuration:
    """An experiment as described by a file, fully checked.

    Parameters
    ----------
    folder : Path
        The folder of the file; paths in the file are relative to it.
    study : StudySection
        Name, storage and witness (made absolute), seed and durability.
    problem : Problem
        What is known and wanted.
    policy : Policy
        Fresh, with the study's seed.
    source : ReplaySource, SimulatedSource, CommandSource or None
        The source of rewards.
    environment : Environment or None
        The environment of a simulated or replayed source.
    plan : PlanSection
        The assumptions for planning.
    assumed : Environment or None
        The environment to plan in, if it is not the source's.
    scenarios : tuple of Scenario
        Other possible truths for planning or simulating.
    text : str
        The text of the file.
    tables : TablesSection
        How tables are read.
    protocol : ProtocolSection
        What the study estimates, in words.
    """

    folder: Path
    study: StudySection
    problem: Problem
    policy: Policy
    source: SourceSection | None
    environment: Environment | None
    plan: PlanSection
    assumed: Environment | None
    scenarios: tuple[Scenario, ...] = ()
    text: str = ""
    tables: TablesSection = field(default_factory=TablesSection)
    protocol: ProtocolSection = field(default_factory=ProtocolSection)

    @property
    def planned(self) -> Environment:
        """The environment to plan and simulate in: the plan's assumptions, or else the source's."""
        environment = self.assumed or self.environment
        assert environment is not None, "checked when the file was loaded"
        return environment

    @property
    def rows(self) -> str | None:
        """How many rows of which table are replayed, in words; None for other sources."""
        if not isinstance(self.source, ReplaySource) or self.environment is None:
            return None
        table = self.environment.get_params()["table"]
        return f"{plural(len(column_of(table, self.source.arm)), 'row')} of {self.source.table}"

    @property
    def about(self) -> str | None:
        """What a reader must know about runs in `planned`; None if no table is replayed."""
        if self.rows is None or family_of(self.problem.family).means_key in self.plan.given:
            return None
        assert self.environment is not None, "its rows are counted"
        table = self.environment.get_params()["table"]
        if self.planned.get_params().get("table") is table:
            return said_of_rows(self.rows)
        return f"About the means of {self.rows}: they count as the truth in these runs."


def load_configuration(path: str | Path, purpose: Purpose) -> Configuration:
    """Return the configuration that a file describes.

    Parameters
    ----------
    path : str or Path
        A TOML file.
    purpose : {"run", "create", "plan", "simulate", "analyse"}
        What it is needed for: running needs a source, planning and simulating an environment;
        creating a study and analysing need neither.

    Raises
    ------
    ConfigurationError
        If there is any mistake; every mistake is listed with its key path.
    """
    file = Path(path)
    data, text = read_toml(file)
    draft = _Draft(data, file.parent, purpose)
    if draft.mistakes:
        raise ConfigurationError(draft.mistakes, str(file))
    configuration = replace(draft.finished(), text=text)
    is_simulated = purpose in ("plan", "simulate")
    environment = configuration.planned if is_simulated else configuration.environment
    if environment is not None:
        warn_of(environment)
    return configuration


def load_study_section(path: str | Path) -> StudySection:
    """Return only the section [study], for commands that only look at a study."""
    file = Path(path)
    data, _ = read_toml(file)
    mistakes: list[str] = []
    study = _parsed_study(data, file.parent, mistakes)
    if study is None:
        raise ConfigurationError(mistakes, str(file))
    return study


def difference_from(study: Study, path: str | Path) -> str:
    """Return how the problem and policy of a file differ from a study's; empty if they do not.

    A file without a problem does not differ.
    """
    file = Path(path)
    data, _ = read_toml(file)
    # The source is left out, because it may be a large table.
    told = {
        key: part
        for key, part in data.items()
        if key in ("study", "problem", "policy", "tables", "protocol")
    }
    if "problem" not in told:
        return ""
    described = _Draft(told, file.parent, "run").specification(study.seed)
    if described is None:
        return "its problem or policy has mistakes"
    existing = Specification.of(
        *(study.problem, study.policy, study.seed),
        *(study.checks.conduct.to_dict(), study.notes),
    )
    return existing.difference(described)


def resolve_storage(storage: str, folder: Path) -> str:
    """Return the storage's address, with a relative path resolved against `folder`.

    Raises
    ------
    InvalidArgument
        If it is not the address of a storage.

    Examples
    --------
    >>> resolve_storage("sqlite:///trial.db", Path("/data"))
    'sqlite:////data/trial.db'
    """
    place = parse_storage(storage)
    return f"sqlite:///{(folder / place).absolute()}" if isinstance(place, Path) else storage


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    """Return the tables of a file, and its text."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_LONGEST_FILE + 1)
        return _parsed_toml(data)
    except OSError as error:
        mistake = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        mistake = f"must be UTF-8 text: {error}"
    except tomllib.TOMLDecodeError as error:
        mistake = f"must be TOML: {error}"
    except RecursionError:
        mistake = _TOO_DEEP
    except ValueError as error:  # an integer of thousands of digits, an invalid date
        mistake = f"must be TOML: {error}"
    raise ConfigurationError([mistake], str(file))


def _parsed_toml(data: bytes) -> tuple[dict[str, Any], str]:
    """Return the tables of a file and its text; refuse text that would take long to parse."""
    if len(data) > _LONGEST_FILE:
        raise tomllib.TOMLDecodeError(f"it has more than {_LONGEST_FILE:,} bytes")
    text = data.decode("utf-8-sig")  # Notepad writes a byte order mark
    if is_deeper(text, _DEEPEST) or _MANY_PARTS.search(text):
        raise RecursionError
    tables = tomllib.loads(text)
    if _is_deep(tables):  # a quotation mark in a comment can hide brackets from the search above
        raise RecursionError
    return tables, text


def _is_deep(tables: dict[str, Any]) -> bool:
    """Return whether tables are deeper than lists of the allowed depth below such a section."""
    level: list[Any] = [tables]
    for _ in range(2 * _DEEPEST):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
    return bool(level)


class _Draft:
    """The sections that could be turned into objects, and all mistakes in them."""

    def __init__(self, data: Mapping[str, Any], folder: Path, purpose: Purpose) -> None:
        self._data = data
        self._folder = folder
        self._found: dict[str, list[str]] = {name: [] for name in SECTIONS}
        self._family = _family(data)
        self._study = _parsed_study(data, folder, self._found["study"])
        self._source: SourceSection | None = self._parsed("source") if "source" in data else None
        self._tables: TablesSection = self._parsed("tables") or TablesSection()
        self._plan: PlanSection | None = self._parsed("plan")
        self._protocol: ProtocolSection = self._parsed("protocol") or ProtocolSection()
        self._check_calendar()
        self._doubtful: set[str] = set()
        self._problem = self._build_problem()
        self._policy = self._build_policy()
        # Labels and rewards can only be checked against a problem without mistakes.
        sound = not self._found["problem"]
        self._environment = self._build_environment() if sound else None
        self._assumed = self._build_assumed(purpose) if sound else None
        self._let_arrive()
        self._require_for(purpose)
        self._scenario_sections = self._parsed_scenarios()
        self._scenarios = self._build_scenarios() if purpose in ("plan", "simulate") else []

    @property
    def mistakes(self) -> list[str]:
        """All mistakes, section by section."""
        return [*_unknown_sections(self._data), *chain.from_iterable(self._found.values())]

    def finished(self) -> Configuration:
        """Return the configuration, if there are no mistakes."""
        assert self._study is not None
        assert self._plan is not None
        assert self._problem is not None
        assert self._policy is not None
        return Configuration(
            folder=self._folder,
            study=self._study,
            problem=self._problem,
            policy=self._policy,
            source=self._source,
            environment=self._environment,
            plan=self._plan,
            assumed=self._assumed,
            scenarios=tuple(self._scenarios),
            tables=self._tables,
            protocol=self._protocol,
        )

    def specification(self, seed: int) -> Specification | None:
        """Return the specification of the study; `seed` is used if the file gives none."""
        if self._found["problem"] or self._found["policy"]:
            return None
        assert self._problem is not None
        assert self._policy is not None
        own = None if self._study is None else self._study.seed
        rules = {} if self._study is None else self._study.conduct
        stated = self._protocol.in_words
        seed = seed if own is None else own
        return Specification.of(self._problem, self._policy, seed, rules, stated)

    def _parsed(self, name: str) -> Any:
        return parse_section(name, self._data.get(name, {}), self._found[name], self._family)

    def _check_calendar(self) -> None:
        """Note keys of the calendar that need others, or exclude them."""
        plan, mistakes = self._plan, self._found["plan"]
        if plan is None:
            return
        if plan.days_to_result is not None and plan.pulls_per_day is None:
            mistakes.append("plan.delay_days: needs pulls_per_day")
        if plan.days_to_result is not None and plan.parallel != 1:
            mistakes.append("plan.parallel: must be left out with delay_days, which decides it")
        if plan.looks and plan.days_to_result is None:
            mistakes.append("plan.looks: needs delay_days")
        dated = [look for look in plan.looks if isinstance(look, date)]
        if dated and (plan.starts is None or min(dated) < plan.starts):
            mistakes.append("plan.looks: dates need an earlier date in plan.starts")

    def _build_problem(self) -> Problem | None:
        section = self._data.get("problem")
        mistakes = self._found["problem"]
        if not isinstance(section, Mapping):
            mistakes.append("problem: is required: a section with the family and its arguments")
            return None
        filled = with_files(section, self._folder, mistakes, self._doubtful, self._tables.decimal)
        problem = build_problem(filled, mistakes, self._doubtful)
        warn_of_tables(section, problem)
        return problem

    def _build_policy(self) -> Policy | None:
        section = self._data.get("policy", {})
        if not isinstance(section, Mapping):
            self._found["policy"].append(f"policy: must be a section with keys; got {section!r}")
            return None
        if self._problem is None:
            return None
        seed = self._study.seed if self._study is not None else None
        found = self._found["policy"]
        return build_policy(section, self._problem, seed, found, self._doubtful)

    def _build_environment(self) -> Environment | None:
        source, mistakes = self._source, self._found["source"]
        if self._problem is None or source is None:
            return None
        if isinstance(source, ReplaySource):
            decimal = self._tables.decimal
            return build_replay(self._problem, source, self._folder, mistakes, decimal)
        if isinstance(source, SimulatedSource):
            return self._simulated(source.given, "source")
        has_blocks = self._policy is not None and self._policy.has_shared_blocks
        check_command(self._problem, "source.run", source.run, mistakes, has_blocks=has_blocks)
        return None

    def _build_assumed(self, purpose: Purpose) -> Environment | None:
        plan, source = self._plan, self._source
        if self._problem is None or plan is None:
            return None
        if isinstance(source, ReplaySource) and not self._plan_gives_means:
            return self._build_assumed_replay(plan, purpose)
        if isinstance(source, SimulatedSource) and plan.given and self._environment is not None:
            return self._simulated(assumed_over(plan.given, source.given), "plan")
        return self._simulated(plan.given, "plan") if self._plan_gives_means else None

    def _let_arrive(self) -> None:
        """Let groups arrive in the environment to plan in, as the plan or the problem states."""
        self._state_arrivals()
        planned = self._assumed or self._environment
        if planned is not None and self._plan is not None and self._plan.arrivals is not None:
            mistakes = Mistakes("plan", self._found["plan"])
            self._assumed = with_arrivals(planned, self._plan, mistakes)

    def _state_arrivals(self) -> None:
        """Plan for the problem's proportions if every request of the study names a group."""
        plan, problem, study = self._plan, self._problem, self._study
        if plan is None or plan.arrivals is not None or problem is None or study is None:
            return
        shares = problem.stated_shares.get("group")
        can_arrive = family_of(problem.family).offers(Family.with_arrivals)
        if study.require_group and shares and can_arrive:
            self._plan = plan.model_copy(update={"arrivals": dict(shares)})

    def _parsed_scenarios(self) -> list[ScenarioSection]:
        given = self._data.get("scenario", [])
        return parse_scenarios(given, self._found["scenario"], self._family)

    def _build_scenarios(self) -> list[Scenario]:
        """Return the scenarios, if there is an environment to change."""
        assumed = self._assumed or self._environment
        if assumed is None or self._plan is None or self.mistakes:
            return []
        own = assumed.problem.get_params().get("control")
        if self._plan.control is None and own is not None:
            self._plan = self._plan.model_copy(update={"control": own})
        if self._plan.control is not None:
            check_control(assumed, self._plan.control, self._found["plan"])
        given = None
        if self._plan_gives_means or isinstance(self._source, SimulatedSource):
            own = self._source.given if isinstance(self._source, SimulatedSource) else {}
            given = assumed_over(self._plan.given, own)
        found = self._found["scenario"]
        return build_scenarios(self._scenario_sections, assumed, given, self._plan, found)

    def _simulated(self, given: Mapping[str, Any], section: str) -> Environment | None:
        assert self._family is not None
        mistakes = Mistakes(section, self._found[section])
        return self._family.environment(self._problem, given, mistakes)

    def _build_assumed_replay(self, plan: PlanSection, purpose: Purpose) -> Environment | None:
        """Return the environment to plan in, from the source's table."""
        mistakes = self._found["plan"]
        std = plan.given.get("std")
        misplaced = [key for key in plan.given if key != "std"]
        mistakes.extend(f"plan.{key}: must be left out if a table is replayed" for key in misplaced)
        # A run does not need to know this, so it is not required.
        if (
            misplaced
            or self._environment is None
            or (purpose in ("run", "create", "analyse") and std is None)
        ):
            return None
        return replay_to_plan_in(self._environment, std, mistakes)

    def _require_for(self, purpose: Purpose) -> None:
        """Note what the purpose needs and the file lacks (a section with mistakes is there)."""
        if purpose in ("create", "analyse"):
            return
        if purpose == "run":
            if "source" not in self._data:
                self._found["source"].append("source: is required: where the rewards come from")
            return
        if self._policy is not None and self._policy.endless and self._no_cap:
            self._found["plan"].append(
                "plan.max_pulls: is required: this policy never stops by itself"
            )
        has_environment = "source" in self._data and not isinstance(self._source, CommandSource)
        if not has_environment and self._plan is not None and not self._plan_gives_means:
            key = "means" if self._family is None else self._family.means_key
            self._found["plan"].append(
                f"plan.{key}: is required to simulate: give the assumed means, "
                "or a source that has them"
            )

    @property
    def _plan_gives_means(self) -> bool:
        if self._plan is None or self._family is None:
            return False
        return self._family.means_key in self._plan.given

    @property
    def _no_cap(self) -> bool:
        return self._plan is not None and self._plan.longest is None


def _family(data: Mapping[str, Any]) -> Family | None:
    section = data.get("problem")
    name = section.get("family") if isinstance(section, Mapping) else None
    return family_of(str(name)) if name in FAMILIES else None


def _unknown_sections(data: Mapping[str, Any]) -> list[str]:
    return [
        f"{key[:200]}: is not a section here; {did_you_mean(key, SECTIONS)}"
        for key in data
        if key not in SECTIONS
    ]


def _parsed_study(
    data: Mapping[str, Any], folder: Path, mistakes: list[str]
) -> StudySection | None:
    study: StudySection | None = parse_section("study", data.get("study", {}), mistakes)
    if study is None:
        return None
    resolved = {"storage": resolve_storage(study.storage, folder)}
    if study.witness is not None:
        resolved["witness"] = str((folder / study.witness).absolute())
    return study.model_copy(update=resolved)
