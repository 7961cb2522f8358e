"""What goes wrong in a simulation, and how often: drawn by its seed."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulator.scheduler import Scheduler

_RATES: Mapping[str, tuple[float, ...]] = {
    "switch": (0.05, 0.2, 0.6),
    "busy": (0.0, 0.0, 0.05),
    "disk error": (0.0, 0.0, 0.01, 0.05),
    "commit fails": (0.0, 0.0, 0.03, 0.2),
    "undone by the database": (0.5,),
    "unknown commit": (0.0, 0.03, 0.15),
    "interrupt": (0.0, 0.0, 0.01, 0.04),
    "request lost": (0.0, 0.03, 0.15),
    "answer lost": (0.0, 0.03, 0.15),
    "request doubled": (0.0, 0.05, 0.2),
    "connection refused": (0.0, 0.03),
    "worker dies": (0.0, 0.0, 0.1),
    "result is none": (0.0, 0.05, 0.2),
}
"""The probability of each event is drawn from these: some seeds have none, some much."""

_EVENTS: Mapping[str, tuple[float, ...]] = {
    "kill": (0.0, 1.0, 4.0),
    "stop": (0.0, 1.0),
    "clock jumps": (0.0, 1.0),
    "snapshots cut": (0.0, 1.0),
    "snapshots dropped": (0.0, 1.0),
    "disk full": (0.0, 1.0),
    "file busy": (0.0, 1.0),
    "cut off": (0.0, 1.0),
    "nothing": (1.0,),
}
"""The same for events that affect everything at once: weights."""


class Luck:
    """The probabilities of events; and the clock of the machine, which may jump.

    Parameters
    ----------
    scheduler : Scheduler
        Makes all random choices.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._chance = scheduler.chance
        self._scheduler = scheduler
        self.rates = {name: self._chance.choice(rates) for name, rates in _RATES.items()}
        self.events = {name: self._chance.choice(rates) for name, rates in _EVENTS.items()}
        self.is_disk_full = False
        self.is_cut_off = False
        self.is_file_busy = False
        self.is_good = True
        self._offset = 1_800_000_000.0

    def has(self, name: str) -> bool:
        """Draw whether an event happens now; even when nothing fails, tasks take turns."""
        task = self._scheduler.current
        if task is None or (self.is_good and name != "switch"):
            return False
        if name == "interrupt" and task.name != "main":
            # Only the main thread of a process gets Ctrl-C.
            return False
        return self._chance.random() < self.rates[name]

    def clock(self) -> float:
        """Return the machine's time, in seconds since 1970."""
        return self._offset + self._scheduler.seconds

    def jump(self, seconds: float) -> None:
        """Let the clock jump."""
        self._offset += seconds

    def mend(self) -> None:
        """Let nothing go wrong any more."""
        self.is_good = True
        self.is_disk_full = self.is_cut_off = self.is_file_busy = False
