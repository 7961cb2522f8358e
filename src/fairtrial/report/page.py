"""Write a study as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from fairtrial.core.keywords import named_arguments
from fairtrial.presentation.sources import StudyLike, VerificationLike, check_offers, replay_note
from fairtrial.report.arms import arms
from fairtrial.report.decision import decision
from fairtrial.report.document import document, write_document
from fairtrial.report.fairness import fairness
from fairtrial.report.findings import Findings
from fairtrial.report.flow import flow
from fairtrial.report.glossary import glossary
from fairtrial.report.health import health
from fairtrial.report.html import Markup, bdi, element
from fairtrial.report.log import log
from fairtrial.report.paired import paired
from fairtrial.report.recruitment import recruited
from fairtrial.report.statements import question

__all__ = ["write_report"]


@named_arguments
def write_report(
    study: StudyLike,
    path: str | Path,
    title: str | None = None,
    facts: Mapping[str, object] | None = None,
    optimal: ArrayLike | None = None,
    verification: VerificationLike | None = None,
    *,
    blinded: bool = False,
) -> Path:
    """Write a study as one HTML file: question, decision, arms, fairness, health, log.

    The page of a finished experiment also shows the flow of its units, by arm.

    The file contains its own style and charts, runs no scripts, makes no network requests and
    can be printed. The same study gives the same bytes. Matplotlib is not needed.

    Parameters
    ----------
    study : Study
        The experiment, in any state.
    path : str or Path
        Where to write; an existing file is replaced.
    title : str, optional
        The page's title; by default the study's name.
    facts : mapping of str to object, optional
        Further facts for readers, one row each: ``{"lower bound": "812 pulls"}``.
    optimal : array_like of shape (n_actions,) or (n_arms, n_groups), optional
        Optimal shares by action, to compare the allocation with.
    verification : Verification, optional
        A recent result of `study.verify()`; by default the study is audited.
    blinded : bool
        Whether the page is for people who recruit or treat. It then shows the question, the
        recruitment and the study's health, but no results, no evidence and no leader; `facts` are
        left out.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidArgument
        If `study` is not a study, `optimal` is not a distribution over the actions, or the file
        cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import fairtrial as ft
    >>> problem = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    >>> with ft.Study.create(problem, policy, storage="memory://", name="trial", seed=7) as study:
    ...     told = study.tell(study.ask(), 0.4)
    ...     page = write_report(study, Path(tempfile.mkdtemp()) / "trial.html")
    >>> page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    check_offers("study", study, "must be a Study", "name", "progress", "events")
    found = Findings.of(study, optimal, verification)
    replayed = replay_note(study)
    page = document(
        title or study.name,
        element("p", element("strong", bdi(replayed))) if replayed else None,
        *(_blinded(found) if blinded else _full(found, facts or {})),
        glossary(found.progress.assigned is not None),
    )
    return write_document(path, page)


def _blinded(found: Findings) -> list[Markup | None]:
    return [question(found.study.problem), recruited(found), health(found, blinded=True)]


def _full(found: Findings, facts: Mapping[str, object]) -> list[Markup | None]:
    return [
        question(found.study.problem, found.study.notes),
        decision(found, facts),
        flow(found),
        arms(found),
        paired(found),
        fairness(found),
        health(found),
        log(found),
    ]
