"""An early stopping manager of inspect_ai that races the models of one evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import value_to_float
from inspect_ai.util import EarlyStop

from fairtrial.core.keywords import named_arguments
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_integer, check_labels, check_number, check_range
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.errors import InvalidArgument
from fairtrial.races import RaceResult
from fairtrial.races.contents import content_of
from fairtrial.study import Study

if TYPE_CHECKING:
    from fairtrial.study.location import Storage

__all__ = ["Race"]

_model: ContextVar[str] = ContextVar("model")
"""The model of the task in whose context a hook is called: hooks do not get it."""


class Race:
    """Races models over the samples of one task, and stops samples that the answer does not need.

    Pass it as ``early_stopping`` of a task with `dataset` as its dataset, and evaluate this task on
    all models at once. Samples come in a random order that the race draws. A model that is clearly
    worse than another one gets no more samples.

    Parameters
    ----------
    models : sequence of str
        The models, as the log of inspect_ai names them: ``"openai/gpt-4o"``.
    samples : sequence of Sample, or Dataset
        The samples; the answer is about exactly these.
    delta : float
        Accepted probability of a wrong answer.
    reward_range : (float, float)
        The range of all scores. Grades ``"C"``, ``"P"`` and ``"I"`` count as 1, 0.5 and 0.
    tolerance : float
        How much worse than the best the answer may be.
    scorer : str, optional
        The scorer whose score counts; by default the only one.
    ahead : int
        How many samples a model may be ahead of the slowest one that is still in the race.
    patience : float
        Seconds after which a model does not wait any more for a slower one without news.
    storage, name : str
        Where the study is stored, and its name there. The same race continues an earlier one, and
        evaluates no sample again that was scored.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    StudyExists
        If the storage has a study of that name about another question.

    Notes
    -----
    Models must run at the same time (inspect_ai's default): those that run one after the other are
    only compared with those before. A model whose sample ends with an error leaves the race when
    its task ends.
    """

    @named_arguments
    def __init__(
        self,
        models: Sequence[str],
        samples: Any,
        *,
        delta: float = 0.05,
        reward_range: tuple[float, float] = (0.0, 1.0),
        tolerance: float = 0.0,
        scorer: str | None = None,
        ahead: int = 10,
        patience: float = 60.0,
        storage: Storage = "memory://",
        name: str = "race",
    ) -> None:
        self.models = check_labels("models", list(models))
        self.scorer = scorer
        self.ahead = check_integer("ahead", ahead, low=1)
        self.patience = check_number("patience", patience, low=0.0)
        listed = _with_ids(samples)
        given = [(one.id, str(one.input), str(one.target)) for one in listed]
        problem = Problem(
            list(self.models),
            reward_range=check_range("reward_range", reward_range),
            tolerance=tolerance,
        )
        policy = PairedRacing(
            problem,
            delta,
            n_blocks=len(listed),
            shuffle=True,
            blocks_from=content_of(given).checksum,
        )
        self.study = Study.create(problem, policy, storage=storage, name=name, exist_ok=True)
        self._tags = {one.id: tag for tag, one in enumerate(listed)}
        self._samples = [listed[tag] for tag in self._policy.order]
        self._pulls = {(pull.action, pull.tag): pull for pull in self.study.outstanding()}
        self._begun: set[tuple[int, int]] = set()
        self._running: set[str] = set()
        self._news = anyio.Event()

    @property
    def dataset(self) -> MemoryDataset:
        """The samples in the order of the race, for the task."""
        return MemoryDataset([one.model_copy(deep=True) for one in self._samples])

    @property
    def result(self) -> RaceResult:
        """The result so far."""
        return RaceResult(self.study, None, len(self._samples))

    @property
    def _policy(self) -> PairedRacing:
        policy = self.study.policy
        assert isinstance(policy, PairedRacing)
        return policy

    # ------------------------------------------------------------- the protocol of inspect_ai

    async def start_task(self, task: Any, samples: list[Sample], epochs: int) -> str:
        """Take a model into the race; refuse other samples, or several epochs."""
        if task.model not in self.models:
            raise InvalidArgument("models", f"must contain {task.model!r}, which is evaluated")
        if epochs != 1:
            raise InvalidArgument("epochs", "must be 1 in a race", epochs)
        if [one.id for one in samples] != [one.id for one in self._samples]:
            raise InvalidArgument("dataset", "must be the whole dataset of the race, in its order")
        _model.set(task.model)
        self._running.add(task.model)
        return f"fairtrial race {self.study.name}"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Stop a sample that the race does not need; wait for models that are far behind."""
        arm, tag = self.models.index(_model.get()), self._tags[id]
        while self._must_wait(arm, tag):
            with anyio.move_on_after(self.patience) as waiting:
                await self._news.wait()
            if waiting.cancelled_caught:
                break
        if np.isfinite(self._policy.listed_scores[tag, arm]):
            return EarlyStop(id=id, epoch=epoch, reason="scored before")
        if self._pull_of(arm, tag) is None or not self._is_needed(arm):
            return EarlyStop(id=id, epoch=epoch, reason=self._state_of(arm))
        self._begun.add((arm, tag))
        return None

    async def complete_sample(
        self,
        id: str | int,  # noqa: A002
        epoch: int,
        scores: dict[str, Any],
    ) -> None:
        """Record the score of a sample; it is durable when this returns."""
        arm, tag = self.models.index(_model.get()), self._tags[id]
        self._begun.discard((arm, tag))
        if (pull := self._pulls.pop((arm, tag), None)) is not None:
            self.study.tell(pull, self._score_of(scores))
        self._tell_news()

    async def complete_task(self) -> dict[str, Any]:
        """Let a model leave whose samples ended with errors; return the state of the race."""
        model = _model.get()
        arm = self.models.index(model)
        for key in sorted(self._begun):
            if key[0] == arm and (pull := self._pulls.pop(key, None)) is not None:
                self.study.fail(pull, "error")
        self._begun = {key for key in self._begun if key[0] != arm}
        self._running.discard(model)
        self._tell_news()
        return {"state": self._policy.states[arm], "race": self.result.in_words()}

    # ------------------------------------------------------------------------ the race

    def _is_needed(self, arm: int) -> bool:
        return not self.study.stopped and self._policy.states[arm] == "undecided"

    def _must_wait(self, arm: int, tag: int) -> bool:
        """Return whether a sample is too far ahead of a model that is running and in the race."""
        if not self._is_needed(arm):
            return False
        place = self._samples_before(tag)
        if place < self._policy.blocks + self.ahead:
            return False
        told = np.isfinite(self._policy.listed_scores[self._policy.order[: place - self.ahead + 1]])
        others = [at for at, model in enumerate(self.models) if model in self._running]
        return any(at != arm and self._is_needed(at) and not told[:, at].all() for at in others)

    def _samples_before(self, tag: int) -> int:
        return int(np.flatnonzero(self._policy.order == tag)[0])

    def _pull_of(self, arm: int, tag: int) -> Pull | None:
        """Return the pull of a model and a sample, after all pulls before it."""
        while (arm, tag) not in self._pulls:
            pulls = [] if self.study.stopped else self.study.ask(1)
            if not pulls:
                return None
            self._pulls |= {(pull.action, pull.tag): pull for pull in pulls}
        return self._pulls[arm, tag]

    def _state_of(self, arm: int) -> str:
        state = self._policy.states[arm]
        return f"the race is {self.study.status}" if state == "undecided" else state

    def _score_of(self, scores: dict[str, Any]) -> float:
        if self.scorer is None and len(scores) != 1:
            raise InvalidArgument("scorer", f"must name one of {sorted(scores)}", None)
        name = next(iter(scores)) if self.scorer is None else self.scorer
        if name not in scores:
            raise InvalidArgument("scorer", f"must name one of {sorted(scores)}", name)
        return float(value_to_float()(scores[name].score.value))

    def _tell_news(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _with_ids(samples: Any) -> list[Sample]:
    """Return copies of samples, numbered from 1 where they have no id."""
    listed = list(samples)
    if not listed or not all(isinstance(one, Sample) for one in listed):
        raise InvalidArgument("samples", "must be samples of inspect_ai, at least one", samples)
    named = [
        one.model_copy(update={"id": number if one.id is None else one.id})
        for number, one in enumerate(listed, start=1)
    ]
    if len({one.id for one in named}) < len(named):
        raise InvalidArgument("samples", "must have distinct ids")
    return named
