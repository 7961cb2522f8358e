"""The users of a study in a simulation, and the people who run its drivers and workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairtrial.client import Connection, connect
from fairtrial.client.worker import work
from fairtrial.errors import FairtrialError, NothingToAsk, SourceError, StorageError
from fairtrial.study import Study
from fairtrial.study.driver import Driver
from tests.server import toys as plain_toys
from tests.simulator.ledger import Call, Ledger
from tests.simulator.scheduler import Process, Task
from tests.study import toys

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation, Trial

OWN = {kind: [*toys.OWN[kind], *plain_toys.OWN[kind]] for kind in ("policies", "problems")}
"""The tests' own participants."""
_NOBODYS = "0" * 32


class Person:
    """A person outside of all processes: when their process is killed, they start another one."""

    def __init__(self, simulation: Simulation, name: str, trial: Trial | None = None) -> None:
        self.simulation = simulation
        self._trial = trial
        self.scheduler = simulation.scheduler
        self.chance = simulation.scheduler.chance
        self.luck = simulation.luck
        self.name = name
        self.lives = 0
        self.process: Process | None = None
        self.is_done = False

    @property
    def trial(self) -> Trial:
        """The study that they work on."""
        assert self._trial is not None
        return self._trial

    @property
    def ledger(self) -> Ledger:
        """The record of their calls."""
        return self.trial.ledger

    @property
    def is_running(self) -> bool:
        return self.process is not None and not self.process.is_dead

    def start(self) -> None:
        """Start a process."""
        self.lives += 1
        process = self.process = Process(f"{self.name}.{self.lives}")
        self.scheduler.spawn(process, "main", lambda: self._live(process))

    def _live(self, process: Process) -> None:
        try:
            self.live(process)
        except (StorageError, SourceError, NothingToAsk, KeyboardInterrupt) as error:
            self.scheduler.note(f"ends by {type(error).__name__}: {error}")
            self.scheduler.sleep(0.5)
        finally:
            process.is_dead = True
            is_latest = self.process is process
            if self.simulation.is_coming_to_rest and is_latest and not self.is_done:
                self.start()

    def live(self, process: Process) -> None:
        """Do everything there is to do, in a process."""
        raise NotImplementedError

    def connected(self) -> Connection:
        """Connect to the service."""
        timeout, patience = self.chance.choice(((0.3, 0.5), (1.0, 1.5), (1.0, 4.0)))
        token = self.simulation.token
        return connect("http://127.0.0.1", token, timeout=timeout, patience=patience)

    def opened(self, process: Process) -> Study:
        """Open the study in a process."""
        return Study.open(self.simulation.place.open(process), self.trial.name, **OWN)


# ------------------------------------------------------------------------------- users


class User(Person):
    """Makes a number of calls, some of them foolish, and repeats those with an unknown outcome.

    Parameters
    ----------
    calls : int
        Number of calls.
    is_remote : bool
        Whether they use the service, or the storage directly.
    """

    def __init__(
        self, simulation: Simulation, name: str, trial: Trial, calls: int, is_remote: bool
    ) -> None:
        super().__init__(simulation, name, trial)
        self.left = calls
        self.is_remote = is_remote
        self._pending: Call | None = None

    def live(self, process: Process) -> None:
        if not self.is_remote:
            study = self.opened(process)
            self._make_calls(study)
            study.close()
            study.session.store.close()
            return
        with self.connected() as way:
            self._make_calls(way.study(self.trial.name))

    def _make_calls(self, study: Any) -> None:
        while self.left > 0 or self._pending is not None:
            if self.chance.random() < 0.3:
                self.scheduler.sleep(self.chance.random())
            call = self._next()
            if call is not None:
                self._attempt(study, call)
            if not self.is_remote and self.chance.random() < 0.05:
                self._note_state(study)
        self.is_done = True

    def _next(self) -> Call | None:
        call, self._pending = self._pending, None
        if call is not None:
            # A call with an unknown outcome is repeated, or stays unknown forever.
            return call if self.chance.random() < 0.8 else None
        self.left -= 1
        what = self.chance.choice(self.trial.repertoire)
        content = getattr(self, f"_{what}")()
        return None if content is None else self.ledger.begin(self.name, what, content)

    def _attempt(self, study: Any, call: Call) -> None:
        call.attempts += 1
        self._pending = call
        is_well = self.luck.is_good
        try:
            answer = self._made(study, call)
        except FairtrialError as error:
            self.ledger.failed(call, error, is_remote=self.is_remote, is_well=is_well)
        except KeyboardInterrupt as error:
            self.ledger.failed(call, error, is_remote=self.is_remote)
            if self.chance.random() < 0.5:
                raise
        else:
            self.ledger.answered(call, answer)
        if call.state == "nothing" and call.key in self.simulation.network.doubled:
            # A refusal of one copy says nothing about the other, which may still be on its way.
            call.state, call.returned = "unknown", math.inf
        if call.state != "unknown":
            self._pending = None

    def _note_state(self, study: Study) -> None:
        with suppress(StorageError), study.session.replica_at_head() as (row, replica):
            state = {name: value.copy() for name, value in replica.policy.get_state().items()}
            found = row.head_seq, state, replica.recommend(), self.name
            self.ledger.states.append(found)

    # ---------------------------------------------------------- what is called, and with what

    def _pull(self) -> str | None:
        return self.chance.choice(self.ledger.pulls) if self.ledger.pulls else None

    def _value(self) -> float:
        return self.chance.choice((0.0, 0.5, 1.0))

    def _ask(self) -> dict[str, Any] | None:
        return {"n": self.chance.randint(1, 3), "lease": self._lease()}

    def _lease(self) -> float | None:
        if self.trial.is_plain:
            return None
        return self.chance.choice((None, None, 0.2, 2.0, 100.0))

    def _tell(self) -> dict[str, Any] | None:
        return self._about_a_pull(value=self._value())

    def _tell_many(self) -> dict[str, Any] | None:
        pulls = list(dict.fromkeys(filter(None, (self._pull() for _ in range(3)))))
        return {"outcomes": [(pull, self._value()) for pull in pulls]} if pulls else None

    def _tell_and_ask(self) -> dict[str, Any] | None:
        return self._about_a_pull(value=self._value(), n=self.chance.randint(1, 2))

    def _tell_nonsense(self) -> dict[str, Any] | None:
        if self.chance.random() < 0.5:
            return {"pull": _NOBODYS, "value": 1.0}
        return self._about_a_pull(value=self.chance.choice((math.nan, math.inf, "much", None)))

    def _tell_unasked(self) -> dict[str, Any] | None:
        return {"arm": self.chance.choice("012"), "value": self._value()}

    def _report(self) -> dict[str, Any] | None:
        return self._about_a_pull(value=self._value(), stage=self.chance.randint(0, 3))

    def _fail(self) -> dict[str, Any] | None:
        return self._about_a_pull()

    def _cancel(self) -> dict[str, Any] | None:
        return self._about_a_pull()

    def _extend(self) -> dict[str, Any] | None:
        return self._about_a_pull(lease=self.chance.choice((0.2, 5.0)))

    def _amend(self) -> dict[str, Any] | None:
        return self._about_a_pull(value=self._value())

    def _stop(self) -> dict[str, Any] | None:
        return {} if self.chance.random() < 0.05 else None

    def _look(self) -> dict[str, Any]:
        return {}

    def _again(self) -> dict[str, Any] | None:
        """Repeat one of the answered calls, under its key."""
        known = [call for call in self.ledger.calls if self._may_repeat(call)]
        return {"first": self.chance.choice(known)} if known else None

    def _may_repeat(self, call: Call) -> bool:
        # An ask without pulls has left no key in the log: a repetition may give pulls.
        kinds = ("ask", "tell", "tell_unasked")
        is_known = call.state == "answered" and call.answer != []
        return is_known and call.what in kinds and call.by == self.name

    def _about_a_pull(self, **more: Any) -> dict[str, Any] | None:
        pull = self._pull()
        return None if pull is None else {"pull": pull, **more}

    def _made(self, study: Any, call: Call) -> Any:
        """Make a call, and return its answer."""
        if call.what == "look":
            return study.n_events
        if call.what == "again":
            return self._sent(study, call.content["first"])
        return self._sent(study, call)

    def _sent(self, study: Any, call: Call) -> Any:
        content, key = dict(call.content), call.key
        # The service knows who calls; otherwise everything carries the mark of its call.
        actor = {} if self.is_remote else {"actor": key}
        worker = {} if self.is_remote else {"worker": key}
        what = call.what
        if what == "ask":
            issued = study.ask(content["n"], lease=content["lease"], request_id=key, **worker)
            self.ledger.pulls += [pull.id for pull in issued]
            return issued
        pull = content.pop("pull", None)
        if what == "tell_and_ask":
            issued = study.tell_and_ask(
                pull, content["value"], content["n"], request_id=key, **worker
            )
            self.ledger.pulls += [pull.id for pull in issued]
            return issued
        if what in ("tell", "tell_nonsense"):
            return study.tell(pull, content["value"], request_id=key, **actor)
        if what == "tell_many":
            return study.tell_many(content["outcomes"], request_id=key, **actor)
        if what == "tell_unasked":
            unasked = study.problem.pull(arm=content["arm"])
            return study.tell(unasked, content["value"], request_id=key, **actor)
        if what == "report":
            value, stage = content["value"], content["stage"]
            return study.report(pull, value, stage=stage, request_id=key, **actor)
        if what == "extend":
            return study.extend(pull, content["lease"])
        if what == "amend":
            return study.amend(pull, content["value"], "typing error", **actor)
        if what == "stop":
            return study.stop("enough", **actor)
        return getattr(study, what)(pull, **actor)


# --------------------------------------------------------------------- drivers and workers


class Operator(Person):
    """Operates a driver with workers that report, fail, hang, die and give nonsense."""

    def __init__(self, simulation: Simulation, name: str, trial: Trial) -> None:
        super().__init__(simulation, name, trial)
        self._deadline = self.chance.choice((math.inf, 3.0))
        self._parallel = self.chance.randint(1, 4)
        self._limit = float(self.chance.randint(5, 15))

    def live(self, process: Process) -> None:
        study = self.opened(process)
        driver = Driver(
            study,
            self.measure,
            lambda: Workers(self, process),
            self._parallel,
            deadline=self._deadline,
            limit=self._limit,
            max_failures=30,
            may_renew=True,
            interrupted=lambda: self.simulation.may_end,
        )
        if not study.stopped:
            ending = driver.run()
            self.scheduler.note(f"the driver ends: {ending}")
        study.close()
        study.session.store.close()
        self.is_done = True

    def measure(self, arm: Any, report: Any) -> Any:
        """Work on a pull."""
        for stage in range(self.chance.randint(0, 2)):
            self.scheduler.sleep(self.chance.random())
            if self.trial.takes_readings:
                report(self.chance.random(), stage=stage)
        self.scheduler.sleep(self.chance.random())
        if self.luck.has("result is none"):
            return self._bad_end(report)
        value = self.chance.choice((0.0, 0.5, 1.0))
        self.ledger.results.setdefault(report.pull.id, set()).add(value)
        return value

    def _bad_end(self, report: Any) -> Any:
        how = self.chance.randrange(4)
        if how == 0:
            raise TimeoutError("it took too long")
        if how == 1:
            raise ValueError("the apparatus is broken")
        if how == 2:
            # Longer than any deadline; it checks from time to time.
            while not report.should_stop() and not self.simulation.may_end:
                self.scheduler.sleep(2.0)
        return math.nan


class RemoteWorker(Operator):
    """Runs a worker that serves the service."""

    def live(self, process: Process) -> None:
        with self.connected() as way:
            work(
                way.study(self.trial.name),
                self.measure,
                parallel=self._parallel,
                lease=3.0,
                pulls=int(self._limit),
                grace=2.0,
                max_failures=30,
                interrupted=lambda: self.simulation.may_end,
            )
        self.is_done = True


class Workers(Executor):
    """Tasks that carry out work; one of them may die, and then all others die with it."""

    def __init__(self, operator: Operator, process: Process) -> None:
        self._operator = operator
        self._process = process
        self._futures: dict[Future[Any], Task | None] = {}
        self._is_broken = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_broken:
            raise BrokenExecutor("a worker died")
        future: Future[Any] = Future()
        self._futures[future] = None
        scheduler = self._operator.scheduler
        scheduler.spawn(self._process, "worker", lambda: self._carry_out(future, fn, args, kwargs))
        return future

    def _carry_out(self, future: Future[Any], fn: Any, args: Any, kwargs: Any) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if self._operator.luck.has("worker dies"):
            self._operator.scheduler.sleep(self._operator.chance.random())
            self._break()
            return
        answer = fn(*args, **kwargs)
        if not future.done():
            future.set_result(answer)

    def _break(self) -> None:
        self._operator.scheduler.note("a worker dies, and its pool with it")
        self._is_broken = True
        for future in self._futures:
            if not future.done():
                with suppress(Exception):
                    future.set_exception(BrokenExecutor("a worker died"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future in self._futures:
                future.cancel()
