"""A policy in the state that the log leads to, or slightly ahead during a write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from fairtrial.core import Decision, Policy, Progress, Pull, Recommendation
from fairtrial.core.contract import check_recommendation
from fairtrial.core.wording import choices, listed
from fairtrial.errors import CorruptLog, InvalidArgument, StorageError
from fairtrial.study.kit_supply import Supply
from fairtrial.study.log import Record, Step, as_time, outcome_of

__all__ = ["Closing", "Replica"]


class Closing(NamedTuple):
    """An arm or a group that people have closed, with their reason and the event."""

    name: str
    label: str
    reason: str
    seq: int

    @classmethod
    def of(cls, seq: int, body: str | None) -> Self:
        """Return what an event has closed."""
        said = json.loads(body or "{}")
        name = "arm" if "arm" in said else "group"
        return cls(name, said[name], said["reason"], seq)

    @property
    def in_words(self) -> str:
        """What was closed and why, in a sentence."""
        what = f"{self.name} {self.label} was closed by hand: {self.reason}"
        return what if self.name == "arm" else f"{what} (nobody is asked there any more)"


class Replica:
    """A policy that follows a log, or is slightly ahead of it during a write.

    Live studies and replays make the same calls through the same method.

    Parameters
    ----------
    policy : Policy
        A fresh policy, or one restored to its state after event `seq`.
    seq : int
        The last event that the policy has seen.
    stop_reason : str, optional
        Why a user has stopped the study.
    closings : sequence of Closing
        What users have closed.
    kits : Supply, optional
        The kits of a masked study that were not handed out.
    decisions : sequence of Decision
        When the policy had decided until then.
    """

    def __init__(
        self,
        policy: Policy,
        seq: int = 0,
        stop_reason: str | None = None,
        closings: Sequence[Closing] = (),
        kits: Supply | None = None,
        decisions: Sequence[Decision] = (),
    ) -> None:
        self.policy = policy
        self.seq = seq
        self.stop_reason = stop_reason
        self.closings = tuple(closings)
        self.kits = kits
        self.decisions = tuple(decisions)
        self._notes_decisions = getattr(policy, "assigned", None) is None
        """Whether events have the times of the experiment; those of an analysis do not."""
        self._answer = policy.recommend().arm if self._has_decision else None
        self.ahead = False
        self.last: tuple[str, str | None] | None = None
        """Kind and body of the last event, unless it came before a snapshot."""

    # ------------------------------------------------------------------- what it says

    @property
    def stopped(self) -> bool:
        """Whether the policy has stopped by itself, or a user has stopped the study."""
        return self.stop_reason is not None or self.policy.stopped

    @property
    def status(self) -> str:
        """The study's status; cheap while it runs."""
        if not self.stopped:
            return "running"
        # Whatever the policy answers, the result that stopped it is kept.
        return self._as_stopped(self.policy.recommend()).status

    def recommend(self) -> Recommendation:
        """Return the present answer.

        A study that a user stopped has one only if late results have decided it.
        """
        source = f"{type(self.policy).__name__}.recommend"
        found = check_recommendation(self.policy.problem, self.policy.recommend(), source)
        return self._as_stopped(found)

    def progress(self) -> Progress:
        """Return the data for plots and pages."""
        progress = self.policy.progress()
        if self.closings:
            progress = replace(progress, closed=self._closed())
        answer = self._as_stopped(progress.recommendation)
        if self.stop_reason is None:
            is_same = answer is progress.recommendation
            return progress if is_same else replace(progress, recommendation=answer)
        return replace(
            progress,
            recommendation=answer,
            remaining=0.0,
            remaining_at_most=None,
            no_forecast="",
            chance_to_decide=None,
        )

    def _closed(self) -> dict[str, tuple[str, ...]]:
        closed: dict[str, tuple[str, ...]] = {}
        for one in self.closings:
            closed[one.name] = (*closed.get(one.name, ()), one.label)
        return closed

    def _as_stopped(self, answer: Recommendation) -> Recommendation:
        if self.decisions:
            answer = replace(answer, decisions=self.decisions)
        if self.closings:
            said = (closing.in_words for closing in self.closings)
            answer = replace(answer, reason="; ".join([answer.reason, *said]))
        if self.stop_reason is None:
            return answer
        status = "undecided" if answer.status == "running" else answer.status
        arm = answer.arm if status == "decided" else None
        reason = f"stopped by hand: {self.stop_reason}; {answer.reason}"
        return replace(answer, arm=arm, status=status, reason=reason)

    def to_cancel(self) -> list[Pull]:
        """Return the open pulls whose results are no longer needed: all of them, once stopped."""
        return self.policy.outstanding() if self.stopped else self.policy.to_cancel()

    # ----------------------------------------------------------------------- live

    def ask(self, context: Mapping[str, Any]) -> Pull | None:
        """Let the policy choose a pull; None if it has none to give now."""
        if self.stop_reason is not None:
            return None
        self.ahead = True
        issued = self.policy.ask(1, **context)
        return issued[0] if issued else None

    def require_open(self, context: Mapping[str, Any]) -> None:
        """Raise if a request is about a closed group, or does not say that it is about another.

        Raises
        ------
        InvalidArgument
            Without the reason, which could reveal results to people who must not know them.
        """
        closed = [closing.label for closing in self.closings if closing.name == "group"]
        group = context.get("group")
        if closed and (group is None or group in closed):
            shares = self.policy.problem.stated_shares["group"]
            left = [one for one in shares if one not in closed]
            accepted = (
                f"must name an open group, since {listed(closed)} was closed: {choices(left)}"
            )
            raise InvalidArgument("group", accepted, group)

    def ask_many(self, contexts: Sequence[Mapping[str, Any]]) -> list[Pull]:
        """Let the policy choose a pull for each context, until it has none for one of them."""
        if self.stop_reason is not None:
            return []
        self.ahead = True
        if not any(contexts):
            return self.policy.ask(len(contexts))
        found: list[Pull] = []
        for context in contexts:
            pulls = self.policy.ask(1, **context)
            if not pulls:
                break
            found += pulls
        return found

    def perform(self, step: Step) -> None:
        """Pass the policy an event that is about to be written."""
        self.ahead = True
        self._run((step,))

    def tell(self, pull: Pull, outcome: Any, record: Record) -> None:
        """Pass the policy the outcome of a pull that it has just issued."""
        self.ahead = True
        self.policy.tell(pull, outcome)
        self._note_decision(record.seq, record.at)

    def fail(self, pull: Pull, reason: str, record: Record) -> None:
        """Tell the policy that a pull that it has just issued will have no outcome."""
        self.ahead = True
        self.policy.fail(pull, reason)
        self._note_decision(record.seq, record.at)

    def settle(self, seq: int, last: Record | None) -> None:
        """Note that all events that the policy has seen are written now."""
        self.seq, self.ahead = seq, False
        if last is not None:
            self.last = last.kind, last.body

    # --------------------------------------------------------------------- replay

    def replay(self, steps: Iterable[Step]) -> None:
        """Replay events of the log; every recorded decision must be reproduced.

        Raises
        ------
        CorruptLog
            At the first event that does not follow from the earlier ones; the replica is then
            unusable.
        """
        try:
            self._run(steps)
        except _Difference as difference:
            raise CorruptLog(f"event {self.seq + 1}: {difference}") from None
        except StorageError:
            # The log could not be read, which says nothing about its events.
            raise
        except Exception as error:
            policy = type(self.policy)
            raise CorruptLog(
                f"event {self.seq + 1} cannot be replayed by {policy.__name__} (version "
                f"{policy.version}): {error or type(error).__name__}"
            ) from error

    def _run(self, steps: Iterable[Step]) -> None:
        ask, tell, labels = self.policy.ask, self.policy.tell, self.policy.problem.labels
        kind, body = None, None
        for seq, kind, number, action, tag, value, stage, body, at in steps:
            if kind == "ask":
                if self.stop_reason is not None:
                    raise _Difference("it asks for a pull after the study was stopped")
                said = _NOTHING if body is None else json.loads(body)
                pull = ask(**said.get("context", _NOTHING))
                if (pull.number, pull.action, pull.tag) != (number, action, tag):
                    raise _Difference(self._other_decision(pull, number, action, tag))
                if pull.propensity != said.get("propensity"):
                    raise _Difference(_other_propensity(pull, said.get("propensity")))
            elif kind in ("tell", "late_tell", "unsolicited"):
                pull = Pull(number, action, labels(action), tag)  # type: ignore[arg-type]
                tell(pull, outcome_of(value, body))
            elif kind == "wait":
                self._wait(body)
            elif kind == "time":
                # An event of time has a body.
                self.policy.pass_time(json.loads(body)["seconds"])  # type: ignore[arg-type]
            elif kind == "stop":
                self._stop(json.loads(body)["reason"])  # type: ignore[arg-type]
            elif kind == "close":
                self._close(Closing.of(seq, body))
            elif kind == "supply":
                self.kits = self.kits or Supply(self.policy.problem)
                self.kits.add(body)
            elif kind == "kit" and self.kits is not None:
                self.kits.remove(action, body)  # type: ignore[arg-type]
            elif number is not None and action is not None and tag is not None:
                pull = Pull(number, action, labels(action), tag)
                self._take(kind, pull, value, stage, json.loads(body) if body else {})
            if kind != "ask":
                self._note_decision(seq, at)
            self.seq = seq
        if kind is not None:
            self.last = kind, body

    @property
    def _has_decision(self) -> bool:
        """Whether there is a decision that stands."""
        return bool(self.decisions) and self.decisions[-1].stands

    def _note_decision(self, seq: int, at: int) -> None:
        """Note if an event has brought the answer, taken it back, or replaced it.

        A request for a pull is no such event.
        """
        if not self._notes_decisions:
            return
        had = self._has_decision
        has = self.policy.decided
        if not (had or has):
            return
        answer = self.policy.recommend().arm if has else None
        if had and has and answer == self._answer:
            return
        moment, decisions = as_time(at), self.decisions
        if had:
            withdrawn = replace(decisions[-1], withdrawn_by=seq, withdrawn_at=moment)
            decisions = (*decisions[:-1], withdrawn)
        if has:
            decisions = (*decisions, Decision(seq, moment))
        self.decisions, self._answer = decisions, answer

    def _wait(self, body: str | None) -> None:
        if self.stopped or self.policy.ask(1, **_context(body)):
            raise _Difference(
                "the log says that there was no pull to give, but the policy gives one"
            )

    def _stop(self, reason: str) -> None:
        if self.stopped:
            raise _Difference("it stops a study that had already stopped")
        self.stop_reason = reason

    def _close(self, closing: Closing) -> None:
        if self.stopped:
            raise _Difference("it closes a part of a study that had already stopped")
        if closing.name == "arm":
            self.policy.close_arm(closing.label)
        else:
            self.policy.close_group(closing.label)
        self.closings = (*self.closings, closing)

    def _take(
        self,
        kind: str,
        pull: Pull,
        value: float | None,
        stage: int | None,
        body: Mapping[str, Any],
    ) -> None:
        if kind == "report":
            details = {} if stage is None else {"stage": stage}
            reading = body.get("outcome") if value is None else value
            self.policy.report(pull, reading, **details, **body.get("details", {}))  # type: ignore[arg-type]
        elif kind == "expire":
            self.policy.fail(pull, "expired")
        elif kind == "cancel":
            self.policy.fail(pull, "cancelled")
        elif kind == "fail":
            self.policy.fail(pull, body["reason"])
        elif kind == "amend":
            new = body.get("outcome") if value is None else value
            self.policy.amend(pull, body["old"], new)  # type: ignore[arg-type]
        elif kind not in ("extend", "reissue", "kit", "unmask"):
            raise _Difference(f"its kind {kind!r} is unknown")

    def _other_decision(self, pull: Pull, *recorded: int | None) -> str:
        policy = type(self.policy)
        said = "the log says pull {}, action {}, tag {}".format(*recorded)
        return (
            f"{said}; {policy.__name__} (version {policy.version}) decides pull {pull.number}, "
            f"action {pull.action}, tag {pull.tag}"
        )


_NOTHING: Mapping[str, Any] = {}


class _Difference(Exception):
    """The log and the policy's decision differ."""


def _other_propensity(pull: Pull, recorded: float | None) -> str:
    return f"the log says that its arm had probability {recorded}; it had {pull.propensity}"


def _context(body: str | None) -> dict[str, Any]:
    context: dict[str, Any] = json.loads(body).get("context", {}) if body else {}
    return context
