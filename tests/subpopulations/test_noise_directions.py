"""The stated covariance of a pull's measures, compared with the results at all times."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import fairtrial as ft
from fairtrial.cli.app import app
from fairtrial.confidence.noise_kernels import record_result
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest
from fairtrial.report import write_report
from fairtrial.subpopulations import BlockBetting, Problem
from fairtrial.subpopulations.policies.measured_blocks import units_of
from fairtrial.subpopulations.policies.noise_directions import noise_directions
from tests import effort

Floats = NDArray[np.float64]

INFLATIONS = np.array([1.1, 1.25, 1.6, 2.5, 6.0, 40.0])


def of_covariance(covariance: Any, groups: int = 1, **more: Any) -> Problem:
    size = np.shape(covariance)[-1]
    names = [f"m{place}" for place in range(size)]
    settings = {"objective": "m0", "floors": {"m0": -1e120}} | more
    return Problem(["a", "b"], groups, measures=names, noise_cov=covariance, **settings)


def equally_correlated(rho: float, size: int = 2) -> Floats:
    return np.full((size, size), rho) + (1.0 - rho) * np.eye(size)


def some_covariance(rng: np.random.Generator, *shape: int) -> Floats:
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + 1e-3 * np.eye(shape[-1])


def carry_out(policy: Any, noise: Iterable[Floats], means: float | Floats = 0.0) -> Any:
    for values in noise:
        policy.tell(policy.ask(), dict(zip(policy.problem.measures, means + values, strict=True)))
    return policy


def noise_of(covariance: Floats, pulls: int, seed: int = 0) -> Floats:
    root = np.linalg.cholesky(covariance)
    return np.random.default_rng(seed).normal(size=(pulls, len(root))) @ root.T


# ------------------------------------------------------------------------- the directions


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1e-69, 1.0, 1e68])
def test_every_direction_has_a_stated_variance_of_one(size, scale):
    rng = np.random.default_rng(size)
    covariance = scale**2 * some_covariance(rng, 2, 3, size)
    problem = of_covariance(covariance, 3, objective={f"m{place}": 1.5 for place in range(size)})
    stds = np.sqrt(np.diagonal(covariance, axis1=2, axis2=3))
    for direction in noise_directions(problem):
        weights = direction.weights / stds
        variance = np.einsum("kgi,kgij,kgj->kg", weights, covariance, weights)
        np.testing.assert_allclose(variance, 1.0, rtol=1e-6)


@pytest.mark.parametrize(("size", "number"), [(1, 1), (2, 4), (3, 3 + 6 + 3 + 1)])
def test_directions_share_the_probability_of_a_false_alarm(size, number):
    found = noise_directions(of_covariance(np.eye(size)))
    assert len(found) == number
    assert math.fsum(one.tested.share for one in found) == pytest.approx(1.0)
    assert math.fsum(one.tested.share for one in found[:size]) == pytest.approx(
        0.5 if size > 1 else 1.0
    )


def test_without_a_stated_covariance_each_measure_is_tested_alone_or_nothing():
    names = ["m0", "m1", "m2"]
    known = Problem(["a"], 1, measures=names, objective="m0", noise_std=dict.fromkeys(names, 2.0))
    assert [one.tested.what for one in noise_directions(known)] == [
        f"noise_std of {name}" for name in names
    ]
    ranges = dict.fromkeys(names, (0, 1))
    bounded = Problem(["a"], 1, measures=ranges, objective="m0", ceilings={"m1": 0.5})
    assert noise_directions(bounded) == []
    assert BlockBetting(bounded)._spreads() == []


def test_of_two_measures_whose_scales_are_right_the_worst_sum_is_tested():
    """No weights show a wrong correlation more clearly than the sum or the difference."""
    for stated, true in itertools.product([-0.9, -0.3, 0.0, 0.5, 0.95], repeat=2):
        *_, total, difference = noise_directions(of_covariance(equally_correlated(stated)))
        shown = [
            one.weights[0, 0] @ equally_correlated(true) @ one.weights[0, 0]
            for one in (total, difference)
        ]
        ratios = np.linalg.eigvals(
            np.linalg.solve(equally_correlated(stated), equally_correlated(true))
        )
        assert max(shown) == pytest.approx(ratios.real.max())


# ------------------------------------------------------------------------- what is recorded


def slow_record(problem: Problem, told: dict[Any, Floats], place: int) -> Floats:
    """The record of a direction, result by result in the order of issue, in plain Python."""
    direction = noise_directions(problem)[place]
    stds = np.sqrt(np.diagonal(problem.noise_covariance, axis1=2, axis2=3))
    record = NoiseTest.empty_record(problem.n_actions)
    for pull, values in sorted(told.items(), key=lambda one: one[0].number):
        cell = divmod(pull.action, len(problem.groups))
        weights = direction.weights[cell] / stds[cell]
        used = weights != 0.0
        if not np.isnan(values[used]).any():
            record_result(record, pull.action, float(weights[used] @ values[used]))
    return record


@pytest.mark.parametrize("size", [2, 3])
def test_records_are_those_of_all_results_of_settled_blocks_whatever_happened(size):
    """Values are missing, lost, early, corrected or late, with a state restored each time."""
    rng = np.random.default_rng(size)
    problem = of_covariance(some_covariance(rng, 2, 2, size), 2)
    policy, twin = (BlockBetting(problem, delta=1e-12, seed=1) for _ in range(2))
    told: dict[Any, Floats] = {}
    lost, in_flight, partly = [], [], []

    def both(action: str, *arguments: Any) -> None:
        getattr(policy, action)(*arguments)
        getattr(twin, action)(*arguments)

    def by_name(values: Floats) -> dict[str, float | None]:
        pairs = zip(problem.measures, values.tolist(), strict=True)
        return {name: None if math.isnan(value) else value for name, value in pairs}

    def is_settled(pull: Any) -> bool:
        return 0 <= _serial(pull) < policy._blocks.state.blocks.first[0]

    for step in range(260):
        twin.set_state(policy.get_state())
        while len(in_flight) < 6:
            in_flight.append(policy.ask())
            assert twin.ask() == in_flight[-1]
        pull = in_flight.pop(int(rng.integers(len(in_flight))))
        values = rng.normal(size=size) * 3.0
        if step % 13 == 5:
            both("fail", pull)
            lost.append(pull)
            continue
        if step % 7 == 3:
            values[step % size] = math.nan
        if step % 11 == 6 and not math.isnan(values[0]):
            both("report", pull, {"m0": float(values[0])})
            partly.append((pull, values))
        else:
            told[pull] = values
            both("tell", pull, by_name(values))
        if step % 16 == 15:
            # Values that come after others of their pull, and often after its block was settled.
            for pull, values in partly:
                told[pull] = values
                both("tell", pull, by_name(values))
            partly = []
        if step % 17 == 9 and lost:
            late = lost.pop()
            told[late] = rng.normal(size=size)
            both("tell", late, by_name(told[late]))
        if step % 5 == 2:
            again = list(told)[int(rng.integers(len(told)))]
            new = rng.normal(size=size)
            if step % 3 == 0:
                new[step % size] = math.nan
            both("amend", again, by_name(told[again]), by_name(new))
            told[again] = new
        assert np.array_equal(policy._spreads(), twin._spreads())
        assert policy.warnings() == twin.warnings()
    for pull, values in partly:
        told[pull] = values
        both("tell", pull, by_name(values))
    settled = {pull: values for pull, values in told.items() if is_settled(pull)}
    assert len(settled) > 150
    for place, record in enumerate(policy._spreads()):
        expected = slow_record(problem, settled, place)
        np.testing.assert_allclose(record[:, :3], expected[:, :3], rtol=1e-9, atol=1e-9)


def _serial(pull: Any) -> int:
    return int(pull.tag) if pull.tag >= -1 else -2 - int(pull.tag)


def test_a_first_result_that_is_taken_back_leaves_the_average_over_all_others_in_its_place():
    problem = of_covariance(equally_correlated(0.5))
    policy = BlockBetting(problem, initial_pulls=6, delta=1e-12, seed=1)
    told = {}
    for values in noise_of(np.eye(2), 12):
        pull = policy.ask()
        told[pull] = values
        policy.tell(pull, {"m0": values[0], "m1": values[1]})
    first = min((pull for pull in told if pull.action == 0), key=lambda pull: pull.number)
    before = {"m0": told[first][0], "m1": told[first][1]}
    policy.amend(first, before, {"m0": None, "m1": before["m1"]})
    rest = [values[0] for pull, values in told.items() if pull.action == 0 and pull is not first]
    record = policy._spreads()[0][:1]
    averaged = []
    for value in rest:
        other = record[:, :4].copy()
        other[0, 3] = value
        averaged.append(NoiseTest(other).log_evidence)
    assert NoiseTest(record).log_evidence == pytest.approx(np.mean(averaged), rel=1e-9)


def test_compiled_and_live_runs_record_the_same_sums():
    problem = of_covariance(some_covariance(np.random.default_rng(5), 2, 2, 3), 2)
    means = {name: [[0.0, 0.3], [0.1, 0.2]] for name in problem.measures}
    environment = ft.subpopulations.GaussianEnvironment(problem, means)
    compiled, live = (BlockBetting(problem, delta=1e-9, seed=2) for _ in range(2))
    compiled.compiled_run(environment, np.random.default_rng(2), 200)
    generator = np.random.default_rng(2)
    while not live.stopped and live.told < 200:
        pull = live.ask()
        live.tell(pull, environment.sample(pull, generator))
    assert compiled.told == live.told
    assert np.array_equal(compiled._spreads(), live._spreads())


# ------------------------------------------------------------------------- false alarms


def whole_evidence(problem: Problem, told: list[tuple[int, Floats]]) -> float:
    """Evidence of every direction, weighted by its share; their sum is an e-value."""
    total = 0.0
    for direction in noise_directions(problem):
        record = NoiseTest.empty_record(problem.n_actions)
        for cell, values in told:
            record_result(record, cell, float(direction.weights[cell, 0] @ values))
        total += direction.tested.share * math.exp(NoiseTest(record).log_evidence)
    return total


def test_mean_evidence_is_at_most_one_for_coins_under_a_rule_that_looks_for_trouble():
    """Independent coins of -1 and 1 are jointly sub-Gaussian; every sequence is enumerated."""
    problem = of_covariance(np.eye(2))
    total, pulls = 0.0, 5
    for coins in itertools.product(itertools.product((-1.0, 1.0), repeat=2), repeat=pulls):
        told: list[tuple[int, Floats]] = []
        for coin in coins:
            # It continues with the cell whose measures agreed last, and stops when evidence grew.
            cell = int(bool(told) and told[-1][1].prod() < 0.0)
            told.append((cell, 0.7 + np.array(coin)))
            if len(told) > 2 and whole_evidence(problem, told) > 1.2:
                break
        total += whole_evidence(problem, told) / 4**pulls
    assert total <= 1.0 + 1e-12


def largest_evidence(problem: Problem, noise: Floats) -> Floats:
    """Largest sum over directions of share times evidence in each run; noise (runs, pulls, M)."""
    counts = np.arange(1, noise.shape[1] + 1)
    weighed = []
    for direction in noise_directions(problem):
        values = noise @ direction.weights[0, 0]
        means = np.cumsum(values, axis=1) / counts
        spread = np.cumsum(values**2, axis=1) - counts * means**2
        first = counts / np.maximum(counts - 1, 1) * (values[:, :1] - means) ** 2
        logs = [
            0.5 * (spread - first - spread / v - (counts - 1) * math.log(v) - np.log(counts))
            for v in INFLATIONS
        ]
        log_evidence = np.logaddexp.reduce(logs, axis=0) - math.log(len(INFLATIONS))
        weighed.append(log_evidence + math.log(direction.tested.share))
    return np.asarray(np.logaddexp.reduce(weighed, axis=0)[:, 1:].max(axis=1))


@pytest.mark.statistical
@pytest.mark.parametrize(("rho", "size"), [(0.0, 2), (0.8, 2), (-0.8, 2), (1.0, 2), (0.6, 4)])
def test_a_true_covariance_causes_no_more_false_alarms_than_stated_at_any_level(rho, size):
    runs, pulls = effort.runs(200, whole=20_000), 150
    covariance = equally_correlated(rho, size)
    rng = np.random.default_rng(8)
    # An eigenvalue factor, because a singular covariance has no Cholesky root.
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = rng.normal(size=(runs, pulls, size)) @ root.T
    largest = largest_evidence(of_covariance(covariance), noise)
    for level in (0.1, 0.01, FALSE_ALARM):
        assert np.mean(largest >= -math.log(level)) <= effort.tolerated(level, runs)


@pytest.mark.statistical
def test_a_study_whose_covariance_is_true_keeps_its_label():
    covariance = equally_correlated(-0.7)
    for seed in range(effort.runs(20, whole=1000)):
        policy = BlockBetting(of_covariance(covariance), delta=1e-12, seed=seed)
        carry_out(policy, noise_of(covariance, 60, seed))
        assert policy.warnings() == ()
        assert policy.guarantee.label == "proven"


# ------------------------------------------------------------------------- power


@pytest.mark.statistical
@pytest.mark.parametrize(("rho", "what"), [(0.8, "sum"), (-0.8, "difference")])
def test_measures_that_are_more_correlated_than_stated_are_found(rho, what):
    for seed in range(effort.runs(10, whole=200)):
        policy = BlockBetting(of_covariance(np.eye(2)), delta=1e-12, seed=seed)
        carry_out(policy, noise_of(equally_correlated(rho), 400, seed), means=np.array([3.0, 90.0]))
        (warning,) = policy.warnings()
        expected = f"contradict the stated noise_cov of m0 and m1: their {what} spreads 1."
        assert expected in warning
        assert policy.guarantee.label == "heuristic"
        assert policy.progress().intervals == "approximate"


def test_a_correlation_that_only_one_arm_has_is_found():
    policy = BlockBetting(of_covariance(np.eye(2)), delta=1e-12, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(500):
        pull, values = policy.ask(), rng.normal(size=2)
        policy.tell(pull, {"m0": values[0], "m1": values[0 if pull.arm == "b" else 1]})
    assert "noise_cov of m0 and m1: their sum" in policy.warnings()[0]


@pytest.mark.parametrize(
    ("stated", "true", "found"),
    [
        # Pairs look as stated, or nearly; the part of a measure that others do not explain does
        # not.
        (
            [1.0, 1.0, 2.0],
            [1.0, 1.0, 2.3],
            "the part that the other measures do not explain spreads",
        ),
        # Many measures that are slightly correlated.
        (0.0, 0.35, "noise_cov of all measures: their sum spreads"),
    ],
)
def test_what_only_more_than_two_measures_show_is_found(stated, true, found):
    if isinstance(stated, float):
        covariance, actual = equally_correlated(stated, 8), equally_correlated(true, 8)
    else:
        # The third measure is the sum of the others and a small part of its own.
        mix = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.05]])
        covariance = mix @ mix.T
        mix[2, 2] = 0.2
        actual = mix @ mix.T
    policy = BlockBetting(of_covariance(covariance), delta=1e-12, seed=0)
    carry_out(policy, noise_of(actual, 300))
    assert found in policy.warnings()[0]


def test_a_measure_whose_own_scale_is_wrong_is_named_before_sums():
    policy = BlockBetting(of_covariance(equally_correlated(0.95)), delta=1e-12, seed=0)
    carry_out(policy, noise_of(equally_correlated(0.95), 300) * [1.0, 2.0])
    assert "noise_cov of m1: they spread 2 times as widely" in policy.warnings()[0]


# ------------------------------------------------------------------------- singular, and far off


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_singular_covariance_is_tested_in_the_direction_in_which_nothing_may_move(sign):
    stated = equally_correlated(sign)
    truth, lie = (BlockBetting(of_covariance(stated), delta=1e-12, seed=0) for _ in range(2))
    noise = noise_of(np.eye(2), 40)
    both = np.column_stack([noise[:, 0], sign * noise[:, 0]])
    carry_out(truth, both, means=np.array([1e6, -3e5]))
    assert truth.warnings() == ()
    assert truth.guarantee.label == "proven"
    carry_out(lie, both + 0.01 * noise)
    assert "noise_cov of m0 and m1" in lie.warnings()[0]


def test_a_singular_covariance_of_three_measures_is_tested_where_one_is_the_sum_of_two():
    mix = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    truth, lie = (BlockBetting(of_covariance(mix @ mix.T), delta=1e-12, seed=0) for _ in range(2))
    noise = noise_of(np.eye(3), 40)
    carry_out(truth, noise[:, :2] @ mix.T)
    assert truth.warnings() == ()
    carry_out(lie, noise[:, :2] @ mix.T + 0.01 * noise)
    assert "the part that the other measures do not explain" in lie.warnings()[0]


@pytest.mark.parametrize("power", [-460, 460])
def test_units_change_nothing(power):
    """Variances of 1e-138 and 1e138, the second measure in other units than the first."""
    unit = np.array([2.0 ** (power // 2), 2.0 ** (-power // 2)])
    covariance = equally_correlated(0.0)
    noise = noise_of(equally_correlated(0.8), 160)
    plain = BlockBetting(of_covariance(covariance), delta=1e-12, seed=0)
    scaled = BlockBetting(of_covariance(covariance * np.outer(unit, unit)), delta=1e-12, seed=0)
    carry_out(plain, noise)
    carry_out(scaled, noise * unit)
    assert np.array_equal(plain._spreads(), scaled._spreads())
    assert plain.warnings() == scaled.warnings() != ()


def test_values_at_the_end_of_what_is_accepted_contradict_and_raise_nothing():
    policy = BlockBetting(of_covariance(np.eye(2)), delta=1e-12, seed=0)
    for values in [np.array([1e140, -1e140]), np.array([-1e140, 1e140])] * 10:
        # Differences as large as these may be enough evidence for an answer.
        if not policy.stopped:
            carry_out(policy, [values])
    assert "noise_cov" in policy.warnings()[0]
    assert units_of(policy.problem, np.array([1.0, 0.0])).unit.tolist() == [1.0, 1.0]


# ------------------------------------------------------------------------- where it is shown


def test_the_warning_is_shown_wherever_that_of_the_noise_is(tmp_path):
    problem = of_covariance(np.eye(2))
    storage = f"sqlite:///{tmp_path}/trial.db"
    policy = BlockBetting(problem, delta=1e-12)
    with ft.Study.create(problem, policy, storage=storage, name="trial", seed=3) as study:
        carry_out(study, noise_of(equally_correlated(0.9), 200))
        found = "the results contradict the stated noise_cov of m0 and m1: their sum spreads"
        (warning,) = study.health()["warnings"]
        assert warning.startswith(found)
        assert found not in str(study.health(blinded=True))
        assumed = study.recommend().guarantee.assumptions[-1]
        assert assumed.startswith("noise_cov of m0 and m1 is right, which the results contradict")
        page = tmp_path / "trial.html"
        write_report(study, page)
        assert found[1:] in page.read_text()
    shown = CliRunner().invoke(app, ["study", "show", "trial", "--storage", storage])
    assert found in " ".join(shown.output.split())
