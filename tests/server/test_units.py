"""Units over HTTP: the same unit gets the same pull, and nothing of it is kept."""

import pytest

from fairtrial.errors import UnknownPull
from tests.client.served import served
from tests.messages import raises

UNIT = "anna.smith@example.org"


def ask(caller, unit=UNIT, key=None, **more):
    return caller.post("/v1/studies/trial/asks", {"unit": unit, **more}, key)


def test_a_unit_gets_its_pull_again(service):
    first = ask(service.run).json()["pulls"]
    assert ask(service.run, key="k").json()["pulls"] == first
    assert ask(service.run, n=0).json()["pulls"] == first
    assert ask(service.run, "another").json()["pulls"] != first
    assert ask(service.run, "nobody", n=0).json() == {"pulls": [], "stopped": False}
    assert service.study().n_events == 2


def test_another_token_learns_the_arm_only_if_it_may_read(service):
    pulls = ask(service.run).json()["pulls"]
    refused = ask(service.caller("ward 4", ["run"]))
    assert (refused.status_code, refused.json()["errors"][0]["name"]) == (422, "unit")
    assert UNIT not in refused.text
    assert ask(service.caller("web", ["run", "read"])).json()["pulls"][0]["id"] == pulls[0]["id"]


def test_a_unit_that_has_a_pull_needs_no_room(serve):
    service = serve(open_pulls=2)
    service.admin.create()
    first = ask(service.run).json()["pulls"]
    assert ask(service.run, "another").status_code == 409
    assert ask(service.run).json()["pulls"] == first


def test_the_answer_is_not_kept_with_a_fingerprint_of_the_unit(service):
    ask(service.run, key="k")
    assert service.store.answer("ward 3", "k trial") is None


@pytest.mark.parametrize("more", [{"n": 2}, {"unit": ""}, {"unit": "x" * 1_001}, {"unit": 7}])
def test_what_cannot_be_asked_for_a_unit_is_refused(service, more):
    answer = ask(service.run, **({"unit": UNIT} | more))
    assert answer.status_code == 422
    assert service.study().n_events == 0


def test_a_client_has_the_same_methods_as_a_local_study(service):
    with served(service.store) as site, site.connect("web", "run") as connection:
        study = connection.study("trial")
        with raises(UnknownPull):
            study.pull_of(unit=UNIT)
        pull = study.ask(unit=UNIT)
        assert study.ask(unit=UNIT).id == study.pull_of(unit=UNIT).id == pull.id
        event = study.tell(pull, 1.0)
        assert study.tell(study.pull_of(unit=UNIT), 1.0).seq == event.seq
