"""The server, used by the client of the official package."""

import asyncio
import json
import sys
from contextlib import suppress

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.data import adult_offer
from fairtrial.mcp import mcp_server
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from mcp import Client, MCPError, StdioServerParameters
from tests.client.served import served

PROBLEM = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
READING = ["list_studies", "show_study", "recommend", "verify"]


@pytest.fixture
def storage(tmp_path):
    url = f"sqlite:///{tmp_path / 'trial.db'}"
    Study.create(PROBLEM, POLICY, storage=url, name="trial", seed=7).close()
    return url


def used_from_outside(storage, use, *options, **environment):
    """Start `fairtrial mcp`, connect to it, and return what `use` returns with the client."""
    arguments = ["-m", "fairtrial", "mcp", "--storage", storage, *options]
    environment = {"FAIRTRIAL_KERNELS": "interpret"} | environment
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    return connected(server, use)


def used(storage, use, write=False):
    """Return what `use` returns with a client of a server in this process."""
    return connected(mcp_server(storage, write=write), use)


def connected(server, use):
    async def session():
        async with Client(server, read_timeout_seconds=60) as client:
            return await use(client)

    return asyncio.run(session())


async def called(client, tool, **arguments):
    """Return the document that a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    [text] = [part.text for part in result.content] or ["[]"]
    return json.loads(text)


async def names_of(client):
    return [tool.name for tool in (await client.list_tools()).tools]


def test_without_the_option_there_are_only_tools_that_read(storage):
    async def use(client):
        tools = (await client.list_tools()).tools
        assert all(tool.annotations.read_only_hint for tool in tools)
        for tool in ("ask", "tell"):
            with suppress(MCPError):
                result = await client.call_tool(tool, {"study": "trial", "pull": "x", "value": 1})
                assert result.is_error
        return [tool.name for tool in tools]

    assert used_from_outside(storage, use) == READING
    with Study.open(storage, "trial") as study:
        assert study.n_events == 0


def test_a_study_is_listed_shown_and_verified(storage):
    with Study.open(storage, "trial") as study:
        pull = study.ask(group="x")
        study.tell(pull, 0.5)
        head = study.head_hash

    async def use(client):
        listed = await called(client, "list_studies")
        shown = await called(client, "show_study", study="trial")
        answer = await called(client, "recommend", study="trial")
        verified = await called(client, "verify", study="trial")
        return listed, shown, answer, verified

    listed, shown, answer, verified = used(storage, use)
    assert (listed["name"], listed["status"]) == ("trial", "running")
    assert shown["problem"] == PROBLEM.to_dict()
    assert (shown["events"], shown["progress"]["told"]) == (2, 1)
    assert (answer["arm"], answer["status"]) == (None, "running")
    assert answer["guarantee"]["proven"]
    assert answer["warnings"] == shown["health"]["warnings"] == []
    assert verified == {
        "ok": True,
        "events": 2,
        "first_difference": None,
        "skipped": 0,
        "head": head,
    }


def test_tables_and_most_of_many_arms_are_left_out_unless_everything_is_wanted(tmp_path):
    url = f"sqlite:///{tmp_path / 'long.db'}"
    offer = adult_offer("easy")
    fair = ft.causal.Problem(
        ft.causal.CausalModel.from_bif(offer["network"]),
        sensitive="Sex",
        intervened="Offer",
        outcome=("Gain", {"loss": 0.0, "neutral": 0.4, "gain": 1.0}),
        arms=offer["arms"],
        fairness_bound=0.038,
        outcome_range=(0, 1),
    )
    features = np.random.default_rng(1).normal(size=(60, 3))
    many = ft.linear.Problem(features, arms=[f"recipe {arm}" for arm in range(60)], noise_std=0.1)
    policies = {"fair": ft.causal.PlugIn(fair, budget=9), "many": ft.linear.BlockBetting(many)}
    for name, policy in policies.items():
        Study.create(policy.problem, policy, storage=url, name=name, seed=7).close()

    async def use(client):
        return {
            name: [
                await called(client, "show_study", study=name),
                await called(client, "show_study", study=name, everything=True),
                await called(client, "recommend", study=name),
            ]
            for name in policies
        }

    found = used(url, use)
    short, whole, _ = found["fair"]
    assert whole["problem"] == fair.to_dict()
    assert short["problem"]["fairness_bound"] == 0.038
    assert short["problem"]["model"]["tables"]["Offer"] == "4 x 2 x 3 x 3 x 2 numbers"
    assert short["left_out"]["problem.arms.all"] == "4 x 2 x 3 x 3 x 2 numbers"
    assert len(short["progress"]["arms"]) == fair.n_arms
    short, whole, answer = found["many"]
    assert len(whole["progress"]["arms"]) == 60
    assert "left_out" not in whole
    assert short["problem"]["features"] == "60 x 3 numbers"
    assert short["left_out"]["arms"] == "36 of 60, everywhere"
    kept = [one["arm"] for one in short["progress"]["arms"]]
    assert len(kept) == 24
    assert short["problem"]["arms"] == [one["answer"] for one in short["progress"]["answers"]]
    assert answer["candidates"] == short["problem"]["arms"] == kept
    assert all(len(json.dumps(one)) < 20_000 for one, *_ in found.values())


def test_a_study_is_run_with_the_option(storage):
    async def use(client):
        assert await names_of(client) == [*READING, "ask", "tell"]
        asked = await called(client, "ask", study="trial", n=3, group="y")
        unit = await called(client, "ask", study="trial", unit="visitor")
        assert unit == await called(client, "ask", study="trial", unit="visitor")
        first = asked["pulls"][0]
        told = await called(client, "tell", study="trial", pull=first["pull"], value=1.0)
        return asked["pulls"], told

    pulls, told = used_from_outside(storage, use, "--write")
    assert {pull["group"] for pull in pulls} == {"y"}
    assert (told["event"]["value"], told["stopped"]) == (1.0, False)
    with Study.open(storage, "trial") as study:
        assert [event.kind for event in study.events()] == ["ask"] * 4 + ["tell"]
        assert study.verify().ok


def test_an_error_is_a_message_that_a_model_can_read(storage):
    mistakes = [
        ("recommend", {"study": "other"}, "has no study 'other'"),
        ("ask", {"study": "trial", "n": 101}, "from 1 to 100"),
        ("ask", {"study": "trial", "group": "z"}, "group"),
        ("tell", {"study": "trial", "pull": "x", "value": 1}, "never issued"),
    ]

    async def use(client):
        return [await client.call_tool(tool, arguments) for tool, arguments, _ in mistakes]

    results = used(storage, use, write=True)
    assert all(result.is_error for result in results)
    for result, (_, _, said) in zip(results, mistakes, strict=True):
        assert said in result.content[0].text


def test_looking_is_allowed_and_declaring_a_winner_early_is_not(storage):
    async def use(client):
        return client.instructions

    said = used(storage, use)
    assert "as often as you like" in said
    assert "decided" in said


def test_the_studies_of_a_service_have_the_same_tools(storage):
    async def use(client):
        [pull] = (await called(client, "ask", study="trial"))["pulls"]
        await called(client, "tell", study="trial", pull=pull["pull"], value=0.5)
        return await called(client, "show_study", study="trial")

    with served(storage) as service:
        token = service.token("model", "run", "read")
        shown = used_from_outside(service.url, use, "--write", FAIRTRIAL_TOKEN=token)
    assert (shown["events"], shown["progress"]["told"]) == (2, 1)


def test_evidence_is_the_number_that_the_page_shows(storage):
    with Study.open(storage, "trial") as study:
        while not study.stopped:
            pulls = study.ask(20)
            study.tell_many([(pull, float(pull.arm == "a")) for pull in pulls])
            assert study.n_events < 5_000

    async def use(client):
        shown = await called(client, "show_study", study="trial")
        answer = await called(client, "recommend", study="trial")
        return shown["progress"], answer["evidence"]

    for found in used(storage, use):
        assert (found["evidence_against_last_rival"], found["evidence_needed"]) == (20.0, 20.0)
        assert not {"evidence", "threshold", "evidence_scale"} & set(found)
