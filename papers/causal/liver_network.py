"""The paper's section 6: ten arms for a node of HEPAR-II, and a variant whose bound binds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal import NetworkEnvironment, divergences
from papers.causal.cache import PAPER_RULES, RULES, SimulationCache
from papers.causal.chains import is_lowest
from papers.causal.instances import (
    BINDING,
    HEPAR,
    OWN,
    liver_environment,
    liver_network,
)
from papers.causal.tables import claim_table, error_table
from papers.report import AGREES, Row, Section, Table

__all__ = ["liver_errors", "liver_model"]

Floats = NDArray[np.float64]

_BOUND = 0.2


def liver_model() -> Section:
    """Compare values computed from the network with the paper and with reference values."""
    small, large = gap_range()
    return Section(
        "hepar-model",
        "HEPAR-II, the question (section 6)",
        "Arms are distributions of `fibrosis`, the sensitive attribute is `sex`, and the outcome "
        "is `carcinoma`. The sex does not influence fibrosis, so only an arm's total probability "
        "of fibrosis matters, and all gaps lie on one line against the mean outcome. Whatever "
        f"the arms are, their gaps lie between {small:.4f} and {large:.4f}. The printed bound of "
        ".2 therefore excludes nothing. No bound ever changes the winner; a bound below the "
        "smallest gap only leaves no fair arm. If arms act on `PBC`, which the sex does "
        "influence, a bound can matter.",
        (
            Table(tuple(_sizes()), "What the question needs to know about the network"),
            Table(tuple(_values()), "Means, gaps and divergences by enumeration"),
            claim_table(_claims_of_the_model(small, large)),
        ),
    )


def liver_errors(cache: SimulationCache) -> Section:
    """Compare the paper's rules on HEPAR-II, as printed and with a bound that binds."""
    return Section(
        "hepar-errors",
        "HEPAR-II, errors (section 6)",
        "Six sets of ten arms each, with uniform random probabilities; only the first arm is "
        "free of cost. As printed, the arms act on `fibrosis` under a bound of .2. If the free "
        "arm is the network's own table, it hardly overlaps with the others, because it almost "
        "never has fibrosis without hepatitis. In the binding variant, the arms act on `PBC` "
        "under a bound of .02, which excludes the arm that would be best without the bound.",
        (
            error_table(cache, HEPAR, RULES, "As printed: fibrosis, E = .2; share of errors"),
            claim_table(_claims_of_errors(cache)),
            error_table(cache, OWN, RULES, "The network's own table deployed; share of errors"),
            error_table(cache, BINDING, RULES, "Binding: PBC, E = .02; share of errors"),
        ),
    )


def gap_range() -> tuple[float, float]:
    """Return the smallest and the largest gap that an arm for `fibrosis` can have."""
    own = liver_network().tables["fibrosis"]
    ends = {name: _constant(own, share) for name, share in (("never", 0.0), ("always", 1.0))}
    gaps = np.abs(liver_environment("fibrosis", ends, _BOUND).truth.gaps["female", "male"])
    return float(gaps.min()), float(gaps.max())


def _constant(own: Floats, present: float) -> Floats:
    return np.broadcast_to([present, 1.0 - present], own.shape)


def _three_arms() -> NetworkEnvironment:
    own = liver_network().tables["fibrosis"]
    present = {"half": [0.5, 0.5, 0.5], "mixed": [0.9, 0.1, 0.2]}
    arms = {"own": own}
    arms |= {name: np.column_stack([p, 1.0 - np.array(p)]) for name, p in present.items()}
    return liver_environment("fibrosis", arms, _BOUND)


def _three_arms_on_the_sexes_node() -> NetworkEnvironment:
    own = liver_network().tables["PBC"]
    arms = {"own": own, "half": _constant(own, 0.5), "sexes swapped": own[::-1]}
    return liver_environment("PBC", arms, 0.03)


def _sizes() -> Iterator[Row]:
    network, problem = liver_network(), _three_arms().problem
    conditionals = len({problem.intervened, *problem.carriers})
    published = {"nodes": 70, "arcs": 123, "conditionals": 2, "columns of a row": 6}
    ours = [len(network.nodes), len(network.edges), conditionals, len(problem.columns)]
    for (name, reference), number in zip(published.items(), ours, strict=True):
        yield {"": name, "published": reference, "ours": number, AGREES: number == reference}


def _values() -> Iterator[Row]:
    environment, binding = _three_arms(), _three_arms_on_the_sexes_node()
    pair, back = ("female", "male"), ("male", "female")
    far, near = divergences(environment.problem), divergences(binding.problem)
    by_arm = {
        "fibrosis: mean": (environment.truth.means, (0.064052, 0.139877, 0.104297)),
        "fibrosis: gap (female, male)": (
            environment.truth.gaps[pair],
            (0.043704, 0.040163, 0.041824),
        ),
        "PBC: mean": (binding.truth.means, (0.064052, 0.074205, 0.055487)),
        "PBC: gap (female, male)": (binding.truth.gaps[pair], (0.043704, 0.0, -0.043704)),
    }
    for what, (found, reference) in by_arm.items():
        for value, expected in zip(found, reference, strict=True):
            yield _value_row(what, float(value), expected, 1e-6)
    single = {
        "fibrosis: M of half from own": (far.outcome[1, 0], 499.107584),
        "fibrosis: M of mixed from half": (far.outcome[2, 1], 1.503355),
        "fibrosis: D (female, male) of half from own": (far.gap[pair][1, 0], 39557.61694),
        "fibrosis: D (male, female) of half from own": (far.gap[back][1, 0], 1026.054111),
        "PBC: M of own from swapped": (near.outcome[0, 2], 75.54621),
        "PBC: M of half from own": (near.outcome[1, 0], 316.910748),
        "PBC: D (female, male) of half from own": (near.gap[pair][1, 0], 0.693147),
    }
    for what, (value, expected) in single.items():
        yield _value_row(what, float(value), expected, 1e-5 * expected)


def _value_row(what: str, value: float, expected: float, tolerance: float) -> Row:
    return {
        "": what,
        "ours": round(value, 6) + 0.0,
        "reference": expected,
        AGREES: abs(value - expected) <= tolerance,
    }


def _claims_of_the_model(small: float, large: float) -> Iterator[tuple[str, str, bool]]:
    yield (
        "a fairness constraint of .2 makes the task more challenging",
        f"gaps lie in [{small:.4f}, {large:.4f}]: no arm can break it",
        large >= _BOUND,
    )


def _claims_of_errors(cache: SimulationCache) -> Iterator[tuple[str, str, bool]]:
    rates = {rule: cache.overall(HEPAR, rule).rate for rule in PAPER_RULES}
    yield (
        "CSR-v2 shows the best performance of the four",
        ", ".join(f"{rule} {rate:.3f}" for rule, rate in rates.items()),
        is_lowest(cache, HEPAR, "CSR-v2"),
    )
    yield (
        "two-stage v2 doesn't perform well: worse than CSR-v1",
        f"{rates['two-stage v2']:.3f} against {rates['CSR-v1']:.3f}",
        cache.overall(HEPAR, "CSR-v1").clearly_below(cache.overall(HEPAR, "two-stage v2")),
    )
