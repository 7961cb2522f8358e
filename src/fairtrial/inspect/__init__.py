"""Race the models of an evaluation with inspect_ai: early stopping with a guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.inspect.early_stopping import Race

__all__ = ["Race"]

__getattr__, __dir__ = lazy_names(__name__, ["early_stopping"], extra=("Race", "inspect"))
