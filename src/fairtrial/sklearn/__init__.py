"""Choose among models and their settings by racing them: for users of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.sklearn.search import RacingSearchCV

__all__ = ["RacingSearchCV"]

__getattr__, __dir__ = lazy_names(__name__, ["search"], extra=("RacingSearchCV", "sklearn"))
