"""A test, valid at all times, of whether results change during a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.confidence.drift_test.evidence import (
        FALSE_ALARM,
        Drift,
        find_drift,
        log_evidence_of_drift,
    )

__all__ = ["FALSE_ALARM", "Drift", "find_drift", "log_evidence_of_drift"]

# This imports compiled code.
__getattr__, __dir__ = lazy_names(__name__, ["evidence"])
