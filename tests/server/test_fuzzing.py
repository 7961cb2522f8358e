"""Requests generated from the OpenAPI document, one by one and in chains: no 5xx."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fairtrial.server import create_app
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests import effort
from tests.server.load import in_thread, make_token
from tests.server.toys import OWN, FourArms, InTurn
from tests.study.toys import OWN as MORE
from tests.study.toys import Racing, ToyProblem

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
STUDIES = ["in turn", "a race/of two"]
LINKED = {
    "asks": ("$response.body#/pulls/0/id", ["tell", "report", "fail", "cancel", "amend"]),
    "pulls": ("$response.body#/pulls/0/id", ["heartbeat", ""]),
}


def document():
    """Return the OpenAPI document, with links from issued pulls to everything done with them."""
    app = create_app("memory://")
    made = app.openapi()
    app.state.service.close()
    for path, operations in made["paths"].items():
        end = path.rpartition("/")[2]
        if end not in LINKED or "{study}" not in path:
            continue
        pull, targets = LINKED[end]
        answers = operations["post" if end == "asks" else "get"]["responses"]["200"]
        answers["links"] = {
            f"then-{target or 'show'}": {
                "operationId": operation["operationId"],
                "parameters": {"path.study": "$request.path.study", "path.pull": pull},
            }
            for target in targets
            for operation in [_operation(made, target)]
        }
    return made


def _operation(made, target):
    path = "/v1/studies/{study}/pulls/{pull}" + (target and f"/{target}")
    return made["paths"][path]["post" if target else "get"]


SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations()]


@contextmanager
def served():
    """Serve two studies with some events; yield base address and headers for requests."""
    store, race = MemoryStore(), ToyProblem(["a", "b"])
    for name, template in zip(STUDIES, [InTurn(FourArms()), Racing(race)], strict=True):
        study = Study.create(template.problem, template, storage=store, name=name, seed=1)
        study.tell(study.ask(), 1.0)
        study.ask()
    token = make_token(store)
    own = {kind: [*OWN[kind], *MORE[kind]] for kind in OWN}
    with in_thread(store, own=own, rate=1e6, longest_wait=0.05) as port:
        yield {
            "base_url": f"http://127.0.0.1:{port}",
            "headers": {"Authorization": f"Bearer {token}"},
        }


@pytest.fixture(scope="module")
def service():
    with served() as running:
        yield running


def fuzzed(short, whole):
    return settings(
        max_examples=effort.runs(short, whole=whole),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.label for each in OPERATIONS])
def test_no_request_that_can_be_made_up_breaks_the_service(service, operation):
    @fuzzed(3, whole=400)
    @given(case=operation.as_strategy(), name=st.sampled_from([None, *STUDIES]))
    def request(case, name):
        if name is not None and "study" in (case.path_parameters or {}):
            case.path_parameters["study"] = name
        case.call_and_validate(**service, checks=CHECKS)

    request()


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_no_chain_of_requests_breaks_the_service(name):
    class Chain(SCHEMA.as_state_machine()):
        def setup(self):
            self.running = ExitStack()
            self.service = self.running.enter_context(served())

        def teardown(self):
            self.running.close()

        def get_call_kwargs(self, case):
            return self.service

        def before_call(self, case):
            if "study" in (case.path_parameters or {}):
                case.path_parameters["study"] = name
            super().before_call(case)

        def validate_response(self, response, case, additional_checks=(), **options):
            case.validate_response(response, checks=CHECKS)

    Chain.run(settings=settings(fuzzed(4, whole=300), stateful_step_count=12))
