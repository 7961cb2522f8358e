"""Reads over HTTP: the same as from a local study; pages, streams, and waiting for events."""

import asyncio
import json
import math
import threading
import time
import tracemalloc

import httpx
import pytest

from fairtrial.presentation.limits import document_of
from fairtrial.server import create_app
from fairtrial.server.documents import to_text
from fairtrial.server.settings import Settings
from fairtrial.study import Study, Tokens
from fairtrial.study.sqlite import SQLiteStore
from tests import effort
from tests.study.tools import PATIENCE
from tests.study.toys import OWN, Serving, ToyProblem

URL = "/v1/studies/trial"
NDJSON = {"Accept": "application/x-ndjson"}


@pytest.fixture
def told(service):
    """A service whose study has twenty results."""
    for pull in service.run.ask(20):
        value = 0.75 if pull["labels"]["arm"] == "a" else 0.25
        service.run.post(f"{URL}/pulls/{pull['id']}/tell", {"value": value})
    return service


def test_results_are_those_of_the_study(told):
    study = told.study()
    get = told.read.get
    assert get(f"{URL}/recommendation").json() == json.loads(to_text(study.recommend().to_dict()))
    assert get(f"{URL}/progress").json() == json.loads(to_text(document_of(study.progress())))
    assert get(f"{URL}/health").json() == study.health()
    assert get(f"{URL}/weighted_means").json() == {"weighted_means": study.weighted_means()}
    trace = [document_of(moment) for moment in study.trace(3)]
    assert get(f"{URL}/trace?points=3").json() == json.loads(to_text({"trace": trace}))


def test_numbers_that_json_has_no_word_for_are_spelled():
    spelled = to_text({"a": [math.inf, (-math.inf,)], "b": {"c": math.nan, "d": 1.5}})
    assert json.loads(spelled) == {
        "a": ["Infinity", ["-Infinity"]],
        "b": {"c": "NaN", "d": 1.5},
    }


def test_the_log_is_read_page_by_page(told):
    seen, after = [], 0
    while after is not None:
        page = told.read.get(f"{URL}/events?after={after}&limit=7").json()
        seen += page["events"]
        after = page["next"]
    assert [event["seq"] for event in seen] == list(range(1, 41))
    assert [event["hash"] for event in seen] == [event.hash for event in told.study().events()]
    assert told.read.get(f"{URL}/events?after=40").json() == {"events": [], "next": None}
    for query in ("after=-1", "after=x", "limit=0", "limit=1001", f"after={2**63}", "wait=-1"):
        assert told.read.get(f"{URL}/events?{query}").status_code == 422


def test_the_log_is_a_stream_of_lines(told):
    answer = told.read.get(f"{URL}/events?after=3", headers=NDJSON)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["seq"] for line in lines] == list(range(4, 41))


def test_exports_are_files_with_a_harmless_name(told):
    told.admin.create('x"\r\n/../ß')
    for kind in ("jsonl", "csv"):
        answer = told.read.get(f"{URL}/export?format={kind}")
        assert answer.status_code == 200
        said = f"attachment; filename=\"trial.{kind}\"; filename*=UTF-8''trial.{kind}"
        assert answer.headers["content-disposition"] == said
        assert len(answer.text.splitlines()) == 41
    assert told.read.get(f"{URL}/export?format=exe").status_code == 422


def test_an_export_with_the_secret_can_be_imported(told, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(told.admin.get(f"{URL}/export?secret=true").content)
    with Study.import_log(path, storage="memory://") as copy:
        assert copy.head_hash == told.study().head_hash


def test_no_file_of_an_export_is_left(told, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert told.read.get(f"{URL}/export?format=parquet").status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_an_audit_compares_with_a_hash_that_was_noted(told):
    head = told.study().head_hash
    assert told.read.get(f"{URL}/verify?head={head}").json()["ok"] is True
    found = told.read.get(f"{URL}/verify?head={'0' * 64}").json()
    assert found["ok"] is False
    assert "0000" in found["first_difference"]
    assert told.read.get(f"{URL}/verify?head=x").status_code == 422


# ----------------------------------------------------------------------------- waiting


def test_an_event_that_is_there_is_not_waited_for(told):
    answer = told.read.get(f"{URL}/events?after=39&wait=30")
    assert [event["seq"] for event in answer.json()["events"]] == [40]


def test_waiting_ends_without_an_event(told):
    begin = time.monotonic()
    assert told.read.get(f"{URL}/events?after=40&wait=0.3").json()["events"] == []
    assert time.monotonic() - begin >= 0.3
    assert told.run.get(f"{URL}?after=40&wait=0.1").json()["head_seq"] == 40


def waiting(caller, path):
    found = []
    thread = threading.Thread(target=lambda: found.append(caller.get(path).json()))
    thread.start()
    return thread, found


@pytest.mark.parametrize("who", ["this service", "another program"])
def test_a_request_is_woken_by_an_event_of(who, serve, tmp_path):
    store = SQLiteStore(tmp_path / "studies.db", "process")
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=store, name="trial", seed=7)
    service = serve(store, longest_wait=PATIENCE)
    events, found = waiting(service.read, f"{URL}/events?after=0&wait={PATIENCE}")
    head, shown = waiting(service.run, f"{URL}?after=0&wait={PATIENCE}")
    time.sleep(0.2)
    if who == "this service":
        service.run.ask()
    else:
        with Study.open(tmp_path / "studies.db", "trial", **OWN) as study:
            study.ask()
    events.join()
    head.join()
    assert [event["kind"] for event in found[0]["events"]] == ["ask"]
    assert shown[0]["head_seq"] == 1


def test_a_write_to_one_study_wakes_nobody_who_waits_for_another(serve, tmp_path):
    store = SQLiteStore(tmp_path / "studies.db", "process")
    problem = ToyProblem()
    for name in ("trial", "other"):
        Study.create(problem, Serving(problem), storage=store, name=name, seed=7)
    service = serve(store, longest_wait=PATIENCE)
    heads = service.app.state.service.heads
    looks = []
    look = heads._head
    heads._head = lambda study: looks.append(study) or look(study)
    thread, found = waiting(service.read, f"{URL}/events?after=0&wait={PATIENCE}")
    while not looks:
        time.sleep(0.01)
    for _ in range(20):
        service.run.ask(study="other")
        time.sleep(0.01)
    # The first look, and at most one because the length of the log was not known yet.
    assert len(looks) <= 2
    service.run.ask()
    thread.join()
    assert len(found[0]["events"]) == 1


def test_nobody_waits_for_a_service_that_ends(serve):
    service = serve(longest_wait=PATIENCE)
    service.admin.create()
    thread, found = waiting(service.read, f"{URL}/events?after=0&wait={PATIENCE}")
    time.sleep(0.2)
    service.app.state.service.heads.close()
    thread.join()
    assert found[0]["events"] == []


# ----------------------------------------------------------------------------- streams


def test_a_long_log_is_streamed_in_little_memory(tmp_path):
    """The memory of a stream does not grow with the log, nor with a slow reader."""
    events = effort.runs(20_000, whole=200_000)
    store = SQLiteStore(tmp_path / "studies.db", "process")
    problem = ToyProblem()
    with Study.create(problem, Serving(problem), storage=store, name="trial", seed=7) as study:
        for _ in range(events // 10_000):
            study.ask(10_000)
    with Tokens(store) as tokens:
        _, secret = tokens.create("reader", ["read"])
    app = create_app(store, settings=Settings(), policies=OWN["policies"], problems=OWN["problems"])
    lines, peak = asyncio.run(streamed(app, secret))
    assert lines == events
    # Several pages of a thousand events; the whole log takes 300 bytes per event and more.
    assert peak < 6e6
    app.state.service.close()
    store.close()


async def streamed(app, secret):
    """Return the number of lines, and the largest memory in use meanwhile."""
    lines = 0
    headers = [(b"host", b"localhost"), (b"accept", b"application/x-ndjson")]
    headers.append((b"authorization", f"Bearer {secret}".encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"{URL}/events",
        "raw_path": f"{URL}/events".encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }

    async def receive():
        await asyncio.sleep(PATIENCE)

    async def send(message):
        nonlocal lines
        lines += message.get("body", b"").count(b"\n")
        if lines == 10_000:
            # What the first pages have loaded stays in memory.
            tracemalloc.start()

    await app(scope, receive, send)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return lines, peak


def test_a_page_that_takes_long_keeps_no_write_waiting(tmp_path):
    """While the storage is read, writes are answered, because they use their own handles."""
    path = tmp_path / "studies.db"
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=path, name="trial", seed=7).close()
    with Tokens(path) as tokens:
        _, secret = tokens.create("boss", ["admin"])
    app = create_app(f"sqlite:///{path}", policies=OWN["policies"], problems=OWN["problems"])
    service = app.state.service
    held, may_end = threading.Event(), threading.Event()

    def read(study):
        with study.session.at_head():
            held.set()
            may_end.wait()

    async def calls():
        readers = [asyncio.ensure_future(service.readers.run("trial", read)) for _ in range(4)]
        await asyncio.to_thread(held.wait)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Authorization": f"Bearer {secret}"}
            answer = asyncio.ensure_future(
                client.post(f"{URL}/asks", json={"n": 3}, headers=headers)
            )
            # The token is looked up by a reader, and all readers are busy here.
            await asyncio.sleep(0)
            pulls = await service.writer.run("trial", lambda study: study.ask(2))
            may_end.set()
            await asyncio.gather(*readers)
            return pulls, (await answer).status_code

    pulls, status = asyncio.run(calls())
    assert (len(pulls), status) == (2, 200)
    service.close()


def test_a_workbook_of_the_log_is_a_file(told):
    answer = told.read.get(f"{URL}/export?format=xlsx")
    assert answer.status_code == 200
    assert answer.content.startswith(b"PK")
