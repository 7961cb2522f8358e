"""Block betting on several measures, compared with slow bets, with one measure, and in disorder."""

import copy
import math

import numpy as np
import pytest

from fairtrial.confidence.block_betting import LiveBlocks
from fairtrial.core.draws import VectorSource
from fairtrial.errors import NotSupported
from fairtrial.subpopulations import OVERALL, BlockBetting, Problem
from tests import effort
from tests.block_betting import play_with_losses
from tests.subpopulations.block_views import serial_of
from tests.subpopulations.slow_measures import bounded_log_wealth, known_noise_log_wealth

MEASURES = {"effect": (0, 1), "harm": (0, 1)}


def corners(p, r, rho=0.0):
    """Two coins of rates p and r with a correlation: probabilities of (0,0) (0,1) (1,0) (1,1)."""
    both = p * r + rho * math.sqrt(p * (1 - p) * r * (1 - r))
    return [1 - p - r + both, r - both, p - both, both]


def coins(cells, rho=0.3):
    points = np.broadcast_to(np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]]), (len(cells), 4, 2))
    return VectorSource.points(points, np.array([corners(*cell, rho) for cell in cells]))


def dose(**options):
    problem = Problem(
        3, {"x": 0.6, "y": 0.4}, measures=MEASURES, objective="effect", ceilings={"harm": 0.4},
        floors={"effect": 0.1}, **options,
    )  # fmt: skip
    return problem, coins([(0.3, 0.1), (0.4, 0.2), (0.7, 0.2), (0.6, 0.1), (0.8, 0.7), (0.9, 0.6)])


def told(problem, values):
    """Return what is told for values: None for NaN."""
    return {
        name: None if math.isnan(value) else float(value)
        for name, value in zip(problem.measures, values, strict=True)
    }


# ------------------------------------------------------------------ reference values of a bet


def test_the_slow_bet_has_the_reference_values():
    low, high = np.zeros(2), np.ones(2)
    sigma = np.array([[0.24, 0.03], [0.03, 0.16]])
    a, c, m = np.array([4.0, -5.0]), np.array([0.5, 0.3]), np.array([0.6, 0.2])
    for second, wanted in (((0.0, 0.0), 0.2026040076), ((0.0, math.nan), -0.0961724553)):
        draws = [np.array([(1.0, 0.0), second, (1.0, 1.0), (1.0, 0.0)])]
        found = bounded_log_wealth(
            draws, [a], [c], -4 * (4 * 0.5 - 5 * 0.3), [m], [sigma], [20], low, high
        )
        assert found == pytest.approx(wanted, rel=1e-8)
    covariances = [
        np.array([[0.2475, 0.02], [0.02, 0.1476]]), np.array([[0.24, 0.03], [0.03, 0.2436]])
    ]  # fmt: skip
    draws = [
        np.array([(1, 0), (0, 0), (1, 0), (1, 1.0)]), np.array([(0, 1), (1, 1), (0, 0.0)])
    ]  # fmt: skip
    coefficients = [np.array([0.25, 0.0]), np.array([-1 / 3, 0.5])]
    centres, means = [np.array([0.57, 0.18]), np.array([0.57, 0.3])], [(0.55, 0.18), (0.6, 0.42)]
    found = bounded_log_wealth(
        draws, coefficients, centres, -0.45, list(map(np.array, means)), covariances, [30, 25],
        low, high,
    )  # fmt: skip
    assert found == pytest.approx(0.3453627197, rel=1e-8)


# ------------------------------------------------------------------------ bets, side by side


class Mirror:
    """Raw values of all pulls by block, and each bet as it was fixed: slow ledgers."""

    def __init__(self, policy):
        self.policy, self.problem = policy, policy.problem
        self.blocks = {}
        self.known = 0
        self.ledgers = np.zeros_like(policy._blocks.state.book.ledgers)
        self.paid = 0
        self.follow()

    def follow(self):
        state = self.policy._blocks.state
        while self.known < self.policy._blocks.planned:
            slot = self.known % len(state.target)
            names = ("coefficients", "centres", "constant")
            frozen = {name: getattr(state, name)[slot].copy() for name in names}
            frozen |= {n: getattr(state.bets, n)[slot].copy() for n in state.bets._fields}
            frozen |= {
                "target": int(state.target[slot]),
                "values": {},
                "counts": state.counts.copy(),
                "planned": state.blocks.planned[slot].copy(),
            }
            frozen["number"] = int(state.bets.number[slot])
            self.blocks[self.known] = frozen
            self.known += 1

    def tell(self, serial, number, action, values):
        if serial >= 0:
            self.blocks[serial]["values"][number] = (action, values)

    def draws(self, block, bet):
        """Yield for every cell in a bet its coefficients, centres, and values."""
        groups = self.problem.shape[1]
        roles = [block["target"], bet]
        if self.problem.refers_to_control:
            roles.append(self.problem.arms.index(self.problem.control))
        for role, arm in enumerate(roles):
            for group in range(groups):
                a = block["coefficients"][bet, role, group]
                if a.any():
                    cell = arm * groups + group
                    own = [v for act, v in block["values"].values() if act == cell]
                    yield (
                        a,
                        block["centres"][bet, role, group],
                        np.array(own).reshape(-1, a.shape[-1]),
                        cell,
                    )

    def pay(self):
        """Pay all blocks that the policy has paid, from the raw values."""
        first = int(self.policy._blocks.state.blocks.first[0])
        ledgers = np.zeros_like(self.ledgers)
        for serial in range(first):
            block = self.blocks[serial]
            for bet in range(block["number"]):
                if block["ledger"][bet] >= 0:
                    ledgers[block["ledger"][bet]] += self.gain(block, bet)
        return ledgers

    def gain(self, block, bet):
        if not block["thetas"].size:
            return self.known_noise_gain(block, bet)
        low, high = np.array(self.problem.measure_ranges).T
        centre = block["constant"][bet]
        logs = np.zeros(block["thetas"].shape[1])
        theta = block["thetas"][bet]
        for a, c, own, _ in self.draws(block, bet):
            centre += len(own) * (a @ c)
            for y in own:
                seen = np.where(np.isnan(y), np.where(a > 0, low, high), y)
                logs += np.log1p(theta * (a @ (seen - c)))
        logs += theta * centre
        return np.log(block["cash"][bet] + block["stakes"][bet] @ np.exp(logs))

    def known_noise_gain(self, block, bet):
        parts = list(self.draws(block, bet))
        proxies = []
        for *_, cell in parts:
            k, group = divmod(cell, self.problem.shape[1])
            if self.problem.noise_covariance is not None:
                s = self.problem.noise_covariance[k, group]
                proxies.append(lambda w, s=s: float(w @ s @ w))
            else:
                s = self.problem.measure_noise_std[k, group]
                proxies.append(lambda w, s=s: float(np.abs(w) @ s) ** 2)
        return known_noise_log_wealth(
            [own for _, _, own, _ in parts], [a for a, *_ in parts], block["constant"][bet],
            block["estimate"][bet] * math.sqrt(block["variance"][bet]), block["variance"][bet],
            proxies,
        )  # fmt: skip

    def compare(self):
        found = self.policy._blocks.state.book.ledgers
        assert found == pytest.approx(self.pay(), rel=1e-9, abs=1e-9)


def wealth_of(policy):
    """Return log wealth against every answer from the ledgers, in the theorem's form."""
    problem, ledgers = policy.problem, policy._blocks.state.book.ledgers
    arms, rows = len(problem.arms), problem.limit_rows
    own, pairs, limits = np.split(ledgers, [arms, arms + arms**2])
    pairs, limits = pairs.reshape(arms, arms).T, limits.reshape(arms, len(rows))
    least = [
        min((limits[j, r] for r, row in enumerate(rows) if np.isfinite(row.bounds[j])),
            default=math.inf)
        for j in range(arms)
    ]  # fmt: skip
    found = [
        own[k] + sum(min(pairs[k, j], least[j]) for j in range(arms) if j != k) for k in range(arms)
    ]
    return np.array([*found, sum(least)])


def test_bets_pay_what_the_slow_ones_do_and_wealth_is_that_of_the_theorem():
    problem, source = dose()
    policy, rng = BlockBetting(problem, delta=0.05, seed=1), np.random.default_rng(0)
    mirror = Mirror(policy)
    blocks_paid = 0
    while not policy.stopped:
        pull = policy.ask()
        mirror.follow()
        values = source.draw(pull.action, rng)
        mirror.tell(serial_of(pull), pull.number, pull.action, values)
        policy.tell(pull, told(problem, values))
        if policy._blocks.state.blocks.first[0] > blocks_paid:
            blocks_paid = int(policy._blocks.state.blocks.first[0])
            mirror.compare()
            assert policy._wealth == pytest.approx(wealth_of(policy))
    assert policy.recommend().arm == "1"
    assert blocks_paid > 5


def test_stakes_are_frozen_as_the_slow_bet_wants_them():
    problem, source = dose()
    policy, rng = BlockBetting(problem, seed=3), np.random.default_rng(4)
    history = []
    checked = 0
    mirror = Mirror(policy)
    while policy.told < 400 and not policy.stopped:
        before = mirror.known
        pull = policy.ask()
        mirror.follow()
        if mirror.known > before:
            checked += check_stakes(mirror, mirror.blocks[before], history)
        values = source.draw(pull.action, rng)
        history.append((pull.action, values))
        policy.tell(pull, told(problem, values))
    assert checked > 10


def check_stakes(mirror, block, history):
    """Compare each bet's log wealth on made-up draws with that of a bet from all data."""
    problem, rng, compared = mirror.problem, np.random.default_rng(len(history)), 0
    low, high = np.array(problem.measure_ranges).T
    planned = mirror.policy._blocks.state.blocks.planned[
        (mirror.known - 1) % len(mirror.policy._blocks.state.target)
    ]
    for bet in range(block["number"]):
        if block["ledger"][bet] < 0:
            continue
        draws, a, c, means, sigmas, counts = [], [], [], [], [], []
        for own, centre, _, cell in mirror.draws(block, bet):
            values = np.array([v for act, v in history if act == cell])
            n = len(values)
            mean = values.mean(axis=0)
            sigma = (values.T @ values - n * np.outer(mean, mean)) / (n + 2.0)
            sigma += np.diag(2.0 * (high - low) ** 2 / 4 / (n + 2.0))
            draws.append(rng.integers(0, 2, (int(planned[cell]), 2)).astype(float))
            a.append(own)
            c.append(centre)
            means.append(mean)
            sigmas.append(sigma)
            counts.append(n)
        wanted = bounded_log_wealth(
            draws, a, c, block["constant"][bet], means, sigmas, counts, low, high
        )
        centre = block["constant"][bet] + sum(
            len(d) * (x @ y) for d, x, y in zip(draws, a, c, strict=True)
        )
        logs = block["thetas"][bet] * centre
        for d, x, y in zip(draws, a, c, strict=True):
            for row in d:
                logs += np.log1p(block["thetas"][bet] * (x @ (row - y)))
        found = np.log(block["cash"][bet] + block["stakes"][bet] @ np.exp(logs))
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-9)
        assert centre == pytest.approx(0.0, abs=1e-9)
        compared += 1
    return compared


# ---------------------------------------------------------------------- one measure is enough


@pytest.mark.parametrize("limits", [(0.211, None), (None, 0.711), (0.111, 0.753)])
def test_one_measure_by_name_is_pulled_as_one_without(limits):
    """Draw for draw, except where a mean is exactly on a limit."""
    floor, ceiling = limits
    groups = {"x": 0.3, "y": 0.7}
    plain = Problem(3, groups, floors=floor, ceilings=ceiling, reward_range=(0, 1))
    named = Problem(
        3, groups, measures={"y": (0, 1)}, floors={} if floor is None else {"y": floor},
        ceilings={} if ceiling is None else {"y": ceiling},
    )  # fmt: skip
    rates = np.array([[0.3, 0.4], [0.6, 0.7], [0.75, 0.15]])
    for seed in range(effort.runs(2, whole=20)):
        rng = np.random.default_rng(seed)
        policies = [BlockBetting(p, delta=0.1, seed=seed, max_pulls=600) for p in (plain, named)]
        while not policies[0].stopped:
            first, second = (policy.ask() for policy in policies)
            assert first.action == second.action
            reward = float(rng.random() < rates.flat[first.action])
            policies[0].tell(first, reward)
            policies[1].tell(second, {"y": reward})
            assert policies[0].stopped == policies[1].stopped
        assert policies[0].recommend().arm == policies[1].recommend().arm
        wealth = [policy._wealth for policy in policies]
        assert wealth[0] == pytest.approx(wealth[1], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("best", "results"), [(0.58, 4), (0.9, 4), (0.9, 0)])
def test_losses_hide_the_same_of_one_measure_by_name_as_of_one_without(best, results):
    """Draw for draw, where the two plan for the same variances, and with a limit."""
    plain = Problem(3, 1, floors=0.111, noise_std=0.5)
    named = Problem(3, 1, measures=["y"], floors={"y": 0.111}, noise_std={"y": 0.5})
    policies = [BlockBetting(p, delta=0.05, seed=2, max_pulls=400) for p in (plain, named)]
    rng, issued, means = np.random.default_rng(3), 0, [0.2, 0.6, best]
    while not policies[0].stopped:
        first, second = (policy.ask() for policy in policies)
        assert first.action == second.action
        reward = float(rng.normal(means[first.action], 0.5))
        issued += first.action == 2
        if first.action == 2 and issued > results:
            policies[0].fail(first)
            policies[1].fail(second)
        else:
            policies[0].tell(first, reward)
            policies[1].tell(second, {"y": reward})
    assert policies[0].recommend().candidates == ("1", "2")
    wealth = [policy._wealth for policy in policies]
    assert wealth[0] == pytest.approx(wealth[1], rel=1e-6, abs=1e-6)


OF_TWO = {
    "normal": {"measures": ["effect", "harm"], "noise_std": {"effect": 0.5, "harm": 0.5}},
    "coins": {"measures": MEASURES},
}


@pytest.mark.parametrize(
    ("noise", "third", "ceiling"),
    effort.covering(OF_TWO, [0.5, 0.58, 0.9], [None, 0.9]),
)
def test_an_arm_that_loses_everything_does_not_keep_others_from_being_compared(
    noise, third, ceiling
):
    limits = {} if ceiling is None else {"ceilings": {"harm": ceiling}}
    problem = Problem(["old", "new", "third"], 1, objective="effect", **limits, **OF_TWO[noise])
    policy = BlockBetting(problem, delta=0.05, seed=2)
    play_with_losses(policy, Two([0.2, 0.6, third], 0.2, noise), loses_third, seed=1, most=1_000)
    assert policy.recommend().candidates == ("new", "third")
    assert policy.progress().remaining is None


@pytest.mark.parametrize(
    ("noise", "broken", "ceiling", "how"),
    effort.covering(OF_TWO, [0, 2], [None, 0.9], ["fails", "open", "without harm"]),
)
def test_an_arm_that_never_gives_a_result_does_not_keep_others_from_being_compared(
    noise, broken, ceiling, how
):
    limits = {} if ceiling is None else {"ceilings": {"harm": ceiling}}
    problem = Problem(3, 1, objective="effect", **limits, **OF_TWO[noise])
    policy = BlockBetting(problem, delta=0.05, seed=2)
    world, rng, of_broken = Two([0.2, 0.9, 0.5], 0.2, noise), np.random.default_rng(1), 0
    while policy.asked < 600 and not policy.stopped:
        pull = policy.ask()
        outcome = world.sample(pull, rng)
        of_broken += pull.action == broken
        if pull.action != broken:
            policy.tell(pull, outcome)
        elif how == "fails":
            policy.fail(pull)
        elif how == "without harm":
            policy.tell(pull, outcome | {"harm": None})
    assert {*policy.recommend().candidates} - {str(broken)} == {"1"}
    assert of_broken < 0.5 * policy.asked
    # What is missing of an arm on which no bet is weakens nothing.
    assert policy.guarantee.proven or (noise, how) == ("normal", "without harm")


@pytest.mark.parametrize("limits", [{}, {"ceilings": {"harm": 0.9}}], ids=["no limits", "ceiling"])
def test_a_leader_that_losses_make_slow_does_not_delay_other_comparisons(limits):
    # With its losses as the worst values, "lossy" is hardly better than "b": its mean is .52.
    def until_compared(arms, effects, seed):
        problem = Problem(arms, 1, measures=MEASURES, objective="effect", **limits)
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        world, rng, others = Two(effects, 0.2, "coins"), np.random.default_rng(seed), set("abc")
        while len(others.intersection(policy.recommend().candidates)) > 1 and policy.asked < 4_000:
            pull = policy.ask()
            outcome = world.sample(pull, rng)
            if pull.arm == "lossy" and rng.random() < 0.45:
                policy.fail(pull)
            else:
                policy.tell(pull, outcome)
        return policy.asked

    alone = sum(until_compared(["a", "b", "c"], [0.3, 0.5, 0.7], seed) for seed in range(4))
    arms, effects = ["lossy", "a", "b", "c"], [0.95, 0.3, 0.5, 0.7]
    assert sum(until_compared(arms, effects, seed) for seed in range(4)) < 3 * alone


class Two:
    """Values of an effect and of a harm of every arm."""

    def __init__(self, effects, harm, noise):
        self.effects, self.harm, self.noise = effects, harm, noise

    def sample(self, pull, rng):
        means = np.array([self.effects[pull.action], self.harm])
        values = rng.normal(means, 0.5) if self.noise == "normal" else rng.random(2) < means
        return {"effect": float(values[0]), "harm": float(values[1])}


def loses_third(pull, outcome, earlier):
    """Return whether a pull fails: all of the third arm do, after four."""
    del outcome
    return pull.action == 2 and earlier >= 4


@pytest.mark.statistical
@pytest.mark.parametrize("limit", [None, 0.5], ids=["no limits", "on a ceiling"])
@pytest.mark.parametrize("noise", OF_TWO)
def test_a_broken_arm_and_hostile_losses_seldom_rule_out_the_right_answer(noise, limit):
    # The first arm is broken after six pulls. With a range, one of four of the second's good
    # results and of the third's bad ones is withheld, too.
    ceilings = {} if limit is None else {"harm": limit}
    problem = Problem(3, 1, objective="effect", ceilings=ceilings, **OF_TWO[noise])

    def is_lost(pull, outcome, earlier):
        if pull.action == 0:
            return earlier >= 6
        return outcome["effect"] == float(pull.action == 1) and earlier % 4 == 0

    number = effort.runs(20, whole=1_000)
    wrong = 0
    for seed in range(number):
        policy = BlockBetting(problem, delta=0.1, seed=0)
        play_with_losses(policy, Two([0.5, 0.5 + 1e-6, 0.5], 0.5, noise), is_lost, seed, 250)
        wrong += bool(policy._blocks.state.book.rejected[1])
    assert wrong / number <= effort.tolerated(0.1, number)


# ----------------------------------------------------------------------------- in disorder


def play(problem, source, seed, pulls, *, missing=0.2, options=None):
    """Play a study in disorder and compare its ledgers with slow ones; return policy and counts."""
    rng, mistakes = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    policy = BlockBetting(problem, delta=1e-6, seed=seed, **(options or {}))
    mirror = Mirror(policy)
    waiting, history, lost = [], [], []
    for _ in range(pulls):
        while len(waiting) < 25 and not policy.stopped:
            pull = policy.ask()
            mirror.follow()
            values = source.draw(pull.action, rng)
            values[rng.random(values.size) < missing] = math.nan
            waiting.append((pull, values))
        if not waiting:
            break
        place = int(rng.integers(len(waiting)))
        if mistakes.random() < 0.2:
            which = int(mistakes.integers(len(waiting)))
            waiting[which] = corrected_early(policy, *waiting[which], source, mistakes)
        if lost and mistakes.random() < 0.1:
            which = int(mistakes.integers(len(lost)))
            pull, values = lost[which] = corrected_early(policy, *lost[which], source, mistakes)
            if policy.reported(pull) is not None and pull.number not in policy._blocks.late:
                mirror.tell(serial_of(pull), pull.number, pull.action, policy.reported(pull))
        pull, values = waiting[place]
        act = rng.random()
        reported = policy.reported(pull)
        if act < 0.3:
            some = {n: v for n, v in told(problem, values).items() if v is not None}
            if some:
                name = str(rng.choice(list(some)))
                policy.report(pull, {name: some[name]})
            continue
        waiting.pop(place)
        if act < 0.4:
            policy.fail(pull)
            known = np.full(values.size, math.nan) if reported is None else reported
            mirror.tell(serial_of(pull), pull.number, pull.action, known)
            lost.append((pull, values))
            continue
        mirror.tell(serial_of(pull), pull.number, pull.action, values)
        policy.tell(pull, told(problem, values))
        history.append((pull, values))
        if rng.random() < 0.05:
            which = int(rng.integers(len(history)))
            pull, old = history[which]
            new = source.draw(pull.action, rng)
            new[rng.random(new.size) < missing] = math.nan
            policy.amend(pull, told(problem, old), told(problem, new))
            history[which] = (pull, new)
            if pull.number not in policy._blocks.late:
                mirror.tell(serial_of(pull), pull.number, pull.action, new)
        if lost and rng.random() < 0.3:
            pull, values = lost.pop()
            policy.tell(pull, told(problem, values))
            history.append((pull, values))
            if pull.number not in policy._blocks.late:
                mirror.tell(serial_of(pull), pull.number, pull.action, values)
        if rng.random() < 0.2:
            policy = restored(policy)
            mirror.policy = policy
    return policy, mirror, history, lost, waiting


def count_open_pulls(policy, mirror, waiting):
    """Count the open pulls in the slow ledgers as the policy does in its own."""
    overdue = policy._blocks.overdue[:, 0].tolist()
    for pull, _ in waiting:
        reported, block = policy.reported(pull), mirror.blocks.get(serial_of(pull))
        if pull.number in overdue:
            # What is not known yet counts as its worst.
            known = np.full(2, math.nan) if reported is None else reported
            mirror.tell(serial_of(pull), pull.number, pull.action, known)
        elif reported is not None and block and not uses_missing(mirror, block, pull, reported):
            # The block counts the pull, because the values that its bets use were reported.
            mirror.tell(serial_of(pull), pull.number, pull.action, reported)


def corrected_early(policy, pull, values, source, rng):
    """Correct what was reported of a pull without an outcome; return it with its true values."""
    before = policy.reported(pull)
    if before is None:
        return pull, values
    after = np.where(np.isnan(before), math.nan, source.draw(pull.action, rng))
    withdrawn = ~np.isnan(before) & (rng.random(before.size) < 0.3)
    after[withdrawn] = math.nan
    old = known_by_name(policy.problem, before)
    new = {name: value for name, value in told(policy.problem, after).items() if name in old}
    try:
        policy.amend(pull, old, new)
    except NotSupported:  # with known noise, once the bets are paid
        assert withdrawn.any()
        assert policy.problem.measure_ranges is None
        assert serial_of(pull) < policy._blocks.state.blocks.first[0]
        assert policy.reported(pull).tolist() == pytest.approx(before.tolist(), nan_ok=True)
        return pull, values
    reported = np.full(2, math.nan) if (now := policy.reported(pull)) is None else now
    assert reported.tolist() == pytest.approx(after.tolist(), nan_ok=True)
    return pull, np.where(np.isnan(after), values, after)


def known_by_name(problem, values):
    return {name: value for name, value in told(problem, values).items() if value is not None}


def restored(policy):
    """Return a policy that continues from the state, by one of three ways."""
    if policy.told % 3 == 0:
        return copy.deepcopy(policy)
    fresh = BlockBetting(policy.problem, seed=policy.seed, **policy.get_params())
    fresh.set_state(policy.get_state())
    return fresh


@pytest.mark.parametrize("kind", ["ranges", "covariance", "scales"])
@pytest.mark.parametrize("seed", range(effort.runs(1, whole=2)))
def test_ledgers_survive_missing_early_late_lost_and_corrected_values(kind, seed):
    arms, groups = 3, {"x": 0.6, "y": 0.4}
    limits = {"ceilings": {"harm": 0.4, ("harm", OVERALL): 0.35}, "objective": "effect"}
    if kind == "ranges":
        problem, source = dose()
        problem = Problem(arms, groups, measures=MEASURES, **limits)
    else:
        covariance = np.array([[1.0, 0.6], [0.6, 0.5]])
        noise = {
            "covariance": {"noise_cov": covariance},
            "scales": {"noise_std": {"effect": 1.0, "harm": math.sqrt(0.5)}},
        }[kind]
        problem = Problem(arms, groups, measures=["effect", "harm"], **limits, **noise)
        means = np.array([[0.3, 0.1], [0.4, 0.2], [0.7, 0.2], [0.6, 0.1], [0.8, 0.7], [0.9, 0.6]])
        source = VectorSource.gaussian(means, np.broadcast_to(covariance, (6, 2, 2)))
    policy, mirror, history, lost, waiting = play(
        problem, source, seed, effort.runs(600, whole=3000)
    )
    assert policy._blocks.state.blocks.first[0] > 3
    assert not policy._blocks.overdue.size or kind == "ranges"
    count_open_pulls(policy, mirror, waiting)
    mirror.compare()
    check_data(policy, history, lost, waiting)
    check_counts_of_ended(policy, history, lost)


@pytest.mark.parametrize("seed", range(2))
def test_without_a_pull_left_to_make_again_ignorable_losses_count_as_others(monkeypatch, seed):
    monkeypatch.setattr(LiveBlocks, "max_replacements", 0)
    problem, source = dose()
    limits = {"ceilings": {"harm": 0.4, ("harm", OVERALL): 0.35}, "objective": "effect"}
    problem = Problem(3, {"x": 0.6, "y": 0.4}, measures=MEASURES, **limits)
    policy, mirror, history, lost, waiting = play(
        problem, source, seed, effort.runs(600, whole=3000), options={"losses": "ignorable"}
    )
    assert policy._blocks.replaced == 0
    assert policy._blocks.state.blocks.first[0] > 3
    count_open_pulls(policy, mirror, waiting)
    mirror.compare()
    check_data(policy, history, lost, waiting)


def check_data(policy, history, lost, waiting):
    """Counts and sums are those of all known values."""
    arms, groups = policy.problem.shape
    known = [(pull.action, values) for pull, values in history]
    for pull, _ in (*lost, *waiting):
        reported = policy.reported(pull)
        if reported is not None:
            known.append((pull.action, reported))
    for cell in range(arms * groups):
        own = np.array([v for action, v in known if action == cell]).reshape(-1, 2)
        there = (~np.isnan(own)).astype(float)
        state, place = policy._blocks.state, divmod(cell, groups)
        assert state.counts[place] == pytest.approx(there.T @ there)
        filled = np.nan_to_num(own)
        assert state.sums[place] == pytest.approx(filled.sum(axis=0), abs=1e-9)
        assert state.products[place] == pytest.approx(filled.T @ filled, abs=1e-9)
        assert state.pulls[place] == (there.any(axis=1)).sum()


def check_counts_of_ended(policy, history, lost):
    """Known are the values of all pulls, also early ones; missing are those of ended pulls."""
    nothing = np.full(2, math.nan)
    ended = [(pull.action, values) for pull, values in history]
    for pull, _ in lost:
        reported = policy.reported(pull)
        ended.append((pull.action, nothing if reported is None else reported))
    counts = np.zeros((2, policy.problem.n_actions, 2))
    for action, values in ended:
        counts[0, action] += ~np.isnan(values)
        counts[1, action] += np.isnan(values)
    for pull in policy.outstanding():
        early = policy.reported(pull)
        counts[0, pull.action] += 0.0 if early is None else ~np.isnan(early)
    found = [(one.values, one.missing) for one in policy.progress().measures]
    assert found == list(map(tuple, counts.reshape(2, -1).T.tolist()))


def test_what_is_missing_is_counted_at_the_end_of_a_pull_whether_or_not_its_block_is_settled():
    problem = Problem(["a", "b"], 1, measures=MEASURES, objective="effect")
    policy = BlockBetting(problem, seed=0)

    def totals():
        """Return known and missing values of effect, and of harm."""
        parts = policy.progress().measures
        return [
            (sum(one.values for one in own), sum(one.missing for one in own))
            for own in (parts[::2], parts[1::2])
        ]

    first, second, third = policy.ask(3)
    policy.report(first, {"harm": 0.0})
    assert totals() == [(0, 0), (1, 0)]
    policy.fail(first, "moved away")
    policy.fail(second, "died")
    assert totals() == [(0, 2), (1, 1)]
    policy.report(second, {"harm": 1.0})
    assert totals() == [(0, 2), (2, 0)]
    policy.tell(third, {"effect": None, "harm": 0.0})
    assert totals() == [(0, 3), (3, 0)]
    policy.amend(third, {"effect": None, "harm": 0.0}, {"effect": 1.0, "harm": None})
    policy.tell(first, {"effect": 0.5})
    assert totals() == [(2, 1), (2, 1)]
    assert policy._blocks.state.blocks.first[0] == 0


def test_a_pull_counts_for_its_block_once_all_that_bets_use_is_known():
    problem = Problem(
        2, 1, measures={"effect": (0, 1), "harm": (0, 1), "cost": (0, 9)}, objective="effect",
        ceilings={"harm": 0.5},
    )  # fmt: skip
    policy, rng = BlockBetting(problem, seed=0), np.random.default_rng(0)
    while policy._blocks.state.blocks.first[0] < 4:
        pull = policy.ask()
        values = {"effect": float(rng.random() < 0.4 + 0.3 * pull.action)}
        policy.report(pull, values)
        waiting = policy._blocks.state.blocks.waiting.copy()
        policy.report(pull, {"harm": float(rng.random() < 0.2)})
        after = policy._blocks.state.blocks
        assert after.first[0] > 0 or (after.waiting <= waiting).all()
    # The cost was never told, and no block waits for it.
    assert policy.told == 0
    assert policy._blocks.state.book.ledgers.any()


def test_a_lost_pull_is_made_again_where_losing_is_ignorable():
    problem, source = dose()
    policy, rng = BlockBetting(problem, losses="ignorable", seed=5), np.random.default_rng(5)
    mirror, lost = Mirror(policy), 0
    while policy._blocks.state.blocks.first[0] < 6 and not policy.stopped:
        pull = policy.ask()
        mirror.follow()
        values = source.draw(pull.action, rng)
        if rng.random() < 0.2:
            # A value that bets use is missing: the pull does not count for them.
            values[0 if rng.random() < 0.5 else 1] = math.nan
            bets = mirror.blocks[serial_of(pull)]["number"] if serial_of(pull) >= 0 else 0
            lost += bets > 0
        block = mirror.blocks.get(serial_of(pull))
        if block is not None and not uses_missing(mirror, block, pull, values):
            mirror.tell(serial_of(pull), pull.number, pull.action, values)
        policy.tell(pull, told(problem, values))
    assert lost > 5
    mirror.compare()


def uses_missing(mirror, block, pull, values):
    arm, group = divmod(pull.action, mirror.problem.shape[1])
    control = mirror.problem.control if mirror.problem.refers_to_control else None
    for bet in range(block["number"]):
        if block["ledger"][bet] < 0:
            continue
        role = 0 if arm == block["target"] else 1 if arm == bet else None
        if role is None and mirror.problem.arms[arm] == control:
            role = 2
        if role is not None:
            used = block["coefficients"][bet, role, group] != 0
            if (used & np.isnan(values)).any():
                return True
    return False


# --------------------------------------------------------------------------- compiled runs


class Sourced:
    def __init__(self, source):
        self.source = source


def test_a_compiled_run_is_the_loop_draw_for_draw():
    problem, source = dose()
    compiled = BlockBetting(problem, seed=2)
    pulls = compiled._measured.run(Sourced(source), 0.0, np.random.default_rng(9), 10_000)
    policy, rng = BlockBetting(problem, seed=2), np.random.default_rng(9)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, told(problem, source.draw(pull.action, rng)))
    assert policy.told == pulls
    assert (policy._blocks.floats == compiled._blocks.floats).all()


def run_in_step(policies, source, translated):
    """Run two policies on the same values, and check that they choose alike."""
    rng = np.random.default_rng(1)
    while not policies[0].stopped:
        first, second = (policy.ask() for policy in policies)
        assert first.action == second.action
        effect, harm = source.draw(first.action, rng)
        policies[0].tell(first, {"effect": effect, "harm": harm})
        policies[1].tell(second, translated(effect, harm))


@pytest.mark.parametrize("scale", [1e-140, 1e-9, 1e9, 1e140])
def test_decisions_do_not_depend_on_the_units_of_a_measure(scale):
    problem, source = dose()
    moved = Problem(
        3, {"x": 0.6, "y": 0.4}, measures={"effect": (0, 1), "harm": (0, scale)},
        objective="effect", ceilings={"harm": 0.4 * scale}, floors={"effect": 0.1},
    )  # fmt: skip
    policies = [BlockBetting(p, seed=2, max_pulls=300) for p in (problem, moved)]
    run_in_step(policies, source, lambda effect, harm: {"effect": effect, "harm": harm * scale})
    wealth = [policy._wealth for policy in policies]
    assert wealth[0] == pytest.approx(wealth[1], rel=1e-6, abs=1e-6)


def test_minimising_turns_the_objective_and_no_limit():
    problem, source = dose()
    turned = Problem(
        3, {"x": 0.6, "y": 0.4}, measures={"failure": (-1, 0), "harm": (0, 1)},
        objective="failure", direction="minimize", ceilings={"harm": 0.4, "failure": -0.1},
    )  # fmt: skip
    policies = [BlockBetting(p, seed=2, max_pulls=300) for p in (problem, turned)]
    run_in_step(policies, source, lambda effect, harm: {"failure": -effect, "harm": harm})
    assert policies[0].recommend().leader == policies[1].recommend().leader


# ------------------------------------------------------------------- every outcome of a block


def plan_with(problem, source, seed, pulls):
    """Return a policy whose next block is planned with bets, and the mirror that fixed them."""
    policy, rng = BlockBetting(problem, batch=4, initial_pulls=3, seed=seed), None
    rng, mirror = np.random.default_rng(seed), Mirror(policy)
    while True:
        known = mirror.known
        pull = policy.ask()
        mirror.follow()
        block = mirror.blocks[mirror.known - 1]
        if mirror.known > known and policy.told > pulls and block["number"]:
            return policy, mirror, block
        policy.tell(pull, told(problem, source.draw(pull.action, rng)))


def expected_wealth(mirror, block, bets, law):
    """Return the mean of the product of some bets' W over all outcomes of a block.

    `law`: by cell, a list of (probability, values); pulls are independent.
    """
    low, high = np.array(mirror.problem.measure_ranges).T
    planned = mirror.policy._blocks.state.blocks.planned[
        (mirror.known - 1) % len(mirror.policy._blocks.state.target)
    ]
    points = range(block["thetas"].shape[1])
    total = 0.0
    # Each W is a mixture of products over pulls: the mean factorises for every pair of points.
    choices = [[(None, block["cash"][bet])] + [(g, block["stakes"][bet, g]) for g in points]
               for bet in bets]  # fmt: skip
    parts = [list(mirror.draws(block, bet)) for bet in bets]
    for chosen in np.ndindex(*(len(c) for c in choices)):
        stake, mean = 1.0, 1.0
        factors = {}
        for place, bet, options, own in zip(chosen, bets, choices, parts, strict=True):
            point, share = options[place]
            stake *= share
            if point is None:
                continue
            theta = block["thetas"][bet, point]
            constant = block["constant"][bet]
            constant += sum(planned[cell] * (a @ c) for a, c, _, cell in own)
            mean *= math.exp(theta * constant)
            for a, c, _, cell in own:
                factors.setdefault(cell, []).append((theta, a, c))
        for cell, own in factors.items():
            one = 0.0
            for probability, values in law[cell]:
                step = probability
                for theta, a, c in own:
                    seen = np.where(np.isnan(values), np.where(a > 0, low, high), values)
                    step *= 1.0 + theta * (a @ (seen - c))
                one += step
            mean *= one ** planned[cell]
        total += stake * mean
    return total


def laws(rates, rho, hidden=None):
    """Return the law of two coins by cell; the values of measure 1 that equal `hidden` are lost."""
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    found = []
    for p, r in rates:
        low = max(0.0, p + r - 1.0) - p * r
        high = min(p, r) - p * r
        both = p * r + (rho * high if rho > 0 else -rho * low)
        chances = [1 - p - r + both, r - both, p - both, both]
        own = [(c, np.array([x, math.nan if y == hidden else y]))
               for c, (x, y) in zip(chances, points, strict=True)]  # fmt: skip
        found.append(own)
    return found


@pytest.mark.parametrize(("rho", "hidden"), effort.pairs([-1.0, 0.0, 0.7, 1.0], [None, 1.0, 0.0]))
def test_no_bet_grows_on_average_under_its_hypothesis_whatever_the_dependence(rho, hidden):
    problem = Problem(
        2, 1, measures=MEASURES, objective="effect", ceilings={"harm": 0.3}, floors={"effect": 0.4}
    )
    source = coins([(0.5, 0.2), (0.6, 0.25)])
    checked = 0
    for seed in range(effort.runs(2, whole=20)):
        _, mirror, block = plan_with(problem, source, seed, 20)
        target, rng = block["target"], np.random.default_rng(seed)
        if target == 2:
            continue
        rival = 1 - target
        for _ in range(4):
            own, other = rng.uniform(0.4, 1.0), rng.uniform(0.0, 0.3)
            # The rival keeps its limits and is as good as the target, which breaks none or one.
            least = rng.uniform(0.0, own)
            rates = {rival: (own, other), target: (least, rng.uniform(0.0, 1.0))}
            law = laws([rates[0], rates[1]], rho, hidden)
            if block["ledger"][rival] >= 0:
                assert expected_wealth(mirror, block, [rival], law) <= 1.0 + 1e-12
                checked += 1
            floor, ceiling = 2, 3
            breaks = {floor: (rng.uniform(0.0, 0.4), 0.2), ceiling: (0.7, rng.uniform(0.3, 1.0))}
            for bet, broken in breaks.items():
                if block["ledger"][bet] < 0:
                    continue
                law = laws(
                    [{target: broken, rival: rates[rival]}[k] for k in range(2)], rho, hidden
                )
                assert expected_wealth(mirror, block, [bet], law) <= 1.0 + 1e-12
                is_own = block["ledger"][rival] == rival
                if is_own:
                    # D of the rival and C of the target: different pulls.
                    assert expected_wealth(mirror, block, [rival, bet], law) <= 1.0 + 1e-12
                checked += 1
    assert checked > 5


# ------------------------------------------------------------- after the stop, and afterwards


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_is_taken_back_with_the_values_that_it_rests_on(seed):
    problem = Problem(
        2, 1, measures=MEASURES, objective="effect", ceilings={"harm": 0.5}, floors={"effect": 0.1}
    )
    source, rng = coins([(0.9, 0.05), (0.2, 0.05)]), np.random.default_rng(seed)
    policy, waiting, history = BlockBetting(problem, seed=seed), [], []
    mirror = Mirror(policy)
    while not policy.stopped:
        while len(waiting) < 9:
            pull = policy.ask()
            mirror.follow()
            waiting.append((pull, source.draw(pull.action, rng)))
        pull, values = waiting.pop(int(rng.integers(9)))
        mirror.tell(serial_of(pull), pull.number, pull.action, values)
        policy.tell(pull, told(problem, values))
        history.append((pull, values))
    assert policy.recommend().arm == "0"
    for place, (pull, values) in enumerate(waiting):
        known = np.full(2, math.nan)
        if place % 2:
            policy.report(pull, {"effect": values[0]})
            known[0] = values[0]
        policy.fail(pull, "cancelled")
        mirror.tell(serial_of(pull), pull.number, pull.action, known)
    for pull, values in history:
        if policy.stopped and pull.action == 0 and serial_of(pull) > 0:
            new = np.array([0.0, 1.0])
            policy.amend(pull, told(problem, values), told(problem, new))
            mirror.tell(serial_of(pull), pull.number, pull.action, new)
    assert not policy.stopped
    mirror.follow()
    mirror.compare()
    policy = restored(policy)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, told(problem, source.draw(pull.action, rng)))
    assert policy.recommend().arm in ("0", "1", None)


def test_a_finished_experiment_is_bet_on_as_it_was_assigned():
    problem, source = dose()
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 6, 2_000)
    policy = BlockBetting(problem, delta=0.05, assigned=actions)
    mirror = Mirror(policy)
    while pulls := policy.ask(1_000):
        mirror.follow()
        for pull in pulls:
            values = source.draw(pull.action, rng)
            mirror.tell(serial_of(pull), pull.number, pull.action, values)
            policy.tell(pull, told(problem, values))
    mirror.follow()
    mirror.compare()
    assert policy.recommend().arm == "1"
    effect = next(effect for effect in policy.progress().effects if effect.group is None)
    assert effect.lower <= effect.difference <= effect.upper


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_estimates_and_effects_are_in_the_units_of_the_objective(scale):
    problem = Problem(
        2, 1, measures={"effect": (0, scale), "harm": (0, 1)}, objective="effect",
        ceilings={"harm": 0.5},
    )  # fmt: skip
    source, rng = coins([(0.8, 0.1), (0.3, 0.1)]), np.random.default_rng(0)
    policy = BlockBetting(problem, seed=0)
    while not policy.stopped:
        pull = policy.ask()
        effect, harm = source.draw(pull.action, rng)
        policy.tell(pull, {"effect": effect * scale, "harm": harm})
    progress = policy.progress()
    assert progress.arms[0].mean == pytest.approx(0.8 * scale, rel=0.3)
    assert progress.actions[0].mean == progress.arms[0].mean
    effect = progress.effects[0]
    assert effect.difference == pytest.approx(-0.5 * scale, rel=0.5)
    assert effect.lower <= effect.difference <= effect.upper <= scale
