"""One experiment in every store: the same decisions, the same log, and moves without a loss."""

import itertools
import multiprocessing
from functools import partial

import pytest

from fairtrial import allocation, delayed, linear, subpopulations
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests.study.tools import Clock
from tests.study.toys import OWN, Racing, Serving, ToyProblem


def block_betting():
    problem = subpopulations.Problem(["a", "b"], {"x": 0.5, "y": 0.5}, reward_range=(0, 1))
    return problem, subpopulations.BlockBetting(problem, delta=0.1)


def linear_arms():
    problem = linear.Problem([[1, 0], [0, 1], [0.7, 0.6]], noise_std=1.0)
    return problem, linear.LinGapE(problem, delta=0.1)


def race():
    problem = delayed.Problem(["a", "b", "c"], noise_std=1.0, feedback="unbiased", reading_std=1.0)
    return problem, delayed.InformationRacing(problem, parallel=4)


def shares():
    problem = allocation.Problem(arms=["a", "b", "c"], shares=["1/5", "3/10", "1/4"])
    return problem, allocation.FairLearn(problem, learner=allocation.Thompson())


def toy(policy):
    problem = ToyProblem()
    return problem, policy(problem)


EXPERIMENTS = {
    "block betting": block_betting,
    "linear": linear_arms,
    "race": race,
    "shares": shares,
    "toy race": partial(toy, Racing),
    "toy service": partial(toy, Serving),
}


@pytest.fixture(params=EXPERIMENTS)
def experiment(request, monkeypatch):
    """Return a function that runs it in a store: the same calls, and the same random numbers."""

    def carried_out(store, clock):
        identities = itertools.count(1)
        monkeypatch.setattr(
            "fairtrial.study.writer.secrets.token_hex", lambda n: f"{next(identities):032x}"
        )
        problem, policy = EXPERIMENTS[request.param]()
        study = Study.create(
            problem, policy, storage=store, name="trial", seed=3, secret=secret_of(policy)
        )
        for turn in range(25):
            pulls = study.ask(3, lease=50, worker=f"lab {turn % 2}", request_id=f"turn {turn}")
            study.ask(3, request_id=f"turn {turn}")
            for pull in pulls[: 1 + turn % 3]:
                clock.advance(1.5)
                study.tell(pull, (pull.action + 1) / (5 + turn % 3), actor="ß 漢字")
            clock.advance(turn % 4 * 20)
            if turn % 5 == 4 and pulls:
                study.amend(pulls[0], 0.125, "typing error")
        study.snapshot()
        return study

    return carried_out


imported = partial(Study.import_log, **OWN, durability="process")


def secret_of(policy):
    return "for a test" if policy.randomizes else None


@pytest.fixture
def stores(tmp_path, postgresql_url):
    """Return one store of every kind, each with a clock that began at the same moment."""
    clocks = [Clock() for _ in range(3)]
    kinds = [
        MemoryStore(clock=clocks[0]),
        SQLiteStore(tmp_path / "study.db", "process", clock=clocks[1]),
        PostgreSQLStore(ServerAddress(postgresql_url), "process", clock=clocks[2]),
    ]
    yield list(zip(kinds, clocks, strict=True))
    for store in kinds:
        store.close()


def test_the_same_calls_leave_the_same_log_everywhere(experiment, stores):
    studies = [experiment(store, clock) for store, clock in stores]
    first, *others = studies
    events = list(first.events())
    assert len(events) > 10
    for study in others:
        assert list(study.events()) == events
        assert list(study._store.pulls(1)) == list(first._store.pulls(1))
        assert list(study._store.counts(1).items() ^ first._store.counts(1).items()) == []
        assert study.head_hash == first.head_hash
        assert study.health() == first.health()
        assert study.verify().ok
    [kept] = {tuple(study._store.snapshots(1)) for study in studies}
    assert kept[0].seq == len(events)


def test_a_study_goes_from_store_to_store_and_back(experiment, stores, tmp_path, postgresql_url):
    (store, clock) = stores[1]
    original = experiment(store, clock)
    log = original.export(tmp_path / "log.jsonl")
    there = imported(log, storage=postgresql_url, name="moved")
    assert there.head_hash == original.head_hash
    assert there.verify().ok
    log_there = there.export(tmp_path / "there.jsonl")
    back = imported(log_there, storage=tmp_path / "back.db", name="trial")
    assert back.head_hash == original.head_hash
    assert back.verify(expected=original.head_hash).ok
    assert list(back.events()) == list(original.events())
    assert back.export(tmp_path / "back.jsonl").read_bytes() == log.read_bytes()
    following = [study.ask(2) for study in (original, there, back)]
    assert len({tuple(pull.action for pull in pulls) for pulls in following}) == 1
    for study in (there, back):
        study.close()


def carry_out(url, pairs):
    """Ask and tell in a separate process."""
    with Study.open(url, "toy", **OWN, durability="process") as study:
        for _ in range(pairs):
            study.tell(study.ask(), 0.5)


@pytest.mark.slow
def test_several_processes_carry_out_one_study(postgresql_url):
    problem = ToyProblem()
    study = Study.create(
        problem,
        Serving(problem),
        storage=postgresql_url,
        name="toy",
        seed=7,
        durability="process",
    )
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(carry_out, [(postgresql_url, 40)] * 3)
    assert (study.policy.asked, study.policy.told) == (120, 120)
    assert study.verify().ok
    study.close()
