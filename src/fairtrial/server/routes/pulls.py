"""Routes that read pulls: list them, show one, and list those that are no longer needed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response

from fairtrial.errors import UnknownPull
from fairtrial.server.blinding import entered, require_own, sees_arms, should_stop
from fairtrial.server.documents import pull_document
from fairtrial.server.routes.common import Limit, PullId, StudyName, document, router
from fairtrial.server.schemas import PullAnswer, PullsAnswer
from fairtrial.server.security.access import Caller
from fairtrial.server.service import TheService, TheViewer
from fairtrial.study import Study
from fairtrial.study.log import PullRow
from fairtrial.study.numbers import numbers_of

__all__ = ["document_for", "routes", "row_of"]

routes = router("pulls")

State = Literal["open", "told", "expired", "cancelled", "lost", "all"]


def document_for(viewer: Caller, study: Study, row: PullRow) -> dict[str, Any]:
    """Return a pull as the caller may see it."""
    document = pull_document(
        row,
        study.problem,
        unblinded=viewer.can("read"),
        has_blocks=study.session.has_blocks,
    )
    session, conduct = study.session, study.checks.conduct
    if not sees_arms(study, viewer):
        labels = conduct.shown_labels(study.problem, row.action, sees_arms=False)
        # Blocks end, and the policy's tags count, by arm.
        document |= {"labels": labels, "action": None, "tag": None, "block": None}
    [numbers] = numbers_of(session.store, session.id, conduct, [row])
    if conduct.participants is not None:
        document["participant"] = numbers.participant
    if conduct.kits is not None:
        document["kits"] = list(numbers.kits)
    return document


def row_of(study: Study, pull_id: str) -> PullRow:
    """Return the state of a pull.

    Raises
    ------
    UnknownPull
        If the study never issued it.
    """
    row = study.session.store.pull(study.session.id, pull_id)
    if row is None:
        raise UnknownPull(f"pull {pull_id} was never issued by study {study.name!r}")
    return row


@routes.get("/v1/studies/{study}/pulls", response_model=PullsAnswer, summary="List pulls")
async def list_pulls(
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    state: State = "open",
    after: Annotated[int, Query(ge=-1, description="The cursor `next`.")] = -1,
    limit: Limit = 100,
    participant: Annotated[
        str | None, Query(max_length=40, description="The number of a participant.")
    ] = None,
) -> Response:
    """Return pulls by number; with `participant` only the pull of that participant.

    Without the scope ``read``, only the caller's own pulls are listed. Lists of other than open
    pulls have what was `entered` for each.
    """
    _require_run_or_read(viewer, study)

    worker = None if viewer.can("read") else viewer.actor

    def find(opened: Study) -> dict[str, Any]:
        # In the order of their numbers; unsolicited results have none.
        if participant is None:
            page = opened.session.store.some_pulls(
                opened.session.id, None if state == "all" else state, worker, after, limit + 1
            )
        else:
            own = _of_participant(opened, participant)
            page = [
                row for row in own if worker in (None, row.worker) and state in ("all", row.state)
            ]
        more = page[limit - 1].number if len(page) > limit else None
        pulls = [document_for(viewer, opened, row) for row in page[:limit]]
        for one, asked in zip(pulls, opened.session.asked_for(page[:limit]), strict=True):
            one["asked_at"] = asked.at.isoformat()
        if state != "open":
            for one, seen in zip(pulls, entered(opened, viewer, page[:limit]), strict=True):
                one["entered"] = seen.values
        return {
            "pulls": pulls,
            "next": None if more is None else str(more),
        }

    if state == "open":
        found = await service.readers.run(study, find, viewer.actor)
    else:
        found = await service.readers.run_long(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


@routes.get("/v1/studies/{study}/pulls/{pull}", response_model=PullAnswer, summary="Show a pull")
async def show_pull(
    service: TheService, viewer: TheViewer, study: StudyName, pull: PullId
) -> Response:
    """Return a pull, with what the caller may see of its values, or entered themselves."""
    _require_run_or_read(viewer, study)

    def find(opened: Study) -> dict[str, Any]:
        require_own(opened, viewer, pull)
        row = row_of(opened, pull)
        content = document_for(viewer, opened, row)
        [asked] = opened.session.asked_for([row])
        content["asked_at"] = asked.at.isoformat()
        [seen] = entered(opened, viewer, [row])
        content["entered"] = seen.values
        if seen.is_outcome:
            content["outcome"] = seen.values
        return {**content, "should_stop": should_stop(opened, viewer, pull)}

    found = await service.readers.run(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


@routes.get(
    "/v1/studies/{study}/to_cancel",
    response_model=PullsAnswer,
    summary="List pulls that are no longer needed",
)
async def to_cancel(service: TheService, viewer: TheViewer, study: StudyName) -> Response:
    """Return the open pulls whose outcomes are no longer needed: the caller's own, or all."""
    viewer.require("run", study)

    def find(opened: Study) -> dict[str, Any]:
        found = (row_of(opened, pull.id) for pull in opened.to_cancel())
        rows = [row for row in found if viewer.can("read") or row.worker == viewer.actor]
        if not (sees_arms(opened, viewer) or opened.stopped):
            # Whose result is no longer needed shows who has the same arm.
            rows = []
        return {"pulls": [document_for(viewer, opened, row) for row in rows], "next": None}

    found = await service.readers.run(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


def _of_participant(study: Study, participant: str) -> list[PullRow]:
    try:
        return [row_of(study, study.pull_of(participant).id)]
    except UnknownPull:
        return []


def _require_run_or_read(viewer: Caller, study: str) -> None:
    viewer.require("read" if viewer.can("read") else "run", study)
