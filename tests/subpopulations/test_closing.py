"""Arms that people close because of the results: how often the answer is wrong."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests.effort import covering, runs, tolerated

DELTA = 0.1
ARMS = ["a", "b", "c", "d"]


NOISE = {"range": {"reward_range": (0, 1)}, "normal": {"noise_std": 0.5}}


def question(noise="range"):
    problem = Problem(ARMS, ["x"], floors=None, **NOISE[noise])
    return problem, BlockBetting(problem, delta=DELTA)


def test_what_only_a_closed_arm_had_ruled_out_is_possible_again():
    _, policy = question()
    values = {"a": 0.1, "b": 0.8, "c": 0.2, "d": 1.0}
    while len(policy.recommend().candidates) == len(ARMS):
        pull = policy.ask()
        policy.tell(pull, values[pull.arm])
    found = policy.recommend()
    ruled_out = set(ARMS) - set(found.candidates)
    assert found.leader == "d"
    policy.close_arm("d")
    assert set(policy.recommend().candidates) == set(ARMS) - {"d"} > ruled_out


def run(noise, seed):
    """Return whether an adversary who closes an arm has made the answer wrong.

    All arms are equal, and every answer but "a" counts as wrong. As soon as there is some evidence
    against "a", the adversary closes the arm whose blocks spoke for it most.
    """
    _, policy = question(noise)
    rng = np.random.default_rng(seed)
    policy = policy.clone(seed=seed)
    closed = False
    for _ in range(250):
        if policy.stopped:
            break
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < 0.5) if noise == "range" else rng.normal(0, 0.5))
        if not closed and policy.told > 60 and policy._wealth[0] > 1.0:
            policy.close_arm(min("bcd", key=lambda arm: pair(policy, arm)))
            closed = True
    found = policy.recommend()
    return found.status == "decided" and found.arm != "a"


def pair(policy, arm):
    """Return what the blocks with a target say against the first arm."""
    book, arms = policy._blocks.state.book, len(ARMS)
    return float(book.ledgers[arms * (1 + ARMS.index(arm))])


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISE)
def test_whoever_closes_arms_by_the_results_makes_answers_wrong_no_more_often_than_stated(noise):
    number = runs(12, whole=2_000)
    wrong = sum(run(noise, seed) for seed in range(number))
    # One arm is closed, and it may have been as right as any other.
    assert wrong / number <= tolerated(2 * DELTA, number)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("fails", [True, False], ids=["failed", "open"])
@pytest.mark.parametrize("measures", [False, True], ids=["one measure", "measures"])
def test_closing_an_arm_without_results_gives_the_best_of_the_others(measures, fails, groups):
    noise = {"measures": ["effect", "harm"]} if measures else {}
    spread = {"noise_std": {"effect": 1.0, "harm": 1.0}, "objective": "effect"}
    noise |= spread if measures else {"noise_std": 1.0, "floors": None}
    policy = BlockBetting(Problem(["a", "b", "broken"], groups, **noise), delta=0.05, seed=1)
    rng = np.random.default_rng(4)
    for _ in range(400):
        pull = policy.ask()
        if pull.arm == "broken":
            if fails:
                policy.fail(pull)
            continue
        effect = rng.normal(float(pull.arm == "b"))
        policy.tell(pull, {"effect": effect, "harm": rng.normal()} if measures else effect)
    assert set(policy.recommend().candidates) == {"b", "broken"}
    assert policy.asked - policy.told < 200
    policy.close_arm("broken")
    found = policy.recommend()
    assert found.arm == "b"
    assert found.confidence == 0.95
    assert "without broken" in found.reason
    assert found.guarantee.proven
    assert found.guarantee.statement.endswith(
        "at most 0.05, whatever results made people close arms"
    )


@pytest.mark.parametrize("measures", [False, True], ids=["one measure", "measures"])
def test_results_of_an_arm_that_come_after_it_was_closed_do_not_lower_the_confidence(measures):
    noise = {"measures": ["effect"], "noise_std": {"effect": 1.0}} if measures else {"floors": None}
    problem = Problem(["a", "b", "silent"], 1, **({"noise_std": 1.0} | noise))
    policy = BlockBetting(problem, delta=0.05, seed=1)
    rng = np.random.default_rng(4)

    def tell(pull, mean):
        value = rng.normal(mean)
        policy.tell(pull, {"effect": value} if measures else value)

    silent = []
    for _ in range(300):
        pull = policy.ask()
        if pull.arm == "silent":
            silent.append(pull)
        else:
            tell(pull, float(pull.arm == "b"))
    policy.close_arm("silent")
    policy = restored(policy)
    for pull in silent:
        tell(pull, 5.0)
    found = policy.recommend()
    assert (found.arm, found.confidence, found.guarantee.proven) == ("b", 0.95, True)


def test_with_known_noise_pulls_that_bets_on_a_closed_arm_lack_weaken_the_guarantee():
    problem = Problem(ARMS, ["x"], noise_std=1.0, floors=None)
    closed = {}
    for closes in ("the leader", "another arm"):
        policy = BlockBetting(problem, delta=1e-6, seed=1)
        rng = np.random.default_rng(2)
        while policy._blocks.planned < 12 or not policy._blocks.unissued_of_oldest:
            pull = policy.ask()
            policy.tell(pull, rng.normal(ARMS.index(pull.arm)))
        block = policy._blocks.unissued_actions_of_oldest
        assert policy.recommend().leader == "d"
        assert {0, 3} <= {*block} or {1, 3} <= {*block} or {2, 3} <= {*block}
        arm = "d" if closes == "the leader" else ARMS[min(block)]
        policy.close_arm(arm)
        assert f"{block[ARMS.index(arm)]} planned pull" in policy.remarks_on_arms()[0]
        assert "worst" not in policy.remarks_on_arms()[0]
        closed[closes] = policy
    assert closed["another arm"].guarantee.proven
    weak = closed["the leader"].guarantee
    assert not weak.proven
    assert "of a closed arm got lost" in weak.assumptions[-1]


@pytest.mark.parametrize("options", [{}, {"max_pulls": 200, "planned_end": True}])
def test_a_lost_pull_of_a_closed_arm_is_not_made_again(options):
    problem = Problem(ARMS[:3], ["x"], reward_range=(0, 1), floors=None)
    policy = BlockBetting(problem, delta=1e-6, losses="ignorable", seed=1, **options)
    while (pull := policy.ask()).arm != "b":
        policy.tell(pull, 0.5)
    policy.close_arm("b")
    for other in policy.outstanding():
        policy.fail(other, "left")
    assert {one.arm for one in policy.ask(100)} == {"a", "c"}


# --------------------------------------- several closings, accidents, and a planned end

GROUPS = ["x", "y", "z"]
END = 120
QUESTIONS = {
    "one measure": Problem(ARMS[:3], GROUPS, reward_range=(0, 1), floors=None),
    "measures": Problem(
        ARMS[:3], GROUPS, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured",
        ceilings={"harmed": 0.6},
    ),
    "known noise": Problem(ARMS[:3], GROUPS, noise_std=0.5, floors=None),
}  # fmt: skip
OPTIONS = {
    "worst": {},
    "repeated": {"losses": "ignorable"},
    "few repeated": {"losses": "ignorable", "max_replacements": 2},
}
CLOSINGS = {
    "two groups": {40: "x", 95: "z"},
    "at once": {90: "z", 91: "y"},
    "from the start": {0: "x", 1: "y"},
    "a group, then an arm": {60: "y", 75: "b"},
    "near the end": {112: "x", 116: "a", 117: "y"},
}


def restored(policy):
    fresh = policy.clone()
    fresh.set_state(policy.get_state())
    return fresh


class Together:
    """Several policies to which the same happens; each of their answers must be the same."""

    def __init__(self, *policies):
        self.policies = list(policies)

    def __getattr__(self, name):
        def call(*arguments, **context):
            found = [getattr(policy, name)(*arguments, **context) for policy in self.policies]
            self.policies[1] = restored(self.policies[1])
            assert found[0] == found[1]
            return found[0]

        return call

    @property
    def stopped(self):
        first, second = [policy.stopped for policy in self.policies]
        assert first == second
        return first


def happen(study, problem, closings, seed):
    """Let people arrive, leave, answer late and be corrected while groups and arms are closed."""
    random = np.random.default_rng(seed)

    def chance(probability):
        return random.random() < probability

    def outcome(pull):
        if not problem.measures:
            return float(chance(0.5))
        cured = None if chance(0.1) else float(chance(0.5))
        return {"cured": cured, "harmed": early.get(pull, float(chance(0.2)))}

    def end(pull):
        if chance(0.2):
            study.fail(pull, "left")
            left.append(pull)
        else:
            told.append((pull, outcome(pull)))
            study.tell(*told[-1])

    flight, left, told, closed, early = [], [], [], [], {}
    for number in range(600):
        if number in closings:
            closed.append(closings[number])
            is_group = closed[-1] in problem.groups
            (study.close_group if is_group else study.close_arm)(closed[-1])
        if study.stopped:
            return
        issued = []
        for group in random.permutation([one for one in problem.groups if one not in closed]):
            issued = issued or study.ask(1, group=str(group))
        assert not {pull.arm for pull in issued} & set(closed)
        assert issued or flight, "nobody who comes gets a pull, but the study goes on"
        flight += issued
        if problem.measures and flight and chance(0.3) and flight[-1] not in early:
            early[flight[-1]] = float(chance(0.2))
            study.report(flight[-1], {"harmed": early[flight[-1]]})
        while flight and not study.stopped and (len(flight) > 5 or not issued or chance(0.5)):
            end(flight.pop(random.integers(len(flight))))
            issued = True
        if left and chance(0.05) and not study.stopped:
            pull = left.pop(random.integers(len(left)))
            told.append((pull, outcome(pull)))
            study.tell(*told[-1])
        if told and chance(0.1):
            place = random.integers(len(told))
            pull, old = told[place]
            told[place] = pull, outcome(pull)
            study.amend(pull, old, told[place][1])
    raise AssertionError("the study does not end")


@pytest.mark.parametrize(
    ("name", "losses", "closings", "delta"),
    covering(QUESTIONS, OPTIONS, CLOSINGS, [1e-6, 0.4]),
)
def test_a_policy_restored_at_every_step_ends_as_one_that_never_paused(
    name, losses, closings, delta
):
    problem, options = QUESTIONS[name], {**OPTIONS[losses]}
    if name == "known noise":
        options.pop("max_replacements", None)
    policy = BlockBetting(problem, max_pulls=END, planned_end=True, seed=1, delta=delta, **options)
    study = Together(policy, policy.clone())
    happen(study, problem, CLOSINGS[closings], seed=1)
    plain, paused = study.policies
    assert plain.recommend() == paused.recommend()
    assert plain.asked <= END + (0 if losses == "worst" else 40)
    for field, value in plain.get_state().items():
        np.testing.assert_array_equal(value, paused.get_state()[field], err_msg=field)
    blocks = plain._blocks.state.blocks
    for field in ("waiting", "unissued", "to_issue", "losses", "results", "came", "lost"):
        assert (getattr(blocks, field) >= 0).all(), field
