"""The meaning of the command's exit codes."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["EPILOG", "ExitCode"]


class ExitCode(IntEnum):
    """The exit codes, each with one meaning."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NO_ANSWER = 3
    NOT_VERIFIED = 4
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """The meaning as one line."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done; of a study: decided, or one that never stops by itself",
    ExitCode.FAILURE: "something failed during the run: a source of rewards, the storage",
    ExitCode.USAGE: "a mistake in the command line, the configuration or a table",
    ExitCode.NO_ANSWER: "no answer: the study is undecided or still running",
    ExitCode.NOT_VERIFIED: "not verified: a study's log, or an installation",
    ExitCode.INTERRUPTED: "interrupted; nothing acknowledged is lost",
}

# \b keeps click from filling the lines into a paragraph.
EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<4}{code.meaning}" for code in ExitCode)
