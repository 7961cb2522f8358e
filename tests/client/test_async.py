"""The client for event loops: the same names as the other one, and no call blocks the loop."""

import asyncio
import inspect
import time

import pytest

import fairtrial as ft
from fairtrial.client import AsyncConnection, AsyncStudy, Connection, RemoteStudy
from fairtrial.errors import ConflictingOutcome, InvalidArgument, StudyExists, StudyNotFound
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.client.served import served
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)


@pytest.fixture(scope="module")
def service():
    with served(MemoryStore()) as made:
        yield made


@pytest.fixture
def run(service, request):
    """Return a function that runs a coroutine function with a new study of this test."""
    token = service.token(request.node.name, "admin")

    def with_study(use):
        async def session():
            async with ft.client.connect_async(service.url, token) as connection:
                name = request.node.name
                return await use(await connection.create(PROBLEM, POLICY, name=name, seed=7))

        return asyncio.run(session())

    return with_study


def methods(cls):
    return {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("mine", "other"), [(AsyncStudy, RemoteStudy), (AsyncConnection, Connection)]
)
def test_every_method_has_the_name_and_the_arguments_of_the_other_client(mine, other):
    for name, method in methods(mine).items():
        assert inspect.iscoroutinefunction(method), name
        if name == "ask":
            continue  # its arguments are in its overloads
        given = inspect.signature(method).parameters
        known = inspect.signature(getattr(other, name)).parameters
        assert [one for one in known if one not in ("actor", "worker")] == list(given), name
        assert all(given[one].default == known[one].default for one in given), name


def test_a_study_is_run_and_answered(run):
    async def use(study):
        pulls = await study.ask(4, group="x")
        one = await study.ask(unit="anna")
        assert (await study.ask(unit="anna")).id == (await study.pull_of(unit="anna")).id == one.id
        await study.tell(pulls[0], 1.0)
        assert len(await study.tell_many([(pulls[1], 0.0), (pulls[2], 1.0)])) == 2
        await study.amend(pulls[1], 1.0, "typing error")
        await study.fail(pulls[3], "no answer")
        await study.extend(one, 60.0)
        assert not await study.should_stop(one)
        assert [pull.id for pull in await study.outstanding()] == [one.id]
        await study.cancel(one)
        assert (await study.progress()).told == 3
        assert (await study.health())["lost"] == 1
        assert (await study.recommend()).status == "running"
        await study.stop("enough")
        return (await study.recommend()).status

    assert run(use) == "undecided"


def test_errors_are_those_of_the_other_client(run):
    async def use(study):
        pull = await study.ask()
        await study.tell(pull, 1.0)
        with raises(ConflictingOutcome):
            await study.tell(pull, 0.0)
        with raises(InvalidArgument):
            await study.ask(group="z")

    run(use)


def test_studies_are_listed_opened_and_created_once(service):
    token = service.token("lister", "admin")

    async def use():
        async with ft.client.connect_async(service.url, token) as connection:
            made = await connection.create(PROBLEM, POLICY, name="listed", seed=7)
            assert "listed" in [item.name for item in await connection.studies()]
            assert (await connection.study("listed")).problem == made.problem
            with raises(StudyExists):
                await connection.create(PROBLEM, POLICY, name="listed", seed=7)
            with raises(StudyNotFound):
                await connection.study("other")
            assert service.url in repr(connection)
            assert service.url in repr(made)

    asyncio.run(use())


def test_many_tasks_ask_at_once_and_a_unit_gets_one_pull(run):
    async def use(study):
        units = [f"user {n % 10}" for n in range(60)]
        pulls = await asyncio.gather(*[study.ask(unit=unit) for unit in units])
        found = dict(zip(units, pulls, strict=True))
        assert all(pull.id == found[unit].id for unit, pull in zip(units, pulls, strict=True))
        return len({pull.id for pull in pulls})

    assert run(use) == 10


def test_a_slow_answer_does_not_block_the_loop(run, monkeypatch):
    def slow(self):
        time.sleep(0.5)
        return "late"

    monkeypatch.setattr(RemoteStudy, "recommend", slow)

    async def use(study):
        waiting = asyncio.create_task(study.recommend())
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns, await waiting

    turns, answer = run(use)
    assert turns > 5
    assert answer == "late"


@pytest.mark.parametrize("parallel", [0, -1, 1.5, True])
def test_the_number_of_calls_at_the_same_time_is_checked(parallel):
    with raises(InvalidArgument) as caught:
        ft.client.connect_async("http://127.0.0.1:1", "ft_" + 43 * "x", parallel=parallel)
    assert caught.value.name == "parallel"
