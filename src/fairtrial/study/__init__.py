"""The durable experiment: a policy, its seed, and an append-only log of all events."""

from fairtrial.study.analysis import analyse
from fairtrial.study.audit import Verification
from fairtrial.study.location import accept_loss, list_studies
from fairtrial.study.log import Event, Lease
from fairtrial.study.pull import StudyPull
from fairtrial.study.reporting import Report, StopPull
from fairtrial.study.result_tables import Correction
from fairtrial.study.running import run_study
from fairtrial.study.shared_statistics import SharedStatistics
from fairtrial.study.store import Store, StudySummary
from fairtrial.study.study import Study
from fairtrial.study.tokens import Token, Tokens

__all__ = [
    "Correction",
    "Event",
    "Lease",
    "Report",
    "SharedStatistics",
    "StopPull",
    "Store",
    "Study",
    "StudyPull",
    "StudySummary",
    "Token",
    "Tokens",
    "Verification",
    "accept_loss",
    "analyse",
    "list_studies",
    "run_study",
]
