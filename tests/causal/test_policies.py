import json
import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.causal import (
    BoundTooTight,
    CausalModel,
    ConstraintSuccessiveRejection,
    ModelError,
    NetworkEnvironment,
    PlugIn,
    Problem,
    SuccessiveRejection,
    TwoStageRejection,
    UniformSampling,
    chain,
    divergences,
    estimate,
)
from fairtrial.causal.policies import n_phases, phase_lengths, smallest_budget
from fairtrial.causal.policies.phased import PhasedPolicy
from fairtrial.core.run import run_policy
from fairtrial.core.specification import policy_from_dict, problem_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.simulation import simulate
from tests import effort
from tests.causal.slow import diamond, thin, tiny
from tests.messages import raises

POLICIES = [
    (ConstraintSuccessiveRejection, {}),
    (ConstraintSuccessiveRejection, {"variant": 1}),
    (ConstraintSuccessiveRejection, {"one_sided": True}),
    (ConstraintSuccessiveRejection, {"pool_natural": True}),
    (TwoStageRejection, {}),
    (TwoStageRejection, {"variant": 1}),
    (SuccessiveRejection, {}),
    (SuccessiveRejection, {"variant": 1}),
    (UniformSampling, {}),
    (PlugIn, {}),
    (PlugIn, {"estimator": "mis"}),
    (PlugIn, {"estimator": "cell"}),
    (PlugIn, {"phased": True}),
]
EVERY = pytest.mark.parametrize(("cls", "options"), POLICIES)


# -------------------------------------------------------------------------- phases


@pytest.mark.parametrize(
    ("budget", "lengths"),
    [
        (100, [39, 19, 13, 9, 8, 6, 6]),
        (2000, [707, 353, 236, 177, 141, 118, 101, 88, 79]),
        (10000, [3414, 1707, 1138, 854, 683, 569, 487, 427, 380, 341]),
    ],
)
def test_phases_have_the_reference_lengths(budget, lengths):
    assert phase_lengths(budget) == lengths
    assert n_phases(budget) == len(lengths)


def test_no_phase_is_empty_and_all_add_up_to_the_budget():
    for budget in range(10, 3000):
        lengths = phase_lengths(budget)
        assert min(lengths) > 0
        assert sum(lengths) == budget


def test_the_clip_grows_with_the_phase():
    arms = {"k0": [[0.9998, 0.0002]] * 2, "k1": [[0.999, 0.001]] * 2}
    problem, _ = chain(0.5, arms, [0.5, 0.5], 0.2)
    rule = SuccessiveRejection(problem, 200)
    for place in range(100):
        rare = place < 2
        row = {"S": "s", "V": int(rare), "Y": int(rare)}
        rule.tell(problem.pull(arm="k0", sensitive="natural"), row)
    # The rare state is five times as likely under k1, and M is 1.05: 2 M, 4 M, 6 M.
    found = [rule._clipped(level).means()[1] for level in (1, 2, 3)]
    assert found == pytest.approx([0.0, 0.0, 0.1])


# ------------------------------------------------------------------- the same rows


@EVERY
def test_a_run_in_batches_equals_one_pull_after_another(cls, options):
    problem = diamond(1).clone(fairness_bound=0.3, costs=[0, 1, 1], mean_budget=0.6)
    environment = NetworkEnvironment(problem)
    fast = cls(problem, 150, **options).compiled_run(environment, np.random.default_rng(3), None)
    slow = run_policy(cls(problem, 150, **options), environment, np.random.default_rng(3))
    assert fast.answer == slow.answer
    assert fast.status == slow.status
    assert (fast.pulls == slow.pulls).all()
    assert (fast.stopping_time, fast.elapsed) == (slow.stopping_time, slow.elapsed)
    assert fast.metrics == slow.metrics


def test_a_state_without_the_rows_is_refused_and_changes_nothing():
    policy = ConstraintSuccessiveRejection(tiny()[0], 100, variant=1)
    state = policy.get_state()
    for missing in ("ledger_sums", "recent_ledger_sums"):
        part = {name: value for name, value in state.items() if name != missing}
        with raises(InvalidArgument, "state"):
            policy.set_state(part)
    assert policy.asked == 0


@EVERY
def test_the_budget_is_kept_in_rows_and_in_cost(cls, options):
    problem, environment = tiny(costs=[0, 1, 1], mean_budget=0.3)
    policy = cls(problem, 300, **options)
    run = policy.compiled_run(environment, np.random.default_rng(5), None)
    assert run.pulls.sum() <= 300
    assert run.pulls.reshape(3, 3)[1:].sum() == run.metrics["cost"]
    assert run.metrics["cost"] <= 0.3 * run.pulls.sum() + 1e-9


# ------------------------------------------------------------------------ the answer


@EVERY
def test_the_reason_says_if_an_answer_rests_on_other_estimates_than_those_shown(cls, options):
    problem, environment = tiny()
    policy, generator = cls(problem, 100, **options), np.random.default_rng(1)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    judges_by_others = issubclass(cls, PhasedPolicy)
    assert ("other weights" in policy.recommend().reason) == judges_by_others


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cls", "options", "most_errors"),
    [
        (ConstraintSuccessiveRejection, {}, 0.05),
        (ConstraintSuccessiveRejection, {"one_sided": True}, 0.05),
        (PlugIn, {}, 0.05),
        (PlugIn, {"estimator": "mis"}, 0.05),
        (PlugIn, {"estimator": "cell"}, 0.05),
        (PlugIn, {"phased": True}, 0.05),
    ],
)
def test_the_best_fair_arm_is_found(cls, options, most_errors):
    problem, environment = tiny()
    error = simulate(
        cls(problem, 1000, **options), environment, effort.runs(50, whole=100), seed=0
    ).error_rate
    assert error <= most_errors


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cls", "options", "least"),
    [
        (ConstraintSuccessiveRejection, {}, 0.95),
        (ConstraintSuccessiveRejection, {"variant": 1}, 0.7),
        (PlugIn, {}, 0.95),
        (PlugIn, {"phased": True}, 0.95),
    ],
)
def test_no_fair_arm_is_named_where_there_is_none(cls, options, least):
    problem, environment = tiny(fairness_bound=0.05)
    assert environment.truth.best is None
    error = simulate(
        cls(problem, 1000, **options), environment, effort.runs(50, whole=100), seed=0
    ).error_rate
    assert 1 - error >= least


@pytest.mark.statistical
def test_pooled_rows_err_far_less_than_those_of_one_phase():
    generator = np.random.default_rng(20)
    arms = generator.dirichlet(np.ones(6), size=(8, 2))
    problem, environment = chain(0.5, arms, generator.random(6), 0.12)
    errors = [
        simulate(
            ConstraintSuccessiveRejection(problem, 2000, variant), environment, 60, seed=0
        ).error_rate
        for variant in (1, 2)
    ]
    plug_in = simulate(PlugIn(problem, 2000), environment, 60, seed=0).error_rate
    # Measured rates are .37 and .07; four standard errors of a difference are .28.
    assert errors[1] < errors[0]
    assert errors[0] > 0.1
    assert plug_in <= errors[1]


def test_successive_rejection_takes_no_notice_of_fairness():
    arms = {"fair": [[0.6, 0.4], [0.6, 0.4]], "unfair": [[0.0, 1.0], [0.5, 0.5]]}
    problem, environment = chain(0.5, arms, [0.1, 0.9], 0.1)
    assert environment.truth.best == "fair"
    run = SuccessiveRejection(problem, 2000).compiled_run(
        environment, np.random.default_rng(0), None
    )
    assert run.answer == "unfair"
    run = TwoStageRejection(problem, 2000).compiled_run(environment, np.random.default_rng(0), None)
    assert run.answer == "fair"


def test_a_single_arm_is_returned_with_what_its_test_said():
    problem, environment = chain(0.5, {"only": [[0.9, 0.1], [0.1, 0.9]]}, [0.0, 1.0], 0.3)
    policy = ConstraintSuccessiveRejection(problem, 500)
    run = policy.compiled_run(environment, np.random.default_rng(0), None)
    assert (run.answer, run.pulls.sum()) == ("only", phase_lengths(500)[0])
    assert policy.recommend().evidence["passed_margin"] is False
    tested = PlugIn(problem, 500).compiled_run(environment, np.random.default_rng(0), None)
    assert (tested.answer, tested.status) == (None, "decided")


def test_without_carriers_every_arm_is_fair():
    model = CausalModel(
        [("V", "Y")],
        {"S": ["a", "b"], "V": 2, "Y": 2},
        {"S": [0.5, 0.5], "Y": [[0.8, 0.2], [0.3, 0.7]]},
    )
    problem = Problem(model, "S", "V", "Y", {"a": [0.5, 0.5], "b": [0.9, 0.1]}, 1e-6)
    environment = NetworkEnvironment(problem)
    assert environment.truth.best == "a"
    for cls, options in POLICIES:
        run = cls(problem, 400, **options).compiled_run(environment, np.random.default_rng(1), None)
        assert run.answer == "a"
        assert run.pulls.reshape(2, 3)[:, 1:].sum() == 0


def test_where_the_attribute_cannot_be_forced_natural_rows_have_to_do():
    costs = [[0, math.inf, math.inf]] * 3
    problem, environment = tiny(costs=costs)
    with raises(InvalidArgument, "pool_natural"):
        ConstraintSuccessiveRejection(problem, 1000)
    with raises(InvalidArgument, "problem"):
        TwoStageRejection(problem, 1000)
    for policy in (
        ConstraintSuccessiveRejection(problem, 2000, pool_natural=True),
        PlugIn(problem, 2000),
        UniformSampling(problem, 2000),
    ):
        run = policy.compiled_run(environment, np.random.default_rng(2), None)
        assert run.answer == "k1"
        assert run.pulls.reshape(3, 3)[:, 1:].sum() == 0


def test_a_model_without_all_tables_is_sampled_evenly():
    edges = [("S", "X"), ("A", "X"), ("X", "Y"), ("V", "Y")]
    sizes = dict.fromkeys("SAXVY", 2)
    carrier = [[[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.4], [0.5, 0.5]]]
    outcome = [[[0.9, 0.1], [0.5, 0.5]], [[0.8, 0.2], [0.2, 0.8]]]
    known = {"S": [0.5, 0.5], "X": carrier}
    arms = {"a": [0.8, 0.2], "b": [0.3, 0.7]}
    problem = Problem(CausalModel(edges, sizes, known), "S", "V", "Y", arms, 0.3)
    network = CausalModel(edges, sizes, {**known, "A": [0.5, 0.5], "Y": outcome})
    environment = NetworkEnvironment(problem, network)
    run = PlugIn(problem, 600).compiled_run(environment, np.random.default_rng(0), None)
    assert run.pulls.tolist() == [100] * 6
    assert run.answer == environment.truth.best == "b"
    with raises(ModelError, "model"):
        ConstraintSuccessiveRejection(problem, 600).ask()


# ------------------------------------------------------------- the rules, slowly


def slow_estimates(problem, rows, level):
    """Return clipped means and gaps by arm, row by row, from the printed equations."""
    known = divergences(problem)
    labels, tables = problem.arm_labels, problem.arms
    values = problem.values

    def clipped(term, divergence):
        return term if abs(term) <= 2 * level * divergence else 0.0

    def average(terms):
        norm = sum(weight for weight, _ in terms)
        return sum(weight * term for weight, term in terms) / norm if norm else math.nan

    def mean(k):
        terms = []
        for arm, mode, value, state, y in rows:
            j = labels.index(arm)
            ratio = tables[labels[k]][value, state] / tables[arm][value, state]
            if mode == "natural":
                size = known.outcome[k, j]
                terms.append((1 / size, y * clipped(ratio, size)))
        return average(terms)

    def gap(k, pair):
        a, b = (values.index(value) for value in pair)
        terms = []
        for arm, mode, _, state, y in rows:
            j = labels.index(arm)
            if mode == values[b]:
                target = tables[labels[k]]
                ratio = (target[a, state] - target[b, state]) / tables[arm][b, state]
                size = known.gap[pair][k, j]
                terms.append((1 / size, y * clipped(ratio, size)))
        return average(terms)

    everyone = range(problem.n_arms)
    gaps = [max(abs(gap(k, pair)) for pair in problem.pairs) for k in everyone]
    return [mean(k) for k in everyone], gaps


def draw_phase(policy, environment, length, generator):
    """Draw the rows of a phase, tell them to the policy, and return them for `slow_estimates`."""
    rows = []
    for pull in policy.ask(length):
        row = environment.sample(pull, generator)
        value = environment.problem.values.index(row["S"])
        rows.append((pull.arm, pull.sensitive, value, int(row["V"]), row["Y"]))
        policy.tell(pull, row)
    return rows


def slow_rejection(live, means, gaps, bound, level):
    """Return the live arms after a phase, and which of them passed the fairness test."""
    passed = [k for k in live if gaps[k] < bound - 3 / 2**level]
    if not passed:
        return live, []
    top = max(means[k] for k in passed)
    rest = [
        k for k in live if not means[k] < top - 5 / 2**level and not gaps[k] > bound + 3 / 2**level
    ]
    return rest, [k for k in passed if k in rest]


@pytest.mark.parametrize("variant", [1, 2])
@pytest.mark.parametrize("seed", range(effort.runs(2, whole=4)))
def test_arms_are_rejected_as_the_algorithm_says(seed, variant):
    generator = np.random.default_rng(seed)
    arms = 0.8 * generator.dirichlet(np.ones(3), size=(5, 2)) + 0.2 / 3
    problem, environment = chain(0.5, arms, [0.0, 0.5, 1.0], 0.15)
    policy = ConstraintSuccessiveRejection(problem, 3000, variant)
    live, passed, rows = list(range(5)), [], []
    rejected = 0
    for level, length in enumerate(phase_lengths(3000), start=1):
        rows = rows if variant == 2 else []
        rows = rows + draw_phase(policy, environment, length, generator)
        means, gaps = slow_estimates(problem, rows, level)
        if len(live) == 1:
            assert policy.recommend().arm == problem.arm_labels[live[0]]
            break
        before = len(live)
        live, passed = slow_rejection(live, means, gaps, problem.fairness_bound, level)
        rejected += before - len(live)
        assert policy.recommend().evidence["live"] == [problem.arm_labels[k] for k in live]
    else:
        best = max(passed, key=lambda k: means[k]) if passed else None
        expected = None if best is None else problem.arm_labels[best]
        assert policy.recommend().arm == expected
    assert policy.stopped
    assert rejected > 0 or variant == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_first_stage_rejects_unfair_arms_and_the_second_bad_ones(seed):
    generator = np.random.default_rng(seed)
    arms = 0.9 * generator.dirichlet(np.ones(3) / 3, size=(5, 2)) + 0.1 / 3
    problem, environment = chain(0.5, arms, [0.0, 0.5, 1.0], 0.15)
    policy = TwoStageRejection(problem, 2000)
    live, rows, lengths = list(range(5)), [], phase_lengths(1000)
    for phase, length in enumerate([*lengths, *lengths]):
        rows += draw_phase(policy, environment, length, generator)
        level = phase % len(lengths) + 1
        means, gaps = slow_estimates(problem, rows, level)
        if phase < len(lengths):
            live = [k for k in live if not gaps[k] > 0.15 + 3 / 2**level]
        else:
            top = max(means[k] for k in live)
            live = [k for k in live if not means[k] < top - 5 / 2**level]
        assert policy.recommend().evidence["live"] == [problem.arm_labels[k] for k in live]
        if len(live) <= 1:
            break
    assert policy.stopped
    best = max(live, key=lambda k: means[k]) if live else None
    assert policy.recommend().arm == (None if best is None else problem.arm_labels[best])
    assert len(live) < 5


@pytest.mark.parametrize("seed", range(4))
def test_the_phased_plug_in_rejects_by_its_own_estimates(seed):
    generator = np.random.default_rng(seed)
    arms = 0.8 * generator.dirichlet(np.ones(3), size=(5, 2)) + 0.2 / 3
    problem, environment = chain(0.5, arms, [0.0, 0.5, 1.0], 0.15)
    policy = PlugIn(problem, 3000, estimator="sn", phased=True)
    live, log = set(range(5)), []
    lengths = phase_lengths(3000)
    for level, length in enumerate(lengths, start=1):
        for pull in policy.ask(length):
            row = environment.sample(pull, generator)
            mode = "natural" if pull.sensitive == "natural" else "forced"
            log.append({"arm": pull.arm, "s_mode": mode, **row})
            policy.tell(pull, row)
        found = estimate(problem, log)
        sizes = np.abs(found.gaps).max(axis=1)
        if level < len(lengths):
            passed = [k for k in live if sizes[k] < 0.15 - 3 / 2**level]
            top = max((found.means[k] for k in passed), default=-math.inf)
            live = {
                k
                for k in live
                if sizes[k] <= 0.15 + 3 / 2**level and found.means[k] >= top - 5 / 2**level
            }
        assert policy.recommend().evidence["live"] == [problem.arm_labels[k] for k in sorted(live)]
    assert policy.stopped
    assert len(live) < 5
    fair = [k for k in live if sizes[k] < 0.15]
    best = max(fair, key=lambda k: found.means[k]) if fair else None
    assert policy.recommend().arm == (None if best is None else problem.arm_labels[best])
    assert not policy.certificate().guarantee.proven


# ------------------------------------------------------------------------------ live


def test_rows_in_flight_wait_for_the_end_of_their_phase():
    problem, environment = tiny()
    policy = ConstraintSuccessiveRejection(problem, 100)
    pulls = policy.ask(1000)
    assert len(pulls) == phase_lengths(100)[0]
    assert policy.ask(1) == []
    generator = np.random.default_rng(0)
    for pull in reversed(pulls):
        policy.tell(pull, environment.sample(pull, generator))
    assert policy.ask().tag == 2


def test_a_lost_row_is_drawn_again_and_still_counts_if_it_comes_late():
    problem, environment = tiny()
    policy = PlugIn(problem, 20)
    generator = np.random.default_rng(0)
    first = policy.ask()
    policy.fail(first)
    again = policy.ask()
    assert again.action == first.action
    policy.tell(first, environment.sample(first, generator))
    for pull in [again, *policy.ask(100)]:
        policy.tell(pull, environment.sample(pull, generator))
    assert policy.stopped
    assert policy.told == 21
    assert policy.estimates().rows == 21
    assert not policy.certificate().guarantee.proven


def test_the_plug_in_rule_goes_by_cells_where_the_model_allows_it():
    problem, _ = tiny()
    assert PlugIn(problem, 100)._estimator() == "cell"
    assert PlugIn(problem, 100, estimator="sn")._estimator() == "sn"
    edges = [("S", "X"), ("V", "A"), ("A", "X"), ("X", "Y")]
    tables = {"S": [0.5, 0.5], "X": np.full((2, 2, 2), 0.5)}
    model = CausalModel(edges, dict.fromkeys("SVAXY", 2), tables)
    influenced = Problem(model, "S", "V", "Y", {"a": [0.5, 0.5]}, 0.1)
    assert PlugIn(influenced, 100)._estimator() == "sn"


@pytest.mark.statistical
def test_an_unfair_arm_is_hardly_ever_named_where_cells_are_thin():
    """All gaps are .164 and the bound is .13, two and a half standard deviations below."""
    environment = NetworkEnvironment(thin(fairness_bound=0.13))
    named, runs = 0, 60
    for seed in range(runs):
        run = PlugIn(environment.problem, 1000).compiled_run(
            environment, np.random.default_rng([23, seed]), None
        )
        named += run.answer is not None
    # An arm is the answer in about 10 % of runs; four standard errors more is 26 %.
    assert named <= 0.26 * runs


def test_a_certificate_is_proven_when_all_went_as_planned():
    problem, environment = tiny()
    policy = PlugIn(problem, 4000)
    with raises(InvalidArgument, "budget"):
        policy.certificate()
    policy.compiled_run(environment, np.random.default_rng(0), None)
    found = policy.certificate(delta=0.05)
    assert found.guarantee.proven
    assert found.verdicts == ("fair", "fair", "unfair")


def test_unasked_rows_count_as_data():
    problem, _ = tiny()
    policy = ConstraintSuccessiveRejection(problem, 100, variant=1)
    policy.tell(problem.pull(arm="k0", sensitive="natural"), {"S": "s", "V": 0, "Y": 0})
    assert policy.told == 1
    assert policy.estimates().rows == 1
    assert len(policy.ask(1000)) == phase_lengths(100)[0]


@pytest.mark.parametrize(
    ("outcome", "named"),
    [
        ({"V": 0, "Y": 0}, "outcome: S"),
        ({"S": "x", "V": 0, "Y": 0}, "outcome: S"),
        ({"S": "s'", "V": 0, "Y": 0}, "outcome"),
        ({"S": "s", "V": 0, "Y": 2}, "outcome: Y"),
        ({"S": "s", "V": 0, "Y": math.inf}, "outcome: Y"),
        ({"S": "s", "V": 0, "Y": 10**400}, "outcome: Y"),
        (0.5, "outcome"),
    ],
)
def test_a_bad_outcome_is_refused_and_changes_nothing(outcome, named):
    problem, _ = tiny()
    policy = UniformSampling(problem, 90)
    pulls = policy.ask(90)
    forced = next(pull for pull in pulls if pull.sensitive == "s")
    before = policy.get_state()
    with raises(InvalidOutcome, named):
        policy.tell(forced, outcome)
    after = policy.get_state()
    assert all((before[name] == after[name]).all() for name in before)


def test_an_impossible_row_is_refused():
    problem, _ = chain(0.4, {"a": [[1, 0], [0.5, 0.5]]}, [0.1, 0.9], 0.2)
    policy = UniformSampling(problem, 3)
    pulls = policy.ask(3)
    with raises(InvalidOutcome, "outcome"):
        policy.tell(pulls[1], {"S": "s", "V": 1, "Y": 1})


@EVERY
def test_progress_says_how_far_it_has_come(cls, options):
    problem, environment = tiny(fairness_bound=0.8)
    policy = cls(problem, 60, **options)
    assert policy.progress().arms[0].mean is None
    generator = np.random.default_rng(1)
    for _ in range(30):
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    progress = policy.progress()
    json.dumps(progress.to_dict())
    assert (progress.told, progress.remaining) == (30, 30)
    assert sum(action.pulls for action in progress.actions) == 30
    assert sum(arm.pulls for arm in progress.arms) == 30
    assert set(progress.details["verdicts"]) == {"k0", "k1", "k2"}


# ----------------------------------------------------------------------- arguments


def test_a_bound_that_no_arm_can_pass_is_refused_with_the_least_budget():
    problem, _ = tiny(fairness_bound=0.01)
    with raises(BoundTooTight) as caught:
        ConstraintSuccessiveRejection(problem, 100)
    least = caught.value.smallest_budget
    ConstraintSuccessiveRejection(problem, least)
    with raises(BoundTooTight):
        ConstraintSuccessiveRejection(problem, least - 1)


def test_a_bound_as_small_as_the_last_margin_is_too_tight():
    margin = 3 / 2 ** n_phases(100)
    with raises(BoundTooTight):
        ConstraintSuccessiveRejection(tiny(fairness_bound=margin)[0], 100)
    ConstraintSuccessiveRejection(tiny(fairness_bound=np.nextafter(margin, 1.0))[0], 100)


@pytest.mark.parametrize("bound", [0.7, 0.1, 0.02, 0.003])
def test_the_smallest_budget_is_the_smallest(bound):
    least = smallest_budget(bound)
    assert 3 / 2 ** n_phases(least) < bound
    assert least == 10 or 3 / 2 ** n_phases(least - 1) >= bound


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda p: ConstraintSuccessiveRejection(p, 9), "budget"),
        (lambda p: TwoStageRejection(p, 19), "budget"),
        (lambda p: SuccessiveRejection(p, 100, variant=3), "variant"),
        (lambda p: PlugIn(p, 100, estimator="best"), "estimator"),
        (lambda p: PlugIn(p, 0), "budget"),
        (lambda p: PlugIn(None, 10), "problem"),
        (
            lambda p: ConstraintSuccessiveRejection(p.clone(outcome_range=None), 100),
            "problem",
        ),
    ],
)
def test_bad_arguments_are_refused(build, name):
    with raises(InvalidArgument, name):
        build(tiny()[0])


def test_too_many_values_for_pairs_are_left_to_the_plug_in():
    problem = diamond(6, sensitive=5).clone(fairness_bound=0.5)
    with raises(ft.errors.NotSupported):
        ConstraintSuccessiveRejection(problem, 1000).ask()
    environment = NetworkEnvironment(problem)
    run = PlugIn(problem, 20_000).compiled_run(environment, np.random.default_rng(0), None)
    assert run.answer == environment.truth.best


@EVERY
def test_policy_and_problem_are_written_down_and_read_back(cls, options):
    problem = tiny(costs=[0, 1, 1], mean_budget=0.5)[0]
    policy = cls(problem, 100, **options)
    again = problem_from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again == problem
    back = policy_from_dict(json.loads(json.dumps(policy.to_dict())), again, seed=1)
    assert type(back) is cls
    assert back.get_params() == policy.get_params()


def test_a_simulation_gives_the_same_with_either_engine():
    problem, environment = tiny()
    policy = PlugIn(problem, 60)
    fast = ft.simulate(policy, environment, replications=8, progress=False)
    slow = ft.simulate(policy, environment, replications=8, progress=False, engine="python")
    assert list(fast.answer) == list(slow.answer)
    assert fast.error_rate == slow.error_rate
