"""A provider for OpenFeature: a feature flag whose variants a study compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.openfeature.provider import Flag, StudyProvider

__all__ = ["Flag", "StudyProvider"]

__getattr__, __dir__ = lazy_names(
    __name__, ["provider"], extra=("a provider for OpenFeature", "openfeature")
)
