import httpx
import pytest

from fairtrial import errors
from fairtrial.client.problems import error_of


def answer(status, document, kind="application/problem+json"):
    request = httpx.Request("POST", "https://trials.example.org/v1/x?secret=1")
    content = httpx.Response(status, json=document).content
    return httpx.Response(status, content=content, headers={"content-type": kind}, request=request)


def problem_of(error):
    """Return the document with which a service reports an error."""
    slug = "".join(f"-{c.lower()}" if c.isupper() else c for c in type(error).__name__).lstrip("-")
    document = {"type": f"urn:fairtrial:problem:{slug}", "detail": str(error)}
    if isinstance(error, errors.MistakesFound):
        document["source"] = error.source
        document["errors"] = [{"name": "", "message": one} for one in error.mistakes]
    elif isinstance(error, errors.InvalidArgument):
        document["errors"] = [{"name": error.name, "message": str(error)}]
    return document


ERRORS = [
    errors.InvalidArgument("delta", "must be in (0, 1)", 2.0),
    errors.InvalidOutcome("table, line 3: outcome", "must be finite", float("inf")),
    errors.MistakesFound(["a: wrong", "b: wrong too"], "trial.toml"),
    errors.InvalidTable(["line 2: wrong"], "results.csv"),
    errors.MissingExtra("a Parquet file", "data"),
    *(
        getattr(errors, name)("what happened; and why")
        for name in errors.__all__
        if not issubclass(
            getattr(errors, name),
            (errors.InvalidArgument, errors.MistakesFound, errors.MissingExtra),
        )
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_the_service_is_the_same_error_here(error):
    found = error_of(answer(409, problem_of(error)))
    assert type(found) is type(error)
    assert str(found) == str(error)
    for attribute in ("name", "mistakes", "source"):
        assert getattr(found, attribute, None) == getattr(error, attribute, None)


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, errors.InvalidArgument),
        (413, errors.InvalidArgument),
        (422, errors.InvalidArgument),
        (401, errors.AccessRefused),
        (403, errors.AccessRefused),
        (404, errors.StudyNotFound),
        (429, errors.ServiceBusy),
        (500, errors.StorageError),
        (503, errors.StorageUnreachable),
    ],
)
def test_an_unknown_problem_is_told_by_its_status(status, cls):
    found = error_of(answer(status, {"type": "urn:fairtrial:problem:new-thing", "title": "Oh no"}))
    assert type(found) is cls
    assert str(found) == "Oh no"


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"detail": "no type"},
        "text",
        None,
        {"type": 3, "detail": {"a": 1}, "errors": "none"},
        {"type": "urn:fairtrial:problem:invalid-argument", "errors": [3, {"name": 4}]},
        {"type": "urn:fairtrial:problem:mistakes-found", "errors": {"a": 1}, "detail": None},
        {"type": "urn:fairtrial:problem:fairtrial-error", "detail": ""},
        {"type": "urn:fairtrial:problem:__class__", "detail": "x"},
    ],
)
@pytest.mark.parametrize("status", [400, 404, 500])
def test_any_answer_gives_an_error_of_ours(document, status):
    assert isinstance(error_of(answer(status, document)), errors.FairtrialError)


def test_what_is_foreign_shows_no_query():
    found = error_of(answer(500, "oops", kind="text/plain"))
    assert "secret" not in str(found)
    assert "https://trials.example.org/v1/x" in str(found)
