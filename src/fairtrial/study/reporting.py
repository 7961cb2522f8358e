"""How the function that carries out a pull reports, and how its work ends."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Mapping
from numbers import Complex, Integral, Real
from typing import Any, Literal, NamedTuple

from fairtrial.core import Pull
from fairtrial.core.keywords import named_arguments
from fairtrial.errors import FairtrialError, InvalidOutcome, NotSupported, SourceError
from fairtrial.study.worker_server import Channel, Unreachable

__all__ = ["Ended", "Report", "StopPull", "carry_out", "known_measures"]


class StopPull(FairtrialError):
    """The pull is no longer needed: its arm is decided, it was cancelled, or the driver is gone.

    Raised by a `Report`. Let it pass, or clean up and return: an outcome that the function returns
    anyway still counts.
    """


class Report:
    """Reports readings of a pull: ``report(0.7, stage=3, elapsed=1.5, std=0.2)``.

    All details of a reading are optional. The call returns once the reading is in the study's
    log, and raises `StopPull` when the pull is no longer needed. A report can be pickled and sent
    to another process or machine.

    Parameters
    ----------
    pull : Pull
        The pull to carry out.
    channel : Channel
        The connection to the driver.
    attempt : str, optional
        The id of this attempt at the pull, if it has begun.

    Attributes
    ----------
    pull : Pull
        The pull, with its `number` and `labels`; its random numbers can be seeded by the number.
    """

    @named_arguments
    def __init__(self, pull: Pull, channel: Channel, attempt: str | None = None) -> None:
        self.pull = pull
        self._channel = channel
        self._attempt = attempt

    def __call__(
        self,
        value: float | Mapping[str, float],
        stage: int | None = None,
        elapsed: float | None = None,
        std: float | None = None,
    ) -> None:
        """Record a reading: it is durable once this returns or raises `StopPull`.

        Parameters
        ----------
        value : float or mapping of str to float
            The reading; with several measures, those known so far: ``report({"cured": 1})``.
        stage : int, optional
            Number of the reading within the pull; the default, if `elapsed` is not given either,
            is the next number.
        elapsed : float, optional
            Time since the pull started, in any unit.
        std : float, optional
            Standard deviation of this reading around the outcome.

        Raises
        ------
        StopPull
            If the pull is no longer needed.
        FairtrialError
            If the reading is refused, or the policy does not use readings.
        """
        given = {"stage": stage, "elapsed": elapsed, "std": std}
        details = {name: _plain(part) for name, part in given.items() if part is not None}
        go_on = self._ask("reading", value=_plain(value), details=details)
        if go_on is None:
            raise StopPull("the driver of the study is gone")
        if not go_on:
            raise StopPull(f"{self.pull!r} is no longer needed")

    def should_stop(self) -> bool:
        """Return whether the pull is no longer needed, or the driver is gone."""
        return not self._ask("look")

    def _ask(self, kind: str, **content: Any) -> bool | None:
        """Return the driver's answer: whether to continue; None if the driver is gone."""
        pull_id = getattr(self.pull, "id", None)
        message = {"kind": kind, "pull": pull_id, "attempt": self._attempt, **content}
        return self._channel.ask(message)

    def begun(self) -> Report | None:
        """Return a report for a new attempt at the pull; None if it is no longer needed."""
        report = Report(self.pull, self._channel, secrets.token_hex(8))
        return report if report._ask("begin") else None

    def close(self) -> None:
        """Close the connection to the driver."""
        self._channel.close()

    def __reduce__(self) -> tuple[type[Report], tuple[Any, ...]]:
        return Report, (self.pull, self._channel, self._attempt)


def _plain(number: Any) -> Any:
    """Return any library's number as a Python number; leave other values to the study's checks."""
    if isinstance(number, Mapping):
        return {name: _plain(value) for name, value in number.items()}
    if isinstance(number, Integral):
        return int(number)
    is_complex = isinstance(number, Complex) and not isinstance(number, Real)
    return float(number) if hasattr(number, "__float__") and not is_complex else number


class Ended(NamedTuple):
    """How the work on a pull ended.

    `done`: with the outcome. `stopped`: at the driver's request. `timeout`, `fatal` (no pull can
    succeed) and `error`: with an exception. `unreachable`: the worker could not connect to the
    driver. `about` is the exception in one line, `trace` its traceback.
    """

    kind: Literal["done", "stopped", "timeout", "fatal", "error", "unreachable"]
    outcome: Any = None
    about: str = ""
    trace: str = ""


def carry_out(function: Callable[..., Any], report: Report) -> Ended:
    """Carry out a pull; called in the executor's workers.

    Exceptions are returned as text, because not every exception can be pickled.
    """
    try:
        begun = report.begun()
        if begun is None:
            return Ended("stopped")
        labels = {name: label for name, label in report.pull.labels.items() if name != "arm"}
        return Ended("done", _plain(function(report.pull.arm, begun, **labels)))
    except StopPull:
        return Ended("stopped")
    except Unreachable as error:
        return _failed("unreachable", error)
    except (SourceError, NotSupported) as error:
        return _failed("fatal", error)
    except TimeoutError as error:
        return _failed("timeout", error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the study goes on
        return _failed("error", error)
    finally:
        report.close()


def known_measures(outcome: Any, *, has_readings: bool) -> Any:
    """Return the measures that a function returned; None becomes {} if it reported some before.

    Raises
    ------
    InvalidOutcome
        If the function has neither reported nor returned any.
    """
    known = {} if outcome is None and has_readings else outcome
    if isinstance(known, Mapping) and not known and not has_readings:
        raise InvalidOutcome("outcome", "must have a value of at least one measure", outcome)
    return known


def _failed(kind: Literal["timeout", "fatal", "error", "unreachable"], error: Exception) -> Ended:
    if isinstance(error, FairtrialError):
        return Ended(kind, about=str(error))
    about = "".join(traceback.format_exception_only(error)).strip()
    return Ended(kind, about=about, trace="".join(traceback.format_exception(error)))
