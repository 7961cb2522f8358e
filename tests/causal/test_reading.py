"""Logs analysed by block betting: which rows count for what, and the guarantee."""

import itertools
import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.causal import BlockBetting, ContradictedModel, NetworkEnvironment, chain, read
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.testing import check_policy
from tests.causal.betting_instances import TINY, region, small, three, tiny
from tests.effort import first, pairs, runs, tolerated
from tests.messages import raises, warns

KNOWLEDGE = ["cells", "covariates", "ratios"]


# ------------------------------------------------------------------------- every row is fair


def two_arms():
    """Return two arms on three cells, one action each, with actions that depend on the history."""
    return chain(0.4, {"k0": TINY["k0"], "k2": TINY["k2"]}, [0.1, 0.1, 0.9], 0.09, forcing="never")


def chances_after(outcomes):
    """Return the probabilities of actions: the action that has just paid is more likely."""
    if not outcomes:
        return [0.5, 0.5]
    return [0.9, 0.1] if outcomes[-1] else [0.2, 0.8]


def factors_of(problem, knowledge, kind, start, path):
    """Return the factors of all bets on the first rows of a block, along one path.

    `start`: rows before the block; `path`: (action, cell, outcome) of the first rows in it.
    """
    actions = [row[0] for row in (*start, *path)] + [0] * 10
    chances = [[0.5, 0.5]] * len(start)
    chances += [chances_after([row[2] for row in path[:n]]) for n in range(len(path))]
    chances += [[0.5, 0.5]] * 10
    policy = BlockBetting(
        problem,
        delta=1e-9,
        knowledge=knowledge,
        assigned=actions,
        allocation="any" if kind == "any" else chances,
    )
    pulls = policy.ask(len(start))
    for pull, (_, cell, outcome) in zip(pulls, start, strict=True):
        policy.tell(pull, {"S": "s", "V": str(cell), "Y": float(outcome)})
    pulls = policy.ask(len(path))
    assert len(pulls) == len(path)
    for pull, (_, cell, outcome) in zip(pulls, path, strict=True):
        policy.tell(pull, {"S": "s", "V": str(cell), "Y": float(outcome)})
    bets = policy._blocks.state.bets
    slot = int(policy._blocks.state.blocks.first[0]) % len(bets.number)
    found = {}
    for bet in range(bets.number[slot]):
        if bets.ledger[slot, bet] >= 0:
            products = bets.products[slot, bet] * np.exp(bets.logs[slot, bet])
            wealth = bets.cash[slot, bet] + bets.stakes[slot, bet] @ products
            found[bet] = float(wealth)
    return policy, slot, found


def hypothesis_of(policy, slot, bet):
    """Return the functional of a bet and its null, from the frozen bet."""
    state = policy._blocks.state
    density, slopes = state.densities[slot], state.slopes[slot, bet]
    centres = state.offsets[slot, bet] + state.shifts[slot, bet]
    size = state.blocks.planned[slot].sum()
    # Over a block with the planned density, the offsets sum to the null.
    functional = slopes * density
    null = centres @ density - size * state.shifts[slot, bet][0]
    return functional, float(null)


def means_at(functional, null, rng):
    """Return mean outcomes by cell at which a functional equals its null value."""
    while True:
        low, high = rng.random(3), rng.random(3)
        ends = functional @ low - null, functional @ high - null
        if ends[0] * ends[1] < 0.0:
            part = ends[0] / (ends[0] - ends[1])
            return low + part * (high - low)


@pytest.mark.parametrize("kind", ["recorded", "any"])
@pytest.mark.parametrize(
    ("knowledge", "seed"), first(2, [("cells", 0), ("ratios", 3), ("cells", 3)])
)
def test_no_row_pays_more_than_it_takes_though_actions_follow_outcomes(kind, knowledge, seed):
    """With a known law of the cells: all paths of the first rows of a block are enumerated."""
    problem, environment = two_arms()
    rng = np.random.default_rng(seed)
    pulls = [problem.pull(arm=arm, sensitive="natural") for arm in problem.arms]
    start = [
        (action, int(row["V"]), row["Y"])
        for action in rng.integers(2, size=20).tolist()
        for row in [environment.sample(pulls[action], rng)]
    ]
    number = runs(2, whole=3)
    table = np.einsum("u,kux->kx", [0.4, 0.6], np.array([TINY["k0"], TINY["k2"]]))
    steps = list(itertools.product(range(2), range(3), range(2)))
    paths = list(itertools.product(steps, repeat=number))
    found = [factors_of(problem, knowledge, kind, start, path) for path in paths]
    policy, slot, bets = found[0]
    assert len(bets) >= 2
    largest = 0.0
    for bet in bets:
        functional, null = hypothesis_of(policy, slot, bet)
        for _ in range(5):
            means = means_at(functional, null, rng)
            total = 0.0
            for path, (_, _, wealth) in zip(paths, found, strict=True):
                chance = 1.0
                for n, (action, cell, outcome) in enumerate(path):
                    chance *= chances_after([row[2] for row in path[:n]])[action]
                    chance *= table[action, cell]
                    chance *= means[cell] if outcome else 1.0 - means[cell]
                total += chance * wealth[bet]
            assert total <= 1.0 + 1e-9
            largest = max(largest, total)
    # On the border, every row has an expected factor of 1.
    assert largest == pytest.approx(1.0, abs=1e-9)
    spread = [wealth[bet] for bet in bets for _, _, wealth in found]
    assert np.ptp(spread) > 0.01


@pytest.mark.parametrize("instance", [three, region])
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_constant_probabilities_weigh_rows_as_the_shares_of_a_block_do(knowledge, instance):
    """By hand, for a row of a log in which all actions are equally likely."""
    problem, environment = instance()
    rng = np.random.default_rng(3)
    actions = rng.integers(problem.n_actions, size=900)
    even = np.full((900, problem.n_actions), 1.0 / problem.n_actions)
    policy = BlockBetting(
        problem, delta=1e-9, knowledge=knowledge, assigned=actions, allocation=even
    )
    state, before = policy._blocks.state, -1
    while True:
        # The first row of the first block with bets.
        pull = policy.ask()
        outcome = environment.sample(pull, rng)
        first = int(state.blocks.first[0])
        policy.tell(pull, outcome)
        if pull.tag >= 0 and first != before and int(state.blocks.number[0]) == 1:
            break
        before = first
    slot = int(state.blocks.first[0]) % len(state.bets.number)
    cell, scaled = policy._told(pull, outcome)
    own = even[0] @ policy._functionals.actions * state.blocks.planned[slot].sum()
    checked = 0
    for bet in np.flatnonzero(state.bets.ledger[slot, : state.bets.number[slot]] >= 0):
        slopes = state.slopes[slot, bet] * state.densities[slot] / own
        centres = state.offsets[slot, bet] + state.shifts[slot, bet]
        offsets = centres * state.densities[slot] / own - state.shifts[slot, bet]
        score = slopes[cell] * scaled - offsets[cell]
        ruin = (offsets - np.minimum(slopes, 0.0)).max()
        score *= min(1.0, state.ruins[slot, bet] / ruin)
        paid = 1.0 + state.bets.thetas[slot, bet] * score
        assert state.bets.products[slot, bet] == pytest.approx(paid, abs=1e-12)
        assert state.bets.thetas[slot, bet].max() * state.ruins[slot, bet] <= 0.6 + 1e-12
        checked += 1
    assert checked


# -------------------------------------------------------------------------- hard questions


def follow_the_better(totals, counts, rng):
    """Return the probabilities of an allocation that favours the arm that looks better."""
    means = totals / np.maximum(counts, 1.0)
    return np.array([0.9, 0.1]) if means[0] >= means[1] else np.array([0.1, 0.9])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("allocation", "knowledge"), pairs(["recorded", "any"], ["cells", "ratios"])
)
def test_adaptive_logs_hardly_ever_reject_the_right_answer(allocation, knowledge):
    tables = [[[0.5, 0.3, 0.2]] * 2, [[0.3, 0.5, 0.2]] * 2]
    problem, environment = chain(
        0.4, dict(enumerate(tables)), [0.2, 0.2, 0.8], 0.2, forcing="never"
    )
    number, rejected = runs(40, whole=1_000), 0
    for seed in range(number):
        rng = np.random.default_rng(seed)
        totals, counts = np.zeros(2), np.zeros(2)
        log, chances = [], []
        for _ in range(runs(150, whole=400)):
            chance = follow_the_better(totals, counts, rng)
            action = int(rng.random() < chance[1])
            row = environment.sample(problem.pull(arm=str(action), sensitive="natural"), rng)
            totals[action] += row["Y"]
            counts[action] += 1
            chances.append(chance)
            log.append({"arm": str(action), **row})
        given = "any" if allocation == "any" else np.array(chances)
        found = read(problem, log, 0.1, allocation=given, knowledge=knowledge)
        rejected += "0" not in found.recommend().candidates
    assert rejected / number <= tolerated(0.1, number)


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
@pytest.mark.parametrize("allocation", ["fixed", "any", "columns"])
def test_the_best_fair_arm_is_found_in_a_log(knowledge, allocation):
    problem, environment = small()
    rng = np.random.default_rng(1)
    log = environment.table(rng.integers(problem.n_actions, size=2_500), rng)
    given = allocation
    if allocation == "columns":
        given = [f"p{action}" for action in range(problem.n_actions)]
        log = {**log, **{name: [1 / problem.n_actions] * 2_500 for name in given}}
    found = read(problem, log, delta=0.1, allocation=given, knowledge=knowledge)
    answer = found.recommend()
    assert (answer.status, answer.arm) == ("decided", environment.truth.best)
    assert answer.guarantee.proven
    # All rows count for the estimates, including those after the decision.
    assert found.progress().told == 2_500


def test_a_log_of_people_as_they_come_is_read_where_the_attribute_has_parents():
    problem, environment = region()
    rng = np.random.default_rng(2)
    log = environment.table(rng.integers(problem.n_actions, size=6_000), rng)
    answer = read(problem, log, delta=0.1).recommend()
    assert (answer.status, answer.arm) == ("decided", None)


# ------------------------------------------------------------------------------- guarantee


def test_the_guarantee_says_how_actions_came_about():
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 40, np.random.default_rng(0))
    even = np.full((120, problem.n_actions), 1 / problem.n_actions)
    for allocation, said in (
        ("fixed", "neither that order nor which arm"),
        ("any", "the action of each depends on the units before it alone"),
        (even, "drawn with the recorded probabilities"),
    ):
        promise = read(problem, log, allocation=allocation).guarantee
        assert promise.proven
        assumed = "; ".join(promise.assumptions)
        assert said in assumed
        assert "nothing to do with its own cell" in assumed


def test_nothing_is_promised_of_a_log_with_tables_that_it_gave_itself():
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 40, np.random.default_rng(0))
    fitted = problem.clone(model=problem.model.fit(log, ["S"]))
    assert not read(fitted, log).guarantee.proven


def test_a_log_that_contradicts_the_model_is_not_called_proven():
    """The second arm does not follow the distribution in the problem."""
    problem, environment = small()
    rng = np.random.default_rng(0)
    log = environment.table(rng.integers(problem.n_actions, size=1_500), rng)
    swapped = {"0": "1", "1": "0"}
    wrong = {**log, "arm": [swapped.get(arm, arm) for arm in log["arm"]]}
    with warns(ContradictedModel):
        found = read(problem, wrong)
    assert not found.guarantee.proven
    assert "the rows contradict the model" in found.guarantee.statement + str(found.guarantee)
    assert read(problem, log).guarantee.proven


# ---------------------------------------------------------------------------- losses, files


@pytest.mark.parametrize("allocation", ["fixed", "any"])
def test_rows_without_an_outcome_count_as_the_worst(allocation):
    problem, environment = small()
    rng = np.random.default_rng(1)
    log = environment.table(rng.integers(problem.n_actions, size=1_500), rng)
    whole = read(problem, log, delta=1e-3, allocation=allocation)
    holes = {**log, "Y": [None if row % 50 == 49 else y for row, y in enumerate(log["Y"])]}
    found = read(problem, holes, delta=1e-3, allocation=allocation)
    assert found._blocks.lost > 0
    assert found.guarantee.proven
    later = found.recommend().status == "undecided" or found._blocks.planned > whole._blocks.planned
    assert later


@pytest.mark.parametrize("allocation", ["fixed", "any"])
@pytest.mark.parametrize("lost", [20, 30, 119, 120])
def test_a_log_may_begin_with_rows_that_are_all_lost(allocation, lost):
    """With one arm, only its limits are bet on, although nothing is known yet."""
    problem, environment = chain(0.5, {"a": [[0.02, 0.98], [0.5, 0.5]]}, [0.0, 1.0], 0.45)
    rng = np.random.default_rng(0)
    log = environment.table(rng.integers(problem.n_actions, size=120), rng)
    holes = {**log, "Y": [None] * lost + log["Y"][lost:]}
    found = read(problem, holes, allocation=allocation)
    assert not np.isnan(found._wealth).any()
    assert found.progress().told == 120 - lost


def test_a_log_is_read_from_a_file_with_forced_rows(tmp_path):
    problem, environment = tiny()
    rng = np.random.default_rng(4)
    log = environment.table(rng.integers(problem.n_actions, size=300), rng)
    lines = [",".join(log)]
    lines += [",".join(str(column[row]) for column in log.values()) for row in range(300)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    one, other = read(problem, path), read(problem, log)
    assert one.recommend() == other.recommend()
    assert "forced" in log["s_mode"]
    assert one._counts.tolist() == other._counts.tolist()
    rows = [{name: column[row] for name, column in log.items()} for row in range(300)]
    assert read(problem, rows).recommend() == other.recommend()


def test_a_study_of_an_adaptive_log_is_kept_corrected_and_verified(tmp_path):
    problem, environment = small()
    rng = np.random.default_rng(5)
    actions = rng.integers(problem.n_actions, size=200)
    chances = rng.dirichlet(np.ones(problem.n_actions), size=200)
    chances = 0.5 * chances + 0.5 / problem.n_actions
    policy = BlockBetting(
        problem, delta=1e-6, knowledge="ratios", assigned=actions, allocation=chances
    )
    storage = f"sqlite:///{tmp_path / 'log.db'}"
    study = ft.Study.create(problem, policy, storage=storage, name="log", seed=0)
    told = []
    while pulls := study.ask(50):
        for pull in pulls:
            if len(told) % 37 == 36:
                study.fail(pull)
                told.append(None)
                continue
            outcome = environment.sample(pull, rng)
            study.tell(pull, outcome)
            told.append(pull)
        study.close()
        study = ft.Study.open(storage, "log")
    corrected = [(told[row], environment.sample(told[row], rng)) for row in (5, 30, 111)]
    for pull, outcome in corrected:
        study.amend(pull, outcome, reason="misread")
    assert study.verify().ok
    wealth = study.policy._wealth
    # The result is the same as if the row had been right from the start, except for frozen bets.
    assert np.isfinite(wealth).all()
    assert study.recommend().guarantee.proven


def test_a_correction_pays_the_row_by_its_own_probabilities():
    """Correcting a row to its previous value changes nothing."""
    problem, environment = small()
    rng = np.random.default_rng(6)
    actions = rng.integers(problem.n_actions, size=120)
    chances = rng.dirichlet(np.ones(problem.n_actions) * 3, size=120)
    policy = BlockBetting(problem, delta=1e-9, assigned=actions, allocation=chances)
    rows = []
    while pulls := policy.ask(120):
        for pull in pulls:
            outcome = environment.sample(pull, rng)
            policy.tell(pull, outcome)
            rows.append((pull, outcome))
    before = policy._blocks.state.book.ledgers.copy()
    assert before.any()
    paid = [(pull, outcome) for pull, outcome in rows if pull.tag >= 0]
    for pull, outcome in (paid[3], paid[30]):
        other = environment.sample(pull, rng)
        while other == outcome:
            other = environment.sample(pull, rng)
        policy.amend(pull, outcome, other)
        assert np.abs(policy._blocks.state.book.ledgers - before).max() > 1e-6
        policy.amend(pull, other, outcome)
        assert policy._blocks.state.book.ledgers == pytest.approx(before, abs=1e-9)


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"allocation": "adaptive"}, "allocation"),
        ({"allocation": [[0.5, 0.5]]}, "allocation"),
        ({"allocation": np.full((30, 9), 0.2)}, "allocation, unit 0"),
        ({"allocation": np.tile(np.eye(9)[1], (30, 1))}, "allocation, unit 0"),
        ({"allocation": np.full((30, 9), math.nan)}, "allocation, unit 0"),
        ({"allocation": ["p", "q"]}, "rows"),
        ({"delta": 2.0}, "delta"),
        ({"knowledge": "all"}, "knowledge"),
        ({"arm": "treatment"}, "rows"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options, name):
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 10, np.random.default_rng(0))
    with raises(InvalidArgument, name):
        read(problem, log, **options)


def test_allocation_without_a_finished_experiment_is_refused():
    with raises(InvalidArgument, "allocation"):
        BlockBetting(tiny()[0], allocation="any")


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [
        ("V", "9", "row 4: outcome: V"),
        ("Y", 1.5, "row 4: outcome: Y"),
        ("Y", math.inf, "row 4: outcome: Y"),
        ("arm", "k9", "row 4: arm"),
        ("s_mode", "perhaps", "row 4: s_mode"),
        ("S", "x", "row 4: outcome: S"),
    ],
)
def test_a_bad_value_is_refused_with_its_row(column, value, name):
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 10, np.random.default_rng(0))
    bad = {**log, "s_mode": ["natural"] * 30}
    bad[column] = [value if row == 4 else cell for row, cell in enumerate(bad[column])]
    with raises(InvalidOutcome, name):
        read(problem, bad)


def test_a_row_that_its_own_arm_cannot_give_is_refused():
    arms = {"a": [[1.0, 0.0], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
    log = environment.table([0, 3] * 10, np.random.default_rng(0))
    log = {**log, "arm": ["a"] * 20, "S": ["s"] * 20, "s_mode": ["natural"] * 20}
    log["V"] = ["1"] * 20
    with raises(InvalidOutcome, "row 0: outcome"):
        read(problem, log)


def test_an_empty_log_is_refused():
    problem, environment = tiny()
    log = environment.table([], np.random.default_rng(0))
    with raises(InvalidArgument, "table"):
        read(problem, log)


def test_where_rows_tell_nothing_of_an_arm_the_log_stays_undecided():
    """With ``"any"``, rows of the first arm say nothing about states that it never produces."""
    arms = {"a": [[1.0, 0.0], [1.0, 0.0]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2, forcing="never")
    log = NetworkEnvironment(problem).table([0] * 400, np.random.default_rng(0))
    found = read(problem, log, allocation="any", knowledge="ratios")
    assert found.recommend().status == "undecided"
    assert set(found.recommend().candidates) >= {"a", "b"}
    assert environment.truth.best == "b"


def test_the_contract_holds_for_a_policy_that_reads_a_log():
    problem, environment = three()
    rng = np.random.default_rng(0)
    actions = rng.integers(problem.n_actions, size=80)
    chances = rng.dirichlet(np.ones(problem.n_actions) * 4, size=80)
    policy = BlockBetting(problem, delta=1e-3, assigned=actions, allocation=chances)
    check_policy(policy, environment)


@pytest.mark.parametrize(
    ("column", "cell", "place"),
    [("Y", "1_0", "line 5: Y"), ("Y", "<1", "line 5: Y"), ("V", "9", "line 5: outcome: V")],
)
def test_a_bad_cell_of_a_file_is_refused_with_its_line(tmp_path, column, cell, place):
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 10, np.random.default_rng(0))
    log[column] = [cell if row == 1 else own for row, own in enumerate(log[column])]
    lines = [",".join(log), *(",".join(map(str, row)) for row in zip(*log.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n\n".join(lines))
    with raises(InvalidOutcome) as caught:
        read(problem, tmp_path / "log.csv")
    assert caught.value.name.startswith(place)


def test_text_that_only_python_reads_as_a_number_is_none():
    problem, environment = tiny()
    log = environment.table([0, 3, 6] * 10, np.random.default_rng(0))
    log["Y"] = ["0_1", *map(str, log["Y"][1:])]
    with raises(InvalidOutcome) as caught:
        read(problem, log)
    assert caught.value.name.startswith("row 0")
