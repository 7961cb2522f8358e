"""What is assumed about the noise when an experiment is planned from a table."""

import math

import numpy as np
import pytest

from fairtrial.cli import ExitCode
from fairtrial.cli.config import load_configuration
from fairtrial.errors import ConfigurationError
from tests.cli.configurations import replayed, write, write_table
from tests.messages import raises, warns

ONE_EACH = [("a", "x", 0.75), ("b", "x", 0.25)]
REPEATED = [("a", "x", 0.8), ("a", "x", 0.7), ("b", "x", 0.25)]
CELLS = {"family": "subpopulations", "arms": ["a", "b"], "groups": ["x"], "floors": -math.inf}
KNOWN = {**CELLS, "noise_std": 0.1}
BOUNDED = {**CELLS, "reward_range": [-1, 1]}
GUESSED = {**CELLS, "noise_std": "estimated"}
LINEAR = {
    "family": "linear",
    "arms": ["a", "b"],
    "features": [[1.0, 0.0], [0.0, 1.0]],
    "noise_std": 0.1,
}
GUESSING = {"subpopulations": "BalancedTracking", "linear": "LinGapE"}
BY_ARM = {"kind": "replay", "table": "rows.csv"}


@pytest.fixture
def load(tmp_path):
    def load(rows, problem, purpose="plan", **sections):
        write_table(tmp_path, rows)
        if problem.get("noise_std") == "estimated":
            sections["policy"] = {"name": GUESSING[problem["family"]]}
        return load_configuration(write(tmp_path, replayed(problem=problem, **sections)), purpose)

    return load


@pytest.fixture
def mistakes(load):
    def mistakes(*arguments, **sections):
        with raises(ConfigurationError) as caught:
            load(*arguments, **sections)
        return list(caught.value.mistakes)

    return mistakes


# ---------------------------------------------------------------- one row for an arm


@pytest.mark.parametrize(
    ("problem", "source", "std"),
    [
        (KNOWN, None, [0.1, 0.1]),
        ({**KNOWN, "noise_std": [[0.1], [0.4]]}, None, [0.1, 0.4]),
        (LINEAR, BY_ARM, [0.1, 0.1]),
        # The largest spread of a reward in [-1, 1] with mean m is sqrt((1 - m) (1 + m)).
        (BOUNDED, None, [math.sqrt(0.25 * 1.75), math.sqrt(0.75 * 1.25)]),
    ],
    ids=["noise_std", "by cell", "linear", "reward_range"],
)
def test_one_row_for_each_arm_is_planned_with_what_the_problem_says(load, problem, source, std):
    sections = {} if source is None else {"source": source}
    with warns(UserWarning):
        environment = load(ONE_EACH, problem, **sections).planned
    own = environment.arm_stds if problem is LINEAR else environment.cell_stds
    assert np.ravel(environment.truth.means) == pytest.approx([0.75, 0.25], abs=1e-12)
    # One of 200 rows may lie between the ends of the range.
    assert np.ravel(own) == pytest.approx(std, rel=0.01 if problem is BOUNDED else 1e-9)


def test_only_cells_with_a_single_row_are_given_noise(load):
    with warns(UserWarning):
        environment = load(REPEATED, KNOWN).planned
    assert environment.cell_stds.ravel() == pytest.approx([0.05, 0.1])
    with warns(UserWarning):
        environment = load(REPEATED, GUESSED).planned
    # One degree of freedom: 2 * 0.05^2 is the variance.
    assert environment.cell_stds.ravel() == pytest.approx([0.05, math.sqrt(0.005)])


def test_rows_that_never_differ_say_nothing_of_the_noise(load):
    with warns(UserWarning):
        environment = load(ONE_EACH * 2, KNOWN).planned
    assert environment.cell_stds.ravel() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("problem", "means"), [(GUESSED, "means"), ({**LINEAR, "noise_std": "estimated"}, "theta")]
)
def test_noise_of_which_nothing_is_known_has_to_be_given(mistakes, problem, means):
    source = BY_ARM if problem["family"] == "linear" else replayed()["source"]
    (mistake,) = mistakes(ONE_EACH, problem, source=source)
    assert mistake.startswith(f"plan.std: is required, or plan.{means}: the rows of the table for")


@pytest.mark.filterwarnings("error")
def test_a_run_and_a_table_with_repeats_need_no_assumption(load):
    assert load(ONE_EACH, GUESSED, "run").assumed is None
    configuration = load([*ONE_EACH, ("a", "x", 0.5), ("b", "x", 0.5)], KNOWN)
    assert configuration.planned is configuration.environment


def test_one_row_for_each_arm_makes_no_nonsense_of_a_plan(folder, document):
    write_table(folder, ONE_EACH)
    path = write(folder, replayed(problem=KNOWN, plan={"replications": 20}))
    with warns(UserWarning):
        found, result = document("plan", path)
    assert result.exit_code == ExitCode.OK
    # Two arms with noise s, a gap g apart: T* = 8 s^2 / g^2.
    assert found["complexity"] == pytest.approx(8 * 0.1**2 / 0.5**2, rel=1e-6)
    assert found["simulated"]["undecided"] == 0
    assert found["simulated"]["stopping_time"]["mean"] >= 2


# ---------------------------------------------------------------------- given noise


@pytest.mark.parametrize("rows", [ONE_EACH, REPEATED], ids=["one row", "repeats"])
@pytest.mark.filterwarnings("error")
def test_the_plans_std_is_the_noise_around_the_tables_means(load, rows):
    given = {"std": [[0.3], [0.4]]}
    environment = load(rows, KNOWN, plan=given).planned
    assert environment.cell_stds.ravel() == pytest.approx([0.3, 0.4])
    assert environment.truth.means.ravel() == pytest.approx([0.75, 0.25])
    environment = load(rows, BOUNDED, plan={"std": 0.25}).planned
    assert environment.cell_stds.ravel() == pytest.approx([0.25, 0.25])


@pytest.mark.filterwarnings("error")
def test_noise_may_be_added_to_the_rows_of_a_linear_problem(load, mistakes):
    source = {**BY_ARM, "noise_std": 0.2}
    configuration = load(ONE_EACH, LINEAR, source=source)
    assert configuration.planned.arm_stds == pytest.approx([0.2, 0.2])
    both = load(ONE_EACH, LINEAR, source=source, plan={"std": 0.3}).planned
    assert both.arm_stds == pytest.approx([0.3, 0.3])
    noisy = {**replayed()["source"], "noise_std": 0.2}
    assert mistakes(ONE_EACH, KNOWN, source=noisy) == [
        "source.noise_std: must be left out in the family 'subpopulations'"
    ]


@pytest.mark.parametrize(
    ("problem", "plan", "expected"),
    [
        (KNOWN, {"std": 0}, "plan.std: must be a positive number, or one per cell; got 0"),
        (KNOWN, {"std": [1, 2, 3]}, "plan.std: must be a positive number, or one per cell"),
        (KNOWN, {"std": "some"}, "plan.std: must be a positive number, or one per cell"),
        (
            BOUNDED,
            {"std": 0.5},
            "plan.std: must keep mean - std and mean + std in the reward_range",
        ),
        (KNOWN, {"noise": "gaussian"}, "plan.noise: must be left out if a table is replayed"),
    ],
    ids=["zero", "shape", "text", "range", "noise"],
)
def test_a_mistake_in_the_plans_noise_is_named(mistakes, problem, plan, expected):
    (mistake,) = mistakes(ONE_EACH, problem, plan=plan)
    assert mistake.startswith(expected)
