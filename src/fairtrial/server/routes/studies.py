"""Routes of studies: list, create, show."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from fairtrial.core import Policy
from fairtrial.core.seeds import as_seed
from fairtrial.core.sizes import limited_sizes
from fairtrial.errors import FairtrialError, InvalidArgument, StudyExists
from fairtrial.server.documents import study_document, to_text
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import (
    After,
    Limit,
    StudyName,
    answered,
    document,
    key_of,
    router,
    unchanged,
)
from fairtrial.server.schemas import NewStudy, StudiesAnswer, StudyAnswer
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Answer, IdempotencyKey, Service, TheService, TheViewer
from fairtrial.study import Store
from fairtrial.study.arguments import check_name
from fairtrial.study.long_reads import keep_going
from fairtrial.study.opening import CREATED, find_or_insert
from fairtrial.study.specification import Specification
from fairtrial.study.store import StudyRow

routes = router("studies")

_LARGEST = {
    "actions": 2_000,
    "comparisons": 20_000,
    "features": 50,
    "measures": 50,
    "states": 10_000,
}
"""Sizes of problems that take a second and some 100 MB: a request with a larger one is refused."""
_NAMES = 1_000
"""Number of names that are read at a time."""
_NEW = 201
"""Status of the answer to a request that created a study."""


@routes.get("/v1/studies", response_model=StudiesAnswer, summary="List studies")
async def list_studies(
    service: TheService, viewer: TheViewer, after: After = None, limit: Limit = 100
) -> Response:
    """Return the studies that the token may see, by name."""

    def find(store: Store) -> dict[str, Any]:
        names = _visible_names(store, viewer, after or "", limit + 1)
        page = store.studies_named(names[:limit])
        return {
            "studies": [study_document(row, unblinded=viewer.can("read")) for row in page],
            "next": names[limit - 1] if len(names) > limit else None,
        }

    found = await service.readers.run_listing(find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


def _visible_names(store: Store, viewer: Caller, after: str, limit: int) -> list[str]:
    """Return the names of the next studies that the caller may see, by code points."""
    found: list[str] = []
    while len(found) < limit:
        keep_going()
        names = store.study_names(after, _NAMES)
        found += filter(viewer.sees, names)
        if len(names) < _NAMES:
            break
        after = names[-1]
    return found[:limit]


@routes.post(
    "/v1/studies",
    response_model=StudyAnswer,
    status_code=201,
    responses={200: {"model": StudyAnswer, "description": "The same study exists already."}},
    summary="Create a study",
)
async def make_study(
    request: Request,
    service: TheService,
    viewer: TheViewer,
    body: NewStudy,
    key: IdempotencyKey = None,
) -> Response:
    """Create a study, or return the existing one with the same name and specification."""
    viewer.require("admin")
    check_name(body.name)
    if not viewer.sees(body.name):
        raise Refusal(403, "access-refused", "the token may not create studies of that name")
    spec, fresh = await service.readers.run_apart(lambda: _specified(service, body))
    any_seed = body.seed is None

    def make(store: Store) -> Answer:
        try:
            row, is_new = find_or_insert(
                store, body.name, spec, fresh, exist_ok=True, any_seed=any_seed
            )
        except StudyExists as error:
            # Remove the beginning of the message, which says where the studies are kept.
            raise StudyExists(str(error).removeprefix(f"{store.url} has ")) from None
        return Answer(_NEW if is_new else 200, to_text(_whole(row, viewer, store)))

    known = key_of(request, viewer, key, body.model_dump())
    answer = await service.write_on_store(make, known)
    if answer.status == _NEW:
        CREATED.log(study=body.name, storage="service")
    return answered(answer)


def _specified(service: Service, body: NewStudy) -> tuple[Specification, Policy]:
    """Check the specification of a study and return it with its policy; may load kernels."""
    spec = Specification(body.problem, body.policy, as_seed(body.seed), body.conduct, body.notes)
    try:
        with limited_sizes(**_LARGEST):
            fresh = spec.build(body.name, *service.own)
        exact = Specification.of(fresh.problem, fresh, spec.seed, spec.conduct, spec.notes)
        exact.require_faithful(fresh)
    except FairtrialError:
        raise
    except Exception as error:  # a document may contain anything
        text = f"must describe a problem and a policy as `to_dict` does ({error})"
        raise InvalidArgument("problem", text) from error
    return exact, fresh


@routes.get("/v1/studies/{study}", response_model=StudyAnswer, summary="Show a study")
async def show_study(
    request: Request,
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    after: Annotated[
        int | None, Query(ge=0, description="Wait until there are more events.")
    ] = None,
    wait: Annotated[float, Query(ge=0, description="Seconds to wait for them.")] = 0.0,
) -> Response:
    """Return the fixed facts about a study and the length of its log."""
    require_any(viewer, study)
    if wait and after is not None:
        seconds = min(wait, service.settings.longest_wait)
        await service.heads.wait(study, after, seconds, viewer.actor)
    headers, known = await unchanged(request, service, viewer, study)
    if known is not None:
        return known
    content = await service.readers.run(
        study,
        lambda opened: _whole(opened.session.row(), viewer, opened.session.store),
        viewer.actor,
    )
    return document(content, headers)


def require_any(viewer: Caller, study: str) -> None:
    """Raise if the caller may not see the study; any scope is enough."""
    viewer.require(next(iter(viewer.token.scopes)), study)


def _whole(row: StudyRow, viewer: Caller, store: Store) -> dict[str, Any]:
    spec = Specification.from_json(row.spec_json)
    unblinded = viewer.can("read")
    return {
        **study_document(row, unblinded=unblinded),
        "head_seq": row.head_seq,
        "head_hash": row.head_hash if unblinded else None,
        "problem": dict(spec.problem),
        "conduct": dict(spec.conduct),
        "notes": dict(spec.notes) if unblinded else None,
        "policy_spec": dict(spec.policy) if unblinded else None,
        "storage_software": store.software if unblinded else None,
    }
