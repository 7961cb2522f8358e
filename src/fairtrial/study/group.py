"""Write to several studies of one store in a single commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairtrial.core.loading import loaded_only, uninterrupted
from fairtrial.errors import StorageBusy, StorageError, StorageUnreachable
from fairtrial.study.session import Session, transact
from fairtrial.study.store import RowLocked, Store

__all__ = ["Action", "Group", "Outcome"]


class Action(NamedTuple):
    """Something to do within a transaction.

    `session` is the study that it concerns, if any. `do` can be called more than once, if a
    transaction was rolled back. `needs_flush` says whether it must survive a power failure.
    """

    session: Session | None
    do: Callable[[], Any]
    needs_flush: bool = True


class Outcome(NamedTuple):
    """The result of an action: its answer, or the error that it raised."""

    answer: Any = None
    error: Exception | None = None


class _PartlyDone(Exception):
    """An action failed after it had written something: the transaction must be undone."""


class Group:
    """Commits writes of several sessions together; it is their `Committer`.

    An action that fails does not affect the others. What an action returned is durable once
    `carry_out` returns, not before.

    Parameters
    ----------
    store : Store
        The store of all the studies. Nothing else may begin transactions on this handle meanwhile.

    Attributes
    ----------
    has_written : bool
        Whether the current action has written something.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._joined: dict[int, Session] = {}
        self._committed: dict[int, Session] = {}
        self.has_written = False

    def joins(self, session: Session) -> bool:
        """Note that the session takes part; return whether it did not before."""
        if session.id in self._joined:
            return False
        self._joined[session.id] = session
        return True

    def carry_out(self, actions: Sequence[Action]) -> list[Outcome]:
        """Carry out all actions, as many as possible in one transaction.

        Actions on one study are carried out in order. Studies are taken in the order of their ids,
        so that two groups in two servers never wait for each other.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = sorted(range(len(actions)), key=lambda index: _order(actions[index]))
        while waiting:
            outcomes |= self._round(actions, waiting)
            waiting = [index for index in waiting if index not in outcomes]
        return [outcomes[index] for index in range(len(actions))]

    def save_snapshots(self) -> None:
        """Save the snapshots that are due after the last commit."""
        for session in self._committed.values():
            session.save_if_due()
        self._committed = {}

    def _round(self, actions: Sequence[Action], waiting: Sequence[int]) -> dict[int, Outcome]:
        """Return outcomes of the actions, or of some of them if others have to wait."""
        try:
            outcomes: dict[int, Outcome] = self._kept(
                lambda: self._each(actions, waiting),
                flush=any(actions[index].needs_flush for index in waiting),
            )
        except RowLocked as error:
            parts = _by_study(actions, waiting)
            if len(parts) == 1:
                return dict.fromkeys(waiting, Outcome(error=error))
            # Only one of the studies is locked, perhaps for long: carry out the others.
            outcomes = {}
            for part in parts:
                outcomes |= self._round(actions, part)
            return outcomes
        except (StorageBusy, StorageUnreachable) as error:
            return dict.fromkeys(waiting, Outcome(error=error))
        except Exception as error:  # noqa: BLE001 - whatever it is, each may meet it by itself
            # Writes in one transaction can fail because another process was quicker.
            if len(waiting) == 1 and not isinstance(error, _PartlyDone | StorageError):
                return {waiting[0]: Outcome(error=error)}
        else:
            return outcomes
        return {index: self._alone(actions[index]) for index in waiting}

    def _alone(self, action: Action) -> Outcome:
        try:
            return Outcome(self._kept(action.do, flush=action.needs_flush))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return Outcome(error=error)

    def _kept(self, operation: Callable[[], Any], *, flush: bool) -> Any:
        """Return the result of an operation once it is committed."""

        def once() -> Any:
            # Undo an earlier attempt whose commit failed.
            self._undo()
            try:
                with uninterrupted(), loaded_only():
                    return operation()
            except BaseException:
                self._undo()
                raise

        try:
            answer = transact(self._store, once, flush=flush)
        except BaseException:
            self._undo()
            raise
        for session in self._joined.values():
            session.commit()
        self._committed |= self._joined
        self._joined = {}
        return answer

    def _undo(self) -> None:
        for session in self._joined.values():
            session.undo()
        self._joined = {}

    def _each(self, actions: Sequence[Action], waiting: Sequence[int]) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        moved: set[int] = set()
        for index in waiting:
            session = actions[index].session
            # Rebuilding a policy after an action failed may take long, so it waits for later.
            if session is None or session.id not in moved:
                outcomes[index] = self._outcome(actions[index])
                if session is not None and session.is_ahead:
                    moved.add(session.id)
        return outcomes

    def _outcome(self, action: Action) -> Outcome:
        self.has_written = False
        try:
            return Outcome(action.do())
        except (StorageBusy, StorageUnreachable):
            raise
        except Exception as error:
            # After an error of its own, a database may have undone more than this action.
            if self.has_written or isinstance(error, StorageError):
                raise _PartlyDone from error
            return Outcome(error=error)


def _by_study(actions: Sequence[Action], waiting: Sequence[int]) -> list[list[int]]:
    """Return the actions of each study; one without a session has nothing to do with others."""
    parts: dict[int, list[int]] = {}
    for index in waiting:
        parts.setdefault(_order(actions[index]) or -1 - index, []).append(index)
    return list(parts.values())


def _order(action: Action) -> int:
    return 0 if action.session is None else action.session.id
