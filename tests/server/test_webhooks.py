import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fairtrial.errors import InvalidArgument, StorageUnreachable
from fairtrial.races import race
from fairtrial.server.telemetry import Telemetry
from fairtrial.server.webhooks import Webhooks, check_webhook, signature
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.client.scripted import Answer, scripted
from tests.messages import raises

KEY = b"k" * 32
OK, FAILING = Answer(204, ""), Answer(500, {"detail": "oops"})


@pytest.fixture
def clock(monkeypatch):
    """A clock of the webhooks that is advanced by hand."""
    passed = [0.0]
    moving = SimpleNamespace(
        **{**vars(time), "monotonic": lambda: 1e6 + passed[0], "time": lambda: 1.7e9 + passed[0]}
    )
    monkeypatch.setattr("fairtrial.server.webhooks.time", moving)
    return lambda seconds: passed.__setitem__(0, passed[0] + seconds)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def study(store):
    problem = Problem(["old", "new"], ["young", "aged"], reward_range=(0, 1))
    policy = BlockBetting(problem, delta=0.05)
    return Study.create(problem, policy, storage=store, name="trial", seed=1, secret="s")


def webhooks(url, store, **options):
    return Webhooks(url, KEY, store, lambda name: Study.open(store, name), Telemetry(), **options)


def finish(study):
    pulls = study.ask(1)
    while pulls:
        pulls = study.tell_and_ask(pulls[0], 0.9 if pulls[0].arm == "new" else 0.1, 1)


def told(script):
    return [(r.body["type"], r.body["data"]["message"]) for r in script.requests]


def test_a_study_that_runs_and_is_well_gives_nothing_to_tell(study, store, clock):
    study.tell(study.ask(), 0.5)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        hooks.work()
    assert not script.requests


def test_that_a_study_has_stopped_is_told_once_also_after_a_restart(study, store, clock):
    finish(study)
    with scripted(OK) as script:
        for _ in range(2):
            hooks = webhooks(script.url, store)
            for _ in range(2):
                hooks.changed(["trial"])
                hooks.work()
    (request,) = script.requests
    assert request.body["type"] == "study.stopped"
    assert request.body["data"]["study"] == "trial"
    assert request.body["data"]["events"] == study.n_events


def test_nothing_of_the_results_is_told(study, store, clock):
    finish(study)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        hooks.work()
    text = json.dumps(script.requests[0].body)
    assert study.recommend().arm == "new"
    for word in ("new", "old", "0.9", "decided", "young"):
        assert word not in text


def test_that_a_race_has_ended_is_told_once_and_without_its_answer(store, clock):
    scores = {"old": [0.1] * 60, "new": [0.9] * 60}
    result = race(["old", "new"], range(60), scores, reward_range=(0, 1), storage=store)
    assert result.best == "new"
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        for _ in range(2):
            hooks.changed(["race"])
            hooks.work()
    assert told(script) == [("study.stopped", "the study has stopped and issues no more pulls")]


def test_what_is_not_delivered_is_tried_again_with_growing_pauses_and_one_id(study, store, clock):
    finish(study)
    with scripted(FAILING, Answer(None), Answer(302, "", {"Location": "/"}), FAILING, OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        pauses = []
        while len(script.requests) < 5:
            pause = hooks.work()
            pauses.append(pause)
            clock(pause)
        assert store.notices(store.find_study("trial").id) == {
            script.requests[0].headers["webhook-id"]
        }
        clock(100)
        hooks.work()
    assert len(script.requests) == 5
    assert len({request.headers["webhook-id"] for request in script.requests}) == 1
    for number, pause in enumerate(pauses[:4]):
        assert 0.5 * 2**number <= pause <= 2**number


def test_what_was_not_delivered_before_a_restart_is_delivered_after_it(study, store, clock):
    finish(study)
    with scripted(FAILING, OK) as script:
        for _ in range(2):
            hooks = webhooks(script.url, store)
            hooks.changed(["trial"])
            hooks.work()
    first, second = script.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_a_message_is_signed_over_its_id_its_time_and_its_body(study, store, clock):
    finish(study)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        hooks.work()
    (request,) = script.requests
    headers, body = request.headers, json.dumps(request.body).encode()
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-timestamp"] == "1700000000"


def test_the_signature_is_that_of_the_standard():
    # The example in the specification of Standard Webhooks.
    _, key = check_webhook("https://x.org/hook", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    identity = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert signature(key, identity, 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_a_warning_is_told_once_however_its_numbers_change(study, store, clock):
    # Only one of two groups arrives.
    with scripted(OK) as script:
        hooks = webhooks(script.url, store, warnings_every=60.0)
        for _ in range(8):
            for pull in study.ask(25, group="young"):
                study.tell(pull, 0.5)
            hooks.changed(["trial"])
            clock(61)
            hooks.work()
    warnings = [message for kind, message in told(script) if kind == "study.warning"]
    assert study.health()["warnings"]
    [message] = warnings
    assert "in other proportions" in message


def test_the_log_of_a_busy_study_is_not_read_at_every_commit(study, store, clock, monkeypatch):
    looks = []
    warnings = Study.warnings_to_send
    monkeypatch.setattr(Study, "warnings_to_send", lambda study: looks.append(1) or warnings(study))
    with scripted(OK) as script:
        hooks = webhooks(script.url, store, warnings_every=60.0)
        for _ in range(10):
            study.tell(study.ask(), 0.5)
            hooks.changed(["trial"])
            clock(10)
            hooks.work()
    assert len(looks) == 2


def test_a_warning_that_came_between_two_looks_is_told_without_a_further_write(study, store, clock):
    with scripted(OK) as script:
        hooks = webhooks(script.url, store, warnings_every=60.0)
        hooks.changed(["trial"])
        hooks.work()
        for pull in study.ask(200, group="young"):
            study.tell(pull, 0.5)
        hooks.changed(["trial"])
        pause = hooks.work()
        assert not script.requests
        clock(pause)
        hooks.work()
    assert {kind for kind, _ in told(script)} == {"study.warning"}


def test_a_guarantee_that_falls_is_told(store, clock):
    from fairtrial.delayed import InformationRacing
    from fairtrial.delayed import Problem as LateProblem

    problem = LateProblem(["a", "b"], noise_std=0.1)
    study = Study.create(problem, InformationRacing(problem), storage=store, name="late", seed=1)
    before = study.recommend().guarantee.label
    pull = study.ask()
    study.tell(pull, 0.5)
    study.amend(pull, 0.4, "read wrong")
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["late"])
        hooks.work()
    assert (before, study.recommend().guarantee.label) == ("proven", "heuristic")
    assert (
        "study.guarantee_fell",
        "the guarantee is heuristic and no longer proven: the study says why",
    ) in told(script)


def test_a_log_that_was_altered_is_told(tmp_path, clock):
    from fairtrial.study.sqlite import SQLiteStore
    from tests.study.tools import connect

    problem = Problem(["old", "new"], ["x"], reward_range=(0, 1))
    path = tmp_path / "trial.db"
    with Study.create(problem, BlockBetting(problem), storage=path, name="trial", seed=1) as study:
        study.tell(study.ask(), 0.5)
    with contextlib.closing(connect(path)) as connection:
        connection.execute("DROP TRIGGER event_is_never_changed")
        connection.execute("UPDATE event SET value = 0.75 WHERE kind = 'tell'")
    store = SQLiteStore(path)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        hooks.work()
    store.close()
    assert [kind for kind, _ in told(script)] == ["study.verification_failed"]


def test_a_study_that_is_written_to_all_the_time_is_not_looked_at_all_the_time(
    study, store, monkeypatch
):
    monkeypatch.setattr("fairtrial.server.webhooks._BETWEEN_LOOKS", 0.2)
    looks = []
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        look = hooks._look
        hooks._look = lambda name: looks.append(name) or look(name)
        hooks.start()
        began = time.monotonic()
        while time.monotonic() - began < 1:
            hooks.changed(["trial"])
            time.sleep(0.001)
        hooks.close()
    assert 1 <= len(looks) <= 6


def test_an_address_that_never_answers_keeps_nobody_waiting(study, store):
    finish(study)
    stuck = threading.Event()
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks._http.post = lambda *_, **__: stuck.wait(30)
        hooks.start()
        began = time.monotonic()
        for _ in range(100):
            hooks.changed(["trial"])
        assert time.monotonic() - began < 1
        stuck.set()
        hooks.close()


def test_a_thread_of_its_own_delivers(study, store):
    finish(study)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.start()
        for _ in range(500):
            if store.notices(store.find_study("trial").id):
                break
            time.sleep(0.01)
        hooks.close()
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.1/hook", "ftp://x", "", None, "https://", "https://u:p@x.org", "https://x:0x"],
)
def test_an_address_that_is_not_safe_is_refused(url):
    with raises(InvalidArgument, "webhook", given=url):
        check_webhook(url, "s" * 32)


@pytest.mark.parametrize("secret", ["", "short", "whsec_!!", "whsec_c2hvcnQ=", None, 3])
def test_a_weak_secret_is_refused_and_not_shown(secret):
    with raises(InvalidArgument, "webhook secret") as caught:
        check_webhook("https://x.org", secret)
    assert "short" not in str(caught.value)


def test_an_address_that_answers_without_an_end_keeps_no_message_from_others(study, store, clock):
    finish(study)
    with endless_answers() as url:
        hooks = webhooks(url, store)
        hooks.changed(["trial"])
        working = threading.Thread(target=hooks.work, daemon=True)
        working.start()
        working.join(30)
        assert not working.is_alive()
    assert len(store.notices(store.find_study("trial").id)) == 1


@contextlib.contextmanager
def endless_answers():
    """Yield the address of a server whose answers have no end."""
    is_over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not is_over.wait(0.01):
                connection.sendall(b"1\r\nx\r\n")

    answering = threading.Thread(target=answer)
    answering.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    is_over.set()
    answering.join()
    listening.close()


class Away:
    """A storage that cannot be reached at some of its calls."""

    def __init__(self, store):
        self._store = store
        self.calls = 0
        self.away = range(0)

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments, **options):
            self.calls += 1
            if self.calls in self.away:
                raise StorageUnreachable("the storage is away")
            return found(*arguments, **options)

        return call


def delivered(store, away, clock, url):
    """Let webhooks work, from a start on, until nothing more happens; return how often."""
    faulty = Away(store)
    faulty.away = away

    def opened(name):
        faulty.find_study(name)
        return Study.open(store, name)

    hooks = Webhooks(url, KEY, faulty, opened, Telemetry())
    hooks.scan()
    for _ in range(30):
        clock(max(min(hooks.scan(), hooks.work()), 1.0))
    return faulty.calls


@pytest.mark.parametrize("lasts", [1, 3])
@pytest.mark.parametrize("first", range(1, 8))
def test_a_storage_that_is_away_at_any_step_delays_a_message_and_loses_and_doubles_none(
    study, store, clock, first, lasts
):
    finish(study)
    with scripted(OK) as script:
        assert delivered(store, range(first, first + lasts), clock, script.url) > first + lasts
    assert [request.body["type"] for request in script.requests] == ["study.stopped"]
    assert len(store.notices(store.find_study("trial").id)) == 1


def test_a_check_that_failed_is_made_again_soon(study, store, clock, monkeypatch):
    verify, failing = Study.verify, [True]

    def verified(opened, *arguments):
        if failing[0]:
            raise StorageUnreachable("the storage is away")
        return replace(verify(opened, *arguments), ok=False)

    monkeypatch.setattr(Study, "verify", verified)
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.changed(["trial"])
        clock(hooks.work())
        failing[0] = False
        hooks.work()
    assert [kind for kind, _ in told(script)] == ["study.verification_failed"]


def test_what_another_process_has_done_is_found(study, store, clock):
    with scripted(OK) as script:
        hooks = webhooks(script.url, store)
        hooks.scan()
        hooks.work()
        assert not script.requests
        finish(study)
        clock(hooks.scan())
        hooks.scan()
        hooks.work()
    assert [kind for kind, _ in told(script)] == ["study.stopped"]


def test_a_service_that_is_killed_between_delivery_and_record_sends_the_same_id_again(
    study, store, clock
):
    finish(study)
    with scripted(OK) as script:
        for _ in range(2):
            hooks = webhooks(script.url, store)
            hooks._record = lambda _: None
            hooks.changed(["trial"])
            hooks.work()
        # While it runs, it does not send again what was accepted.
        hooks.work()
    first, second = script.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_a_thread_whose_storage_is_away_at_the_start_delivers_later(study, store, monkeypatch):
    monkeypatch.setattr("fairtrial.server.webhooks._BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr("fairtrial.server.webhooks._FIRST_PAUSE", 0.01)
    finish(study)
    faulty = Away(store)
    faulty.away = range(1, 20)
    with scripted(OK) as script:
        hooks = Webhooks(script.url, KEY, faulty, lambda name: Study.open(store, name), Telemetry())
        hooks.start()
        deadline = time.monotonic() + 30
        while not store.notices(store.find_study("trial").id) and time.monotonic() < deadline:
            time.sleep(0.01)
        hooks.close()
    assert len(script.requests) == 1
