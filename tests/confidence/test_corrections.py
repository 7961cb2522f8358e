"""Corrections after bets were paid: the bets are paid again, in every family that bets."""

import numpy as np
import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.confidence.block_betting import paid
from fairtrial.study import Study, list_studies
from fairtrial.study.snapshots import undeclared
from tests.effort import runs

BOUNDED, NORMAL = {"reward_range": (0, 1)}, {"noise_std": 0.3}
KINDS = {"in a range": BOUNDED, "known noise": NORMAL}
ROWS = [[1, 0], [1, 1], [1, 2]]
FAMILIES = {
    "subpopulations": lambda noise, **options: subpopulations.BlockBetting(
        subpopulations.Problem(["a", "b", "c"], {"x": 0.3, "y": 0.7}, floors=0.3, **noise),
        **options,
    ),
    "linear": lambda noise, **options: linear.BlockBetting(
        linear.Problem(ROWS, **noise), **options
    ),
    "linear, pairs": lambda noise, **options: linear.BlockBetting(
        linear.Problem(ROWS, tolerance=0.01, **noise), **options
    ),
    "delayed": lambda noise, **options: delayed.BlockBetting(
        delayed.Problem(["a", "b", "c"], **noise), **options
    ),
    "delayed, two": lambda noise, **options: delayed.BlockBetting(
        delayed.Problem(["a", "b", "c"], top=2, **noise), **options
    ),
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


@pytest.fixture(params=KINDS)
def noise(request):
    return KINDS[request.param]


def mean_of(pull):
    return (0.3, 0.5, 0.7)[pull.action * 3 // 6 if "group" in pull.labels else pull.action]


def reward_of(pull, seed):
    own = np.random.default_rng([seed, pull.number])
    return float(np.clip(mean_of(pull) + 0.2 * own.standard_normal(), 0, 1))


def with_blocks_in_flight(policy, seed, number=120):
    """Tell the initial pulls; return pulls of several blocks that are planned from these alone."""
    at_first = policy._blocks.planned
    policy.tell(policy.ask(), 0.5)
    while policy._blocks.planned == at_first:
        for pull in policy.outstanding() or [policy.ask()]:
            policy.tell(pull, reward_of(pull, seed))
    return [*policy.outstanding(), *policy.ask(number)]


def evidence_of(policy):
    """Return everything that bets have changed."""
    blocks = policy._blocks
    arrays = [np.array(paid_again(blocks.state, path)) for path in blocks.evidence]
    return [array.tolist() for array in arrays]


def paid_again(state, path):
    for name in path.split("."):
        state = getattr(state, name)
    return state


def assert_same_evidence(one, other):
    for found, expected in zip(evidence_of(one), evidence_of(other), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(runs(1, whole=2)))
def test_corrected_late_is_as_told_right_at_once(family, noise, seed):
    right, corrected = family(noise, delta=1e-6, seed=1), family(noise, delta=1e-6, seed=1)
    pulls = with_blocks_in_flight(right, seed)
    assert pulls == with_blocks_in_flight(corrected, seed)
    rng = np.random.default_rng(seed)
    wrong = {pull: float(rng.random()) for pull in pulls if rng.random() < 0.2}
    for pull in pulls:
        right.tell(pull, reward_of(pull, seed))
        corrected.tell(pull, wrong.get(pull, reward_of(pull, seed)))
    in_bets = sum(pull.tag >= 0 for pull in wrong)
    assert in_bets > 0
    assert corrected._blocks.state.blocks.first[0] > 2
    for pull in rng.permutation(np.array(list(wrong), dtype=object)):
        corrected.amend(pull, wrong[pull], reward_of(pull, seed))
    assert_same_evidence(corrected, right)
    assert corrected.guarantee.label == right.guarantee.label == "proven"
    counted = f"after {in_bets} corrections of results that bets use, every value is the true one"
    assert counted in corrected.guarantee.assumptions


@pytest.mark.parametrize("seed", range(runs(1, whole=2)))
def test_told_after_its_block_was_paid_is_as_told_in_time(family, noise, seed):
    right, late = family(noise, delta=1e-6, seed=1), family(noise, delta=1e-6, seed=1)
    pulls = with_blocks_in_flight(right, seed)
    with_blocks_in_flight(late, seed)
    rng = np.random.default_rng(seed)
    lost = [pull for pull in pulls if rng.random() < 0.15]
    for pull in pulls:
        right.tell(pull, reward_of(pull, seed))
        if pull in lost:
            late.fail(pull)
        else:
            late.tell(pull, reward_of(pull, seed))
    for pull in lost:
        late.tell(pull, reward_of(pull, seed))
    assert_same_evidence(late, right)
    assert late.guarantee == right.guarantee


def test_paying_everything_again_changes_nothing(family, noise):
    """With losses and late results, one pull after the other."""
    policy = family(noise, delta=0.01, seed=2)
    rng = np.random.default_rng(3)
    flying = []
    while not policy.stopped and policy.told < 250:
        flying += policy.ask(12 - len(flying))
        pull = flying.pop(int(rng.integers(len(flying))))
        if rng.random() < 0.05:
            policy.fail(pull)
        else:
            policy.tell(pull, reward_of(pull, 3))
    before = evidence_of(policy)
    assert len(policy._blocks.paid) > 2
    policy._blocks._replay()
    assert evidence_of(policy) == before


def decided_wrongly(family, noise, seed=0):
    """Tell too high results of the first arm until it is the answer; return the policy and them."""
    policy, told = family(noise, delta=0.05, seed=seed), {}
    policy_pulls = []
    while not policy.stopped:
        # Some pulls are in flight when the policy stops, and are cancelled.
        policy_pulls += policy.ask(4)
        pull = policy_pulls.pop(0)
        is_first = pull.labels["arm"] in ("a", "0")
        told[pull] = min(1.0, reward_of(pull, seed) + 0.65) if is_first else reward_of(pull, seed)
        policy.tell(pull, told[pull])
    return policy, told


@pytest.mark.parametrize("name", ["subpopulations", "linear", "delayed"])
@pytest.mark.parametrize("calls_back", [False, True])
def test_a_decision_that_rested_on_wrong_values_is_reopened(name, noise, calls_back):
    policy, told = decided_wrongly(FAMILIES[name], noise)
    assert policy.recommend().leader in ("a", "0", ("a",))
    flying = policy.outstanding()
    assert flying
    if calls_back:
        for pull in flying:
            policy.fail(pull, "cancelled")
    for pull, value in told.items():
        if value != reward_of(pull, 0):
            policy.amend(pull, value, reward_of(pull, 0))
    assert not policy.stopped
    assert policy.recommend().status == "running"
    assert "a correction or a late result took back the evidence" in policy.recommend().reason
    if not calls_back:
        for pull in flying:
            policy.tell(pull, reward_of(pull, 0))
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, reward_of(pull, 0))
    assert policy.recommend().leader in ("c", "2", ("c",))
    assert "took back" not in policy.recommend().reason


def test_a_policy_restored_at_every_step_corrects_as_one_that_never_paused(family, noise):
    whole, current = family(noise, delta=0.05, seed=4), family(noise, delta=0.05, seed=4)
    told = {}
    for step in range(150):
        if whole.stopped:
            break
        pull = whole.ask()
        assert current.ask() == pull
        told[pull] = reward_of(pull, 1) if step % 5 else 0.9
        for policy in (whole, current):
            policy.tell(pull, told[pull])
        if step % 20 == 19:
            wrong = max(
                (pull for pull in told if told[pull] == 0.9),
                key=lambda pull: (pull.tag >= 0, pull.number),
            )
            for policy in (whole, current):
                policy.amend(wrong, 0.9, reward_of(wrong, 1))
            told[wrong] = reward_of(wrong, 1)
        state = current.get_state()
        current = family(noise, delta=0.05, seed=4)
        current.set_state(state)
    assert whole._blocks.corrected > 0
    assert evidence_of(whole) == evidence_of(current)
    assert whole.recommend().to_dict() == current.recommend().to_dict()


def test_a_state_holds_the_paid_blocks_and_what_was_called_back(family, noise):
    policy, _ = decided_wrongly(family, noise)
    for pull in policy.outstanding():
        policy.fail(pull, "cancelled")
    assert len(policy._blocks.paid) > 1
    assert undeclared(policy) == []


def test_where_blocks_take_too_much_room_a_late_correction_weakens_the_label(
    family, noise, monkeypatch
):
    monkeypatch.setattr(paid, "_MOST_NUMBERS", 500)
    policy = family(noise, delta=1e-6, seed=1)
    pulls = with_blocks_in_flight(policy, 0)
    for pull in pulls:
        policy.tell(pull, reward_of(pull, 0))
    first = next(pull for pull in pulls if pull.tag >= 0)
    before = evidence_of(policy)
    policy.amend(first, reward_of(first, 0), 0.9)
    assert evidence_of(policy) == before
    assert policy.guarantee.label == "heuristic"
    assert "1 correction came too late for bets" in policy.guarantee.assumptions[-1]


def test_a_corrected_study_runs_again_verifies_and_says_why(tmp_path):
    problem = subpopulations.Problem(["a", "b"], 1, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem)
    path = tmp_path / "trial.db"
    with Study.create(problem, policy, storage=path, name="trial", seed=1, secret="s") as study:
        told = {}
        while study.status == "running":
            pull = study.ask()
            told[pull.id] = 0.9 if pull.arm == "a" else 0.3
            study.tell(pull, told[pull.id])
        assert list_studies(path)[0].status == "decided"
        for pull_id, value in told.items():
            if value == 0.9:
                study.amend(pull_id, 0.3, "the wrong scale")
        assert list_studies(path)[0].status == "running"
        assert "took back the evidence" in study.recommend().reason
        assert study.recommend().guarantee.proven
        assert study.verify().ok
        study.tell(study.ask(), 0.5)
        log = study.export(tmp_path / "log.jsonl")
    with Study.import_log(log, storage=tmp_path / "copy.db") as copy:
        assert copy.verify().ok
        assert copy.status == "running"


def hardest(noise):
    """Return equal arms; the second is barely below its floor, so it is a wrong answer."""
    problem = subpopulations.Problem(["a", "b"], 1, floors=0.5, **noise)
    return problem, np.array([0.5001, 0.4999])


def is_high(policy):
    return (policy.recommend().evidence["evidence"] or 0.0) > 1.5


def is_due(timing, policy, step, rng):
    """Return whether a wrong value is corrected now."""
    if timing == "random":
        return rng.random() < 0.1
    return timing == "when the evidence is high" and step % 5 == 0 and is_high(policy)


def names_b(noise, timing, seed):
    """Run a study that tells every fifth value wrong, in favour of b; return whether it errs."""
    problem, means = hardest(noise)
    rng = np.random.default_rng([77, seed])
    policy = subpopulations.BlockBetting(problem, delta=0.1, seed=seed, max_pulls=150)
    slips = []
    for step in range(180):
        if policy.stopped:
            if not slips or timing == "never":
                break
            for slip in slips:
                policy.amend(*slip)
            slips = []
            continue
        pull = policy.ask()
        arm = 0 if pull.arm == "a" else 1
        if problem.reward_range is None:
            right = float(means[arm] + 0.3 * rng.standard_normal())
        else:
            right = float(rng.random() < means[arm])
        if rng.random() < 0.2:
            slips.append((pull, 1.0 if arm else 0.0, right))
            policy.tell(pull, slips[-1][1])
        else:
            policy.tell(pull, right)
        if slips and is_due(timing, policy, step, rng):
            policy.amend(*slips.pop(int(rng.integers(len(slips)))))
    return policy.recommend().arm == "b"


@pytest.mark.statistical
@pytest.mark.parametrize("timing", ["random", "when the evidence is high", "after the stop"])
def test_values_that_are_wrong_at_first_do_not_make_answers_wrong(noise, timing):
    """Share of wrong answers at delta .1, within 4 standard errors."""
    number, delta = runs(8, whole=1_000), 0.1
    wrong = sum(names_b(noise, timing, seed) for seed in range(number))
    assert wrong / number <= delta + 4 * np.sqrt(delta * (1 - delta) / number)


@pytest.mark.statistical
def test_the_same_values_would_make_answers_wrong_if_nobody_corrected_them():
    """So the test above would detect corrections that are not applied."""
    assert sum(names_b(NORMAL, "never", seed) for seed in range(20)) > 8
