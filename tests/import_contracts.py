"""A rule for import-linter: which modules are private to which folder."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PrivateModules(Contract):  # type: ignore[misc]  # it is not typed
    """Require that a module with an underscore is imported only from its own folder."""

    type_name = "private"

    folders = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect the imports of a private module from outside its folder."""
        broken = sorted(
            (importer, module)
            for module in graph.modules
            if (home := _home(module)) in self.folders
            for importer in graph.find_modules_that_directly_import(module)
            if not f"{importer}.".startswith(f"{home}.")
        )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: Any) -> None:
        """Print these imports."""
        for importer, module in check.metadata["broken"]:
            output.print_error(f"{importer} imports {module}")


def _home(module: str) -> str | None:
    """Return the folder that a private module belongs to; None for a public one.

    Examples
    --------
    >>> _home("fairtrial.linear._kernels.blocks"), _home("fairtrial.linear.policies")
    ('fairtrial.linear', None)
    """
    parts = module.split(".")
    private = [place for place, part in enumerate(parts) if part.startswith("_")]
    return ".".join(parts[: private[0]]) if private else None
