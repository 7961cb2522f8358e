"""The paper's Figure 3: r-regret over time of Fair-UCB and LFG."""

from __future__ import annotations

from collections.abc import Iterator

from fairtrial.allocation import FairUCB, LearningWithFairness, complexity
from fairtrial.core import Policy
from fairtrial.simulation import Simulation
from papers.fair_mab.cache import SimulationCache, agrees, half_width
from papers.fair_mab.instances import ONE_A
from papers.report import AGREES, Measured, Row, Section, Table

__all__ = ["ROUNDS", "contenders", "regret", "regret_curve"]

ROUNDS = (1_000, 10_000, 100_000, 300_000, 1_000_000)
_RUNS = (50, 6)
_REFERENCE_RUNS = 50

_REFERENCES = {
    "Fair-UCB": ((21.8, 0.6), (136, 5), (271, 17), (182, 26), (4.9, 6.7)),
    "LFG, eta 1000": ((26.4, 0.2), (132, 5), (368, 18), (405, 22), (402, 22)),
    "LFG, eta 100": ((26.6, 0.1), (140, 4), (464, 22), (624, 31), (721, 40)),
    "LFG, eta 10": ((26.8, 0.1), (192, 3), (1_475, 19), (3_802, 43), (10_814, 95)),
}
"""The reference's r-regret at `ROUNDS` with 95 % half-widths."""


def contenders() -> dict[str, Policy]:
    """Return the policies of the figure by their names."""
    problem = ONE_A.problem()
    return {
        "Fair-UCB": FairUCB(problem),
        **{f"LFG, eta {eta}": LearningWithFairness(problem, eta) for eta in (1000, 100, 10)},
    }


def regret_curve(cache: SimulationCache, name: str) -> list[Simulation]:
    """Return a policy's runs, cut at each of the rounds (only the first three if quick)."""
    rounds = ROUNDS[:3] if cache.quick else ROUNDS
    return cache.curve(contenders()[name], ONE_A, _RUNS, rounds)


def regret(cache: SimulationCache) -> Section:
    """Compare r-regret over time with the reference and with Theorem 2."""
    return Section(
        "regret",
        "Figure 3: r-regret over time",
        "The paper finds that Fair-UCB and LFG are comparable, with logarithmic r-regret. They "
        "are comparable up to about 10^4 rounds. Later, LFG's r-regret levels off high or keeps "
        "rising, while that of Fair-UCB returns to almost zero: quotas absorb the cost of "
        "exploration. The paper does not state LFG's eta, on which everything depends. Theorem 2 "
        "holds throughout.",
        (
            Table(tuple(_rows(cache)), "Instance 1A, tolerance 0: r-regret"),
            Table(tuple(_bound_rows(cache)), "Fair-UCB compared with Theorem 2"),
        ),
    )


def _rows(cache: SimulationCache) -> Iterator[Row]:
    for name, references in _REFERENCES.items():
        for runs, (mean, width) in zip(regret_curve(cache, name), references, strict=False):
            measured = runs.metrics["r_regret"]
            reference = half_width(mean, width)
            yield {
                "policy": name,
                "round": runs.horizon,
                "runs": runs.replications,
                "ours": Measured.of(measured),
                "reference": reference,
                "most behind its quota": int(runs.metrics["floored_violation"].max()),
                AGREES: agrees(measured, reference, _REFERENCE_RUNS),
            }


def _bound_rows(cache: SimulationCache) -> Iterator[Row]:
    environment = ONE_A.environment()
    for runs in regret_curve(cache, "Fair-UCB"):
        assert runs.horizon is not None
        bound = complexity(environment, runs.horizon).theorem2
        yield {
            "round": runs.horizon,
            "measured": Measured.of(runs.metrics["r_regret"]),
            "Theorem 2": round(bound, 1),
            AGREES: float(runs.metrics["r_regret"].mean()) <= bound,
        }
