"""To whom to make an offer: a network from census counts, with three fairness bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairtrial.causal import row_budgets
from papers.causal.cache import RULES, SimulationCache
from papers.causal.instances import OFFERS, Setting
from papers.causal.tables import error_table
from papers.report import AGREES, Row, Section, Table

__all__ = ["OFFER_ARMS", "offers"]

_BEST = {"offers, easy": "marital", "offers, hard": "blend_0.5", "offers, none fair": None}
OFFER_ARMS = {
    "model_0.5": (0.4289, 0.0496),
    "model_0.3": (0.4188, 0.0548),
    "marital": (0.4045, 0.0262),
    "edu_marital": (0.4029, 0.0533),
    "all": (0.3973, 0.0722),
    "edu_occ_hours": (0.3776, 0.1016),
    "occ": (0.3775, 0.1116),
    "edu_occ": (0.3774, 0.1148),
    "occ_hours": (0.3764, 0.0941),
    "edu_hours": (0.3659, 0.0903),
    "edu": (0.3645, 0.1137),
    "hours": (0.3520, 0.0648),
    "blend_0.25": (0.4228, 0.0437),
    "blend_0.5": (0.4167, 0.0379),
    "blend_0.75": (0.4106, 0.0320),
}
"""Mean outcome and largest gap of every arm, to four digits, from an independent program."""


def offers(cache: SimulationCache) -> Section:
    """Compare the rules if rows are free and several paths carry the sensitive attribute."""
    return Section(
        "offers",
        "Offers, counted from census records",
        "The arms decide on an offer by education, marital status, occupation and hours. The sex "
        "influences all of these and the income, through five conditional probabilities. Easy: "
        "12 arms, E = .038, margins of .012. Hard: 15 arms, E = .041, margins of .003. None "
        "fair: E = .02. Rows cost nothing. `rows to certify`: rows of the plug-in rule's "
        "allocation after which the verdict on an arm is expected to be certain, at level .95 "
        "for all arms together.",
        (
            Table(tuple(_truth(OFFERS[1])), "The arms of the hard variant"),
            Table(tuple(_answers()), "The best fair arm"),
            *(
                error_table(cache, setting, RULES, f"{setting.name}; share of errors")
                for setting in OFFERS
            ),
        ),
    )


def _truth(setting: Setting) -> Iterator[Row]:
    environment = setting.instances[0].make(0)
    truth, plan = environment.truth, row_budgets(environment)
    sizes = np.abs(np.array(list(truth.gaps.values()))).max(axis=0)
    for place in np.argsort(-truth.means):
        arm = environment.problem.arm_labels[place]
        mean, gap = round(float(truth.means[place]), 4), round(float(sizes[place]), 4)
        yield {
            "arm": arm,
            "mean": mean,
            "largest gap": gap,
            "fair": "fair" if truth.details["fair"][place] else "unfair",
            "rows to certify": plan.certifying_budget[place],
            AGREES: _matches((mean, gap), OFFER_ARMS[arm]),
        }


def _matches(ours: tuple[float, float], reference: tuple[float, float]) -> bool:
    """Return whether our numbers agree with truncated or rounded numbers of the reference."""
    return all(abs(a - b) < 1.5e-4 for a, b in zip(ours, reference, strict=True))


def _answers() -> Iterator[Row]:
    for setting in OFFERS:
        best = setting.instances[0].make(0).truth.best
        reference = _BEST[setting.name]
        yield {
            "variant": setting.name,
            "ours": str(best or "no fair arm"),
            "reference": reference or "no fair arm",
            AGREES: best == reference,
        }
