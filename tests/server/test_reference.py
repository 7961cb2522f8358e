"""The reference of the service lists all routes, their arguments, and all errors."""

import re
from pathlib import Path

import pytest

from fairtrial.server import create_app
from fairtrial.server.problems import _STATUSES, slug_of

TEXT = (Path(__file__).parents[2] / "docs/reference/server.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document():
    app = create_app("memory://")
    yield app.openapi()
    app.state.service.close()


def test_every_route_has_its_row_and_every_row_its_route(document):
    routes = {
        f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found
    }
    rows = set(re.findall(r"^\| `((?:GET|POST) [^`]+)` \|", TEXT, re.MULTILINE))
    assert rows == routes


def test_every_parameter_and_member_of_a_body_is_named(document):
    for path, found in document["paths"].items():
        for method, operation in found.items():
            (row,) = re.findall(rf"^\| `{method.upper()} {re.escape(path)}` \|.*$", TEXT, re.M)
            names = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
            body = operation.get("requestBody")
            if body:
                schema = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                names |= set(document["components"]["schemas"][schema]["properties"])
            missing = {name for name in names if not re.search(rf"\b{name}\b", row)}
            assert not missing, row


def test_every_error_is_told_with_its_status():
    told = {
        slug: int(status)
        for status, slugs in re.findall(r"^\| (\d+) \| [^|]* \| (.*) \|$", TEXT, re.MULTILINE)
        for slug in re.findall(r"`([\w-]+)`", slugs)
    }
    for error, status in _STATUSES.items():
        slug = slug_of(error)
        if slug in told and slug not in ("access-refused", "service-busy"):
            assert told[slug] == status, slug
    listed = {slug_of(error) for error in _STATUSES}
    assert listed - set(told) <= {"nothing-to-ask", "mistakes-found"}
