"""Conditions in words: categories and interactions become features, and nothing is lost."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from fairtrial.cli.config import load_configuration
from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import InvalidArgument
from fairtrial.linear import BlockBetting, GaussianEnvironment, NotEstimable, Problem
from tests.messages import raises, warns

ROWS = list(product(["K", "Cs", "Na"], ["L2", "L1"], [90, 105, 120]))
NAMES = ["base", "ligand", "heat"]
TABLE = {name: [row[place] for row in ROWS] for place, name in enumerate(NAMES)}
FRAME = pd.DataFrame(TABLE)


def problem_of(features=TABLE, **arguments):
    return Problem(features, **{"noise_std": 1.0, **arguments})


def test_text_becomes_indicators_beside_a_constant_and_numbers_stay():
    problem = problem_of()
    assert problem.feature_names == ("intercept", "base=Cs", "base=Na", "ligand=L1", "heat")
    assert problem.references == {"base": "K", "ligand": "L2"}
    expected = [
        [1, base == "Cs", base == "Na", ligand == "L1", heat] for base, ligand, heat in ROWS
    ]
    np.testing.assert_array_equal(problem.features, expected)
    assert (problem.rank, problem.has_intercept) == (5, True)


@pytest.mark.parametrize("dtype", [object, "category", "string"])
def test_a_frame_is_encoded_like_its_columns_and_like_pandas_dummies(dtype):
    frame = FRAME.astype({"base": dtype, "ligand": dtype})
    problem = problem_of(frame)
    assert problem == problem_of()
    dummies = pd.get_dummies(frame, drop_first=True).assign(one=1.0).to_numpy(np.float64)
    both = np.hstack([problem.features, dummies])
    assert np.linalg.matrix_rank(both) == problem.rank == dummies.shape[1]


def test_categories_may_be_numbers():
    frame = pd.DataFrame({"dose": pd.Categorical([10, 20, 40, 10]), "heat": [1.0, 2, 2, 3]})
    problem = problem_of(frame)
    assert problem.feature_names == ("intercept", "dose=20", "dose=40", "heat")
    assert problem_from_dict(json.loads(json.dumps(problem.to_dict()))) == problem


def test_interactions_are_products_of_what_their_columns_become():
    problem = problem_of(interactions=[["base", "ligand"], ("ligand", "heat")])
    assert problem.feature_names[5:] == ("base=Cs:ligand=L1", "base=Na:ligand=L1", "ligand=L1:heat")
    plain = problem_of().features
    products = [plain[:, 1] * plain[:, 3], plain[:, 2] * plain[:, 3], plain[:, 3] * plain[:, 4]]
    np.testing.assert_array_equal(problem.features[:, 5:], np.transpose(products))
    assert problem.rank == 8


def test_three_columns_may_interact():
    names = problem_of(interactions=[NAMES]).feature_names
    assert names[5:] == ("base=Cs:ligand=L1:heat", "base=Na:ligand=L1:heat")


def test_columns_of_numbers_interact_too_and_get_no_constant():
    frame = pd.DataFrame({"one": [1.0, 1, 1, 1], "a": [0.0, 1, 0, 1], "b": [0.0, 0, 1, 1]})
    problem = problem_of(frame, interactions=[["a", "b"]])
    assert problem.feature_names == ("one", "a", "b", "a:b")
    assert problem.features[:, 3].tolist() == [0, 0, 0, 1]
    with warns(UserWarning):
        problem_of({"a": [1, 2, 1, 2], "b": [1, 1, 2, 2]}, interactions=[["a", "b"]])


def test_a_constant_column_beside_text_is_not_doubled():
    problem = problem_of({**TABLE, "one": [1.0] * len(ROWS)})
    assert "intercept" not in problem.feature_names


@pytest.mark.parametrize("features", [TABLE, FRAME])
def test_an_encoded_problem_survives_json_and_clones(features):
    candidates = {name: column[:4] for name, column in TABLE.items()}
    problem = problem_of(
        features, candidates=candidates, interactions=[["base", "heat"]], tolerance=0.5
    )
    data = json.loads(json.dumps(problem.to_dict()))
    assert data["features"]["base"][:2] == ["K", "K"]
    assert data["interactions"] == [["base", "heat"]]
    again = problem_from_dict(data)
    assert isinstance(again, Problem)
    assert again == problem
    assert (again.features == problem.features).all()
    assert (again.candidates == problem.candidates).all()
    assert (again.arms, again.answers) == (problem.arms, problem.answers)
    assert problem.clone() == problem
    assert problem.clone(interactions=[]).features.shape == (18, 5)


def test_rows_are_labelled_by_their_values_or_by_the_tables_own_index():
    assert problem_of().arms[:2] == ("K L2 90", "K L2 105")
    assert problem_of(FRAME).arms[:2] == ("K L2 90", "K L2 105")
    named = FRAME.set_axis([f"well {row}" for row in range(18)])
    assert problem_of(named).arms[1] == "well 1"
    assert problem_of(arms=18).arms[1] == "1"
    twice = {name: column * 2 for name, column in TABLE.items()}
    assert problem_of(twice).arms[19] == "19"
    long = {**TABLE, "base": [base * 60 for base in TABLE["base"]]}
    assert problem_of(long).arms[1] == "1"


def test_candidates_are_encoded_by_the_levels_of_the_arms():
    wanted = {"heat": [100.0], "ligand": ["L1"], "base": ["Na"]}
    problem = problem_of(
        candidates={name: [*column, TABLE[name][0]] for name, column in wanted.items()}
    )
    assert problem.candidates is not None
    assert problem.candidates.tolist() == [[1, 0, 1, 1, 100], [1, 0, 0, 0, 90]]
    assert problem.answers == ("100 L1 Na", "90 L2 K")


def test_combinations_that_no_arm_has_cannot_be_candidates_if_they_interact():
    some = [row for row in ROWS if row[:2] != ("Cs", "L1")]
    tried = {name: [row[place] for row in some] for place, name in enumerate(NAMES)}
    assert problem_of(tried, candidates=TABLE).rank == 5
    with raises(NotEstimable, "candidates"):
        problem_of(tried, candidates=TABLE, interactions=[["base", "ligand"]])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"interactions": [["base", "ligant"]]}, "interactions[0]"),
        ({"interactions": [["base"]]}, "interactions[0]"),
        ({"interactions": [["base", "base"]]}, "interactions[0]"),
        (
            {"interactions": [["base", "heat"], ["heat", "base"]]},
            "interactions[1]",
        ),
        ({"interactions": "base:heat"}, "interactions"),
        ({"interactions": ["base"]}, "interactions[0]"),
        ({"interactions": 3}, "interactions"),
        ({"interactions": [["base", 3]]}, "interactions[0]"),
        (
            {"candidates": {**TABLE, "base": ["Li"] * 18}},
            "candidates: feature 'base'",
        ),
        ({"candidates": {"base": ["K"]}}, "candidates"),
        ({"candidates": {**TABLE, "heat": ["hot"] * 18}}, "candidates: feature 'heat'"),
        ({"candidates": {**TABLE, "base": [1] * 18}}, "candidates: feature 'base'"),
        ({"candidates": [[1.0, 2.0, 3.0]]}, "candidates"),
        ({"features": {**TABLE, "heat": [1]}}, "features"),
        ({"features": {"base": []}}, "features"),
        ({"features": {}}, "features"),
        ({"features": {**TABLE, "base": "K"}}, "features"),
        ({"features": {**TABLE, "heat": [None, *range(17)]}}, "features: feature 'heat'"),
        ({"features": {**TABLE, "base": ["K", 1.0] * 9}}, "features: feature 'base'"),
        ({"features": {**TABLE, "base": ["K", " "] * 9}}, "features: feature 'base'"),
        ({"features": {**TABLE, "heat": [float("nan")] * 18}}, "features: feature 'heat'"),
        ({"features": {**TABLE, "name": list("abcdefghijklmnopqr")}}, "features: feature 'name'"),
        ({"features": [[1, 0], [0, 1]], "interactions": [["a", "b"]]}, "interactions"),
    ],
)
def test_what_cannot_be_encoded_is_refused_by_name(arguments, name):
    with raises(InvalidArgument, name):
        problem_of(**{"features": TABLE, **arguments})


def test_an_encoding_that_would_not_fit_is_refused():
    levels = [f"{number}" for number in range(2000)] * 2
    wide = dict.fromkeys("abc", levels)
    with raises(InvalidArgument, "interactions"):
        problem_of(wide, interactions=[["a", "b", "c"]])


def test_frames_with_repeated_columns_or_missing_categories_are_refused():
    with raises(InvalidArgument, "features"):
        problem_of(pd.concat([FRAME, FRAME[["base"]]], axis=1))
    with raises(InvalidArgument, "features: feature 'base'"):
        problem_of(FRAME.assign(base=pd.Categorical([None, *TABLE["base"][1:]])))


def test_the_question_says_what_values_are_compared_with():
    words = problem_of(interactions=[["base", "heat"]]).in_words()
    assert words["Described by"] == (
        "base (against K), ligand (against L2), heat; interactions: base with heat"
    )


def test_the_choice_of_reference_changes_no_answer():
    orders = [TABLE, {name: column[::-1] for name, column in TABLE.items()}]
    answers = []
    for table in orders:
        problem = problem_of(table, noise_std=0.3)
        heat = dict(zip(problem.arms, problem.features, strict=True))
        effects = {"K": 0.0, "Cs": 1.0, "Na": -1.0, "L2": 0.0, "L1": 0.5}
        means = [
            sum(effects[word] for word in arm.split()[:2]) + 0.01 * float(arm.split()[2])
            for arm in heat
        ]
        theta, *_ = np.linalg.lstsq(problem.features, means, rcond=None)
        policy = BlockBetting(problem)
        environment = GaussianEnvironment(problem, theta)
        generator = np.random.default_rng(1)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, environment.sample(pull, generator))
        answers.append(policy.recommend().arm)
    assert answers == ["Cs L1 120"] * 2


def test_a_file_names_a_table_of_conditions_and_what_interacts(tmp_path):
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in ROWS)]
    (tmp_path / "conditions.csv").write_text("\n".join(lines))
    path = tmp_path / "trial.toml"
    path.write_text(
        '[study]\nname = "x"\n[problem]\nfamily = "linear"\nfeatures = "conditions.csv"\n'
        'noise_std = 1.0\ninteractions = [["ligand", "base"]]\n'
    )
    expected = problem_of(interactions=[["ligand", "base"]])
    assert load_configuration(path, "create").problem == expected
    path.write_text(path.read_text().replace('"ligand"', '"ligant"'))
    with raises(Exception, places=("problem.interactions[0]",)):
        load_configuration(path, "create")


def test_a_constant_column_is_named_and_not_the_one_that_tells_the_arms_apart():
    features = {"heat": [90, 90, 90], "base": ["K", "Cs", "Na"]}
    with raises(InvalidArgument) as caught:
        Problem(features, noise_std=1.0)
    assert caught.value.name == "features: feature 'heat'"
    assert len(Problem({"base": features["base"]}, noise_std=1.0).arms) == 3


def test_one_odd_text_does_not_make_categories_of_numbers():
    features = {"heat": ["90", "105 C", "120"] * 3, "base": ["K", "Cs", "Na"] * 3}
    with raises(InvalidArgument) as caught:
        Problem(features, noise_std=1.0)
    assert caught.value.name == "features: row 1: heat"


def test_a_space_does_not_make_another_category():
    features = {"heat": [90.0, 105, 120, 90], "base": ["B1", "B2", "B2 ", "B1"]}
    with warns(UserWarning):
        problem = Problem(features, noise_std=1.0, arms=["a", "b", "c", "d"])
    assert problem.conditions(2)["base"] == "B2"
