"""Check the linear paper's figures and the reference's tables with few runs and a fixed seed.

The most important reference values are repeated in this file, so that a slip in the package's own
tables is found.
"""

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from fairtrial.errors import InvalidArgument
from fairtrial.linear import ConstantLevel, GAllocation
from papers.linear import PAPER, shortened
from papers.linear import instances as environments
from papers.linear.betting import BET_ROWS, block_betting
from papers.linear.cache import (
    SimulationCache,
    WatchedBlockBetting,
    difference,
    policy,
)
from papers.linear.published import STRATEGIES
from papers.linear.rules import RULES, compared
from papers.report import Measured, keeps_level, share
from tests.messages import raises
from tests.papers.sections import find


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def report(folder):
    # In that one, a run takes hundreds of thousands of pulls; figures 4 and 5 include such runs.
    easier = [one for one in environments.COMMON if one is not environments.PAPER]
    return shortened(2, easier).reproduce(quick=True, output=folder)


def section(report, name):
    (found,) = [part for part in report.sections if part.name == name]
    return found


def rows_of(report, name, table=0):
    return section(report, name).tables[table].rows


# ----------------------------------------------------------------------------- the environments


def test_the_instance_is_the_papers():
    features, theta = environments.PAPER.problem.features, environments.PAPER.theta
    assert features[:5].tolist() == np.eye(5).tolist()
    assert features[5] == pytest.approx([math.cos(0.01), math.sin(0.01), 0, 0, 0])
    assert theta.tolist() == [2, 0, 0, 0, 0]
    first, second = np.sort(features @ theta)[:-3:-1]
    assert first - second == pytest.approx(9.99991667e-5, abs=1e-12)


@pytest.mark.parametrize("noise", ["normal", "coins"])
def test_no_test_can_see_the_gap_of_a_hard_null(noise):
    nulls = environments.hard_nulls(noise)
    assert len(nulls) == 4
    for instance in nulls:
        values = np.sort(instance.problem.values(instance.theta))
        assert 0 < values[-1] - values[-2] <= 1.001e-6
        environment = instance.environment
        assert environment.truth.acceptable == (environment.truth.best,)
        assert environment.arm_stds == pytest.approx(1.0)
        assert environment.arm_means == pytest.approx(instance.problem.features @ instance.theta)


def test_evidence_is_the_least_divergence_of_an_environment_in_which_a_rival_is_best():
    instance = environments.paper_instance(2, 0.3)
    pulls = np.array([7.0, 11.0, 3.0])
    rows, theta = instance.problem.features, instance.theta

    def divergence(other):
        return 0.5 * pulls @ (rows @ (other - theta)) ** 2

    for rival, found in zip((1, 2), instance.evidence_of(pulls), strict=True):
        tie = {"type": "eq", "fun": lambda other, y=rows[0] - rows[rival]: y @ other}
        least = minimize(divergence, np.array([0.5, 0.5]), constraints=tie, tol=1e-12)
        assert found == pytest.approx(least.fun, rel=1e-6)


def test_hardness_under_the_best_shares_is_the_least():
    instance = environments.PAPER
    assert instance.hardness_at(instance.oracle_shares) == pytest.approx(10100.83625, rel=1e-5)
    assert instance.hardness_at([0.2] * 5 + [0.0]) == pytest.approx(50000.4167, rel=1e-6)


# ------------------------------------------------------------------------- exact quantities


def test_exact_quantities_agree_with_the_reference(report):
    part = section(report, "complexity")
    assert len(part.verdicts) == 11 + 9
    assert all(part.verdicts)
    rows = part.tables[0].rows
    assert find(rows, instance="soare:5:0.01")["H"] == pytest.approx(10100.83625, rel=1e-6)
    assert find(rows, instance="soare:5:0.1")["bound at .05"] == pytest.approx(587.570, rel=1e-5)
    assert find(rows, instance="mab:8:0.5")["G"] == pytest.approx(8, rel=1e-5)
    assert find(rows, instance="soare:5:0.1")["XY"] == pytest.approx(10, rel=1e-3)
    growth = part.tables[1].rows
    assert [row["reference"] for row in growth] == [
        1.98, 2.97, 3.96, 4.95, 5.94, 6.93, 7.92, 8.91, 9.90,
    ]  # fmt: skip


# --------------------------------------------------------------------------------- figure 5


def test_the_printed_columns_add_up_to_the_printed_budgets():
    budgets = {one.name: one.budget for one in STRATEGIES}
    assert budgets == {
        "XY-oracle": 41652,
        "XY-adaptive": 52988,
        "XY": 147620,
        "G": 140075,
        "Fully-adaptive": 149964,
    }


def test_the_allocations_of_figure_5_reproduce(report):
    rounding = rows_of(report, "figure-5")
    assert [row["ours"] for row in rounding] == [208, 41438, 2, 2, 2, 0]
    assert all(row["agrees"] for row in rounding)
    shares = rows_of(report, "figure-5", 1)
    assert all(row["agrees"] for row in shares)
    assert find(shares, strategy="G")["x2, ours"] == pytest.approx(0.2, abs=1e-3)
    assert find(shares, strategy="Fully-adaptive")["x2, ours"] > 0.98


def test_the_report_says_plainly_which_budgets_no_rule_can_reach(report):
    rows = rows_of(report, "figure-5", 2)
    verdicts = {row["strategy"]: row["agrees"] for row in rows}
    assert verdicts == {
        "XY-oracle": False,
        "XY-adaptive": False,
        "XY": False,
        "G": False,
        "Fully-adaptive": True,
    }
    assert find(rows, strategy="XY-adaptive")["no rule below"] == 53534
    assert find(rows, strategy="G")["no rule below"] == pytest.approx(265_002, abs=2)
    # Only x2 distinguishes the best arm from its neighbour: 28,015.5 pulls, a gap of about 1e-4.
    assert find(rows, strategy="G")["evidence, of 2.65"] == pytest.approx(1.40, abs=0.005)
    for row in rows:
        assert row["ours"].mean > row["no rule below"]


def test_the_printed_formula_gives_budgets_far_from_the_printed_ones(report):
    rows = rows_of(report, "figure-5", 3)
    assert find(rows, strategy="XY-oracle")["budget by the formula"] == pytest.approx(
        2.90e6, rel=0.01
    )
    assert find(rows, strategy="G")["budget by the formula"] == pytest.approx(15.7e6, rel=0.01)
    assert find(rows, strategy="XY-oracle")["printed budget / H"] == pytest.approx(4.1236, abs=1e-4)


@pytest.mark.statistical
def test_a_constant_level_of_4_12_errs_far_more_often_than_delta():
    # Of 600 runs, .18 are wrong within 5,000 pulls; .1 of 200 would be three deviations less.
    cache = SimulationCache(quick=True, seed=1)
    rule = GAllocation(environments.PAPER.problem, stopping=ConstantLevel(4.12))
    runs = cache.simulate(environments.PAPER, rule, (200, 200), horizon=5000)
    assert runs.error_rate > 0.1


# --------------------------------------------------------------------------------- figure 4


def test_the_figure_4_section_has_the_ends_and_the_middle_if_quick(report):
    rows = rows_of(report, "figure-4")
    assert [row["d"] for row in rows] == [2, 5, 10]
    for row in rows:
        assert row["bound"] == pytest.approx(53_535, abs=10)
        assert row["BlockBetting"].mean > 20_000


@pytest.mark.statistical
def test_static_budgets_grow_with_the_dimension_and_the_oracles_does_not():
    cache = SimulationCache(quick=True, seed=2)
    mean = {
        (name, dimension): cache.simulate(
            environments.paper_instance(dimension, 0.1),
            policy(name, environments.paper_instance(dimension, 0.1)),
            (30, 30),
        ).stopping_time.mean()
        for name in ("XY-oracle", "G")
        for dimension in (2, 10)
    }
    # By formula, 4.95 times as much, and 1.02; levels add a fifth. Standard errors are about a
    # tenth of each mean.
    assert mean["G", 10] > 3 * mean["G", 2]
    assert mean["XY-oracle", 10] < 2.5 * mean["XY-oracle", 2]


# ------------------------------------------------------------------------------ block betting


@pytest.mark.statistical
def test_block_betting_agrees_with_the_reference():
    wanted = ("soare:5:0.1", "sphere:30:5:1", "mab:8:0.5")
    rows = [row for row in BET_ROWS if row.instance.name in wanted]
    found = block_betting(SimulationCache(quick=True, seed=1, most_runs=30), rows)
    assert len(found.verdicts) == 9
    assert all(found.verdicts)
    row = find(found.tables[0].rows, instance="soare:5:0.1", delta=0.05)
    assert row["reference"] == Measured(1083.0, 50.0)
    # It cannot be below the bound of 588 pulls.
    assert row["of the bound"] > 1.0


def test_every_row_of_the_reference_is_compared():
    assert len(BET_ROWS) == 27
    by_name = {(row.instance.name, row.delta): row.reference.mean for row in BET_ROWS}
    assert by_name["soare:5:0.01", 0.05] == 107_966
    assert by_name["mab:50:1", 0.01] == 1277


# ------------------------------------------------------------------------------- all rules


@pytest.mark.statistical
def test_block_betting_needs_fewer_pulls_than_every_other_rule():
    chosen = [one for one in environments.COMMON if one.name == "soare:10:0.1"]
    found = compared(SimulationCache(quick=True, seed=1, most_runs=3, environments=chosen))
    assert all(found.verdicts)
    rows = found.tables[0].rows
    assert [row["rule"] for row in rows] == list(RULES)
    ours = find(rows, rule="BlockBetting")["ours"].mean
    # The next best rule needs 4,700 pulls on average, block betting 1,200 with a deviation of 700.
    assert all(row["ours"].mean > ours for row in rows if row["rule"] != "BlockBetting")
    assert find(rows, rule="LinGapE")["reference"].mean == 4681


def test_all_rules_claim_a_proven_guarantee():
    for name in RULES:
        rule = policy(name, environments.COMMON[0])
        assert rule.guarantee.proven, name
        assert rule.delta == 0.05


# ------------------------------------------------------------------------------- hard nulls


def test_a_watched_answer_is_rejected_if_another_is_the_answer():
    problem, environment = environments.COMMON[0].problem, environments.COMMON[0].environment
    best, other = environment.truth.best, problem.answers[1]
    cache = SimulationCache(quick=True, seed=1)
    for watched, rejected in ((best, 0.0), (other, 1.0)):
        runs = cache.simulate(environments.COMMON[0], WatchedBlockBetting(problem, watched), (5, 5))
        assert runs.correct.all()
        assert runs.metrics["watched_rejected"].tolist() == [rejected] * 5


@pytest.mark.statistical
def test_the_true_answer_of_a_hard_null_is_seldom_rejected(report):
    cache = SimulationCache(quick=True, seed=4)
    for noise in ("normal", "coins"):
        instance = environments.hard_nulls(noise)[0]
        rule = WatchedBlockBetting(instance.problem, instance.environment.truth.best, 0.1)
        runs = cache.simulate(instance, rule, (100, 100), horizon=1000)
        rejected = int(runs.metrics["watched_rejected"].sum())
        assert keeps_level(rejected, 100, 0.1)
        assert int(runs.wrong.sum()) <= rejected


def test_undecided_and_rejected_shares_are_reported(report):
    for table in (0, 1):
        rows = rows_of(report, "hard-nulls", table)
        assert len(rows) == 4
        assert all(row["runs"] == 2 for row in rows)


# ------------------------------------------------------------------------------ comparisons


def test_few_runs_are_judged_by_the_spread_of_the_reference():
    reference = Measured(100.0, 3.0)
    # The reference has 9 runs with deviation 9, so the mean of one run has a standard error of 9.
    assert difference(np.array([100.0 + 90**0.5]), reference, 9) == pytest.approx(1.0)
    wide = np.array([60.0, 140.0])
    assert difference(wide, reference, 9) == 0.0


def test_shares_without_a_spread_have_no_standard_error():
    assert share(0, 10).error is None
    assert share(5, 20).error == pytest.approx(math.sqrt(0.25 * 0.75 / 20))


def test_simulations_are_made_once_and_know_the_bound():
    cache = SimulationCache(quick=True, seed=3, most_runs=2)
    instance = environments.COMMON[0]
    first = cache.simulate(instance, policy("BlockBetting", instance), (50, 40))
    assert cache.simulate(instance, policy("BlockBetting", instance), (50, 40)) is first
    assert first.replications == 2
    assert first.lower_bound == pytest.approx(instance.complexity.lower_bound(0.05))


# ------------------------------------------------------------------------------- the report


def test_the_report_is_written_with_its_figures(report, folder):
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Best-arm identification in linear bandits")
    assert report.conclusion in text
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert data["compared"] == len(report.verdicts)
    pictures = {path.name for path in folder.glob("*.png")}
    assert pictures == {"figure-4.png", "figure-5.png", "rules.png", "survivors.png"}
    assert all(10_000 < path.stat().st_size < 80_000 for path in folder.glob("*.png"))


def test_an_output_that_is_no_folder_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with raises(InvalidArgument, "output"):
        PAPER.reproduce(quick=True, output=tmp_path / "file")
