"""Long reads: what they do when nobody waits for them, and beside others."""

import pytest

from fairtrial.errors import StorageBusy
from fairtrial.study import long_reads
from fairtrial.study.long_reads import LongRead, interruptible, keep_going
from tests.messages import raises


class Clock:
    """Stands for the module `time`: work takes `advance` seconds, and sleeping takes its time."""

    def __init__(self):
        self.now, self.slept = 1_000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(long_reads, "time", clock)
    return clock


def test_a_read_that_gives_way_sleeps_for_as_long_as_it_worked(clock):
    with interruptible(LongRead(gives_way=True)):
        for worked in (0.004, 0.03):
            clock.now += worked
            keep_going()
    assert clock.slept == pytest.approx([0.004, 0.03])


def test_a_read_that_gives_way_is_not_delayed_by_a_long_wait_before_it(clock):
    read = LongRead(gives_way=True)
    clock.now += 60.0
    with interruptible(read):
        keep_going()
    assert sum(clock.slept) <= 0.1


def test_other_reads_never_sleep(clock):
    with interruptible(LongRead()):
        clock.now += 1.0
        keep_going()
    assert clock.slept == []


def test_an_abandoned_read_ends(clock):
    read = LongRead()
    read.is_abandoned = True
    with interruptible(read), raises(StorageBusy):
        keep_going()
    assert read.events == 0
