"""Pages know the same of a study as the study itself, and pay only for what is new."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from fairtrial.presentation.arrivals import Arrivals
from fairtrial.presentation.sources import lead_periods
from fairtrial.report.arms import arms
from fairtrial.report.decision import decision
from fairtrial.report.fairness import fairness
from fairtrial.report.findings import Findings
from fairtrial.report.health import health
from fairtrial.report.page import write_report
from fairtrial.server.pages import observers
from fairtrial.server.pages.observer import Observer, make_checks
from fairtrial.server.pages.observers import Observers
from fairtrial.server.readers import Readers
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.server.pages import sites


def made(name="wards", pulls=0):
    store = MemoryStore()
    policy, environment = sites.STUDIES[name]()
    study = Study.create(policy.problem, policy, storage=store, name=name, seed=5)
    sites.carry_on(study, environment, pulls)
    return study, environment


def shown(moment):
    """Return a moment as text without its effects, in which NaN equals itself."""
    return repr({key: value for key, value in moment.to_dict().items() if key != "effects"})


@pytest.mark.parametrize("name", sites.STUDIES)
def test_moments_followed_piece_by_piece_are_those_of_a_replay(name):
    study, environment = made(name)
    observer = Observer(study.session)
    for piece in (1, 3, 0, 17, 40):
        sites.carry_on(study, environment, piece, seed=piece)
        assert observer.advance(10.0).head_seq == observer.seq == study.n_events
    end = study.progress()
    followed = observer.trace(end, observer.seq)
    replayed = {moment.told: shown(moment) for moment in study.trace(points=end.told + 1)}
    assert [moment.told for moment in followed] == list(range(end.told + 1))
    assert {moment.told: shown(moment) for moment in followed} == replayed
    arrived = Arrivals.of(study.events())
    assert (arrived.asked, arrived.told) == (observer.arrivals.asked, observer.arrivals.told)
    assert arrived.delays == observer.arrivals.delays


def test_moments_stay_few_and_evenly_spaced_however_long_the_log(monkeypatch):
    monkeypatch.setattr("fairtrial.server.pages.moments._MOMENTS", 20)
    study, _environment = made("articles", 250)
    observer = Observer(study.session)
    observer.advance(10.0)
    told = [moment.told for moment in observer.trace(study.progress(), observer.seq)]
    assert 10 <= len(told) <= 22
    assert len({b - a for a, b in itertools.pairwise(told[:-1])}) == 1
    assert told[-1] == 250


@pytest.mark.parametrize("results", [1, 3, 7, 8, 9, 15, 16, 17, 150])
def test_page_and_report_of_one_log_have_the_same_history(monkeypatch, results):
    monkeypatch.setattr("fairtrial.server.pages.moments._MOMENTS", 8)
    study, environment = made("wards", 0)
    observer = Observer(study.session)
    # A page follows the log while it grows, in pieces of any size.
    for piece in range(results):
        sites.carry_on(study, environment, 1, seed=piece)
        if piece % 3 == 0:
            observer.advance(10.0)
    observer.advance(10.0)
    followed = observer.trace(study.progress(), observer.seq)
    replayed = study.trace(8)
    assert [moment.told for moment in followed] == [moment.told for moment in replayed]
    assert [*map(shown, followed)] == [*map(shown, replayed)]
    assert lead_periods(followed) == lead_periods(replayed)
    assert 8 // 2 <= len(followed) <= 8 + 1 or results < 8


def test_nothing_seems_to_happen_at_the_end_while_the_history_is_read(monkeypatch):
    monkeypatch.setattr("fairtrial.server.pages.observer._BATCH", 50)
    study, _environment = made("articles", 250)
    observer = Observer(study.session)
    observer.advance(0.0)
    assert 0 < observer.seq < study.n_events
    found = observer.observed()
    assert found.trace()[-1].told == observer.told < found.progress().told == 250
    observer.advance(10.0)
    assert observer.observed().trace()[-1].told == 250


def test_a_page_reads_no_event_twice(monkeypatch):
    study, environment = made("wards", 30)
    store, read = study.session.store, []
    records = store.records

    def counted(*where):
        for record in records(*where):
            read.append(record.seq)
            yield record

    monkeypatch.setattr(store, "records", counted)
    observer = Observer(study.session)
    observer.advance(10.0)
    assert read == list(range(1, 61))
    sites.carry_on(study, environment, 2, seed=9)
    read.clear()
    observer.advance(10.0)
    observer.advance(10.0)
    assert read == [61, 62, 63, 64]


def test_page_and_report_say_the_same_of_a_study(tmp_path):
    study, _ = made("wards", 60)
    observer = Observer(study.session)
    observer.advance(10.0)
    observer.checks = make_checks(study)
    observed = Findings.of(observer.observed(), None, arrivals=observer.arrivals)
    report = write_report(study, tmp_path / "report.html").read_text(encoding="utf-8")
    for part in (decision(observed, {}), arms(observed), fairness(observed), health(observed)):
        assert part in report


@pytest.mark.parametrize("blinded", [True, False])
def test_counts_of_health_do_not_wait_for_the_next_checks(blinded):
    study, _ = made("wards", 60)
    observer = Observer(study.session)
    observer.advance(10.0)
    observer.checks = make_checks(study)
    opened = study.ask(3)
    study.fail(opened[0], "left")
    shown = observer.observed().health(blinded=blinded)
    assert (shown["open"], shown["lost"]) == (2, 1)
    assert shown == study.health(blinded=blinded)


def test_what_arms_differ_by_is_of_the_moment_that_is_shown():
    study, environment = made("wards", 60)
    observer = Observer(study.session)
    observer.advance(10.0)
    observed = observer.observed()
    before = [effect.to_dict() for effect in study.progress().effects]
    sites.carry_on(study, environment, 40, seed=4)
    study.progress()
    assert [effect.to_dict() for effect in observed.progress().effects] == before


def _looked_at(store, times=1):
    """Return the views of a study that pages get, one after the other."""

    async def look():
        readers = Readers([store])
        watch = Observers(readers)
        found = []
        for _ in range(times):
            found.append(
                await watch.show(
                    "wards", lambda view: (view.observer.seq, view.observer.checks), "me"
                )
            )
            while watch._tasks:
                await asyncio.gather(*watch._tasks.values())
        readers.close()
        return found

    return asyncio.run(look())


def test_a_short_log_is_read_and_checked_at_once():
    study, _ = made("wards", 20)
    ((seq, checks),) = _looked_at(study.session.store)
    assert seq == checks.seq == 40
    assert checks.verification.ok


def test_a_long_log_is_read_and_checked_in_the_background(monkeypatch):
    monkeypatch.setattr(observers, "_SHORT", 10)
    monkeypatch.setattr(observers, "_SECONDS", 0.0)
    monkeypatch.setattr("fairtrial.server.pages.observer._BATCH", 10)
    study, _ = made("wards", 20)
    first, second = _looked_at(study.session.store, times=2)
    assert first == (10, None)
    assert second[0] == 40
    assert second[1].seq == 40


def test_a_log_that_was_tampered_with_is_said_to_be_so(monkeypatch):
    study, _ = made("wards", 20)
    store = study.session.store
    good = store.records

    def altered(study_id, after=0, until=None):
        for record in good(study_id, after, until):
            yield record._replace(value=0.123) if record.kind == "tell" else record

    monkeypatch.setattr(store, "records", altered)
    ((_, checks),) = _looked_at(store)
    assert not checks.verification.ok


# -------------------------------------------------------------------------- closer looks


@pytest.fixture
def coarse(monkeypatch):
    """Let few moments be kept, and states along the log."""
    monkeypatch.setattr("fairtrial.server.pages.moments._MOMENTS", 8)
    monkeypatch.setattr("fairtrial.server.pages.checkpoints._APART", 20)
    monkeypatch.setattr("fairtrial.server.pages.observer._BATCH", 10)


def looked(observer, begin, end):
    return {moment.told: shown(moment) for moment in observer.read_range(begin, end, 10.0)}


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("name", sites.STUDIES)
def test_a_closer_look_shows_the_moments_of_a_replay(name):
    study, _ = made(name, 60)
    observer = Observer(study.session)
    observer.advance(10.0)
    total = observer.told
    replayed = {moment.told: shown(moment) for moment in study.trace(points=total + 1)}
    for begin, end in ((total - 7, total), (0, 5), (total // 2, total // 2 + 6), (1, 2)):
        found = looked(observer, begin, end)
        assert list(found) == list(range(begin, end + 1))
        # At the end of the log more has happened than its last result.
        assert {told: found[told] for told in found if told < total} == {
            told: replayed[told] for told in found if told < total
        }
    assert not observer.is_reading_more


@pytest.mark.usefixtures("coarse")
def test_a_closer_look_reads_little_of_a_log(monkeypatch):
    study, _ = made("articles", 300)
    observer = Observer(study.session)
    observer.advance(10.0)
    store, read = study.session.store, []
    steps = store.steps

    def counted(*where):
        for step in steps(*where):
            read.append(step[0])
            yield step

    monkeypatch.setattr(store, "steps", counted)
    monkeypatch.setattr("fairtrial.server.pages.moments._BATCH", 10)
    assert list(looked(observer, 200, 206)) == list(range(200, 207))
    assert min(read) > 340
    assert max(read) <= 420
    read.clear()
    assert list(looked(observer, 200, 205)) == list(range(200, 206))
    assert read == []


@pytest.mark.usefixtures("coarse")
def test_a_look_at_the_newest_results_reads_only_what_is_new(monkeypatch):
    study, environment = made("articles", 100)
    observer = Observer(study.session)
    observer.advance(10.0)
    assert list(looked(observer, 95, 100)) == [95, 96, 97, 98, 99, 100]
    sites.carry_on(study, environment, 2, seed=3)
    observer.advance(10.0)
    monkeypatch.setattr(observer._checkpoints, "before", None)
    assert list(looked(observer, 95, 102)) == [95, 96, 97, 98, 99, 100, 101, 102]


@pytest.mark.usefixtures("coarse")
def test_what_a_request_has_no_time_for_is_read_in_the_background(monkeypatch):
    monkeypatch.setattr("fairtrial.server.pages.moments._BATCH", 4)
    study, _ = made("wards", 60)

    async def look():
        readers = Readers([study.session.store])
        watch = Observers(readers)

        def page(view):
            found = view.observer.read_range(40, 48, 0.0)
            return [moment.told for moment in found], view.observer.is_reading_more

        found = [await watch.show("wards", page, "me")]
        while watch._tasks:
            await asyncio.gather(*watch._tasks.values())
        found.append(await watch.show("wards", page, "me"))
        readers.close()
        return found

    first, second = asyncio.run(look())
    assert len(first[0]) < 9
    assert first[1]
    assert second == (list(range(40, 49)), False)


@pytest.mark.usefixtures("coarse")
def test_few_looks_and_few_states_are_kept(monkeypatch):
    monkeypatch.setattr("fairtrial.server.pages.checkpoints._MOST", 4)
    study, _ = made("articles", 250)
    observer = Observer(study.session)
    observer.advance(10.0)
    assert 2 <= len(observer._checkpoints._kept) <= 4
    for begin in range(0, 200, 10):
        observer.read_range(begin, begin + 5, 10.0)
    assert len(observer._looks) == 4


@pytest.mark.usefixtures("coarse")
def test_a_policy_whose_state_cannot_be_saved_is_replayed_from_the_start(monkeypatch):
    monkeypatch.setattr("fairtrial.study.snapshots.undeclared", lambda _: ["memory"])
    study, _ = made("wards", 40)
    observer = Observer(study.session)
    observer.advance(10.0)
    assert observer._checkpoints._kept == []
    assert list(looked(observer, 30, 35)) == list(range(30, 36))


@pytest.mark.usefixtures("coarse")
def test_a_study_stopped_by_hand_is_looked_at_as_any_other():
    study, _ = made("wards", 40)
    pulls = study.ask(30)
    study.stop("enough")
    for pull in pulls:
        study.tell(pull, 0.5)
    observer = Observer(study.session)
    observer.advance(10.0)
    assert observer._checkpoints._kept[-1].stop_reason == "enough"
    last = [*study.trace(points=71)][-4]
    found = looked(observer, 64, 70)
    assert list(found) == list(range(64, 71))
    assert found[last.told] == shown(last)
