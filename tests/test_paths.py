"""An outcome passes through few files on its way to the wealth, and to the log of a service."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from fairtrial.core import compilation
from fairtrial.server import create_app
from fairtrial.server.routes.writing import _Direct
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Study, Tokens
from fairtrial.study.memory import MemoryStore
from fairtrial.study.writer import Writer
from fairtrial.subpopulations import BlockBetting, Problem
from fairtrial.subpopulations._kernels import blocks
from tests.paths import files_on_the_way

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))


def a_study(storage):
    return Study.create(PROBLEM, BlockBetting(PROBLEM, delta=0.05), storage=storage, name="trial")


@pytest.fixture(autouse=True)
def interpreted():
    compilation.use_tier("interpret")
    yield
    compilation.use_tier("auto")


@pytest.mark.parametrize("storage", ["memory://", "trial.db"])
def test_from_tell_to_the_kernel_that_bets(storage, tmp_path):
    study = a_study(storage if "//" in storage else tmp_path / storage)
    pull = study.ask(2)[0]
    files = files_on_the_way(lambda: study.tell(pull, 0.5), Study.tell, blocks.tell.py_func)
    assert len(files) <= 11, files


def test_from_a_request_to_the_log():
    store = MemoryStore()
    pull = a_study(store).ask(2)[0]
    secret = Tokens(store).create("ward", ["run", "read"])[1]
    app = create_app(store)

    async def tell():
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(
                f"/v1/studies/trial/pulls/{pull.id}/tell",
                json={"value": 0.5},
                headers={"Authorization": f"Bearer {secret}"},
            )

    def told():
        assert asyncio.run(tell()).status_code == 200

    files = files_on_the_way(told, _Direct.handle, StudyWriter.run, Writer._add)
    app.state.service.close()
    assert len(files) <= 10, files
