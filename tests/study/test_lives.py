"""Whole lives of studies with all their accidents, seen by a second reader at many moments."""

import json
import math

import numpy as np
import pytest

from fairtrial.core import Trajectory
from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    NotSupported,
)
from fairtrial.report import write_report
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.testing.families import POLICIES, POLICY

ARMS, GROUPS = ["arm 1", "arm 2", "arm 3"], ["young", "old"]
MEASURES = {"measures": {"cured": (0, 1), "harmed": (0, 1)}, "objective": "cured"}
PROBLEMS = {
    "range": Problem(ARMS, GROUPS, reward_range=(0, 1), floors=None),
    "floors": Problem(ARMS, GROUPS, reward_range=(-1, 2), floors=0.2),
    "tolerance": Problem(ARMS, GROUPS, reward_range=(0, 1), floors=None, tolerance=0.1),
    "noise": Problem(ARMS, GROUPS, noise_std=0.5, floors=None),
    "measures": Problem(ARMS, GROUPS, ceilings={"harmed": 0.6}, **MEASURES),
    "control": Problem(
        ARMS, GROUPS, control=ARMS[0], margin={"harmed": 0.2}, direction={"harmed": "minimize"},
        **MEASURES,
    ),
    "predictions": Problem(
        ARMS, GROUPS, reward_range=(0, 1), floors=None,
        prediction={"range": (0, 1), "missing": "mean"},
    ),
}  # fmt: skip
OPTIONS = {
    "proven forever": {"delta": 1e-6},
    "a planned end": {"delta": 0.4, "max_pulls": 130, "planned_end": True},
    "lost pulls again": {"delta": 0.05, "losses": "ignorable"},
    "both": {"max_pulls": 130, "planned_end": True, "losses": "ignorable", "randomize": False},
}


def look(study, store):
    """Read a study as somebody else who opens it; what is shown must agree, and change nothing."""
    with Study.open(store, "life") as other:
        assert other.head_hash == study.head_hash
        assert repr(other.recommend()) == repr(study.recommend())
        progress = study.progress()
        assert repr(other.progress()) == repr(progress)
        assert json.dumps(other.health()) == json.dumps(study.health())
        opened = {pull.id for pull in study.outstanding()}
        assert {pull.id for pull in other.outstanding()} == opened
    assert progress.outstanding == len(opened)
    for shown in (*progress.actions, *(progress.answers or ()), *(progress.effects or ())):
        middle = shown.difference if hasattr(shown, "difference") else getattr(shown, "mean", None)
        lower, upper = getattr(shown, "lower", None), getattr(shown, "upper", None)
        if None not in (middle, lower, upper):
            spare = 1e-9 * (1.0 + max(abs(lower), abs(upper)))
            assert lower - spare <= middle <= upper + spare, shown
            assert not math.isnan(middle), shown
    return progress


class Trial:
    """A trial that people run: arrivals, early values, corrections, withdrawals and closings."""

    def __init__(self, problem, options, seed):
        self.problem, self.random, self.store = problem, np.random.default_rng(seed), MemoryStore()
        self.study = Study.create(
            problem, BlockBetting(problem, **options), storage=self.store, name="life", seed=seed,
            require_group=True, participants="#####",
        )  # fmt: skip
        self.pulls, self.state, self.known, self.closed = {}, {}, {}, []

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, *states):
        found = [one for one, state in self.state.items() if state in states]
        return found[self.random.integers(len(found))] if found else None

    def value(self):
        if self.problem.measures:
            return {"cured": float(self.chance(0.5)), "harmed": float(self.chance(0.3))}
        low, high = self.problem.reward_range or (-1.0, 1.0)
        return float(self.random.choice([low, high, low + (high - low) * self.random.random()]))

    def arrive(self):
        open_groups = [group for group in GROUPS if group not in self.closed]
        context = {"group": str(self.random.choice(open_groups))}
        if self.problem.prediction is not None and self.chance(0.8):
            context["prediction"] = float(self.random.random())
        try:
            pull = self.study.ask(participant=f"{len(self.pulls):05d}", **context)
        except (NothingToAsk, ExperimentFinished):
            return
        assert pull.arm not in self.closed
        assert pull.group not in self.closed
        self.pulls[pull.id], self.state[pull.id], self.known[pull.id] = pull, "open", {}

    def tell(self, one):
        value = self.value()
        if not self.problem.measures:
            self.study.tell(one, value)
            self.known[one], self.state[one] = {"": value}, "told"
            return
        value.update(self.known[one])
        if self.chance(0.3):
            value = {**self.known[one], "harmed": value["harmed"]}
        elif self.chance(0.1) and "harmed" in self.known[one]:
            value["cured"] = None
        self.study.tell_known(one, value)
        self.known[one] = value
        self.state[one] = "told" if len(value) == len(self.problem.measures) else "open"

    def fail(self, one):
        self.study.fail(one, "left")
        self.state[one] = "failed"

    def tell_late(self, one):
        value = self.value()
        if self.problem.measures:
            value.update(self.known[one])
        self.study.tell(one, value)
        self.state[one], self.known[one] = "told", value if self.problem.measures else {"": value}

    def correct(self, one):
        if not self.known[one]:
            return
        value = self.value()
        if self.problem.measures:
            name = str(self.random.choice(list(self.known[one])))
            value = {name: None if self.chance(0.3) else value[name]}
        try:
            self.study.amend(one, value, "typing error")
        except (NotSupported, InvalidOutcome):
            return
        if self.problem.measures:
            self.known[one].update(value)
            if self.state[one] != "told" and None in value.values():
                del self.known[one][next(iter(value))]

    def close(self):
        label = str(self.random.choice([*ARMS, *GROUPS]))
        if self.study.stopped or label in self.closed:
            return
        try:
            if label in GROUPS:
                self.study.close_group(label, "harm")
            else:
                self.study.close_arm(label, "harm")
        except (NotSupported, InvalidArgument):  # the last one, or the control
            return
        self.closed.append(label)

    def step(self):
        actions = {"arrive": 0.5, "tell": 0.26, "fail": 0.05, "tell_late": 0.03, "correct": 0.1}
        actions |= {"snapshot": 0.04, "close": 0.02}
        kind = str(self.random.choice(list(actions), p=list(actions.values())))
        if kind == "snapshot":
            self.study.snapshot()
        elif kind in ("arrive", "close"):
            getattr(self, kind)()
        else:
            states = {"tell_late": ["failed"], "correct": ["open", "told", "failed"]}
            one = self.pick(*states.get(kind, ["open"]))
            if one is not None:
                getattr(self, kind)(one)

    def check(self):
        progress = look(self.study, self.store)
        assert progress.asked == len(self.pulls)
        assert progress.told == sum(state == "told" for state in self.state.values())
        assert self.study.recommend().arm not in self.closed
        seen = json.dumps(self.study.health(blinded=True))
        assert not any(arm in seen for arm in ARMS)


@pytest.mark.parametrize("seed", range(effort.runs(1, whole=40)))
@pytest.mark.parametrize(("problem", "options"), effort.pairs(PROBLEMS, list(OPTIONS)))
def test_a_trial_is_the_same_to_all_who_read_it_whatever_happens(problem, options, seed, tmp_path):
    trial = Trial(PROBLEMS[problem], OPTIONS[options], 100 * seed + 7)
    for number in range(effort.runs(240, whole=420)):
        trial.step()
        if number % 60 == 59:
            trial.check()
    trial.check()
    found = trial.study.verify()
    assert found.ok, found.first_difference
    write_report(trial.study, tmp_path / "report.html")


EXPECTED = (
    *(AlreadyTold, ExperimentFinished, InvalidArgument, InvalidOutcome, NothingToAsk),
    NotSupported,
)


class Life:
    """A study of any policy: results in any order, early ones, losses, late ones, corrections."""

    def __init__(self, row, seed):
        policy, self.environment = row.make()
        self.random, self.store = np.random.default_rng(seed), MemoryStore()
        self.study = Study.create(
            policy.problem, policy, storage=self.store, name="life", seed=seed
        )
        self.pulls, self.state = {}, {}

    def outcome(self, one, reports=False):
        found = self.environment.sample(self.pulls[one], self.random)
        if not isinstance(found, Trajectory):
            return found
        for reading in found.readings if reports else ():
            self.study.report(one, reading.value, **reading.details)
        return found.outcome

    def step(self):
        kind = self.random.random()
        if kind < 0.5:
            for pull in (
                [] if self.study.stopped else self.study.ask(int(self.random.integers(1, 4)))
            ):
                self.pulls[pull.id], self.state[pull.id] = pull, "open"
            return
        wanted = "open" if kind < 0.85 else "failed" if kind < 0.88 else "told"
        ids = [one for one, state in self.state.items() if state == wanted]
        if kind > 0.97 or not ids:
            self.study.snapshot()
            return
        one = ids[self.random.integers(len(ids))]
        if kind < 0.78 or wanted == "failed":
            self.study.tell(one, self.outcome(one, reports=wanted == "open"))
            self.state[one] = "told"
        elif wanted == "open":
            (self.study.fail if kind < 0.83 else self.study.cancel)(one)
            self.state[one] = "failed"
        else:
            self.study.amend(one, self.outcome(one), "typing error")


@pytest.mark.parametrize("seed", range(effort.runs(1, whole=10)))
@pytest.mark.parametrize(
    "row", effort.alternate(POLICIES, POLICY, second=True), ids=lambda row: row.name
)
def test_a_study_is_the_same_to_all_who_read_it_with_every_policy(row, seed, tmp_path):
    life = Life(row, 100 * seed + 3)
    for number in range(effort.runs(90, whole=250)):
        try:
            life.step()
        except EXPECTED:
            continue
        if number % 45 == 44:
            look(life.study, life.store)
    look(life.study, life.store)
    found = life.study.verify()
    assert found.ok, found.first_difference
    if effort.long:
        write_report(life.study, tmp_path / "report.html")
