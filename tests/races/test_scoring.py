"""An evaluation that still runs when the race has ended is cancelled, and nobody waits for it."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from fairtrial.errors import SourceError
from fairtrial.races.scoring import Evaluation
from tests.messages import raises


@pytest.mark.parametrize("attempts", [1, 3])
def test_coroutines_and_pauses_end_with_the_race(attempts):
    begun, refused = threading.Event(), []

    async def endless(candidate, item):
        begun.set()
        await asyncio.Event().wait()

    def failing(candidate, item):
        begun.set()
        raise OSError

    for score in (endless, failing) if attempts > 1 else (endless,):
        evaluation = Evaluation({"a": 1}, [1], score, None, None, attempts, "ask", pause=600.0)

        def evaluate(evaluation=evaluation):
            with raises(SourceError) as caught:
                evaluation("a", SimpleNamespace(pull=SimpleNamespace(tag=0)))
            refused.append(caught.value)

        thread = threading.Thread(target=evaluate, daemon=True)
        begun.clear()
        thread.start()
        assert begun.wait(60)
        evaluation.close()
        thread.join(60)
        assert not thread.is_alive()
    assert len(refused) == (2 if attempts > 1 else 1)


def test_after_the_race_no_function_is_called():
    called = []
    evaluation = Evaluation({"a": 1}, [1], lambda *call: called.append(call), None, None, 2, "ask")
    evaluation.close()
    with raises(SourceError):
        evaluation("a", SimpleNamespace(pull=SimpleNamespace(tag=0)))
    assert called == []
