"""In a masked study, people who recruit or treat see nothing that differs between arms."""

import re

import pytest

from fairtrial.errors import AlreadyTold, InvalidOutcome, NotSupported
from fairtrial.server.webhooks import Webhooks
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.server.test_blinding import call, routes
from tests.study.tools import Clock

PROBLEM = Problem(["A", "B", "C"], ["x", "y"], control="A", reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
RULES = {"participants": "W#-###", "kits": "K#######", "masked": True}
URL = "/v1/studies/trial"
VALUES = (0.25, 0.5, 1.0, 0.0, 0.75)
_VARIES = re.compile(
    r"K\d{7}|[0-9a-f]{16,}|\d{4}-\d\d-\d\d[T ][\d:.]+|ft_[\w-]+|[\w-]{40,}|\"max_age\": \d+"
)
PAGES = ("recruitment", "health", "pulls", "entered", "log", "")


def masked(store, secret):
    """Return a study whose arms follow from a secret."""
    given = {"storage": store, "name": "trial", "seed": 7, "secret": secret}
    return Study.create(PROBLEM, POLICY, **given, **RULES)


def asked_by(ward):
    """Return pulls that a ward got for its patients, and told some results of."""
    groups = ("x", "y", "x", "x", "y", "x", "y", "x")
    pulls = []
    for place, group in enumerate(groups):
        asked = {"participant": f"W1-00{place}", "context": {"group": group}}
        pulls += ward.ask(**asked)
    for pull, value in zip(pulls, VALUES, strict=False):
        assert ward.post(f"{URL}/pulls/{pull['id']}/tell", {"value": value}).status_code == 200
    ward.post(f"{URL}/pulls/{pulls[5]['id']}/fail", {"reason": "left"})
    return [pull["id"] for pull in pulls]


def seen_by_a_ward(serve, secret):
    """Return everything that a ward receives, except what is random; and the arms it never sees."""
    store = MemoryStore(clock=Clock())
    study = masked(store, secret)
    study.supply(200)
    service = serve(store)
    pulls = asked_by(service.run)
    arms = [
        study.problem.labels(row.action)["arm"]
        for row in study.session.store.some_pulls(study.session.id, None, None, -1, 100)
    ]
    answers = {}
    for method, path, _ in routes():
        for place in (0, 5, 6):
            answer = call(service.run, method, path, pulls[place])
            answers[method, path, place] = answer.status_code, answer.text, dict(answer.headers)
    for body in (
        {"n": 2},
        {"n": 1, "participant": "W1-900", "context": {"arm": "A"}},
        {"n": 1, "participant": "W1-000", "context": {"group": "x"}},
        {"n": 1, "participant": "W1-001", "context": {"group": "x"}},
    ):
        answer = service.run.post(f"{URL}/asks", body)
        answers["asks", str(body)] = answer.status_code, answer.text, {}
    for kit in (None, "K0000000", "no number"):
        answer = service.run.post(f"{URL}/pulls/{pulls[6]}/kit", {"kit": kit})
        answers["kit", str(kit)] = answer.status_code, answer.text, {}
    for listing in (
        "pulls?state=all",
        "pulls?state=told",
        "pulls?state=all&participant=W1-003",
        "health?blinded=true",
        "recruitment",
        "to_cancel",
        "",
    ):
        answer = service.run.get(f"{URL}/{listing}")
        answers["list", listing] = answer.status_code, answer.text, dict(answer.headers)
    service.client.post("/login", data={"token": service.run.secret})
    for page in (*PAGES, f"pulls/{pulls[0]}", f"pulls/{pulls[6]}"):
        answer = service.client.get(f"/studies/trial/{page}")
        name = page.replace(pulls[0], "first").replace(pulls[6], "open")
        answers["page", name] = answer.status_code, answer.text, {}
    plain = {
        name: (status, _VARIES.sub("*", text), _VARIES.sub("*", str(headers)))
        for name, (status, text, headers) in answers.items()
    }
    return plain, arms


def test_a_ward_sees_the_same_whatever_the_arms_of_its_patients_are(serve):
    views, arms = zip(*[seen_by_a_ward(serve, secret) for secret in ("s", "u")], strict=True)
    assert sum(one != other for one, other in zip(*arms, strict=False)) >= 3
    assert views[0].keys() == views[1].keys()
    for name, seen in views[0].items():
        assert seen == views[1][name], name


@pytest.fixture
def trial(serve):
    store = MemoryStore()
    study = masked(store, "s")
    study.supply(50)
    return serve(store), study


def test_a_pull_has_a_kit_of_its_arm_and_the_ward_sees_only_the_kit(trial):
    service, study = trial
    kits = next(study.events()).body["kits"]
    for place in range(6):
        [pull] = service.run.ask(participant=f"W1-00{place}", context={"group": "x"})
        assert (pull["action"], pull["tag"], pull["block"]) == (None, None, None)
        assert pull["labels"] == {"group": "x"}
        [kit] = pull["kits"]
        row = study.session.store.pull(study.session.id, pull["id"])
        assert kit in kits[study.problem.labels(row.action)["arm"]]
        [seen] = service.read.get(f"{URL}/pulls?state=all&participant=W1-00{place}").json()["pulls"]
        assert seen["labels"]["arm"] in kits
    assert study.verify().ok


def test_a_ward_cannot_find_out_by_kits_whose_arms_are_the_same(trial):
    service, study = trial
    kits = next(study.events()).body["kits"]
    [mine], [other] = (
        service.run.ask(participant=f"W1-00{place}", context={"group": "x"}) for place in (1, 2)
    )
    before = study.head_hash
    every = [kit for own in kits.values() for kit in own if kit not in mine["kits"]]
    answers = [
        service.run.post(f"{URL}/pulls/{mine['id']}/kit", {"kit": kit})
        for kit in (*every[::15], *other["kits"], "K9999999")
    ]
    assert {answer.status_code for answer in answers} == {422}
    assert len({answer.json()["detail"] for answer in answers}) == 1
    assert study.head_hash == before
    assert service.run.post(f"{URL}/pulls/{mine['id']}/kit", {"kit": mine["kits"][0]}).is_success


@pytest.mark.parametrize("verb", ["tells", "asks"])
def test_a_ward_tells_no_results_of_arms_that_it_names(trial, verb):
    service, study = trial
    before = study.head_hash
    outcome = {"arm": "A", "group": "x", "value": 0.5}
    body = {"outcomes": [outcome]}
    if verb == "asks":
        body = {"n": 1, "participant": "W1-001", "context": {"group": "x"}, "tell": outcome}
    assert service.run.post(f"{URL}/{verb}", body).status_code in (403, 422)
    assert study.head_hash == before


def test_a_ward_cannot_find_out_by_a_table_which_arm_a_pull_has(trial):
    service, _ = trial
    for place, arm in enumerate("ABC"):
        [pull] = service.run.ask(participant=f"W1-00{place}", context={"group": "x"})
        row = {"place": 0, "line": "line 2", "pull": pull["id"], "result": 0.5}

        def tell(row=row, **labels):
            table = {"name": "plate.csv", "rows": [{**row, "labels": labels}]}
            return service.run.post(f"{URL}/tell_table", {"table": table})

        assert tell(group="y").status_code == 422
        assert tell(group="x", arm=arm).status_code == 200, "the arm is not compared"


@pytest.mark.parametrize(
    "error_about",
    [
        AlreadyTold.about,
        lambda pull, said: InvalidOutcome("value", said, pull),
        lambda pull, said: NotSupported(f"my policy: {pull} {said}"),
    ],
)
def test_an_error_that_prints_a_pull_tells_a_ward_less(trial, monkeypatch, error_about):
    service, study = trial
    [pull] = service.run.ask(participant="W1-001", context={"group": "x"})
    row = study.session.store.pull(study.session.id, pull["id"])
    [issued] = study.session.pulls_of([row])
    assert "arm=" in str(error_about(issued, "is odd"))

    def refused(self, write):
        raise error_about(issued, "is odd")

    monkeypatch.setattr(Study, "write", refused)
    answer = service.run.post(f"{URL}/pulls/{pull['id']}/tell", {"value": 0.5})
    assert answer.status_code in (409, 422)
    assert "odd" not in answer.text
    assert "arm" not in answer.text


def test_which_results_are_no_longer_needed_is_hidden_from_a_ward(trial):
    service, study = trial
    [pull] = service.run.ask(participant="W1-001", context={"group": "x"})
    [open_one] = service.run.ask(participant="W1-002", context={"group": "x"})
    told = {"value": 0.5}
    assert service.run.post(f"{URL}/pulls/{pull['id']}/tell", told).is_success
    shown = [service.run.get(f"{URL}/pulls/{one['id']}").json() for one in (pull, open_one)]
    assert [one["should_stop"] for one in shown] == [False, False]
    study.stop("the end")
    listed = service.run.get(f"{URL}/to_cancel").json()["pulls"]
    assert [one["id"] for one in listed] == [open_one["id"]]


def test_when_kits_run_out_nothing_is_drawn_whatever_the_next_arm_is(serve):
    store = MemoryStore()
    study = masked(store, "s")
    service = serve(store)
    answer = service.run.post(f"{URL}/asks", {"n": 1, "participant": "W1-001"})
    assert answer.status_code == 409
    study.supply(1)
    [pull] = service.run.ask(participant="W1-001", context={"group": "x"})
    before = study.head_hash
    bodies = [{"n": 1, "participant": f"W1-00{place}"} for place in (2, 3)]
    refused = [service.run.post(f"{URL}/asks", body) for body in bodies]
    refused.append(service.run.post(f"{URL}/pulls/{pull['id']}/kit", {"kit": None}))
    assert {one.status_code for one in refused} == {409}
    assert len({one.json()["detail"] for one in refused}) == 1
    assert study.head_hash == before
    # The one who has a pull finds it again all the same.
    assert service.run.ask(participant="W1-001", context={"group": "x"})[0]["id"] == pull["id"]


def test_webhooks_name_no_arm_of_a_masked_study(trial):
    service, study = trial
    asked_by(service.run)
    study.close_arm("B", "harm")
    hooks = Webhooks("http://localhost", b"k" * 24, service.store, lambda name: study, None)
    said = [message for _, _, message in hooks._found(study)]
    hooks.close()
    for message in said:
        assert not re.search(r"\b[ABC]\b", message), message


def test_only_an_admin_unmasks_through_the_service_and_is_recorded_by_name(trial):
    service, study = trial
    sealed = study.seal_names({"A": "placebo", "B": "10 mg", "C": "20 mg"})
    [pull] = service.run.ask(participant="W1-001", context={"group": "x"})
    path = f"{URL}/pulls/{pull['id']}/unmask"
    before = study.head_hash
    for caller in (service.run, service.read, service.nobody):
        assert caller.post(path, {"reason": "curious"}).status_code in (401, 403)
        assert caller.post(f"{URL}/unmask", {"reason": "curious"}).status_code in (401, 403)
    assert study.head_hash == before
    answers = [service.admin.post(path, {"reason": "overdose"}, key="k1") for _ in range(2)]
    for answer in answers:
        assert list(answer.json()["body"]["keys"]) == [
            study.problem.labels(answer.json()["action"])["arm"]
        ]
    events = [event for event in study.events() if event.kind == "unmask"]
    # Every access is recorded, also if its request is repeated, and no key is kept.
    assert [(event.actor, event.body) for event in events] == [("boss", {"reason": "overdose"})] * 2
    assert sealed["names"].keys() == {"A", "B", "C"}
