"""One pull at a time: what happens when results arrive."""

from fairtrial.confidence.noise_kernels import replace_result
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.estimates import add_reward, refresh
from fairtrial.linear._kernels.matrices import Floats
from fairtrial.linear._kernels.model import Model
from fairtrial.linear._kernels.stopping import examine, may_test
from fairtrial.linear._kernels.track import (
    FINISHED,
    HOPELESS,
    NOISE,
    READY,
    RIDGE,
    SHARES,
    STARTED,
    Test,
    Track,
)


@kernel
def start_track(model: Model, test: Test, track: Track) -> None:
    """Give an answer that needs no data at once."""
    if test.top >= model.candidates.shape[0]:
        track.control[FINISHED] = 1
        for k in range(track.chosen.size):
            track.chosen[k] = 1
    track.evidence[NOISE] = 1.0
    if test.kind == RIDGE:
        refresh(model, test, track)


@kernel
def record(
    model: Model, test: Test, rule: int, track: Track, arm: int, reward: float, in_flight: bool
) -> None:
    """Record a reward and test whether there is enough evidence."""
    add_reward(model, test, track, arm, reward, in_flight)
    if not track.control[READY]:
        return
    if not track.control[STARTED]:
        track.control[STARTED] = _is_started(model, test, track)
    if is_over(track):
        return
    testable = may_test(test, track)
    if testable or rule != SHARES:
        examine(model, test, rule, track, testable)


@kernel
def is_over(track: Track) -> bool:
    """Return whether there is an answer, or there never will be one."""
    return track.control[FINISHED] == 1 or track.control[HOPELESS] == 1


@kernel
def record_blocks(
    model: Model, test: Test, track: Track, draws: Floats, sums: Floats, squares: Floats
) -> None:
    """Record `draws` rewards of every arm at once; test as after the last of them."""
    for k in range(draws.size):
        track.sums[k] += sums[k]
        track.squares[k] += squares[k]
        for i in range(track.right.size):
            track.right[i] += sums[k] * model.arms[k, i]
    refresh(model, test, track)
    if not track.control[READY]:
        return
    if not track.control[STARTED]:
        track.control[STARTED] = _is_started(model, test, track)
    if may_test(test, track):
        examine(model, test, SHARES, track, True)


@kernel
def correct(
    model: Model, test: Test, rule: int, track: Track, arm: int, old: float, new: float
) -> None:
    """Replace a reward; an answer already given stays."""
    track.sums[arm] += new - old
    track.squares[arm] += new * new - old * old
    # Restart the test of the noise, because its first results may have changed.
    replace_result(track.record, arm, old, new)
    copy_into(track.early, track.record)
    for i in range(track.right.size):
        track.right[i] += (new - old) * model.arms[arm, i]
    if track.control[READY] and not is_over(track):
        examine(model, test, rule, track, False)


@kernel
def _is_started(model: Model, test: Test, track: Track) -> int:
    for i in range(model.start.size):
        if track.counts[int(model.start[i])] < test.initial:
            return 0
    return 1
