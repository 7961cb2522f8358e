"""What is measured: every policy, every kind of question, and the figures of small runs."""

import inspect

import pytest

import fairtrial as ft
from evidence import growth, looking, peers, policies, proposing, scaling, sequences
from evidence.parts import PARTS
from evidence.questions import QUESTIONS, Question
from fairtrial.core import Policy
from papers.baics.instances import NONE_FEASIBLE

KINDS = {"small", "large", "near-tied", "infeasible", "adversarial", "real"}


@pytest.mark.parametrize("family", QUESTIONS)
def test_every_policy_of_a_family_meets_every_kind_of_question(family):
    module = getattr(ft, family)
    public = [getattr(module, name) for name in module.__all__]
    classes = {one.__name__ for one in public if inspect.isclass(one) and issubclass(one, Policy)}
    measured = {name.partition(",")[0] for name in policies.POLICIES[family]}
    assert measured == classes - {"Policy"}
    assert {question.kind for question in QUESTIONS[family]} == KINDS
    names = [question.name for question in QUESTIONS[family]]
    assert len(set(names)) == len(names)


def test_names_of_parts_differ_and_every_part_has_cases():
    assert len({part.lower() for part in PARTS}) == len(PARTS)
    assert all(part.cases for part in PARTS.values())


@pytest.fixture
def easy(monkeypatch):
    environment = NONE_FEASIBLE.environment
    question = Question("subpopulations", "small", "easy", lambda: environment, 5_000)
    monkeypatch.setitem(QUESTIONS, "subpopulations", [question])
    return question


def test_the_figures_of_a_policy_are_those_of_its_runs(easy):
    [found] = policies.measure_policy("subpopulations", "BlockBetting", set(), 0.05, 3)
    policy = ft.subpopulations.BlockBetting(NONE_FEASIBLE.problem, delta=0.1)
    runs = ft.simulate(
        policy, NONE_FEASIBLE.environment, found["replications"], seed=3, progress=False
    )
    assert found["case"] == "easy"
    assert found["mean"] == runs.stopping_time.mean()
    assert found["wrong"] == runs.wrong.sum()
    assert (found["label"], found["undecided"]) == ("proven", 0)
    assert found["interval"][0] <= found["wrong"] / found["replications"] <= found["interval"][1]
    assert found["microseconds"] > 0


def test_a_question_that_is_skipped_is_not_measured(easy):
    assert not list(policies.measure_policy("subpopulations", "BlockBetting", {"easy"}, 0.05, 3))


def test_a_policy_that_refuses_a_question_says_so(easy, monkeypatch):
    monkeypatch.setitem(
        policies.POLICIES["subpopulations"],
        "BlockBetting",
        lambda family, question, environment: family.BlockBetting(environment.problem, delta=2.0),
    )
    [found] = policies.measure_policy("subpopulations", "BlockBetting", set(), 0.05, 3)
    assert found["missing"].startswith("refused: delta")


def test_sizes_that_would_take_too_long_are_left_out(monkeypatch):
    asked = []

    def measured(name, size, patience):
        asked.append(size)
        return {"total_seconds": size / 1_000}

    monkeypatch.setattr(growth, "_in_own_process", measured)
    found = list(growth.measure_growth("events", set(), 0.4, 1))
    assert [case["case"] for case in found] == [
        str(size) for size in growth.GROWTHS["events"].sizes
    ]
    assert asked == [1_000, 10_000]
    assert [case.get("missing") for case in found] == [
        *(None, None),
        "left out: about 100 s expected",
        "left out: about 1000 s expected",
        "left out: about 10000 s expected",
    ]
    assert [case.get("is_untried", False) for case in found] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("power", "measured_sizes", "expected"),
    [(1.0, 5, None), (2.0, 4, "left out: up to 199 GB of memory expected")],
)
def test_sizes_that_would_take_too_much_memory_are_left_out(
    monkeypatch, power, measured_sizes, expected
):
    def measured(name, size, patience):
        return {"total_seconds": 0.1, "growth_megabytes": 2_000 * (size / 10_000) ** power}

    monkeypatch.setattr(growth, "_in_own_process", measured)
    monkeypatch.setattr(growth, "_MEGABYTES", 30_000.0)
    found = list(growth.measure_growth("arms", set(), 3.0, 1))
    assert sum("missing" not in case for case in found) == measured_sizes
    assert found[-1].get("missing") == expected


def test_equal_variants_are_wrong_whichever_is_named_and_a_better_one_must_be_the_second():
    answers = {looking._EQUAL: [0, 1, None, None], looking._BETTER: [1, 1, 0, None]}

    def play(rates, seed):
        return answers[rates][seed % 4], 100

    found = looking.looks(play, 1e-9, 1)
    assert (found["replications"], found["wrong"]) == (20, 10)
    assert (found["found"], found["visitors"]) == (0.5, 100.0)


def test_block_betting_finds_a_variant_that_is_clearly_better():
    assert looking.betting((0.1, 0.9), 1)[0] == 1


@pytest.mark.parametrize("propose", [proposing.random_choice, proposing.first_plates])
def test_who_proposes_reactions_tries_different_ones_and_others_in_each_run(propose):
    wells = proposing.PLATES * proposing.WELLS
    first, second = propose(1), propose(2)
    assert len(first) == len(second) == wells
    assert first != second
    assert first == propose(1)
    assert all(0 <= value <= 1 for value in first)


def test_optuna_proposes_better_reactions_plate_by_plate():
    found = proposing.optuna(1)
    assert max(found[24:]) > max(found[:12])
    assert proposing.proposals(lambda seed: [0.1, float(seed)], 1e-9, 3) == pytest.approx(
        {"replications": 3, "mean": 5.0, "standard_error": 3**-0.5, "worst": 4.0,
         "cpu_seconds": 0.0}, abs=1e-2,
    )  # fmt: skip


@pytest.mark.parametrize("kind", scaling.SCALINGS)
def test_workers_of_each_kind_are_compared_with_one(kind):
    skip = set(map(str, scaling.SCALINGS[kind].workers)) - {"1", "64"}
    [found] = scaling.measure_scaling(kind, skip, 0.01, 1)
    assert found["case"] == "1"
    assert found["efficiency"] == found["alone_seconds"] / found["seconds"]
    assert found["alone_processor_seconds"] > 0
    assert (found["task_seconds"] > 0) == (kind == "dask")


def test_more_workers_than_cores_are_not_measured(monkeypatch):
    monkeypatch.setattr(scaling.os, "cpu_count", lambda: 2)
    found = list(scaling.measure_scaling("threads", {"1", "2"}, 0.01, 1))
    assert found == [
        {"case": str(workers), "missing": "this machine has 2 cores"} for workers in (4, 8)
    ]


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(peers.PEERS, "toys", {"toys, all": ("no-such-package", None)})
    [found] = peers.measure_peer("toys", set(), 0.1, 1)
    assert found["missing"] == "no-such-package is not installed"
    assert found["is_untried"]


def test_peers_play_on_the_same_rewards():
    rewards = peers.np.eye(10)[peers.np.arange(60) % 10]
    assert len(peers._serve_ours("FairLearn", "UCB1", rewards)) == 60
    figures = peers._traffic(lambda table: [9] * len(table), 0.1, 1)
    assert figures["behind"] == peers._ROUNDS // 20
    assert figures["least_share"] == 0.0


@pytest.mark.parametrize(
    ("ends", "width", "missed"), [((0.0, 1.0), 1.0, 0), ((0.1, 0.3), 0.2, 2), ((0.8, 0.9), 0.1, 3)]
)
def test_intervals_are_counted_that_miss_their_mean(ends, width, missed):
    found = sequences.intervals(lambda results: ends, 1e-9, 1)
    runs = found["replications"] / 3
    assert [found[name] for name in ("half", "rare", "narrow")] == pytest.approx([width] * 3)
    assert found["missed"] == missed * runs


def test_every_rule_of_intervals_gets_the_same_results(monkeypatch):
    monkeypatch.setattr(sequences, "_FEWEST_RUNS", 2)
    seen = [[], []]
    for each in seen:
        sequences.intervals(lambda results, each=each: each.append(results) or (0, 1), 1e-9, 1)
    first, second = seen
    assert len(first) == len(second) == 8
    assert all((one == other).all() for one, other in zip(first[2:], second[2:], strict=True))


def test_our_interval_of_a_mean_is_that_of_the_even_places():
    generator = sequences.np.random.default_rng(1)
    results = sequences.np.where(sequences.np.arange(400) % 2, 1.0, 0.2 * generator.random(400))
    lower, upper = sequences.analysis(results)
    assert 0.0 <= lower < 0.1 < upper < 0.3
    low, high = sequences.normal_interval(results)
    assert lower < low < 0.1 < high < upper


def test_claims_are_counted_at_the_floor_and_above_it():
    found = sequences.claims(lambda rate, seed: 20 if rate > 0.35 else None, 1e-9, 1)
    assert (found["wrong"], found["found"], found["results"]) == (0, 1.0, 20.0)
    found = sequences.claims(lambda rate, seed: 20 if rate < 0.35 else None, 1e-9, 1)
    assert (found["wrong"], found["found"]) == (found["replications"], 0.0)
    assert found["results"] == 1_000.0


def test_our_rule_claims_a_rate_that_is_clearly_above_the_floor():
    assert 0 < sequences.claim_of_floor(0.9, 1) < 200
    assert sequences.claim_of_floor(0.05, 1) is None


def test_the_label_after_a_run_is_that_of_a_policy_that_has_seen_the_contradiction(monkeypatch):
    features = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    problem = ft.linear.Problem(features, noise_std=0.01)
    table = {"arm": problem.arms, "reward": [1.0, 1.0, 0.0]}
    environment = ft.linear.ReplayEnvironment(problem, table, noise_std=0.01)
    question = Question(
        "linear", "real", "bent", lambda: environment, 200, budget=10, broken="not linear"
    )
    monkeypatch.setitem(QUESTIONS, "linear", [question])
    wanted = {name: policies.POLICIES["linear"][name] for name in ("BlockBetting",)}
    monkeypatch.setitem(policies.POLICIES, "linear", wanted)
    [found] = policies.measure_labels("linear", set(), 0.1, 1)
    assert (found["case"], found["before"], found["label"]) == (
        *("BlockBetting", "proven"),
        "heuristic",
    )
    assert 0 < found["pulls"] < 200
