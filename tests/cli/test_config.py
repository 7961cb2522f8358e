import tomllib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial import causal, delayed
from fairtrial.cli.config import load_configuration, load_study_section
from fairtrial.cli.environments import build_replay
from fairtrial.cli.sections import ReplaySource
from fairtrial.errors import ConfigurationError
from fairtrial.subpopulations import BalancedTracking, BlockBetting
from tests import effort
from tests.cli.configurations import ROWS, replayed, write, write_table
from tests.messages import raises


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path)
    return tmp_path


def load(folder, purpose="run", **changes):
    return load_configuration(write(folder, replayed(**changes)), purpose)


def mistakes(folder, purpose="run", **changes):
    with raises(ConfigurationError) as caught:
        load(folder, purpose, **changes)
    return list(caught.value.mistakes)


def changed(section, **keys):
    return {section: {**replayed()[section], **keys}}


# ------------------------------------------------------------------- what is accepted


def test_a_file_becomes_problem_policy_and_environment(folder):
    configuration = load(folder)
    assert configuration.problem.arms == ("a", "b")
    assert configuration.problem.shares.tolist() == [0.5, 0.5]
    assert isinstance(configuration.policy, BlockBetting)
    assert (configuration.policy.delta, configuration.policy.seed) == (0.05, 7)
    assert configuration.environment.truth.means == pytest.approx(
        np.array([[0.8, 0.7], [0.2, 0.0]])
    )


def test_block_betting_is_the_default_policy(folder):
    assert isinstance(load(folder, policy=None).policy, BlockBetting)


def test_a_policys_keys_are_its_constructors_arguments(folder):
    policy = load(folder, policy={"name": "BalancedTracking", "delta": 0.1, "max_pulls": 9}).policy
    assert isinstance(policy, BalancedTracking)
    assert (policy.delta, policy.max_pulls) == (0.1, 9)


def test_a_file_can_plan_an_end(folder):
    policy = load(folder, policy={"max_pulls": 500, "planned_end": True}).policy
    assert isinstance(policy, BlockBetting)
    assert (policy.max_pulls, policy.planned_end) == (500, True)


def test_paths_are_relative_to_the_file(folder):
    storage = load(folder).study.storage
    assert storage == f"sqlite:///{folder}/small.db"
    absolute = changed("study", storage=f"sqlite:///{folder}/elsewhere.db")
    assert load(folder, **absolute).study.storage == f"sqlite:///{folder}/elsewhere.db"


def test_a_replay_finds_columns_that_are_called_by_their_names(folder):
    environment = load(folder, source={"kind": "replay", "table": "rows.csv"}).environment
    assert (environment.arm, environment.group, environment.reward) == ("arm", "group", "reward")


def test_a_study_in_memory_stays_there(folder):
    assert load(folder, **changed("study", storage="memory://")).study.storage == "memory://"


def test_the_study_section_can_be_read_alone(folder):
    path = write(folder, {"study": replayed()["study"], "problem": {"nonsense": 1}})
    assert load_study_section(path).name == "small"


NOISY = {"family": "subpopulations", "arms": ["a", "b"], "groups": ["x", "y"], "noise_std": 1.0}


@pytest.mark.parametrize(
    "means",
    [
        [[1.0, 2.0], [3.0, 4.0]],
        {"a": [1, 2], "b": [3, 4]},
        {"b": {"y": 4, "x": 3}, "a": {"x": 1, "y": 2}},
        [{"x": 1, "y": 2}, [3, 4]],
    ],
)
def test_means_are_given_by_label_or_in_the_order_of_the_labels(folder, means):
    environment = load(
        folder, problem=NOISY, source={"kind": "simulate", "means": means}
    ).environment
    assert type(environment).__name__ == "GaussianEnvironment"
    assert environment.truth.means.tolist() == [[1, 2], [3, 4]]


def test_bounded_rewards_are_simulated_as_zeros_and_ones_or_with_the_given_spread(folder):
    means = [[0.5, 0.25], [0.1, 0.2]]
    coins = load(folder, source={"kind": "simulate", "means": means}).environment
    assert type(coins).__name__ == "BernoulliEnvironment"
    spread = load(folder, source={"kind": "simulate", "means": means, "std": 0.5}).environment
    assert spread.truth.means == pytest.approx(np.array(means))
    assert spread.cell_stds == pytest.approx(np.full((2, 2), 0.5))


def test_planning_takes_the_plans_means_before_the_sources(folder):
    configuration = load(folder, "plan", plan={"means": [[0.1, 0.1], [0.2, 0.2]]})
    assert configuration.planned.truth.best == "b"
    assert load(folder, "plan").planned.truth.best == "a"


def test_what_the_plan_leaves_out_is_that_of_the_simulated_source(folder):
    source = {"kind": "simulate", "means": [[1, 2], [3, 4]], "std": 0.5}

    def environment(**plan):
        return load(folder, "plan", problem=NOISY, source=source, plan=plan).planned

    assert (environment(std=2.0).cell_stds == 2.0).all()
    assert environment(std=2.0).truth.means.tolist() == [[1, 2], [3, 4]]
    other = environment(means=[[4, 3], [2, 1]])
    assert other.truth.means.tolist() == [[4, 3], [2, 1]]
    assert (other.cell_stds == 0.5).all()


def test_the_plans_kind_of_noise_replaces_that_of_the_source(folder):
    means = [[0.5, 0.25], [0.5, 0.25]]
    coins = {"kind": "simulate", "means": means, "noise": "bernoulli"}
    environment = load(folder, "plan", source=coins, plan={"std": 0.2}).planned
    assert environment.cell_stds == pytest.approx(np.full((2, 2), 0.2))
    spread = {"kind": "simulate", "means": means, "std": 0.2}
    environment = load(folder, "plan", source=spread, plan={"noise": "bernoulli"}).planned
    assert environment.cell_stds[0, 0] == 0.5


ARMS = {"family": "linear", "arms": ["a", "b"], "features": [[1, 0], [0, 1]]}


def test_bounded_linear_rewards_are_planned_with_the_spread_that_is_given(folder):
    problem = {**ARMS, "candidates": [[1, 0], [0.5, 0.5]], "reward_range": [0, 1]}
    plan = {"theta": [0.5, 0.25], "std": 0.25}
    environment = load(folder, "plan", problem=problem, source=None, plan=plan).planned
    assert environment.arm_stds.tolist() == [0.25, 0.25]
    assert environment.values.tolist() == [0.5, 0.375]


# ------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("problem", "keys", "expected"),
    [
        ({**ARMS, "noise_std": 1}, {"means": [0.2, 0.1]}, ["means"]),
        ({**ARMS, "noise_std": 1}, {"theta": [0.2, 0.1], "noise": "gaussian"}, ["noise"]),
        ({**ARMS, "noise_std": 1}, {}, ["theta"]),
        ({**ARMS, "reward_range": [0, 1]}, {"theta": [0.2], "std": 0.1}, ["theta"]),
        (
            {"family": "allocation", "arms": 2, "shares": 0.1},
            {"means": [0.5, 0.1], "noise": "gaussian"},
            ["noise"],
        ),
        ({**NOISY, "arms": 2}, {"means": [[0, 0], [0, 0]], "every": 2.0}, ["every"]),
    ],
    ids=["linear means", "linear noise", "no theta", "shape", "allocation", "every"],
)
def test_what_says_nothing_in_a_family_is_refused(folder, problem, keys, expected):
    source = {"kind": "simulate", **keys}
    found = mistakes(folder, problem=problem, policy=None, source=source)
    assert all_of(found) == [f"source.{key}" for key in expected]


@pytest.mark.parametrize(
    "problem",
    [
        delayed.Problem(["a", "b"], noise_std=1.0),
        causal.chain(0.4, {"a": [[0.5, 0.5], [0.4, 0.6]]}, [0.1, 0.9], fairness_bound=0.2)[0],
    ],
    ids=["delayed", "causal"],
)
def test_a_table_is_replayed_only_in_a_family_that_can(folder, problem):
    found = []
    assert (
        build_replay(problem, ReplaySource(kind="replay", table="rows.csv"), folder, found) is None
    )
    kinds = "'simulate' or 'command'"
    assert found == [f"source.kind: must be {kinds} in the family {problem.family!r}; got 'replay'"]


def test_how_a_learner_is_written_is_said(folder):
    problem = {"family": "allocation", "arms": ["a", "b"], "shares": ["1/3", "1/3"]}
    command = {"kind": "command", "run": "m"}
    for learner in ("Thomson", {"name": "Thomson"}, ["Thompson"]):
        policy = {"name": "FairLearn", "learner": learner}
        (mistake,) = mistakes(folder, problem=problem, policy=policy, source=command)
        assert mistake.startswith("policy.learner")
        assert '{ name = "EpsilonGreedy", epsilon = 0.1 }' in mistake
        assert "did you mean 'Thompson'? accepted: EpsilonGreedy, " in mistake


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_sections(folder):
    found = mistakes(
        folder,
        stduy={"a": 1},
        study={"name": 3, "seed": -1},
        problem={**replayed()["problem"], "arms": ["a", "a"], "floors": [1, 2, 3], "floor": 1},
        policy={"delta": 2, "max_pull": 3},
        source={"kind": "replay", "tabel": "rows.csv"},
        plan={"replications": 0},
    )
    assert [line.split(":")[0] for line in found] == [
        "stduy",
        "study.name",
        "study.seed",
        "problem.floor",
        "problem.arms[1]",
        "problem.floors",
        "policy.max_pull",
        "policy.delta",
        "source.table",
        "source.tabel",
        "plan.replications",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"study": {}}, "study.name: is required"),
        (changed("study", name=""), "study.name: must have at least one character; got ''"),
        (changed("study", seed="7"), "study.seed: must be an integer; got '7'"),
        (changed("study", seed=True), "study.seed: must be an integer; got True"),
        (
            changed("study", durability="ful"),
            "study.durability: must be 'full' or 'process'; got 'ful'",
        ),
        (changed("study", storage="ftp://host/x"), 'study.storage: must be "sqlite:///file.db"'),
        (changed("study", nam="x"), "study.nam: is not a key here; did you mean 'name'?"),
        ({"problem": None}, "problem: is required"),
        (changed("problem", family=None), "problem.family"),
        (
            changed("problem", family="subpopulation"),
            "problem.family: must be a family; did you mean",
        ),
        ({"problem": {"family": "subpopulations"}}, "problem.arms: is required"),
        (changed("problem", noise_std=1.0), "problem.noise_std, reward_range: exactly one"),
        (
            changed("problem", groups={"x": -1, "y": 2}),
            "problem.group_weights[x]: must not be negative",
        ),
        (changed("problem", floors=[1, 2, 3]), "problem.floors: must be a number or have shape"),
        (changed("policy", name="Bandit"), "policy.name: must be one of BalancedTracking"),
        (changed("policy", name=3), "policy.name: must be one of"),
        (changed("policy", delta=1), "policy.delta: must be a number strictly between 0 and 1"),
        (changed("policy", stoping=1), "policy.stoping: is not a key here"),
        (
            {"policy": {"name": "BlockBetting"}, "problem": {**NOISY, "noise_std": "estimated"}},
            "policy",
        ),
        ({"source": None}, "source: is required"),
        ({"source": {}}, "source.kind: is required: one of 'replay', 'simulate', 'command'"),
        ({"source": {"kind": "replays"}}, "source.kind: must be one of"),
        (changed("source", table="absent.csv"), "source.table: must be a readable file (No such"),
        (changed("source", table="."), "source.table: must end in .csv"),
        (changed("source", reward="gain"), "source.reward: must be a column of rows.csv"),
        (changed("source", group="stratum"), "source.group: must be a column of rows.csv"),
        ({"source": {"kind": "simulate"}}, "source.means: is required"),
        (
            {"source": {"kind": "simulate", "means": {"a": [0, 0], "c": [0, 0]}}},
            "source.means.c: is not an arm; accepted: a, b",
        ),
        (
            {"source": {"kind": "simulate", "means": [[0, 0]]}},
            "source.means: must have one entry per arm (a, b); got 1",
        ),
        (
            {"source": {"kind": "simulate", "means": {"a": 1, "b": [0, 0]}}},
            "source.means.a: must be a list in the order of the groups, or a table by group; got 1",
        ),
        (
            {"source": {"kind": "simulate", "means": [["u", 0], [0, 0]]}},
            "source.means[0, 0]: must be a n",
        ),
        (
            {"source": {"kind": "simulate", "means": [[2, 0], [0, 0]]}},
            "source.means[a, x]: must be a prob",
        ),
        (
            {"source": {"kind": "simulate", "means": [[1, 0], [0, 0]], "std": 0.5}},
            "source.std: must be positive and keep mean - std and mean + std in the reward_range",
        ),
        (
            {"source": {"kind": "simulate", "means": [[1, 0], [0, 0]], "noise": "gaussian"}},
            "problem: must give noise_std",
        ),
        ({"source": {"kind": "command"}}, "source.run: is required"),
        ({"source": {"kind": "command", "run": "x", "timeout": 0}}, "source.timeout: must be gre"),
        (
            {"source": {"kind": "command", "run": "measure {arms}"}},
            "source.run: has the placeholder {arms}; did you mean 'arm'?",
        ),
        (
            {"source": {"kind": "command", "run": "measure {arm} {tag}"}},
            "source.run: has the placeholder {tag}; accepted: arm, group, pull",
        ),
        (
            {"source": {"kind": "command", "run": "measure {arm} {block}"}},
            "source.run: has the placeholder {block}; accepted: arm, group, pull",
        ),
        (
            {"source": {"kind": "command", "run": "echo '{arm}'"}},
            "source.run: has the placeholder {arm} within single quotes, where the shell would not",
        ),
        ({"plan": {"delta": 0}}, "plan.delta: must be a number strictly between 0 and 1; got 0"),
        ({"plan": {"means": [[0, 0], [0, 7]]}}, "plan.means[b, y]: must be a prob"),
    ],
)
def test_each_mistake_is_named_by_its_key_path(folder, changes, expected):
    changes = {
        name: section and {key: value for key, value in section.items() if value is not None}
        for name, section in changes.items()
    }
    found = mistakes(folder, **changes)
    assert [line for line in found if line.startswith(expected)], found


def test_every_mistake_in_a_table_is_listed_with_its_row(folder):
    rows = [*ROWS[:4], ("c", "x", 0.1), ("a", "z", "much"), ("a", "x", 1.5), ("a", "x", "nan")]
    write_table(folder, [*rows, ("a", "x", -3)])
    assert mistakes(folder) == [
        (
            "source.arm: column 'arm' holds 'c' in 1 row, which is not an arm of the problem; "
            "accepted: a, b"
        ),
        "source.arm: column 'arm' has no row with 'b'",
        (
            "source.group: column 'group' holds 'z' in 1 row, "
            "which is not a group of the problem; accepted: x, y"
        ),
        "source.reward: column 'reward', line 7: must be a number; got 'much'",
        "source.reward: column 'reward', line 8: must be in [-1, 1]; got 1.5",
        "source.reward: column 'reward', line 9: must be a number; got 'nan'",
        "source.reward: column 'reward': 1 more such rows",
    ]


def test_a_cell_without_rows_is_a_mistake(folder):
    write_table(folder, [row for row in ROWS if row[:2] != ("b", "y")])
    assert "none for {'arm': 'b', 'group': 'y'}" in mistakes(folder)[0]


@pytest.mark.parametrize("purpose", ["plan", "simulate"])
def test_a_command_cannot_be_planned_for_without_means(folder, purpose):
    command = {"kind": "command", "run": "measure {arm}"}
    assert mistakes(folder, purpose, source=command)[0].startswith("plan.means: is required")
    means = {"means": [[0.5, 0.5], [0.1, 0.1]]}
    assert load(folder, purpose, source=command, plan=means).planned.truth.best == "a"


def test_a_byte_order_mark_before_the_first_section_is_no_mistake(folder):
    path = write(folder, replayed())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_configuration(path, "run").problem.arms == ("a", "b")
    assert load_study_section(path).name == "small"


def test_a_table_without_groups_is_of_the_only_group(folder):
    (folder / "rows.csv").write_text("arm,reward\na,0.5\nb,0.25\n")
    one = changed("problem", groups={"everybody": 1})
    found = load(folder, **one, source={"kind": "replay", "table": "rows.csv"})
    assert found.environment.truth.means.tolist() == [[0.5], [0.25]]
    for problem in (one, {}):
        source = {"kind": "replay", "table": "rows.csv"} | ({"group": "site"} if problem else {})
        (mistake,) = mistakes(folder, **problem, source=source)
        assert mistake.startswith("source.group: must be a column of rows.csv")


@pytest.mark.parametrize(
    "content", [b"[study\nname = 1", b"name = '\xff'", None], ids=["no TOML", "no text", "none"]
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path, content):
    path = tmp_path / "trial.toml"
    if content is not None:
        path.write_bytes(content)
    for load_it in (lambda: load_configuration(path, "run"), lambda: load_study_section(path)):
        with raises(ConfigurationError):
            load_it()


scalars = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.just(-(10**400)),
    st.floats(),
    st.sampled_from(["", "a", "x", "replay", "command", "rows.csv", "BlockBetting"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "x", "name"]), inner)
    ),
    max_leaves=4,
)


@settings(
    max_examples=effort.runs(60, whole=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), replacement=values)
def test_no_file_whatever_it_says_is_answered_with_anything_but_a_list_of_mistakes(
    folder, data, replacement
):
    sections = replayed(plan={"means": [[0.5, 0.5], [0.1, 0.1]], "replications": 5})
    section = data.draw(st.sampled_from(sorted(sections)))
    keys = [
        *sorted(sections[section]),
        "delta",
        "std",
        "noise_std",
        "group_weights",
        "batch",
        "new",
    ]
    sections[section][data.draw(st.sampled_from(keys))] = replacement
    path = write(folder, sections)
    tomllib.loads(path.read_text())
    lines = ()
    try:
        load_configuration(path, "run")
    except ConfigurationError as error:
        lines = error.mistakes
    assert all(line.split(".")[0].split(":")[0] in sections for line in lines)


def test_a_refused_argument_without_a_default_is_one_mistake(tmp_path):
    text = """
        [study]
        name = "fair"
        [problem]
        family = "causal"
        sensitive = "S"
        intervened = "V"
        outcome = "Y"
        fairness_bound = -1
        [problem.model]
        edges = [["S", "V"], ["V", "Y"]]
        [problem.model.states]
        S = 2
        V = 2
        Y = 2
        [problem.model.tables]
        S = [0.5, 0.5]
        [problem.arms]
        a = [[0.5, 0.5], [0.4, 0.6]]
        [policy]
        name = "PlugIn"
        budget = 10
        [source]
        kind = "simulate"
    """
    path = tmp_path / "fair.toml"
    path.write_text(text)
    with raises(ConfigurationError) as caught:
        load_configuration(path, "run")
    assert caught.value.mistakes == (
        "problem.fairness_bound: must be a finite number greater than 0; got -1",
    )


def all_of(found):
    return [line.split(":")[0] for line in found]


LATE = {"family": "delayed", "arms": ["a", "b"], "noise_std": 1.0}


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (
            {"family": "subpopulations", "direction": "up", "floors": "q", "noise_std": -1},
            ["arms", "groups", "direction", "floors", "noise_std"],
        ),
        (
            {
                "family": "linear",
                "features": "q",
                "arms": ["a", "a"],
                "noise_std": -1,
                "direction": "up",
            },
            ["features", "arms[1]", "noise_std", "direction"],
        ),
        (
            {
                "family": "allocation",
                "arms": ["a", "a"],
                "shares": ["2/3", -1],
                "unfairness_tolerance": -1,
                "reward_range": [1, 0],
                "groups": 3,
                "plays": 0,
            },
            ["arms[1]", "shares[1]", "unfairness_tolerance", "reward_range", "plays", "groups"],
        ),
        ({**LATE, "top": 0, "direction": "up", "clip": "yes"}, ["direction", "top", "clip"]),
    ],
)
def test_a_mistake_in_a_problem_does_not_hide_the_others(folder, problem, expected):
    found = mistakes(folder, problem=problem, policy=None, source={"kind": "command", "run": "m"})
    assert sorted(all_of(found)) == sorted(f"problem.{name}" for name in expected)


def test_what_contradicts_a_mistaken_argument_is_no_second_mistake(folder):
    command = {"kind": "command", "run": "m"}
    problem = {**LATE, "feedback": "often", "reading_std": 0.1}
    policy = {"name": "InformationRacing", "truncate": 3, "delta": 2}
    found = mistakes(folder, problem=problem, policy=policy, source=command)
    assert all_of(found) == ["problem.feedback", "policy.delta"]


def test_a_mistake_in_a_part_of_a_policy_is_named_by_its_path_and_hides_no_other(folder):
    problem = {"family": "allocation", "arms": ["a", "b"], "shares": ["1/3", "1/3"]}
    command = {"kind": "command", "run": "m"}
    for learner, name in (({"name": "Nope"}, "name"), ({"name": "EpsilonGreedy", "e": 1}, "e")):
        policy = {"name": "FairLearn", "learner": learner, "scheduler": "x"}
        found = mistakes(folder, problem=problem, policy=policy, source=command)
        assert all_of(found) == [f"policy.learner.{name}", "policy.scheduler"]


def test_a_wrong_storage_is_listed_with_the_other_mistakes_of_the_study(folder):
    found = mistakes(folder, study={"storage": "http://x", "seed": -1})
    assert all_of(found) == ["study.name", "study.storage", "study.seed"]


def test_every_misplaced_key_of_a_source_is_listed(folder):
    means = [[0.1, 0.1], [0.2, 0.2]]
    source = {"kind": "simulate", "means": means, "delay": 1.0, "bias": 2.0}
    assert all_of(mistakes(folder, source=source)) == ["source.delay", "source.bias"]


# Warnings from objects that earlier tests left to the garbage collector may appear here.
@pytest.mark.filterwarnings(
    "error", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_nothing_is_said_of_what_stands_in_for_a_mistaken_argument(tmp_path):
    test_a_refused_argument_without_a_default_is_one_mistake(tmp_path)
