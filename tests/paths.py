"""Which files a call passes through: those of the calls that are open when it arrives."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import fairtrial

ROOT = Path(fairtrial.__file__).parent


def files_on_the_way(
    call: Callable[[], object], first: Callable[..., object], *last: Callable[..., object]
) -> list[str]:
    """Return the files of the package between two functions, in the order of their calls.

    Each call of `first` counts from there to the next call of one of `last`. If `last` has several
    functions, they are the ends of paths in several threads, which `first` leads to.
    """
    ends = {_code(one): one for one in last}
    begin, found = _code(first), dict[str, None]()
    reached = set[CodeType]()

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code not in ends or code in reached:
            return
        reached.add(code)
        files: list[str] = []
        at: FrameType | None = frame
        while at is not None:
            name = Path(at.f_code.co_filename)
            if name.is_relative_to(ROOT):
                files.append(str(name.relative_to(ROOT)))
            if at.f_code is begin:
                break
            at = at.f_back
        found.update(dict.fromkeys(reversed(files)))

    before = sys.getprofile()
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert reached == set(ends), "a function was not called"
    return list(found)


def _code(function: Callable[..., object]) -> CodeType:
    return inspect.unwrap(function).__code__
