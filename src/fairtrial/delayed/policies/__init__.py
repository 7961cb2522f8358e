"""The policies of the family."""

from fairtrial.delayed.policies.blocks import BlockBetting
from fairtrial.delayed.policies.halving import ASHA, Hyperband, SuccessiveHalving
from fairtrial.delayed.policies.information import InformationRacing
from fairtrial.delayed.policies.median import MedianStopping
from fairtrial.delayed.policies.paired import PairedRacing
from fairtrial.delayed.policies.racing import Racing
from fairtrial.delayed.policies.rounds import SequentialHalving, SuccessiveRejects

__all__ = [
    "ASHA",
    "BlockBetting",
    "Hyperband",
    "InformationRacing",
    "MedianStopping",
    "PairedRacing",
    "Racing",
    "SequentialHalving",
    "SuccessiveHalving",
    "SuccessiveRejects",
]
