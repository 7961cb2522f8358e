"""The study: a policy whose every step is written down before it counts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from fairtrial.core import Policy, Problem
from fairtrial.core.parameters import Parametrized
from fairtrial.core.seeds import as_seed
from fairtrial.study.arguments import as_path, check_name, check_secret, check_template
from fairtrial.study.location import Durability, Storage
from fairtrial.study.log_file import LogFile
from fairtrial.study.opening import create_study, import_study, open_study
from fairtrial.study.recording import Recording
from fairtrial.study.specification import Specification, own_classes

if TYPE_CHECKING:
    from fairtrial.core.seeds import Seed

__all__ = ["Study"]


class Study(Recording):
    """A durable experiment; made by `Study.create`, `Study.open` or `Study.import_log`.

    Every ask, reading, outcome and loss is an event in an append-only log, written before
    the call returns. The policy's state is what a replay of the log gives, so a study goes
    on after any interruption as if there had been none. One study may be used by several
    threads, by several handles and by several processes at once.

    Attributes
    ----------
    name : str
        The study's name in its storage.
    problem : Problem
        What is known and wanted.
    seed : int
        The policy's.

    Examples
    --------
    >>> from fairtrial.subpopulations import BlockBetting, Problem
    >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    >>> policy = BlockBetting(problem, delta=0.05)
    >>> with Study.create(problem, policy, storage="memory://", name="demo", seed=7) as study:
    ...     pull = study.ask()
    ...     event = study.tell(pull, 0.5)
    ...     study.verify().ok, event.seq
    (True, 2)
    """

    @classmethod
    def create(
        cls,
        problem: Problem,
        policy: Policy,
        *,
        storage: Storage,
        name: str,
        seed: Seed = None,
        durability: Durability = "full",
        exist_ok: bool = False,
        policies: Sequence[type[Parametrized]] = (),
        secret: str | None = None,
        witness: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Make a new study.

        Parameters
        ----------
        problem : Problem
            What is known and wanted.
        policy : Policy
            A template: its class and parameters are recorded, a fresh copy is used.
        storage : str, path or Store
            ``"sqlite:///trial.db"`` (four slashes begin an absolute path), a path,
            ``"postgresql://user@host/database"`` (extra ``postgres``), or ``"memory://"``.
        name : str
            The study's name, one of its kind in the storage.
        seed : None, int or numpy.random.Generator
            The policy's; without one it is drawn. It is recorded.
        durability : {"full", "process"}
            What an acknowledged event survives: a loss of power, as far as the disk honours
            flushes; or only the end of the process, which waits for no disk.
            A store that is open already keeps its own.
        exist_ok : bool
            Whether an existing study of the same specification is opened instead (of any
            seed, if none is given).
        policies : sequence of type
            Further classes of your own that the policy needs; its own and those of its parts (a
            learner, say) are known. Classes of a policy's parts are accepted.
        secret : str, optional
            What the random order of pulls is drawn from, if the policy `randomizes`. Without it a
            secret is drawn, so that nobody who knows the seed can tell the next pull. The first
            event holds its hash. Give one only to repeat a simulated study exactly.
        witness : str or path, optional
            A file elsewhere, where whoever can write the storage cannot: the number and hash of
            the log's last event are noted there after every write. Give it again to `open`, and to
            `verify`.

        Raises
        ------
        StudyExists
            If there is a study of that name, with another specification or without
            `exist_ok`; the message says how they differ.
        InvalidArgument
            If an argument is not accepted, or the policy is for another problem.
        NotSupported
            If the policy cannot be written down as data.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        check_template(problem, policy)
        session = create_study(
            Specification.of(problem, policy, as_seed(seed)),
            storage,
            name,
            ((*own_classes(policy), *policies), (type(problem),)),
            durability=durability,
            exist_ok=exist_ok,
            any_seed=seed is None,
            secret=None if secret is None else check_secret(secret),
            witness=None if witness is None else as_path(witness),
        )
        return cls(session)

    @classmethod
    def open(
        cls,
        storage: Storage,
        name: str,
        *,
        policies: Sequence[type[Parametrized]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
        witness: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Open a study that exists.

        Parameters
        ----------
        storage, name, durability, witness
            As in `create`. The log must hold the last head that the witness noted.
        policies, problems : sequence of type
            Classes of your own that the study was made with; classes of a policy's parts (a
            learner, say) are accepted among `policies`.

        Raises
        ------
        StudyNotFound
            If the storage has no study of that name, or there is no storage.
        CorruptLog
            If the log does not hold what the witness noted.
        InvalidArgument
            If a class of your own is needed and was not given.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        notes = None if witness is None else as_path(witness)
        return cls(open_study(storage, name, (policies, problems), durability, notes))

    @classmethod
    def import_log(
        cls,
        path: str | os.PathLike[str],
        *,
        storage: Storage,
        name: str | None = None,
        policies: Sequence[type[Parametrized]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
    ) -> Self:
        """Make a study from a log that `export` wrote as JSON lines; its head hash is the same.

        Parameters
        ----------
        path : str or path
            The file.
        name : str, optional
            The new study's name; without it the one that the file gives.
        storage, policies, problems, durability
            As in `open`.

        Raises
        ------
        CorruptLog
            If the file is no whole log, or an event does not follow from those before.
            Nothing is kept then.
        StudyExists
            If the storage has a study of that name.
        StorageError
            If the file or the storage cannot be used.
        """
        file = LogFile(as_path(path))
        name = file.name if name is None else name
        check_name(name)
        return cls(import_study(file, storage, name, (policies, problems), durability))
