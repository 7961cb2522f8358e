"""The provider, used through OpenFeature's own client."""

import asyncio

import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from fairtrial.errors import InvalidArgument
from fairtrial.openfeature import Flag, StudyProvider
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from openfeature import api
from tests.client.served import served
from tests.messages import raises

PROBLEM = Problem(["old", "new"], ["phone", "desktop"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
ANNA = EvaluationContext("anna", {"group": "phone", "plan": "free"})


@pytest.fixture
def study():
    with Study.create(PROBLEM, POLICY, storage="memory://", name="checkout", seed=7) as made:
        yield made


def client_of(**flags):
    api.set_provider(StudyProvider(flags), domain="tests")
    return api.get_client(domain="tests")


def test_a_user_sees_the_same_variant_at_every_evaluation(study):
    client = client_of(checkout=Flag(study))
    first = client.get_string_details("checkout", "old", ANNA)
    assert (first.error_code, first.reason) == (None, Reason.SPLIT)
    assert first.value == first.variant == study.pull_of(unit="anna").arm
    assert study.pull_of(unit="anna").group == "phone"
    moved = EvaluationContext("anna", {"group": "desktop"})
    assert client.get_string_value("checkout", "old", moved) == first.value
    users = {client.get_string_value("checkout", "?", EvaluationContext(f"{n}")) for n in range(20)}
    assert users == {"old", "new"}
    assert study.n_events == 21


def test_an_asynchronous_evaluation_is_the_same(study):
    client = client_of(checkout=Flag(study))
    value = asyncio.run(client.get_string_value_async("checkout", "?", ANNA))
    assert value == client.get_string_value("checkout", "?", ANNA)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("boolean", {"old": False, "new": True}),
        ("integer", {"old": 1, "new": 2}),
        ("float", {"old": 1, "new": 2.5}),
        ("object", {"old": {"colour": "red"}, "new": {"colour": "blue"}}),
    ],
)
def test_a_flag_has_a_value_for_each_arm(study, kind, values):
    client = client_of(checkout=Flag(study, values))
    evaluate = getattr(client, f"get_{kind}_details")
    details = evaluate("checkout", type(values["old"])(), ANNA)
    assert details.error_code is None
    assert details.value == values[details.variant]


def test_a_value_of_another_type_is_an_error_and_serves_the_default(study):
    client = client_of(labels=Flag(study), switch=Flag(study, {"old": False, "new": True}))
    wrong = [
        (client.get_boolean_details("labels", False, ANNA), False),
        (client.get_integer_details("switch", 3, ANNA), 3),
    ]
    for details, default in wrong:
        assert (details.error_code, details.value) == (ErrorCode.TYPE_MISMATCH, default)


@pytest.mark.parametrize("values", [{"old": 1}, {"old": 1, "new": 2, "other": 3}, {}])
def test_every_arm_must_have_a_value(study, values):
    with raises(InvalidArgument) as caught:
        Flag(study, values)
    assert caught.value.name == "values"


def test_what_is_no_study_is_refused():
    with raises(InvalidArgument):
        Flag("checkout")
    with raises(InvalidArgument):
        StudyProvider({"checkout": "study"})


@pytest.mark.parametrize(
    ("key", "context", "code"),
    [
        ("other", ANNA, ErrorCode.FLAG_NOT_FOUND),
        ("checkout", None, ErrorCode.TARGETING_KEY_MISSING),
        ("checkout", EvaluationContext(""), ErrorCode.TARGETING_KEY_MISSING),
        ("checkout", EvaluationContext("x" * 1_001), ErrorCode.INVALID_CONTEXT),
        ("checkout", EvaluationContext("bob", {"group": "watch"}), ErrorCode.INVALID_CONTEXT),
    ],
)
def test_an_error_has_the_code_of_openfeature_and_serves_the_default(study, key, context, code):
    details = client_of(checkout=Flag(study)).get_string_details(key, "default", context)
    assert (details.error_code, details.value) == (code, "default")
    assert study.n_events == 0


def test_a_storage_that_fails_is_a_general_error(study):
    client = client_of(checkout=Flag(study))
    study.close()
    details = client.get_string_details("checkout", "default", ANNA)
    assert (details.error_code, details.value) == (ErrorCode.GENERAL, "default")


def test_a_new_user_after_the_end_sees_the_answer_and_an_old_one_the_same_as_before(study):
    client = client_of(checkout=Flag(study))
    before = client.get_string_value("checkout", "?", ANNA)
    while not study.stopped:
        for pull in study.ask(500):
            study.tell(pull, float(pull.arm == "new"))
    assert study.recommend().arm == "new"
    new = client.get_string_details("checkout", "?", EvaluationContext("late"))
    assert (new.value, new.reason) == ("new", Reason.STATIC)
    assert client.get_string_value("checkout", "?", ANNA) == before


def test_a_study_that_stopped_without_an_answer_serves_the_default(study):
    client = client_of(checkout=Flag(study))
    study.stop(reason="enough")
    details = client.get_string_details("checkout", "default", ANNA)
    assert (details.value, details.reason) == ("default", Reason.DEFAULT)
    assert (details.error_code, details.variant) == (None, None)


def test_a_tracking_event_tells_the_outcome_once(study):
    client = client_of(checkout=Flag(study, event="purchase"), other=Flag(study))
    client.track("purchase", ANNA)
    assert study.n_events == 0
    client.get_string_value("checkout", "?", ANNA)
    client.track("another event", ANNA)
    client.track("purchase", EvaluationContext())
    assert study.progress().told == 0
    client.track("purchase", ANNA, TrackingEventDetails(0.25))
    client.track("purchase", ANNA, TrackingEventDetails(0.75))
    client.track("purchase", ANNA)
    told = [event for event in study.events() if event.kind == "tell"]
    assert [event.value for event in told] == [0.25]


def test_a_tracking_event_without_a_value_counts_as_one(study):
    client = client_of(checkout=Flag(study, event="purchase"))
    client.get_string_value("checkout", "?", ANNA)
    client.track("purchase", ANNA)
    assert [event.value for event in study.events() if event.kind == "tell"] == [1.0]


@pytest.mark.parametrize("value", [7.0, float("nan")])
def test_a_refused_tracking_event_is_logged_without_the_user(study, caplog, value):
    client = client_of(checkout=Flag(study, event="purchase"))
    client.get_string_value("checkout", "?", ANNA)
    with caplog.at_level("WARNING", "fairtrial.openfeature"):
        client.track("purchase", ANNA, TrackingEventDetails(value))
    assert study.progress().told == 0
    [record] = caplog.records
    assert record.facts == {"study": "checkout", "error": "InvalidOutcome"}
    assert "anna" not in record.getMessage()


def test_a_study_on_a_service_evaluates_flags_too():
    store = MemoryStore()
    with (
        Study.create(PROBLEM, POLICY, storage=store, name="checkout", seed=7) as study,
        served(store) as service,
    ):
        with service.connect("web", "run") as connection:
            client = client_of(checkout=Flag(connection.study("checkout"), event="purchase"))
            details = client.get_string_details("checkout", "?", ANNA)
            client.track("purchase", ANNA)
        assert details.value == study.pull_of(unit="anna").arm
        assert study.progress().told == 1
