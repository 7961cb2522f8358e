from importlib.resources import files

import numpy as np
import pytest

from fairtrial.causal import CausalModel, NetworkEnvironment, Problem, divergences
from fairtrial.data import adult_offer, hepar2
from fairtrial.errors import InvalidArgument

# The catalogue prints four digits of the means and gaps.
DIGITS = 1.5e-4
ADULT = {
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
        assert (mean, gap) == pytest.approx(ADULT[label], abs=DIGITS)


def test_another_variant_is_refused():
    with pytest.raises(InvalidArgument, match="variant must be one of 'easy'"):
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
    # The arms act through the share of fibrosis only.
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
