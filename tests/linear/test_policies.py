"""The policies: one code path live and simulated, their tables, and every degenerate input."""

import math

import numpy as np
import pytest

from fairtrial.core import Policy, run_policy
from fairtrial.errors import AlreadyTold, InvalidArgument, InvalidOutcome, UnknownPull
from fairtrial.linear import (
    BernoulliEnvironment,
    BlockBetting,
    ConstantLevel,
    FrankWolfeSampling,
    FullyAdaptiveXY,
    GAllocation,
    GaussianEnvironment,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    MixtureLevel,
    ODLinBAI,
    Problem,
    Rage,
    RidgeLevel,
    XYAdaptive,
    XYAllocation,
    XYOracle,
    oracle_design,
)
from fairtrial.linear.policies.designs import plug_in_shares
from fairtrial.simulation import simulate
from tests import effort
from tests.linear.instances import mab, soare, sphere
from tests.messages import raises, warns

ADAPTIVE = [LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, FullyAdaptiveXY]
STATIC = [GAllocation, XYAllocation]
PHASED = [XYAdaptive, Rage]
EVERY = [BlockBetting, *ADAPTIVE, *STATIC, *PHASED]
SEVERAL = [BlockBetting, LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, *STATIC]

SOARE, THETA = soare(3, 0.4)


def easy(**changes: object) -> Problem:
    return Problem(SOARE, **{"noise_std": 0.5, **changes})  # type: ignore[arg-type]


def run(policy: Policy, environment: object, seed: int = 0, horizon: int | None = None):
    return policy.compiled_run(environment, np.random.default_rng(seed), horizon)  # type: ignore[arg-type]


def budgeted(problem: Problem) -> ODLinBAI:
    return ODLinBAI(problem, budget=600)


def oracle(problem: Problem) -> XYOracle:
    return XYOracle(problem, problem.sign * THETA)


# ------------------------------------------------------------------ one code path


@pytest.mark.parametrize("make", [*EVERY, oracle, budgeted])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_live_and_simulated_runs_are_the_same(make: type[Policy], direction: str) -> None:
    problem = easy(direction=direction)
    environment = GaussianEnvironment(problem, problem.sign * THETA)
    policy = make(problem)
    compiled = run(policy.clone(), environment, seed=3, horizon=700)
    live = run_policy(policy.clone(), environment, np.random.default_rng(3), horizon=700)
    assert live.stopping_time == compiled.stopping_time
    assert (live.answer, live.status) == (compiled.answer, compiled.status)
    assert np.array_equal(live.pulls, compiled.pulls)
    assert compiled.answer == "0"


@pytest.mark.parametrize("make", [*EVERY, oracle, budgeted])
def test_any_order_with_losses_and_many_in_flight_ends_with_the_right_answer(
    make: type[Policy],
) -> None:
    problem = easy()
    environment = GaussianEnvironment(problem, THETA)
    policy, rng = make(problem), np.random.default_rng(4)
    flying: list = []
    for _ in range(4000):
        if policy.stopped:
            break
        flying += policy.ask(25 - len(flying))
        pull = flying.pop(int(rng.integers(len(flying))))
        if rng.random() < 0.05:
            policy.fail(pull)
        else:
            policy.tell(pull, environment.sample(pull, rng))
    assert policy.recommend().arm == "0"
    assert policy.guarantee.label == "heuristic"  # losses need an assumption


def test_pulls_in_flight_are_taken_for_granted() -> None:
    policy = LinGapE(Problem(np.eye(2), noise_std=1.0), initial_pulls=2)
    for pull in policy.ask(4):
        policy.tell(pull, 1.0 if pull.arm == "0" else 0.0)
    chosen = [pull.arm for pull in policy.ask(20)]
    assert abs(chosen.count("0") - chosen.count("1")) <= 1


@pytest.mark.parametrize("cls", [LinGapE, FrankWolfeSampling, LinGame, LazyTrackAndStop])
def test_there_is_no_test_before_the_whole_start_is_told(cls: type[Policy]) -> None:
    policy = cls(Problem(np.eye(2), noise_std=0.01), initial_pulls=3)
    flying = policy.ask(6)
    for pull in flying[:5]:
        policy.tell(pull, 5.0 if pull.arm == "0" else 0.0)
    assert not policy.stopped
    policy.fail(flying[5])
    again = policy.ask()
    assert again.arm == flying[5].arm
    policy.tell(again, 5.0 if again.arm == "0" else 0.0)
    assert policy.recommend().arm == "0"


# ------------------------------------------------------------------------- levels


def test_levels_are_their_formulas() -> None:
    problem = Problem(np.eye(2), noise_std=2.0)
    rewards = {"0": [3.0, 1.0, 2.0], "1": [0.0, 1.0, -1.0]}
    gap, variance, pulls = 2.0, 4.0 * 2 / 3, 6

    def evidence(level: object, cls: type[Policy] = LinGapE, initial_pulls: int = 3) -> tuple:
        policy = cls(problem, delta=0.1, stopping=level, initial_pulls=initial_pulls)
        for k in range(3):
            for arm, values in rewards.items():
                policy.tell(problem.pull(arm=arm), values[k])
        return policy._evidence()

    z = gap**2 / variance / 2
    mixture = 1.2 * (math.log(10) + 0.5 * 2 * math.log(1 + 1 / 0.2))
    assert evidence("mixture") == pytest.approx((z, mixture))
    spread = 1.5 * (math.log(10) + 0.5 * 2 * math.log(1 + 1 / 0.5))
    assert evidence(MixtureLevel(spread=0.5)) == pytest.approx((z, spread))
    static = math.log(math.pi**2 / 6 * pulls**2 / 0.1)
    assert evidence("static", GAllocation) == pytest.approx((z, static))
    soare2014 = 4 * math.log(6 / math.pi**2 * pulls**2 * 4 / 0.1)
    assert evidence("soare2014", GAllocation) == pytest.approx((z, soare2014))
    looks = [math.ceil(1.1**j) for j in range(1, 40)]
    look = max(j for j, n in enumerate(looks, start=1) if n <= pulls)
    checks = math.log(look * (look + 1) / 0.1)
    assert evidence("static-checks", GAllocation) == pytest.approx((z, checks))
    assert evidence(ConstantLevel(9.0)) == pytest.approx((z, 4.5))
    # The ridge in the units of the problem: A = 3/4 I, L^2 = 1/4.
    ridge = (math.sqrt(2 * math.log((1 + pulls / 4 / 0.5) / 0.1)) + math.sqrt(0.5) * 3.0) ** 2
    shrunk = 2.0 * 0.75 / (0.75 + 0.5)
    z_ridge = shrunk**2 / (2 / (0.75 + 0.5)) / 2
    level = RidgeLevel(norm_bound=3.0, ridge=0.5)
    assert evidence(level) == pytest.approx((z_ridge, ridge / 2))


@pytest.mark.statistical
def test_the_ridge_holds_in_one_dimension_too() -> None:
    # The formula as printed, d ln((1 + N L^2 / eta) / delta), gives .03 here.
    problem = Problem([[1.0], [-1.0]], noise_std=1.0)
    level = RidgeLevel(norm_bound=1e-6)
    policy = LinGapE(problem, delta=0.01, stopping=level, initial_pulls=1, max_pulls=1000)
    for reward in (1.0, -0.5, 2.0):
        policy.tell(problem.pull(arm="0"), reward)
    needed = math.log(1 + 3) + 2 * math.log(100)
    assert policy._evidence()[1] == pytest.approx((math.sqrt(needed) + 1e-6) ** 2 / 2)
    environment = GaussianEnvironment(problem, [1e-6])
    replications = effort.runs(300, whole=1000)
    runs = simulate(policy.clone(), environment, replications, seed=1)
    assert runs.error_rate <= effort.tolerated(0.01, replications)


def test_levels_that_need_a_number_are_asked_for_by_it() -> None:
    with raises(InvalidArgument, "stopping", given="ridge"):
        LinGapE(easy(), stopping="ridge")
    with raises(InvalidArgument, "stopping", given="constant"):
        Rage(easy(), stopping="constant")


def test_the_ridge_refuses_features_whose_sizes_it_cannot_weigh_together() -> None:
    problem = Problem(SOARE * [1e-8, 1.0, 1e8], noise_std=1.0)
    with raises(InvalidArgument, "stopping"):
        LinGapE(problem, stopping=RidgeLevel(norm_bound=1.0))


def test_the_ridge_does_not_depend_on_dependent_features() -> None:
    problem = Problem(np.repeat(SOARE, 2, axis=1) / math.sqrt(2), noise_std=1.0)
    plain = Problem(SOARE, noise_std=1.0)
    found = []
    for own in (problem, plain):
        policy = LinGapE(own, stopping=RidgeLevel(norm_bound=2.0), initial_pulls=1)
        for k, arm in enumerate(own.arms):
            policy.tell(own.pull(arm=arm), [2.0, 0.1, -0.2, 1.5][k])
        found.append(policy._evidence())
    assert found[0] == pytest.approx(found[1])


@pytest.mark.parametrize("cls", ADAPTIVE)
@pytest.mark.parametrize("level", ["static", "static-checks", "soare2014", "phase"])
def test_static_levels_are_refused_with_adaptive_sampling(cls: type[Policy], level: str) -> None:
    with raises(InvalidArgument, "stopping"):
        cls(easy(), stopping=level)


@pytest.mark.parametrize("cls", PHASED)
def test_only_phase_levels_hold_for_phases(cls: type[Policy]) -> None:
    for level in ("static", "mixture"):
        with raises(InvalidArgument, "stopping"):
            cls(easy(), stopping=level)
    assert cls(easy(), stopping=ConstantLevel(4.0)).guarantee.label == "heuristic"


# -------------------------------------------------------------- what may be wanted


@pytest.mark.parametrize("cls", SEVERAL)
def test_several_of_the_best(cls: type[Policy]) -> None:
    problem = Problem(np.eye(5), noise_std=0.3, top=2)
    found = run(cls(problem), GaussianEnvironment(problem, [0.2, 1.0, 0.0, 0.8, -0.1]))
    assert found.answer == ("1", "3")


@pytest.mark.parametrize("cls", [FullyAdaptiveXY, XYAdaptive, Rage])
def test_rules_that_eliminate_give_one_answer(cls: type[Policy]) -> None:
    with raises(InvalidArgument, "problem"):
        cls(Problem(np.eye(3), noise_std=1.0, top=2))


@pytest.mark.parametrize("cls", EVERY)
def test_a_tie_ends_with_epsilon_and_stays_undecided_without(cls: type[Policy]) -> None:
    theta = [1.0, 1.0, 0.0]
    loose = Problem(np.eye(3), noise_std=0.5, tolerance=0.5)
    assert run(cls(loose), GaussianEnvironment(loose, theta)).answer in ("0", "1")
    strict = Problem(np.eye(3), noise_std=0.5)
    policy = cls(strict, max_pulls=300)
    found = run(policy, GaussianEnvironment(strict, theta), seed=1)
    assert (found.status, found.answer, found.stopping_time) == ("undecided", None, 300)
    answer = policy.recommend()
    assert answer.leader in ("0", "1")
    assert {"0", "1"} <= set(answer.evidence["not_ruled_out"])


@pytest.mark.parametrize("cls", EVERY)
def test_identical_rewards_are_legal(cls: type[Policy]) -> None:
    policy = cls(Problem(np.eye(2), noise_std=1.0), max_pulls=40)
    while not policy.stopped:
        policy.tell(policy.ask(), 1.0)
    assert policy.recommend().status == "undecided"


@pytest.mark.parametrize("cls", EVERY)
def test_one_candidate_is_the_answer_at_once(cls: type[Policy]) -> None:
    for problem in (
        Problem([[1.0, 2.0]], noise_std=1.0),
        Problem([[1.0, 2.0]] * 2, noise_std=1.0),
        Problem(np.eye(2), candidates=[[1, 1]], noise_std=1.0),
    ):
        policy = cls(problem)
        assert policy.stopped
        assert policy.recommend().arm == "0"
        assert run(cls(problem), GaussianEnvironment(problem, [1, 1])).stopping_time == 0


@pytest.mark.parametrize("cls", [*EVERY, budgeted])
def test_rank_deficient_features_and_zero_arms(cls: type[Policy]) -> None:
    features = np.column_stack([SOARE, SOARE @ [1.0, -1.0, 2.0]])
    flat = Problem(features, noise_std=0.5)
    assert run(cls(flat), GaussianEnvironment(flat, [*THETA, 0.0])).answer == "0"
    with warns(UserWarning):
        zero = Problem([*np.eye(2), [0, 0]], noise_std=0.3)
    found = run(cls(zero), GaussianEnvironment(zero, [1.0, 0.3]))
    assert found.answer == "0"
    assert found.pulls[2] == 0


@pytest.mark.parametrize("cls", EVERY)
def test_identical_candidates_are_one_answer(cls: type[Policy]) -> None:
    problem = Problem([*SOARE, SOARE[0]], noise_std=0.5)
    policy = cls(problem)
    run(policy, GaussianEnvironment(problem, THETA))
    answer = policy.recommend()
    assert answer.arm == "0"
    assert answer.evidence["identical"] == [["0", "4"]]


@pytest.mark.parametrize("cls", EVERY)
def test_candidates_that_cannot_be_pulled(cls: type[Policy]) -> None:
    problem = Problem(
        np.eye(3), candidates=[[1, 1, 0], [1, 0, 1], [0, 1, 1]],
        answers=["ab", "ac", "bc"], noise_std=0.3,
    )  # fmt: skip
    policy = cls(problem)
    assert run(policy, GaussianEnvironment(problem, [0.9, 0.1, 0.5])).answer == "ac"
    assert [e.labels["arm"] for e in policy.progress().arms] == ["ab", "ac", "bc"]


def test_noisier_arms_are_weighed_less() -> None:
    problem = Problem(np.eye(2), noise_std=[0.5, 1.0])
    environment = GaussianEnvironment(problem, [0.3, 0.0])
    pulls = sum(run(LinGapE(problem), environment, seed=seed).pulls for seed in range(10))
    # The best shares are proportional to the standard deviations.
    assert pulls[1] / pulls[0] == pytest.approx(2.0, rel=0.25)


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE])
def test_rewards_in_a_known_range(cls: type[Policy]) -> None:
    problem = Problem([[1, 0], [1, 0.6]], reward_range=(0, 1))
    policy = cls(problem)
    assert run(policy, BernoulliEnvironment(problem, [0.2, 1.0])).answer == "1"
    for estimate in policy.progress().actions:
        assert 0.0 <= estimate.lower <= estimate.mean <= estimate.upper <= 1.0
    with raises(InvalidOutcome):
        cls(problem).tell(problem.pull(arm="0"), 1.5)


def test_block_draws_are_another_way_to_the_same_distribution() -> None:
    problem = Problem(soare(2, 0.3)[0], noise_std=1.0)
    environment = GaussianEnvironment(problem, soare(2, 0.3)[1])
    runs = 150
    plain = simulate(GAllocation(problem), environment, runs, seed=1)
    fast = simulate(GAllocation(problem, block_draws=True), environment, runs, seed=1)
    times = [np.asarray(found.stopping_time, dtype=float) for found in (plain, fast)]
    error = math.sqrt(sum(time.var() for time in times) / runs)
    assert abs(times[0].mean() - times[1].mean()) <= 4 * error
    assert fast.metrics["block_draws"].tolist() == [1.0] * runs
    with raises(InvalidArgument, "block_draws"):
        GAllocation(problem, stopping="static", block_draws=True)


def test_the_metrics_tell_whether_blocks_were_drawn() -> None:
    problem = easy()
    policy = GAllocation(problem, block_draws=True)
    normal = GaussianEnvironment(problem, THETA)
    for environment, engine, expected in (
        (normal, "auto", 1.0),
        (normal, "python", 0.0),
        (BernoulliEnvironment(Problem([[1, 0], [0, 1]], noise_std=0.5), [0.9, 0.1]), "auto", 0.0),
    ):
        own = policy.clone(problem=environment.problem)
        found = simulate(own, environment, 2, horizon=60, engine=engine)
        assert found.metrics["block_draws"].tolist() == [expected] * 2


@pytest.mark.parametrize("seed", range(4))
def test_pulls_drawn_in_blocks_are_those_that_are_asked_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(rng.normal(size=(7, 3)), noise_std=1.0)
    shares = rng.dirichlet(np.full(7, 0.3)) if seed else None
    policy = GAllocation(problem, delta=1e-300, shares=shares, block_draws=True)
    asked = [pull.action for pull in policy.clone().ask(3000)]
    environment = GaussianEnvironment(problem, [1.0, 0.0, 0.0])
    for most in (4, 17, 230, 3000):
        pulls = run(policy.clone(), environment, horizon=most).pulls
        assert pulls.tolist() == np.bincount(asked[:most], minlength=7).tolist()


def test_the_budget_is_spent_to_the_last_pull() -> None:
    problem = Problem(sphere(12, 5, 2)[0], noise_std=0.01)
    environment = GaussianEnvironment(problem, sphere(12, 5, 2)[1])
    for budget in (15, 31, 200):
        policy = ODLinBAI(problem, budget)
        assert run(policy, environment).stopping_time == budget
        answer = policy.recommend()
        assert (answer.status, answer.confidence) == ("decided", None)
    assert answer.arm == environment.truth.best
    with raises(InvalidArgument, "budget"):
        ODLinBAI(problem, 14)


def test_phases_go_on_with_fresh_data_and_survivors_only() -> None:
    problem = Problem(np.eye(4), noise_std=1.0)
    policy = Rage(problem)
    rng = np.random.default_rng(1)
    survivors = [4]
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, rng.normal([1.0, 0.9, 0.2, 0.0][pull.action], 1.0))
        survivors.append(int(policy._race.alive.sum()))
        if policy._race.waiting == 0 and not policy.stopped:
            assert policy.ask(10**6)[0].tag == policy._race.number
            break
    assert survivors == sorted(survivors, reverse=True)


# --------------------------------------------------------------------- the tables

TABLE = {  # mean and standard error of 20 runs, delta .05
    ("soare:5:0.1", LinGapE): (2542, 278),
    ("soare:10:0.1", LinGapE): (4681, 366),
    ("sphere:30:5:1", LinGapE): (1654, 159),
    ("mab:8:0.5", LinGapE): (3271, 217),
    ("soare:5:0.1", FrankWolfeSampling): (2848, 290),
    ("mab:8:0.5", FrankWolfeSampling): (3070, 132),
    ("soare:5:0.1", LinGame): (4202, 328),
    ("mab:8:0.5", LinGame): (3730, 138),
    ("soare:5:0.1", LazyTrackAndStop): (3026, 270),
    ("soare:5:0.1", Rage): (4548, 861),
    ("soare:5:0.1", XYAdaptive): (6102, 379),
    ("mab:8:0.5", XYAdaptive): (11689, 20),
    ("soare:2:0.1", GAllocation): (4360, 528),
    ("mab:8:0.5", XYAllocation): (5055, 260),
    ("soare:5:0.01", LinGapE): (317772, 27497),
}
ENVIRONMENTS = {
    "soare:2:0.1": soare(2, 0.1),
    "soare:5:0.1": soare(5, 0.1),
    "soare:10:0.1": soare(10, 0.1),
    "soare:5:0.01": soare(5, 0.01),
    "sphere:30:5:1": sphere(30, 5, 1),
    "mab:8:0.5": mab(8, 0.5),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "cls"), [row for row in TABLE if effort.long or row[0] != "soare:5:0.01"]
)
def test_stopping_times_are_the_published_ones(name: str, cls: type[Policy]) -> None:
    arms, theta = ENVIRONMENTS[name]
    mean, error = TABLE[name, cls]
    problem = Problem(arms, noise_std=1.0)
    costly = name == "soare:5:0.01" or cls in (LazyTrackAndStop, Rage)
    runs = effort.runs(4, whole=8) if costly else effort.runs(15, whole=40)
    options = {"stopping": "mixture"} if cls in STATIC else {}
    environment = GaussianEnvironment(problem, theta)
    found = simulate(cls(problem, **options), environment, runs, seed=3)
    allowed = 4 * math.sqrt(error**2 + 20 * error**2 / runs)
    assert abs(float(np.mean(found.stopping_time)) - mean) <= allowed
    assert found.error_rate <= 0.1


def test_a_tie_at_the_estimate_counts_as_a_gap_of_a_thousandth_of_the_range() -> None:
    problem, theta = Problem(np.eye(3), noise_std=1.0), [5.0, 5.0, 1.0]
    design = oracle_design(problem.clone(tolerance=0.004), theta)
    assert plug_in_shares(problem, theta) == pytest.approx(design.weights, abs=0.02)
    assert design.weights[2] < 0.1


@pytest.mark.statistical
def test_an_oracle_needs_fewer_pulls_than_any_static_design() -> None:
    arms, theta = soare(5, 0.2)
    problem = Problem(arms, noise_std=1.0)
    environment = GaussianEnvironment(problem, theta)
    fixed = simulate(XYAllocation(problem), environment, 30, seed=1).stopping_time
    knows = simulate(XYOracle(problem, theta), environment, 30, seed=1).stopping_time
    assert np.mean(knows) < 0.5 * np.mean(fixed)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize(
    ("name", "value"),
    [("delta", 0.0), ("delta", 1.5), ("delta", math.nan), ("max_pulls", -1), ("max_pulls", 2.5)],
)
def test_bad_arguments_are_named(cls: type[Policy], name: str, value: object) -> None:
    with raises(InvalidArgument, name, given=value):
        cls(easy(), **{name: value})


def test_bad_arguments_of_some_policies_are_named() -> None:
    problem = easy()
    for alpha in (0.0, 1.0, -1.0):
        with raises(InvalidArgument, "alpha", given=alpha):
            XYAdaptive(problem, alpha=alpha)
    with raises(InvalidArgument, "initial_pulls"):
        LinGapE(problem, initial_pulls=0)
    with raises(InvalidArgument, "batch"):
        BlockBetting(problem, batch=0, seed=0)
    with raises(InvalidArgument, "shares"):
        GAllocation(problem, shares=[0.5, 0.5, 0.5, 0.5])
    with raises(InvalidArgument, "theta[0]"):
        XYOracle(problem, theta=[math.nan, 0, 0])
    with raises(InvalidArgument, "stopping"):
        LinGapE(problem, stopping="certified")
    with raises(InvalidArgument, "problem"):
        ODLinBAI(Problem(np.eye(2), candidates=[[1, 0], [0, 1]], noise_std=1.0), budget=9)
    with raises(InvalidArgument, "problem", given="problem"):
        LinGapE("problem")  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", EVERY)
def test_bad_results_change_nothing(cls: type[Policy]) -> None:
    policy = cls(easy())
    pulls = policy.ask(3)
    policy.tell(pulls[0], 1.0)
    before = policy.get_state()
    for reward in (math.nan, math.inf, "much"):
        with raises(InvalidOutcome):
            policy.tell(pulls[1], reward)  # type: ignore[arg-type]
    with raises(AlreadyTold):
        policy.tell(pulls[0], 1.0)
    with raises(UnknownPull):
        policy.tell(Problem(9 * np.eye(9), noise_std=1.0).pull(arm="8"), 1.0)
    after = policy.get_state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("cls", EVERY)
def test_a_corrected_result_weakens_the_guarantee(cls: type[Policy]) -> None:
    policy = cls(easy(), seed=0)
    pulls = policy.ask(4)
    for pull in pulls:
        policy.tell(pull, 1.0)
    policy.amend(pulls[0], 1.0, 2.0)
    fresh = cls(easy(), seed=0)
    for pull in fresh.ask(4):
        fresh.tell(pull, 2.0 if pull.number == 0 else 1.0)
    assert policy._findings.standing.sums == pytest.approx(fresh._findings.standing.sums)
    # Bets follow a correction, and the first pulls have no bets.
    assert policy.guarantee.label == ("proven" if cls is BlockBetting else "heuristic")


@pytest.mark.parametrize("cls", EVERY)
def test_progress_is_json_and_its_intervals_hold_the_truth(cls: type[Policy]) -> None:
    problem = easy()
    policy = cls(problem)
    run(policy, GaussianEnvironment(problem, THETA), horizon=200)
    progress = policy.progress()
    assert progress.to_dict()["told"] == policy.told
    for estimate, value in zip(progress.arms, SOARE @ THETA, strict=True):
        assert estimate.lower <= value <= estimate.upper


@pytest.mark.parametrize(("cls", "counts"), [(LinGapE, [4, 3]), (BlockBetting, [2, 2])])
def test_intervals_are_those_of_the_method_of_mixtures(
    cls: type[Policy], counts: list[int]
) -> None:
    policy = cls(Problem(np.eye(2), noise_std=2.0), delta=0.1, initial_pulls=2)
    if cls is BlockBetting:
        # Only settled blocks count: here, the one of the initial pulls, and nothing unsolicited.
        for pull in policy.ask(4):
            policy.tell(pull, 1.0)
        policy.tell(policy.problem.pull(arm="0"), 3.0)
    else:
        for arm, count in enumerate(counts):
            for _ in range(count):
                policy.tell(policy.problem.pull(arm=str(arm)), 1.0)
    # The prior is one of the two initial pulls, a spread of a half.
    level = 2 * 1.5 * (0.5 * math.log((1 + counts[0]) * (1 + counts[1])) + math.log(10))
    progress = policy.progress()
    for estimates in (progress.actions, progress.arms):
        for estimate, count in zip(estimates, counts, strict=True):
            assert estimate.mean == pytest.approx(1.0)
            assert estimate.upper - 1.0 == pytest.approx(2.0 * math.sqrt(level / count))
            assert 1.0 - estimate.lower == pytest.approx(estimate.upper - 1.0)
