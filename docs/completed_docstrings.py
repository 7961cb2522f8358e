"""Show the whole docstrings of what `documented_by` completes when it is imported."""

from typing import Any

import griffe


class CompletedDocstrings(griffe.Extension):
    """Read those docstrings from the imported objects; the sources have only a part of them."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        decorators = getattr(obj, "decorators", ())
        if obj.docstring and any(
            str(each.value).startswith("documented_by(") for each in decorators
        ):
            obj.docstring.value = griffe.dynamic_import(obj.path).__doc__
