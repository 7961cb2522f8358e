"""The study: a policy whose every step is recorded before it counts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from fairtrial.core import Policy, Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.parameters import Parametrized
from fairtrial.core.seeds import as_seed
from fairtrial.study.arguments import as_path, check_name, check_secret, check_template
from fairtrial.study.location import Durability, Storage
from fairtrial.study.log_file import LogFile
from fairtrial.study.opening import create_study, import_study, open_study
from fairtrial.study.specification import Specification, own_classes
from fairtrial.study.viewing import Viewing

if TYPE_CHECKING:
    from fairtrial.core.seeds import Seed

__all__ = ["Study"]


class Study(Viewing):
    """A durable experiment; use `Study.create`, `Study.open` or `Study.import_log` to get one.

    Every pull, reading, outcome and loss is an event in an append-only log, written before the
    call returns. Replaying the log always gives the policy's state, so a study continues after
    any interruption as if nothing had happened. Several threads, handles and processes can use
    one study at the same time.

    Attributes
    ----------
    name : str
        The study's name in its storage.
    problem : Problem
        The problem.
    seed : int
        The policy's seed.

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
    @named_arguments
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
        """Create a study.

        Parameters
        ----------
        problem : Problem
            The problem.
        policy : Policy
            A template: its class and parameters are recorded, and the study uses a fresh copy.
        storage : str, path or Store
            ``"sqlite:///trial.db"`` (four slashes begin an absolute path), a path,
            ``"postgresql://user@host/database"`` (extra ``postgres``), or ``"memory://"``.
        name : str
            The study's name, unique in the storage.
        seed : None, int or numpy.random.Generator
            The policy's seed; by default a random one. It is recorded.
        durability : {"full", "process"}
            What an acknowledged event survives: a power failure, as far as the disk honours
            flushes; or only the end of the process, which is faster. A store that is already open
            keeps its own setting.
        exist_ok : bool
            Whether to open an existing study with the same specification instead (with any seed,
            if none is given).
        policies : sequence of type
            Further classes of your own that the policy needs. Its own class, and those of its parts
            (such as a learner), are known already.
        secret : str, optional
            The source of the random order of pulls, if the policy `randomizes`. The default is a
            random secret, so that knowing the seed is not enough to predict the next pull. The
            first event records its hash. Pass one only to repeat a simulated study exactly.
        witness : str or path, optional
            A file where people with write access to the storage cannot write. It records number
            and hash of the log's last event after every write. Pass it again to `open` and
            `verify`.

        Raises
        ------
        StudyExists
            If the name is taken by a study with another specification or, without `exist_ok`, by
            any study; the message says how they differ.
        InvalidArgument
            If an argument is invalid, or the policy is for another problem.
        NotSupported
            If the policy cannot be converted to data.
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
    @named_arguments
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
        """Open an existing study.

        Parameters
        ----------
        storage, name, durability, witness
            As for `create`. The log must contain the last head that the witness recorded.
        policies, problems : sequence of type
            Classes of your own that the study uses; `policies` can include classes of a policy's
            parts (such as a learner).

        Raises
        ------
        StudyNotFound
            If the storage does not exist or has no study of that name.
        CorruptLog
            If the log does not contain the last head that the witness recorded.
        InvalidArgument
            If a class of your own is needed and was not passed.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        notes = None if witness is None else as_path(witness)
        return cls(open_study(storage, name, (policies, problems), durability, notes))

    @classmethod
    @named_arguments
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
        """Create a study from a log that `export` wrote as JSON lines; it keeps the head hash.

        Parameters
        ----------
        path : str or path
            The file.
        name : str, optional
            The new study's name; by default the name in the file.
        storage, policies, problems, durability
            As for `open`.

        Raises
        ------
        CorruptLog
            If the file is not a complete log, or an event does not follow from the earlier ones.
            Nothing is kept then.
        StudyExists
            If the storage already has a study of that name.
        StorageError
            If the file or the storage cannot be used.
        """
        file = LogFile(as_path(path))
        name = file.name if name is None else name
        check_name(name)
        return cls(import_study(file, storage, name, (policies, problems), durability))
