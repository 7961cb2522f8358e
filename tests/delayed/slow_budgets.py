"""Slow and obvious rules with a budget: the reference for the compiled ones."""

from __future__ import annotations

import math
from bisect import insort
from functools import reduce
from operator import add
from statistics import median

import numpy as np

from fairtrial.core.policy import Policy
from fairtrial.core.pull import UNSOLICITED
from fairtrial.core.recommendation import Recommendation

OPEN, DONE, STOPPED = range(3)
NOWHERE = -1


class Record:
    """The state of one pull; its stage is its rung or round."""

    def __init__(self, arm, stage):
        self.arm, self.stage, self.state, self.outcome = arm, stage, OPEN, math.nan
        self.readings = {}

    @property
    def count(self):
        return len(self.readings)

    @property
    def values(self):
        return np.array([self.readings[stage] for stage in sorted(self.readings)])

    def reached(self, age):
        return self.state == DONE or self.count >= age


class SlowPolicy(Policy):
    def __init__(self, problem, seed=None):
        super().__init__(problem, seed)
        self.records = []
        self.arms = list(range(len(problem.arms)))

    def advance(self, record):
        pass

    def open(self, arm, stage):
        self.records.append(Record(arm, stage))
        return arm, len(self.records) - 1

    def learn(self, pull, outcome):
        if pull.number == UNSOLICITED:
            self.open(pull.action, NOWHERE)
        record = self.records[-1 if pull.number == UNSOLICITED else pull.tag]
        record.state, record.outcome = DONE, self.problem.sign * outcome
        self.advance(record)

    def read(self, pull, value, stage=None, elapsed=None, std=None):
        record = self.records[pull.tag]
        if stage is None:
            stage = math.floor(max(record.readings, default=0)) + 1 if elapsed is None else elapsed
        if stage not in record.readings:
            record.readings[stage] = self.problem.sign * value
            self.advance(record)

    def read_late(self, pull, value, **details):
        pass

    def on_failure(self, pull, reason):
        self.records[pull.tag].state = STOPPED
        self.advance(self.records[pull.tag])

    def on_amend(self, pull, old, new):
        sign = self.problem.sign
        for record in self.records if pull.number == UNSOLICITED else [self.records[pull.tag]]:
            if record.arm == pull.action and record.outcome == sign * old:
                record.outcome = sign * new
                return

    def in_flight_where(self, test):
        return [pull for pull in self.outstanding() if test(self.records[pull.tag])]

    def value(self, record, readings):
        if record.count < readings and record.state == DONE:
            return record.outcome
        if record.count == 0:
            return math.nan
        values = record.values[: int(min(readings, record.count))]
        if self.problem.feedback == "unbiased":
            return float(values.mean())
        if self.problem.feedback == "incremental" and self.problem.duration is not None:
            return float(values.mean() * self.problem.duration[record.arm])
        return float(values[-1])

    def outcomes(self):
        return [
            [
                record.outcome
                for record in self.records
                if record.state == DONE and record.arm == arm
            ]
            for arm in self.arms
        ]

    def means(self):
        return [reduce(add, own) / len(own) if own else -math.inf for own in self.outcomes()]

    def recommend(self):
        leader = tuple(self.problem.arms[arm] for arm in self.ranked()[: self.problem.top])
        done = self.stopped
        return Recommendation(
            arm=leader if done else None, status="decided" if done else "running", leader=leader,
            guarantee=self.guarantee, reason="", evidence={},
        )  # fmt: skip

    def metrics(self):
        return {"readings": float(sum(record.count for record in self.records))}


def ladder(policy, first):
    cuts, left = 0, float(len(policy.arms))
    while left / policy.eta >= policy.problem.top:
        cuts, left = cuts + 1, left / policy.eta
    return [*(math.floor(first * policy.eta**cut) for cut in range(cuts)), math.inf]


class SuccessiveHalving(SlowPolicy):
    def __init__(self, problem, eta=3.0, min_readings=1, pulls=1, seed=None):
        super().__init__(problem, seed)
        self.eta, self.min_readings, self.pulls = eta, min_readings, pulls
        self.places = [0.0] * len(self.arms)
        self.enter(self.arms, ladder(self, min_readings))

    def enter(self, arms, ages):
        self.alive, self.ages, self.rung = list(arms), list(ages), 0
        self.started = [0] * len(self.arms)

    @property
    def stopped(self):
        return self.rung == len(self.ages)

    def choose(self):
        for arm in self.alive:
            if self.started[arm] < self.pulls:
                self.started[arm] += 1
                return self.open(arm, self.rung)
        return None

    def waits_for_places(self):
        return any(self.started[arm] < self.pulls for arm in self.alive)

    def advance(self, record):
        if self.stopped or record.stage != self.rung:
            return
        if record.reached(self.ages[self.rung]):
            self.close_if_all_are_there()
        elif record.state == STOPPED:
            record.stage = NOWHERE
            self.started[record.arm] -= 1

    def close_if_all_are_there(self):
        here = [record for record in self.records if record.stage == self.rung]
        age = self.ages[self.rung]
        if not self.waits_for_places() and all(record.reached(age) for record in here):
            self.close(here)

    def close(self, here):
        sums = dict.fromkeys(self.alive, 0.0)
        for record in here:
            sums[record.arm] += self.value(record, self.ages[self.rung])
        best = sorted(self.alive, key=lambda arm: (-sums[arm], arm))
        for place, arm in enumerate(best):
            self.places[arm] = self.rung + 1.0 - (place + 1.0) / (len(best) + 1.0)
        self.rung += 1
        if self.stopped:
            self.end()
            return
        keep = max(self.problem.top, math.floor(len(best) / self.eta))
        self.alive, self.started = sorted(best[:keep]), [0] * len(self.arms)
        for record in here:
            if record.arm in self.alive and record.state != STOPPED:
                record.stage = self.rung
                self.started[record.arm] += 1
        self.close_if_all_are_there()

    def end(self):
        pass

    def to_cancel(self):
        if self.stopped:
            return self.outstanding()
        blocks = self.waits_for_places()
        return self.in_flight_where(
            lambda record: (
                record.stage != self.rung or (blocks and record.reached(self.ages[self.rung]))
            )
        )

    def ranked(self):
        means = self.means()
        return sorted(self.arms, key=lambda arm: (-math.ceil(self.places[arm]), -means[arm],
                                                  -self.places[arm], arm))  # fmt: skip


class Hyperband(SuccessiveHalving):
    def __init__(self, problem, max_readings, eta=3.0, pulls=1, seed=None):
        super().__init__(problem, eta, 1, pulls, seed)
        self.max_readings = max_readings
        last = math.floor(math.log(max_readings) / math.log(eta) + 1e-9)
        generator = np.random.default_rng(self.seed)
        self.waiting = []
        for s in range(last, -1, -1):
            wanted = math.ceil((last + 1) / (s + 1) * eta**s)
            size = min(len(self.arms), max(problem.top, wanted))
            own = sorted(generator.permutation(len(self.arms))[:size].tolist())
            first = max(1.0, max_readings / eta**s)
            ages = [*(math.floor(first * eta**i) for i in range(s)), math.inf]
            self.waiting.append((own, ages))
        self.enter(*self.waiting.pop(0))

    def end(self):
        if self.waiting:
            for record in self.records:
                record.stage = NOWHERE
            self.enter(*self.waiting.pop(0))

    def ranked(self):
        means = self.means()
        return sorted(self.arms, key=lambda arm: (-means[arm], -self.places[arm], arm))


class ASHA(SlowPolicy):
    def __init__(self, problem, eta=3.0, min_readings=1, seed=None):
        super().__init__(problem, seed)
        self.eta, self.min_readings = eta, min_readings
        self.ages = ladder(self, min_readings)
        self.goes_to = [NOWHERE] * len(self.arms)
        self.seen = np.full((len(self.ages), len(self.arms)), math.nan)

    def choose(self):
        for rung in range(len(self.ages) - 2, -1, -1):
            for arm in self.best_of(rung):
                if self.goes_to[arm] == rung:
                    self.goes_to[arm] = rung + 1
                    return self.open(arm, rung + 1)
        for arm in self.arms:
            if self.goes_to[arm] == NOWHERE:
                self.goes_to[arm] = 0
                return self.open(arm, 0)
        return None

    def best_of(self, rung):
        there = [arm for arm in self.arms if not math.isnan(self.seen[rung, arm])]
        best = sorted(there, key=lambda arm: (-self.seen[rung, arm], arm))
        return best[: math.floor(len(there) / self.eta)]

    def advance(self, record):
        arm, rung = record.arm, record.stage
        if rung == NOWHERE:
            return
        if not record.reached(self.ages[rung]):
            if record.state == STOPPED:
                record.stage, self.goes_to[arm] = NOWHERE, rung - 1
            return
        if math.isnan(self.seen[rung, arm]):
            self.seen[rung, arm] = self.value(record, self.ages[rung])
        runs_on = record.state != STOPPED and rung + 1 < len(self.ages)
        if runs_on and self.goes_to[arm] == rung and arm in self.best_of(rung):
            self.goes_to[arm] = record.stage = rung + 1
            self.advance(record)

    @property
    def stopped(self):
        if NOWHERE in self.goes_to:
            return False
        if any(math.isnan(self.seen[rung, arm]) for arm, rung in enumerate(self.goes_to)):
            return False
        return not any(
            self.goes_to[arm] == rung
            for rung in range(len(self.ages) - 1)
            for arm in self.best_of(rung)
        )

    def to_cancel(self):
        if self.stopped:
            return self.outstanding()
        return self.in_flight_where(lambda record: record.reached(self.ages[record.stage]))

    def ranked(self):
        means = self.means()

        def rank(arm):
            reached = [r for r in range(len(self.ages)) if not math.isnan(self.seen[r, arm])]
            value = self.seen[reached[-1], arm] if reached else -math.inf
            return -max(reached, default=NOWHERE), -means[arm], -value, arm

        return sorted(self.arms, key=rank)


class MedianStopping(SlowPolicy):
    def __init__(self, problem, budget, min_readings=1, min_completed=5, seed=None):
        super().__init__(problem, seed)
        self.budget, self.min_readings, self.min_completed = budget, min_readings, min_completed
        self.by_age = []

    @property
    def stopped(self):
        return self.asked >= self.budget and all(one.state != OPEN for one in self.records)

    def choose(self):
        if self.asked >= self.budget:
            return None
        return self.open(self.asked % len(self.arms), 0)

    def advance(self, record):
        if record.state == DONE and record.count:
            means = record.values.cumsum() / np.arange(1, record.count + 1)
            self.by_age += [[] for _ in range(len(self.by_age), record.count)]
            for others, mean in zip(self.by_age, means.tolist(), strict=False):
                insort(others, mean)

    def to_cancel(self):
        return self.in_flight_where(self.is_bad)

    def is_bad(self, record):
        age = record.count
        if not self.min_readings <= age <= len(self.by_age):
            return False
        others = self.by_age[age - 1]
        return len(others) >= self.min_completed and max(record.readings.values()) < median(others)

    def ranked(self):
        means, best = self.means(), [-math.inf] * len(self.arms)
        for record in self.records:
            best[record.arm] = max(best[record.arm], self.value(record, math.inf))
        return sorted(self.arms, key=lambda arm: (-means[arm], -best[arm], arm))


class SlowRounds(SlowPolicy):
    def __init__(self, problem, budget, seed=None):
        super().__init__(problem, seed)
        self.budget = budget
        self.alive, self.accepted = list(self.arms), []
        self.started = [0] * len(self.arms)
        self.round = 0
        self.goal = self.pulls_each()
        self.settle()

    @property
    def places(self):
        return self.problem.top - len(self.accepted)

    @property
    def stopped(self):
        return not self.alive

    def choose(self):
        arm = min(self.alive, key=lambda arm: (self.started[arm], arm))
        if self.started[arm] >= self.goal:
            return None
        self.started[arm] += 1
        return self.open(arm, self.round)

    def advance(self, record):
        if record.state == OPEN:
            return
        while not self.stopped and self.round_is_over():
            self.cut()
            self.round += 1
            self.settle()
            if not self.stopped:
                self.goal = max(self.goal, self.pulls_each())

    def round_is_over(self):
        if any(self.started[arm] < self.goal for arm in self.alive):
            return False
        return not any(one.state == OPEN and one.arm in self.alive for one in self.records)

    def settle(self):
        if len(self.alive) <= self.places:
            self.accepted += self.alive
            self.alive = []
        elif self.places == 0:
            self.alive = []

    def to_cancel(self):
        return self.in_flight_where(lambda record: record.arm not in self.alive)

    def ranked(self):
        means = self.means()
        return sorted(
            self.arms,
            key=lambda arm: (arm not in self.accepted, arm not in self.alive, -means[arm]),
        )

    def by_mean(self):
        means = self.means()
        return sorted(self.alive, key=lambda arm: (-means[arm], arm))


class SequentialHalving(SlowRounds):
    def pulls_each(self):
        rounds = max(1, math.ceil(math.log2(len(self.arms) / self.problem.top)))
        left = max(1, len(self.alive)) * max(1, rounds - self.round)
        share = (self.budget - self.asked) // left
        return max(1, share) if self.round == 0 else self.goal + share

    def cut(self):
        keep = max(self.places, math.ceil(len(self.alive) / 2))
        self.alive = sorted(self.by_mean()[:keep])


class SuccessiveRejects(SlowRounds):
    def pulls_each(self):
        arms = len(self.arms)
        spread = 0.5 + sum(1.0 / place for place in range(2, arms + 1))
        return max(1, math.ceil((self.budget - arms) / (spread * (arms - self.round))))

    def cut(self):
        means, order = self.means(), self.by_mean()
        last_in, first_out = means[order[self.places - 1]], means[order[self.places]]
        lead, lag = means[order[0]] - first_out, last_in - means[order[-1]]
        if self.problem.top > 1 and lead > lag:
            self.accepted.append(order[0])
            self.alive.remove(order[0])
        else:
            self.alive.remove(order[-1])
