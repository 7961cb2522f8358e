"""Races: which candidate is best on a list of items, with few evaluations and a guarantee."""

from fairtrial.races.result import RaceResult
from fairtrial.races.running import race

__all__ = ["RaceResult", "race"]
