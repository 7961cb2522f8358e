"""Check the paper's figures and the headline study with few replications and a fixed seed.

Tolerances are those of the report: four standard errors of the difference of two means. The most
important reference values are repeated in this file, so that a slip in the package's own table is
found.
"""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fairtrial.allocation import FairUCB, complexity
from fairtrial.errors import InvalidArgument
from papers import fair_mab
from papers.fair_mab.cache import SimulationCache, agrees, behind
from papers.fair_mab.cost import cost
from papers.fair_mab.figures import write_figures
from papers.fair_mab.headlines import SERVERS, headlines, play
from papers.fair_mab.instances import FIXED_QUOTAS, ONE_A, ONE_B, TWO
from papers.fair_mab.instances import headlines as all_tests
from papers.fair_mab.regret import regret
from papers.fair_mab.violations import violations, worst_of_largest
from papers.report import Measured, Section, Table
from tests.messages import raises
from tests.papers.sections import disagreeing, find, rows_of


@pytest.fixture(scope="module")
def cache():
    return SimulationCache(quick=True, seed=1)


# ---------------------------------------------------------------------------- the environments


def test_the_instances_are_the_papers():
    gaps = [round(0.8 - mean, 6) for mean in ONE_A.means]
    assert gaps == [0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]
    assert sum(0.8 - mean for mean in ONE_B.means) == pytest.approx(0.45)
    assert ONE_A.problem(7).shares == (Fraction(1, 20),) * 10
    assert TWO.problem().shares == (Fraction(1, 5), Fraction(3, 10), Fraction(1, 4))
    assert (ONE_A.horizon, TWO.horizon) == (1_000_000, 200)


def test_every_headline_is_guaranteed_an_equal_part_of_one_half():
    tests = all_tests()
    assert len(tests) == 1700
    assert all(sum(test.problem.shares) == Fraction(1, 2) for test in tests[:50])
    assert sum(test.lead > 3 for test in tests) == 46
    strong = next(test for test in tests if test.name == "51c8cece234062bbdd003366")
    assert strong.rates == pytest.approx([0.0054, 0.0124, 0.0382, 0.0071], abs=5e-5)


# ------------------------------------------------------------------------------ figure 2


@pytest.mark.statistical
def test_the_cost_of_fairness_agrees_with_the_reference(cache):
    section = cost(cache)
    assert not disagreeing(section)
    assert find(rows_of(section), unfairness_tolerance=0)["reference"].mean == 27_004.8
    assert find(rows_of(section), unfairness_tolerance=45_000)["reference"].mean == 4_593.0
    assert find(rows_of(section, 1), unfairness_tolerance=0)["reference"].mean == 22_925.9
    regrets = [row["regret"].mean for row in rows_of(section)]
    assert regrets[:3] == sorted(regrets[:3], reverse=True)


@pytest.mark.statistical
def test_the_main_texts_theorem4_is_exceeded_and_the_appendixs_is_not(cache):
    rows = rows_of(cost(cache), 2)
    assert [row["main text holds"] for row in rows if row["unfairness_tolerance"] == 0] == [
        "no",
        "no",
    ]
    assert find(rows, instance="1A", unfairness_tolerance=0)["main text"] == 16475.759
    exact = find(rows, instance=FIXED_QUOTAS.name)
    assert exact["main text"] == 4.719
    # Its quotas bind, so every run has the same regret: 6,000 pulls of each arm.
    assert exact["measured regret"].mean == pytest.approx(6600, abs=5)


# ------------------------------------------------------------------------------ figure 3


@pytest.mark.statistical
def test_r_regret_over_time_agrees_with_the_reference(cache):
    section = regret(cache)
    assert not disagreeing(section)
    ours = find(rows_of(section), policy="Fair-UCB", round=100_000)
    assert ours["reference"].mean == 271
    assert ours["most behind its quota"] == 0
    assert find(rows_of(section), policy="LFG, eta 10", round=100_000)["reference"].mean == 1475


# ------------------------------------------------------------------------------ figure 4


@pytest.mark.statistical
def test_violations_agree_with_the_reference(cache):
    section = violations(cache)
    assert not disagreeing(section)
    rows = rows_of(section)
    assert len(rows) == 11
    for name in ("Fair-UCB (largest)", "due", "lazy", "due, carry 1"):
        assert find(rows, policy=name)["most pulls behind"] == 0
    assert find(rows, policy="T-fair-UCB")["most pulls behind"] == 25
    assert find(rows, policy="LFG, eta 100")["most pulls behind"] > 15
    assert find(rows, policy="UCB1, no quotas")["runs in violation"] == 1


@pytest.mark.statistical
def test_the_violation_of_lfg_levels_off_and_does_not_return(cache):
    rows = rows_of(violations(cache), 1)
    far = find(rows, eta=1000)
    assert far["t = 20,000"].mean > far["t = 2,000"].mean > far["t = 200"].mean > 10
    assert far["violation / t at the end"] < 0.02


def test_a_tolerance_of_one_half_is_broken_and_whole_ones_are_not(cache):
    rows = rows_of(violations(cache), 2)
    assert [(row["unfairness_tolerance"], row["kept"]) for row in rows] == [
        ("0", "yes"),
        ("1/2", "no"),
        ("1", "yes"),
    ]


def test_largest_credit_breaks_a_quota_above_one_over_k():
    shares = (Fraction(68, 100), Fraction(20, 100), Fraction(0))
    assert worst_of_largest(shares, Fraction(0), 3) == 1


# ----------------------------------------------------------------------------- headlines


@pytest.mark.statistical
def test_every_headline_keeps_its_share_and_most_clicks_are_won(cache):
    section = headlines(cache)
    assert not disagreeing(section)
    for table in (0, 1):
        rows = rows_of(section, table)
        for name in SERVERS:
            row = find(rows, **{"served by": name})
            if name.endswith("guaranteed"):
                assert row["most behind its quota"] == 0
        fair = find(rows, **{"served by": "Thompson, half guaranteed"})
        free = find(rows, **{"served by": "Thompson, no quotas"})
        assert 0 < fair["of the possible gain"].mean < free["of the possible gain"].mean < 1
        assert fair["least share / quota"] > 0.99
        assert free["least share / quota"] < 0.5


def test_an_outcome_lies_between_rotation_and_the_best(cache):
    outcome = play(cache, all_tests()[:5], "Thompson, half guaranteed")
    assert (outcome.clicks <= outcome.best).all()
    assert outcome.clicks.shape == (5,)
    # Half of the impressions are rotated in any case.
    floor = 0.5 * outcome.rotation - 10
    assert (outcome.clicks >= floor).all()


# ------------------------------------------------------------------------- what is measured


def test_regret_and_shortfall_are_those_of_the_counts(cache):
    runs = cache.simulate(FairUCB(TWO.problem()), TWO.environment(), (4, 4), TWO.horizon)
    means, pulls = np.array(TWO.means), runs.pulls
    expected = ((means.max() - means) * (pulls - [40, 60, 50])).sum(axis=1)
    assert runs.metrics["r_regret"] == pytest.approx(expected)
    lacking = [
        max(r * 200 - n for r, n in zip((0.2, 0.3, 0.25), run, strict=True)) for run in pulls
    ]
    assert behind(runs) == pytest.approx(lacking)


def test_few_runs_are_judged_by_the_spread_of_the_reference():
    reference = Measured(100.0, 1.0)
    # The reference has 50 runs with a standard deviation of 7.1, so the mean of 2 has an error of
    # 5.
    assert agrees(np.array([115.0, 115.0]), reference, 50)
    assert not agrees(np.array([125.0, 125.0]), reference, 50)


def test_simulations_are_made_once(cache):
    policy = FairUCB(TWO.problem())
    first = cache.simulate(policy, TWO.environment(), (3, 3), 50)
    assert cache.simulate(policy, TWO.environment(), (3, 3), 50) is first
    assert cache.simulate(policy, TWO.environment(), (3, 3), 60) is not first


# ------------------------------------------------------------------------------ the report


def test_every_section_can_be_written_as_json(cache):
    for section in (cost(cache), regret(cache), violations(cache)):
        assert json.loads(json.dumps(section.to_dict(), allow_nan=False))["name"] == section.name


def small_section(cache):
    return Section("s", "S", "text", (Table(({"a": 1, "agrees": True},)),))


def test_the_report_is_written_with_its_figures(monkeypatch, tmp_path, capsys):
    for name in ("cost", "regret", "violations", "headlines"):
        monkeypatch.setattr(fair_mab, name, small_section)
    figures = lambda cache, folder: [folder / "figure-2.png"]  # noqa: E731
    report = replace(fair_mab.PAPER, write_figures=figures).reproduce(
        quick=True, output=tmp_path / "new" / "folder"
    )
    assert report.verdicts == [True] * 4
    assert (tmp_path / "new" / "folder" / "report.md").read_text() == f"{report}\n"
    document = json.loads((tmp_path / "new" / "folder" / "report.json").read_text())
    assert (document["agree"], document["compared"]) == (4, 4)
    assert "figure-2.png" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with raises(InvalidArgument, "output"):
        fair_mab.PAPER.reproduce(quick=True, output=tmp_path / "file")


@pytest.mark.statistical
def test_the_figures_are_drawn(cache, tmp_path):
    paths = write_figures(cache, tmp_path)
    assert [path.name for path in paths] == [
        "figure-2.png",
        "figure-3.png",
        "figure-4.png",
        "headline-test.png",
    ]
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_bounds_have_the_references_values():
    found = complexity(TWO.environment(), TWO.horizon)
    assert found.theorem2 == pytest.approx(328.366091837, rel=1e-6)
