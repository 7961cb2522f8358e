"""One simulation: its participants, its events, and its end; all from its seed."""

from __future__ import annotations

import logging
import shutil
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fairtrial.errors import StorageError
from fairtrial.study import Study, Tokens
from fairtrial.study.sqlite import SQLiteStore
from tests.server.toys import FourArms, InTurn
from tests.simulator import judge
from tests.simulator.ledger import Ledger
from tests.simulator.luck import Luck
from tests.simulator.people import Operator, Person, RemoteWorker, User
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.service import Network, Service, routes
from tests.simulator.standard_library import StandardLibrary
from tests.simulator.storage import File, Place, Server
from tests.study.toys import Elimination, Racing, Serving, Timed, ToyProblem

_MEMORY = Path("/dev/shm")
"""A folder in memory, if there is one: the files need not survive a power cut."""

_PLAIN = ("ask", "ask", "ask", "tell", "tell", "tell", "again", "look")
_RICH = (
    *("ask", "ask", "ask", "tell", "tell", "tell", "tell_many", "tell_and_ask", "tell_nonsense"),
    *("tell_unasked", "report", "fail", "cancel", "extend", "amend", "again", "look", "stop"),
)


class Failed(AssertionError):
    """A simulation found an error; the message has the steps and how to repeat them."""


class Trial:
    """A study, and what callers know about it.

    A third of the studies are plain: a search can find one order of all their asks and tells.
    """

    def __init__(self, scheduler: Scheduler, name: str, seed: int) -> None:
        self.name = name
        self.seed = seed
        self.ledger = Ledger(scheduler)
        self.is_plain = scheduler.chance.random() < 0.3
        self.repertoire = _PLAIN if self.is_plain else _RICH
        kinds = (InTurn,) if self.is_plain else (Elimination, Racing, Timed, Serving)
        self.policy = scheduler.chance.choice(kinds)
        self.problem = FourArms() if self.is_plain else ToyProblem()
        self.takes_readings = issubclass(self.policy, Racing)


def _problem_of(data: Mapping[str, Any]) -> Any:
    """Return the problem that a service reports."""
    return FourArms() if data["family"] == FourArms.family else ToyProblem()


class Simulation:
    """Users, drivers, workers and a service, one storage, and bad luck.

    Parameters
    ----------
    seed : int
        Determines everything.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.library = StandardLibrary(self.scheduler)
        self.is_calm = False
        self.is_coming_to_rest = False
        self.may_end = False
        chance = self.chance = self.scheduler.chance
        self.luck = Luck(self.scheduler)
        self.trials = [
            Trial(self.scheduler, name, seed)
            for name in ("trial", "another")[: chance.randint(1, 2)]
        ]
        self.is_file = chance.random() < 0.5
        self.has_service = chance.random() < 0.5
        self._replaced = {
            # A client knows only the package's own families.
            "fairtrial.client.remote_study.problem_from_dict": _problem_of,
            "fairtrial.study.cache.SNAPSHOT_EVERY": chance.choice((3, 10, 1_000)),
            "fairtrial.study.sqlite._MOVE_EVERY": chance.choice((4, 20, 400)),
            "fairtrial.study.tables._PAGE": chance.choice((2, 7, 5_000)),
        }

    # ------------------------------------------------------------------------ the run

    def run(self) -> None:
        """Run the simulation and judge it.

        Raises
        ------
        Failed
            If there is any error.
        """
        # Before anything is drawn, because it is created once per process.
        routes()
        folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
        self.scheduler.folder = f"{folder}/"
        try:
            with ExitStack() as stack:
                stack.callback(logging.disable, logging.root.manager.disable)
                logging.disable()
                stack.enter_context(self.library.in_place())
                self.network = Network(self.scheduler, self.luck)
                stack.enter_context(self.network.in_place())
                for name, value in self._replaced.items():
                    stack.enter_context(patch(name, value))
                stack.callback(self._end)
                self._carry_out(folder)
        except Exception as error:
            raise Failed(self._report(error)) from error
        finally:
            shutil.rmtree(folder)

    def _carry_out(self, folder: Path) -> None:
        self._build(folder)
        for person in self.people:
            person.start()
        self.luck.is_good = False
        self.scheduler.spawn(Process("fate"), "main", self._trouble)
        self.scheduler.run(lambda: self.is_calm)
        self._come_to_rest()
        self.events = judge.judge(self)

    def _build(self, folder: Path) -> None:
        if self.is_file:
            path = folder / "studies.db"
            SQLiteStore(path, "process").close()
            self.place: Place = File(path, self.luck, self.scheduler)
        else:
            self.place = Server(self.luck, self.scheduler)
        store = self.place.look()
        for trial in self.trials:
            policy = trial.policy(trial.problem)
            Study.create(trial.problem, policy, storage=store, name=trial.name, seed=self.seed)
        with Tokens(store) as tokens:
            _, self.token = tokens.create("somebody", ["admin"])
        if self.is_file:
            store.close()
        number = self.chance.choice((1, 1, 2)) if self.has_service else 0
        self.keepers = [ServiceKeeper(self, f"service{number}") for number in range(number)]
        self.people = self._people()

    def _people(self) -> list[Person]:
        chance = self.chance
        people: list[Person] = []
        for number in range(chance.randint(2, 4)):
            trial, is_remote = chance.choice(self.trials), chance.random() < 0.7
            calls, is_remote = chance.randint(5, 25), is_remote and self.has_service
            people.append(User(self, f"user{number}", trial, calls, is_remote))
        for trial in self.trials:
            people += [] if trial.is_plain else self._operators(trial)
        return [*people, *self.keepers]

    def _operators(self, trial: Trial) -> list[Person]:
        numbers = range(self.chance.choice((0, 0, 1, 2)))
        operators = [Operator(self, f"driver{number} of {trial.name}", trial) for number in numbers]
        if self.has_service and self.chance.random() < 0.3:
            operators.append(RemoteWorker(self, f"worker of {trial.name}", trial))
        return operators

    # ------------------------------------------------------------------ what goes wrong

    def _trouble(self) -> None:
        """Let something go wrong from time to time, until the end."""
        for _ in range(self.chance.randint(3, 12)):
            self.scheduler.sleep(self.chance.choice((0.01, 0.1, 1.0)) * self.chance.random())
            names, weights = list(self.luck.events), list(self.luck.events.values())
            getattr(self, "_" + self.chance.choices(names, weights)[0].replace(" ", "_"))()
            self._start_again()
        self.luck.mend()
        self.scheduler.note("from here on all is well")
        self.is_calm = True

    def _start_again(self) -> None:
        for person in self.people:
            if not person.is_running and not person.is_done and self.chance.random() < 0.7:
                person.start()

    def _nothing(self) -> None:
        pass

    def _kill(self) -> None:
        running = [person for person in self.people if person.is_running]
        if running:
            person = self.chance.choice(running)
            self.scheduler.note(f"kill {person.process}")
            self.scheduler.kill(person.process)  # type: ignore[arg-type]

    def _stop(self) -> None:
        running = [keeper for keeper in self.keepers if keeper.service is not None]
        if running:
            keeper = self.chance.choice(running)
            self.scheduler.note(f"{keeper.name} is asked to end")
            keeper.service.stop()

    def _clock_jumps(self) -> None:
        seconds = self.chance.choice((-5_000.0, -1.5, 1.5, 200.0))
        self.scheduler.note(f"the clock jumps by {seconds:g} s")
        self.luck.jump(seconds)

    def _snapshots_cut(self) -> None:
        self.place.damage_snapshots("cut")

    def _snapshots_dropped(self) -> None:
        self.place.damage_snapshots("dropped")

    def _disk_full(self) -> None:
        self.luck.is_disk_full = not self.luck.is_disk_full
        self.scheduler.note(f"the disk is full: {self.luck.is_disk_full}")

    def _file_busy(self) -> None:
        self.luck.is_file_busy = not self.luck.is_file_busy
        self.scheduler.note(f"another program holds the file: {self.luck.is_file_busy}")

    def _cut_off(self) -> None:
        self.luck.is_cut_off = not self.luck.is_cut_off
        self.scheduler.note(f"the server is cut off: {self.luck.is_cut_off}")

    # --------------------------------------------------------------------------- the end

    def _come_to_rest(self) -> None:
        """Let everybody finish, now that nothing goes wrong."""
        self.is_coming_to_rest = True
        for person in self.people:
            if not person.is_running and not person.is_done:
                person.start()
        users = [person for person in self.people if isinstance(person, User)]
        self.scheduler.run(lambda: all(user.is_done for user in users))
        self.may_end = True
        runners = [person for person in self.people if isinstance(person, Operator)]
        self.scheduler.run(lambda: all(runner.is_done for runner in runners))
        for keeper in self.keepers:
            keeper.end()
        self.scheduler.run(lambda: all(keeper.is_done for keeper in self.keepers))
        self._end()

    def _end(self) -> None:
        self.is_coming_to_rest = False
        self.scheduler.end()

    def _report(self, error: BaseException) -> str:
        where = "".join(traceback.format_exception(error, limit=-6)).strip()
        return "\n".join(
            [
                f"seed {self.seed}: {type(error).__name__}: {error}",
                *self.scheduler.trace[-60:],
                f"the last 60 of {len(self.scheduler.trace):,} notes stand above",
                where,
                f"to repeat it: ./dev test tests/simulator --seed {self.seed}",
            ]
        )


class ServiceKeeper(Person):
    """Runs the service."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self.service: Service | None = None
        self._shall_end = False

    def live(self, process: Process) -> None:
        place = self.simulation.place
        self.service = Service(self.scheduler, process, lambda: place.open(process), place.address)
        self.simulation.network.services[self.name] = self.service
        try:
            self.service.run()
        except StorageError as error:
            self.scheduler.note(f"the service does not start: {error}")
        self.is_done = self._shall_end

    def end(self) -> None:
        """End it for good."""
        self._shall_end = True
        if self.service is not None and self.service.is_listening:
            self.service.stop()
        else:
            self.is_done = True


def run(seed: int) -> Simulation:
    """Run a simulation and judge it; return it."""
    simulation = Simulation(seed)
    simulation.run()
    return simulation
