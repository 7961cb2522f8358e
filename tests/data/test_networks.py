from importlib.resources import files

import numpy as np
import pytest

from fairtrial.causal import CausalModel, NetworkEnvironment, Problem, divergences
from fairtrial.data import adult_offer, hepar2
from fairtrial.errors import InvalidArgument
from papers.causal.offer_rules import OFFER_ARMS
from tests.messages import raises

# The catalogue prints four digits of the means and gaps.
DIGITS = 1.5e-4


def adult_problem(variant):
    question = adult_offer(variant)
    return Problem(CausalModel.from_bif(question.pop("network")), **question)


@pytest.mark.parametrize(
    ("variant", "arms", "best"),
    [("easy", 12, "marital"), ("hard", 15, "blend_0.5"), ("none_fair", 15, None)],
)
def test_adult_offer_has_the_catalogues_truth(variant, arms, best):
    problem = adult_problem(variant)
    truth = NetworkEnvironment(problem).truth
    assert (problem.n_arms, truth.best) == (arms, best)
    gaps = np.abs(truth.gaps[("male", "female")])
    for label, mean, gap in zip(problem.arm_labels, truth.means, gaps, strict=True):
        assert (mean, gap) == pytest.approx(OFFER_ARMS[label], abs=DIGITS)


def test_another_variant_is_refused():
    with raises(InvalidArgument, "variant"):
        adult_offer("simple")


def hepar_problem(intervened, arms, bound):
    model = CausalModel.from_bif(hepar2())
    outcome = ("carcinoma", {"present": 1.0, "absent": 0.0})
    return Problem(model, "sex", intervened, outcome, arms(model), bound)


def fibrosis(*present):
    return [[p, 1 - p] for p in present]


def test_hepar2_has_the_reference_values_for_fibrosis():
    problem = hepar_problem(
        "fibrosis",
        lambda model: {
            "k0": model.tables["fibrosis"],
            "k1": fibrosis(0.5, 0.5, 0.5),
            "k2": fibrosis(0.9, 0.1, 0.2),
        },
        0.2,
    )
    assert problem.columns == ("sex", "age", "PBC", "ChHepatitis", "fibrosis", "carcinoma")
    assert problem.carriers == ("PBC",)
    truth = NetworkEnvironment(problem).truth
    pair = ("female", "male")
    assert truth.means == pytest.approx([0.064052, 0.139877, 0.104297], abs=1e-6)
    assert truth.gaps[pair] == pytest.approx([0.043704, 0.040163, 0.041824], abs=1e-6)
    # The arms act only through the share of fibrosis.
    assert truth.gaps[pair] == pytest.approx(0.046695 - 0.046694 * truth.means, abs=1e-6)
    found = divergences(problem)
    assert found.outcome[1, 0] == pytest.approx(499.107584, rel=1e-5)
    assert found.outcome[2, 1] == pytest.approx(1.503355, rel=1e-5)
    assert found.gap[pair][1, 0] == pytest.approx(39557.61694, rel=1e-5)
    assert found.gap[pair[::-1]][1, 0] == pytest.approx(1026.054111, rel=1e-5)


def test_hepar2_has_the_reference_values_for_pbc():
    problem = hepar_problem(
        "PBC",
        lambda model: {
            "k0": model.tables["PBC"],
            "k1": np.full((2, 4, 2), 0.5),
            "k2": model.tables["PBC"][::-1],
        },
        0.03,
    )
    truth = NetworkEnvironment(problem).truth
    pair = ("female", "male")
    assert truth.means == pytest.approx([0.064052, 0.074205, 0.055487], abs=1e-6)
    assert truth.gaps[pair] == pytest.approx([0.043704, 0, -0.043704], abs=1e-6)
    assert truth.best == "k1"
    found = divergences(problem)
    assert found.outcome[0, 2] == pytest.approx(75.54621, rel=1e-5)
    assert found.outcome[1, 0] == pytest.approx(316.910748, rel=1e-5)
    assert all(gap[1] == pytest.approx(0.693147, abs=1e-6) for gap in found.gap.values())


@pytest.mark.parametrize(
    ("folder", "licence", "origin"),
    [
        ("hepar2", "Copyright (c) 2013-present pgmpy", "could not be checked"),
        ("adult_offer", "Creative Commons Attribution 4.0", "CC BY 4.0 by UCI"),
    ],
)
def test_origin_and_licence_travel_with_the_data(folder, licence, origin):
    place = files("fairtrial.data") / folder
    assert licence in (place / "LICENSE").read_text(encoding="utf-8")
    assert origin in (place / "ORIGIN.md").read_text(encoding="utf-8")
