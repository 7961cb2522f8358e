"""Statistics that independently deciding processes share, kept beside a study."""

from __future__ import annotations

from collections.abc import Mapping

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance
from fairtrial.study.study import Study

__all__ = ["SharedStatistics"]


class SharedStatistics:
    """The statistics that the processes of one study share.

    They are not part of the study's log: each process's new statistics replace its last ones, and
    losing them does no harm.

    Parameters
    ----------
    study : Study
        The study; all processes open the same one.

    Examples
    --------
    >>> from fairtrial.allocation import FairLearn, Problem
    >>> from fairtrial.study import Study
    >>> problem = Problem(["a", "b"], "1/4")
    >>> study = Study.create(problem, FairLearn(problem), storage="memory://", name="shop", seed=1)
    >>> shared = SharedStatistics(study)
    >>> shared.publish("one", "{}")
    >>> shared.published()
    {'one': '{}'}
    """

    @named_arguments
    def __init__(self, study: Study) -> None:
        check_instance("study", study, Study)
        self._store = study._store  # noqa: SLF001
        self._id = study._session.id  # noqa: SLF001

    def publish(self, process: str, body: str) -> None:
        """Replace the statistics of a process.

        Raises
        ------
        StorageError
            If the storage cannot be written to.
        """
        self._store.publish_statistic(self._id, process, body)

    def published(self) -> Mapping[str, str]:
        """Return the latest statistics of every process, by its name.

        Raises
        ------
        StorageError
            If the storage cannot be read.
        """
        return self._store.statistics(self._id)
