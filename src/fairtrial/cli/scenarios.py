"""The blocks [[scenario]] of a file as scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairtrial.cli.sections import LossSection, PlanSection, ScenarioSection, assumed_over
from fairtrial.core import Environment
from fairtrial.core.family import Family, family_of
from fairtrial.core.mistakes import REFUSALS, Mistakes, in_words
from fairtrial.core.scenario import Scenario

__all__ = ["build_scenarios", "check_control", "with_arrivals"]


def build_scenarios(
    sections: Iterable[ScenarioSection],
    assumed: Environment,
    given: Mapping[str, Any] | None,
    plan: PlanSection,
    lines: list[str],
) -> list[Scenario]:
    """Return the scenarios that the blocks describe; add the mistakes of the others.

    Parameters
    ----------
    sections : iterable of ScenarioSection
        The blocks.
    assumed : Environment
        The environment to plan in.
    given : mapping or None
        The keys that describe it; a block's keys replace them. None for a table.
    plan : PlanSection
        The section that names the control.
    lines : list of str
        The list that mistakes are added to.
    """
    found = []
    for number, section in enumerate(sections, 1):
        mistakes = Mistakes(f"scenario {number}", lines)
        environment = _environment(section, assumed, given, plan, mistakes)
        if environment is not None:
            found.append(Scenario(section.name, environment, _why(section)))
    return found


def with_arrivals(
    environment: Environment, plan: PlanSection, mistakes: Mistakes
) -> Environment | None:
    """Return the environment in which groups arrive as planned, or None after adding a mistake."""
    if plan.arrivals is None:
        return environment
    family = family_of(environment.problem.family)
    if not family.offers(Family.with_arrivals):
        mistakes.add("arrivals", f"must be left out in the family {environment.problem.family!r}")
        return None
    return mistakes.build(family.with_arrivals, environment, plan.arrivals)


def check_control(assumed: Environment, control: str, lines: list[str]) -> None:
    """Add a mistake if the control is not an arm."""
    family = family_of(assumed.problem.family)
    if family.offers(Family.at_effect):
        Mistakes("plan", lines).build(family.at_effect, assumed, 1.0, control)
    else:
        lines.append(f"plan.control: must be left out in the family {assumed.problem.family!r}")


def _why(section: ScenarioSection) -> str:
    """Return the reason for a scenario, with changes that the author's words may omit."""
    if section.why:
        disturbances = ", ".join(_disturbances(section))
        return f"{section.why} (with {disturbances})" if disturbances else section.why
    changed = ", ".join([*section.given, *_disturbances(section)])
    if section.effect is not None:
        effect = f"The differences are {section.effect:g} times as large as assumed"
        return f"{effect}; also changed: {changed}" if changed else effect
    return f"Stated in the file: {changed}" if changed else "Stated in the file"


def _disturbances(section: ScenarioSection) -> list[str]:
    """Return what the section changes besides the means."""
    found = []
    if section.loss is not None:
        by_value = ", by their value" if section.loss.depends_on_outcome else ""
        found.append(f"{section.loss.rate:.3g} of the results lost{by_value}")
    if section.drift is not None:
        found.append(f"a drift of {section.drift:g} per pull")
    return found


def _environment(
    section: ScenarioSection,
    assumed: Environment,
    given: Mapping[str, Any] | None,
    plan: PlanSection,
    mistakes: Mistakes,
) -> Environment | None:
    family = family_of(assumed.problem.family)
    if not family.offers(Family.at_effect):
        mistakes.add("", f"the family {assumed.problem.family!r} has no scenarios")
        return None
    if section.effect is not None and family.means_key in section.given:
        mistakes.add("effect", f"must be left out if {family.means_key} is given")
        return None
    environment = assumed
    if section.given:
        changed = _changed(section.given, assumed, given, family, mistakes)
        if changed is None:
            return None
        arriving = with_arrivals(changed, plan, mistakes)
        if arriving is None:
            return None
        environment = arriving
    if section.effect is not None:
        changed = _with_effect(family, environment, section.effect, plan.control, mistakes)
        if changed is None:
            return None
        environment = changed
    return _disturbed(section, environment, family, mistakes)


def _disturbed(
    section: ScenarioSection, environment: Environment, family: Family, mistakes: Mistakes
) -> Environment | None:
    """Return the environment with the losses and the drift that the section states."""
    found: Environment | None = environment
    if section.loss is not None:
        found = _with_losses(family, environment, section.loss, mistakes)
    if found is None or section.drift is None:
        return found
    if not family.offers(Family.with_drift):
        mistakes.add("drift", "must be left out in this family")
        return None
    return mistakes.build(family.with_drift, found, section.drift, key="drift")


def _changed(
    own: Mapping[str, Any],
    assumed: Environment,
    given: Mapping[str, Any] | None,
    family: Family,
    mistakes: Mistakes,
) -> Environment | None:
    """Return the assumed environment with other means, noise or delays."""
    if given is not None:
        return family.environment(assumed.problem, assumed_over(own, given), mistakes)
    accepted = {family.means_key} if family.offers(Family.with_means) else set()
    misplaced = [key for key in own if key not in accepted]
    for key in misplaced:
        mistakes.add(key, "must be left out if a table is replayed")
    if misplaced:
        return None
    return mistakes.build(family.with_means, assumed, own[family.means_key])


def _with_effect(
    family: Family, environment: Environment, effect: float, control: str | None, mistakes: Mistakes
) -> Environment | None:
    try:
        return family.at_effect(environment, effect, control)
    except REFUSALS as error:
        mistakes.add("effect", f"is not possible: {in_words('', error).lstrip('.: ')}")
        return None


def _with_losses(
    family: Family, environment: Environment, loss: LossSection, mistakes: Mistakes
) -> Environment | None:
    if not family.offers(Family.with_losses):
        mistakes.add("loss", "must be left out in this family")
        return None
    given = (environment, loss.rate, loss.depends_on_outcome)
    return mistakes.build(family.with_losses, *given, key="loss")
