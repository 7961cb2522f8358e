"""Inspect SQLite's write-ahead log for commits that a recovery would miss.

The format is described at https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["commits_left_behind"]

_HEADER = 32
_FRAME = 24
_MAGIC = 0x377F0682

Words = npt.NDArray[np.uint32]


def commits_left_behind(path: Path) -> int:
    """Return the number of commits in a write-ahead log that a recovery does not reach.

    Recovery ends at the first frame with a wrong checksum. Later frames that belong to the same
    generation of the log (they carry its salt) and end a transaction were commits.

    Parameters
    ----------
    path : Path
        The write-ahead log; it may be missing or empty.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0
    if len(content) < _HEADER:
        return 0
    magic, _, page_size, _, salt_1, salt_2, sum_1, sum_2 = struct.unpack(">8I", content[:_HEADER])
    frames = _frames(content, page_size)
    if frames is None:
        return 0
    order = ">u4" if magic & 1 else "<u4"
    fields = frames[:, :_FRAME].copy().view(">u4").astype(np.uint32)
    is_commit = fields[:, 1] != 0
    is_header_whole = _sums(content[:24], order, (0, 0)) == (sum_1, sum_2)
    if magic & ~1 != _MAGIC or not is_header_whole:
        return int(np.count_nonzero(is_commit & _is_current(fields)))
    belongs = (fields[:, 2] == salt_1) & (fields[:, 3] == salt_2)
    reached = _reached(frames, fields, belongs, order, (sum_1, sum_2))
    return int(np.count_nonzero(is_commit[reached:] & belongs[reached:]))


def _frames(content: bytes, page_size: int) -> npt.NDArray[np.uint8] | None:
    """Return the complete frames as rows; None if there are none."""
    if page_size & (page_size - 1) or not 512 <= page_size <= 65536:
        # The header is damaged. Our databases use SQLite's default page size.
        page_size = 4096
    size = _FRAME + page_size
    number = (len(content) - _HEADER) // size
    if number == 0:
        return None
    rows = np.frombuffer(content, np.uint8, number * size, _HEADER)
    return rows.reshape(number, size)


def _is_current(fields: Words) -> npt.NDArray[np.bool_]:
    """Return which frames are of the same generation as the first one."""
    return np.asarray((fields[:, 2:4] == fields[0, 2:4]).all(axis=1))


def _reached(
    frames: npt.NDArray[np.uint8],
    fields: Words,
    belongs: npt.NDArray[np.bool_],
    order: str,
    start: tuple[int, int],
) -> int:
    """Return how many frames a recovery accepts."""
    covered = np.concatenate([frames[:, :8], frames[:, _FRAME:]], axis=1)
    added = _added(np.ascontiguousarray(covered).view(order).astype(np.uint32))
    turn = _turns(covered.shape[1] // 8)[0]
    sums = start
    for place, (one, two) in enumerate(added.tolist()):
        sums = _after(turn, sums, (one, two))
        found = int(fields[place, 4]), int(fields[place, 5])
        if not belongs[place] or sums != found:
            return place
    return len(frames)


# ------------------------------------------------------------------------ checksums
#
# For each pair of words (x, y): s += x + t; t += y + s, modulo 2^32. That is linear, so the
# sum of a frame is its own part plus a fixed matrix times the sum before it.


def _sums(content: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    words = np.frombuffer(content, order).astype(np.uint32)[None, :]
    one, two = _added(words).tolist()[0]
    return _after(_turns(words.shape[1] // 2)[0], start, (one, two))


def _added(words: Words) -> Words:
    """Return what the words of each row add to the two sums."""
    pairs = words.shape[1] // 2
    first, second = words[:, 0::2], words[:, 0::2] + words[:, 1::2]
    # What a pair adds is carried through all later pairs.
    turns = _turns(pairs)[1:]
    one = (first * turns[:, 0, 0] + second * turns[:, 0, 1]).sum(axis=1, dtype=np.uint32)
    two = (first * turns[:, 1, 0] + second * turns[:, 1, 1]).sum(axis=1, dtype=np.uint32)
    return np.stack([one, two], axis=1)


@cache
def _turns(pairs: int) -> Words:
    """Return the matrices that carry the sums over `pairs`, ``pairs - 1``, ... 0 pairs of words."""
    a, b, c, d = 1, 0, 0, 1
    found = [(a, b, c, d)]
    for _ in range(pairs):
        a, b, c, d = (a + c, b + d, a + 2 * c, b + 2 * d)
        a, b, c, d = (part & 0xFFFFFFFF for part in (a, b, c, d))
        found.append((a, b, c, d))
    return np.array(found[::-1], dtype=np.uint32).reshape(-1, 2, 2)


def _after(turn: Words, sums: tuple[int, int], added: tuple[int, int]) -> tuple[int, int]:
    (a, b), (c, d) = turn.tolist()
    one, two = sums
    return (
        (a * one + b * two + added[0]) & 0xFFFFFFFF,
        (c * one + d * two + added[1]) & 0xFFFFFFFF,
    )
