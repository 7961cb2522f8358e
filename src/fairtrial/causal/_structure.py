"""Read the causal model and the nodes of a problem, and check that they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairtrial.causal._roles import Roles
from fairtrial.causal.errors import ModelError
from fairtrial.causal.model import CausalModel
from fairtrial.core.validation import check_labels
from fairtrial.errors import InvalidArgument


def as_model(model: Any) -> CausalModel:
    """Return the model, given one, its arguments, or the path of a BIF file.

    Raises
    ------
    ModelError
        If the model contradicts itself.
    InvalidArgument
        If it is none of these, or the file cannot be read.
    """
    if isinstance(model, CausalModel):
        return model
    if isinstance(model, str | Path):
        return _from_file(model)
    if isinstance(model, Mapping):
        arguments = {key: value for key, value in model.items() if key != "name"}
        try:
            return CausalModel(**arguments)
        except ModelError:
            raise
        except InvalidArgument as error:
            raise error.within("model") from None
        except TypeError as error:
            raise ModelError("model", f"must hold a CausalModel's arguments ({error})") from None
    raise InvalidArgument("model", "must be a CausalModel, or the path of a BIF file", model)


def _from_file(path: str | Path) -> CausalModel:
    try:
        return CausalModel.from_bif(path)
    except InvalidArgument as error:
        if error.name != "path":
            raise
        raise InvalidArgument("model", error.accepted, error.given) from None


def as_attributes(sensitive: Any) -> tuple[str, ...]:
    """Return the names of the sensitive attributes in the argument `sensitive`."""
    return check_labels("sensitive", [sensitive] if isinstance(sensitive, str) else sensitive)


def as_outcome(outcome: Any) -> str | tuple[str, dict[str, float]]:
    """Return the outcome's node, and the numbers of its states if they are given."""
    if isinstance(outcome, str):
        return outcome
    try:
        node, numbers = outcome
        return node, dict(numbers)
    except (TypeError, ValueError):
        accepted = "must be a node, or a node with a number for each of its states"
        raise ModelError("outcome", accepted, outcome) from None


def check_structure(problem: Roles) -> None:
    """Raise if the problem cannot be stated for these nodes in its model.

    Raises
    ------
    ModelError
        The message names the argument and the node.
    """
    _require_nodes(problem)
    _require_sensitive(problem)
    _require_effect(problem)
    _require_no_causes_between(problem)
    _require_carriers(problem)


def _require_nodes(problem: Roles) -> None:
    named = [("sensitive", node) for node in problem.attributes]
    named += [("intervened", problem.intervened), ("outcome", problem.outcome_node)]
    for argument, node in named:
        if node not in problem.model.nodes:
            raise ModelError(argument, f"must be one of {', '.join(problem.model.nodes)}", node)


def _require_sensitive(problem: Roles) -> None:
    for node in problem.attributes:
        if problem.model.parents(node) and problem.forcing == "allowed":
            raise ModelError(
                "sensitive", "must be a root of the graph, unless forcing is 'never'", node
            )
        if not problem.model.is_discrete(node):
            raise ModelError("sensitive", "must have states in the model", node)


def _require_effect(problem: Roles) -> None:
    """Raise if nodes coincide, or the intervened node does not lead to the outcome."""
    intervened, outcome = problem.intervened, problem.outcome_node
    if outcome in (intervened, *problem.attributes):
        raise ModelError("outcome", "must be another node", outcome)
    if intervened in problem.attributes:
        raise ModelError("intervened", "must be another node than sensitive", intervened)
    if intervened not in problem.model.ancestors([outcome]):
        raise ModelError("intervened", f"must be an ancestor of {outcome!r}", intervened)


def _require_no_causes_between(problem: Roles) -> None:
    """Raise if causes of sensitive attributes lie between them, or follow the arm."""
    model, own = problem.model, set(problem.attributes)
    causes = model.ancestors(problem.attributes) - own
    if problem.intervened in causes:
        raise ModelError("intervened", "must not be an ancestor of sensitive", problem.intervened)
    for node in problem.attributes:
        between = causes & model.descendants(node)
        if between:
            raise ModelError(
                "sensitive", "must have no other node between two of them", min(between)
            )
        if problem.gap_set == "attributes" and own & set(model.parents(node)):
            raise ModelError(
                "gap_set", f"must be 'pairs' where a sensitive attribute is a parent of {node}"
            )


def require_outcome_table(problem: Roles) -> None:
    """Raise if the sensitive attribute changes the outcome in an unknown way.

    Raises
    ------
    ModelError
        If the rows have no weights without the outcome's table.
    """
    if problem.acts_directly:
        raise ModelError(
            f"table of {problem.outcome_node}",
            f"is needed, as {problem.outcome_node!r} is a child of a sensitive attribute; only "
            "BlockBetting does without it",
        )


def _require_carriers(problem: Roles) -> None:
    """Raise if the model lacks a distribution that every weight needs."""
    for node in problem.carriers:
        if node != problem.intervened and not problem.model.is_known(node):
            raise ModelError(
                f"table of {node}",
                f"is needed: {node!r} is a child of {' and '.join(problem.attributes)} that "
                f"leads to {problem.outcome_node!r}",
            )
