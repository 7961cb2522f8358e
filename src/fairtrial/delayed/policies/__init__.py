"""The policies of the family."""

from fairtrial.delayed.policies.information import InformationRacing
from fairtrial.delayed.policies.racing import Racing

__all__ = ["InformationRacing", "Racing"]
