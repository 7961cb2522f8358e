"""A client sees the same of a study as the owner of the storage, in every family."""

import itertools

import numpy as np
import pandas as pd
import pytest

import fairtrial as ft
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.client.served import served
from tests.effort import runs
from tests.testing.families import POLICIES

CHOSEN = [
    "subpopulations-intervals-BlockBetting",
    "linear-best_two-LinGapE",
    "linear-limited-BlockBetting",
    "delayed-early_readings-InformationRacing",
    "allocation-share_groups-FairLearn",
    "causal-observed_interventions-BlockBetting",
]
ROWS = [row for row in POLICIES if row.name in CHOSEN]
assert len(ROWS) == len(CHOSEN)


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def views(request):
    """The same study with a history twice: from the storage, and from a client."""
    policy, environment = request.param.make()
    store = MemoryStore()
    local = Study.create(policy.problem, policy, storage=store, name="a/b ü?", seed=3, secret=None)
    play(local, environment)
    with served(store) as service, service.connect("ana", "read", "run") as connection:
        yield local, connection.study("a/b ü?")


def play(study, environment):
    rng = np.random.default_rng(5)
    for _ in range(runs(3, whole=8)):
        pulls = study.ask(8, worker="lab")
        for pull in pulls[:6]:
            if study.problem.has_readings:
                study.report(pull, 0.5, stage=1)
            study.tell(pull, environment.sample(pull, rng), actor="nurse")
        for pull in pulls[6:7]:
            study.fail(pull, "spoilt")
    for pull in itertools.islice(study.outstanding(), 1):
        study.extend(pull, 3600.0)


def test_answers_are_the_same(views):
    local, remote = views
    assert remote.recommend().to_dict() == local.recommend().to_dict()
    assert type(remote.recommend().leader) is type(local.recommend().leader)
    assert remote.recommend().candidates == local.recommend().candidates
    assert remote.progress().to_dict() == local.progress().to_dict()
    assert [one.to_dict() for one in remote.trace(5)] == [one.to_dict() for one in local.trace(5)]
    assert remote.weighted_means() == local.weighted_means()
    assert (remote.status, remote.stopped) == (local.status, local.stopped)


def test_health_and_audit_are_the_same(views):
    local, remote = views
    assert remote.health() == local.health()
    assert remote.health(blinded=True) == local.health(blinded=True)
    assert remote.verify() == local.verify()
    assert remote.verify(remote.head_hash).ok
    assert remote.verify("0" * 64) == local.verify("0" * 64)


def test_facts_are_the_same(views):
    local, remote = views
    assert remote.problem == local.problem
    assert remote.seed == local.seed
    assert repr(remote.policy) == repr(local.policy)
    assert (remote.head_hash, remote.n_events) == (local.head_hash, local.n_events)
    assert remote.storage_software == local.storage_software


def test_pulls_are_the_same(views):
    local, remote = views
    for mine, theirs in zip(remote.outstanding(), local.outstanding(), strict=True):
        assert (mine.id, repr(mine), mine.tag) == (theirs.id, repr(theirs), theirs.tag)
        assert mine.propensity == theirs.propensity
        assert remote.should_stop(mine) == local.should_stop(theirs)
        assert mine.should_stop() == theirs.should_stop()
    assert remote.to_cancel() == local.to_cancel()


def test_the_log_is_the_same_but_for_what_fixes_the_secret(views):
    local, remote = views
    for mine, theirs in zip(remote.events(), local.events(), strict=True):
        if theirs.seq == 1:
            assert "secret_sha256" not in mine.body
            continue
        assert mine == theirs
    assert [event.seq for event in remote.events(after=4)] == [
        event.seq for event in local.events(after=4)
    ]
    here, there = remote.history(), local.history()
    pd.testing.assert_frame_equal(here.drop(1), there.drop(1))
    assert list(here.dtypes) == list(there.dtypes)


def test_reports_are_the_same(views, tmp_path):
    for blinded in (False, True):
        pages = [
            ft.write_report(study, tmp_path / f"{place}.html", blinded=blinded).read_bytes()
            for place, study in enumerate(views)
        ]
        assert pages[0] == pages[1]


def test_pictures_are_the_same(views, tmp_path):
    import matplotlib.pyplot as plt

    pictures = []
    for place, study in enumerate(views):
        figure = ft.plots.overview(study)
        figure.savefig(tmp_path / f"{place}.png", metadata={"Software": None}, dpi=40)
        plt.close(figure)
        pictures.append((tmp_path / f"{place}.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_exports_are_the_same(views, tmp_path):
    local, remote = views
    for ending in ("csv", "parquet"):
        mine = remote.export(tmp_path / f"remote.{ending}").read_bytes()
        assert mine == local.export(tmp_path / f"local.{ending}").read_bytes()
    log = remote.export(tmp_path / "log.jsonl").read_text()
    if local.secret:
        assert local.secret not in log
