"""A power cut after every write and every flush: what was acknowledged is there, or all before it.

Everything that was written since the last flush of a file is thrown away; or a random part of it,
torn at sectors, survives, as on real disks.
"""

import random
from functools import partial

import pytest

from fairtrial.errors import CorruptLog
from fairtrial.study import Study, accept_loss, list_studies, sqlite
from fairtrial.study.group import Action, Group
from fairtrial.study.head_file import Head, HeadFile
from tests.study.toys import OWN, Serving, ToyProblem

pytest.importorskip("apsw")
from tests import effort
from tests.study.bundled import BundledStore, Recording

SECTOR = 512


class Disk:
    """The state of the disk while writes and flushes of files are played back."""

    def __init__(self):
        self.durable = {}
        self.pending = {}

    def play(self, what, name, *more):
        if what == "sync":
            for change in self.pending.pop(name, []):
                self.durable[name] = applied(self.durable.get(name, b""), *change)
        elif what == "delete":
            self.durable.pop(name, None)
            self.pending.pop(name, None)
        else:
            self.pending.setdefault(name, []).append((what, *more))

    def after_a_cut(self, chance=None):
        """Return the contents that are left; with a random source, some unflushed parts as well."""
        left = dict(self.durable)
        for name, changes in self.pending.items() if chance else ():
            for change in changes:
                if chance.random() < 0.5:
                    left[name] = applied(left.get(name, b""), *torn(change, chance))
        return left


def applied(content, what, *more):
    if what == "truncate":
        return content[: more[0]]
    offset, data = more
    content = content.ljust(offset, b"\0")
    return content[:offset] + data + content[offset + len(data) :]


def torn(change, chance):
    if change[0] == "truncate" or chance.random() < 0.5:
        return change
    what, offset, data = change
    return what, offset, data[: chance.randrange(0, len(data), SECTOR) or SECTOR]


@pytest.fixture(params=["full", "process"])
def played(request, path, monkeypatch):
    """The durability, and all writes of a study: to the disk, and back to its caller."""
    monkeypatch.setattr(sqlite, "_MOVE_EVERY", 10)
    recording = Recording()
    monkeypatch.setattr(BundledStore, "vfs", "recording")
    problem = ToyProblem()
    storage = BundledStore(path, request.param)
    study = Study.create(problem, Serving(problem), storage=storage, name="toy", seed=7)

    def acknowledge():
        recording.happened.append(("acknowledged", [event.hash for event in study.events()]))

    acknowledge()
    for number in range(6):
        pulls = study.ask(1 + number % 3, lease=60)
        acknowledge()
        # These are never flushed; what follows them must be safe all the same.
        for pull in pulls:
            study.extend(pull, 3_600)
        if number % 2:
            together(study, [partial(study.tell, pull, 0.5) for pull in pulls] + [study.ask])
        else:
            study.tell_many([(pull, 0.5) for pull in pulls])
        acknowledge()
    study.snapshot()
    study.close()
    storage.close()
    recording.unregister()
    return request.param, recording.happened


def together(study, writes):
    """Carry out several writes in one commit."""
    study.session.committer = group = Group(study.session.store)
    outcomes = group.carry_out([Action(study.session, write) for write in writes])
    assert [outcome.error for outcome in outcomes] == [None] * len(writes)
    study.session.committer = None


def images(happened, chance):
    """Yield what a power cut leaves after each write and flush, and what was acknowledged."""
    disk, acknowledged = Disk(), None
    for place, (what, *more) in enumerate(happened):
        if what == "acknowledged":
            [acknowledged] = more
            continue
        disk.play(what, *more)
        yield disk.after_a_cut(), acknowledged
        if effort.long or place % 3 == 0:
            yield disk.after_a_cut(chance), acknowledged


def left(path, image):
    """Write the files of an image, with no others beside them."""
    path.parent.mkdir()
    for ending, content in image.items():
        path.with_name(f"{path.name}{ending}").write_bytes(content)
    return path


def log(path):
    """Return the hashes of the log, after an audit."""
    with Study.open(path, "toy", **OWN) as study:
        assert study.verify().ok
        return [event.hash for event in study.events()]


def has_study(path):
    return bool(list_studies(path))


@pytest.mark.slow
def test_a_power_cut_takes_nothing_that_was_acknowledged_or_only_the_end(played, tmp_path):
    durability, happened = played
    chance = random.Random(5)
    whole = [more for what, *more in happened if what == "acknowledged"][-1][0]
    cuts = shortened = 0
    for image, acknowledged in images(happened, chance):
        if acknowledged is None:
            continue
        cuts += 1
        path = left(tmp_path / str(cuts) / "trial.db", image)
        # The head file is not flushed: the remaining one may be older, but not newer.
        noted = chance.randrange(len(acknowledged) + 1)
        head = Head(noted, acknowledged[noted - 1] if noted else "none")
        HeadFile(path).note({1: head})
        try:
            found = log(path)
        except CorruptLog:
            # Reported, and allowed only if a power cut may remove the end.
            assert durability == "process"
            shortened += 1
            accept_loss(path)
            found = log(path) if has_study(path) else []
        assert found == whole[: len(found)]
        if durability == "full":
            assert len(found) >= len(acknowledged)
    assert cuts > 60
    assert (shortened > 0) == (durability == "process")
