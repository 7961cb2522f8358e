"""What losses hide, and of which targets something can still be shown."""

import numpy as np
import pytest

from fairtrial.confidence.block_betting.hidden import (
    HIDDEN,
    can_show,
    is_any_hidden,
    share_lost,
)

SETTLED = -1.0


@pytest.mark.parametrize(
    ("needs", "shown"),
    [
        ([SETTLED, 2.0, 3.0, 1.0], True),
        ([SETTLED, 2.0, HIDDEN, 1.0], True),
        ([SETTLED, HIDDEN, HIDDEN, 1.0], True),
        ([SETTLED, HIDDEN, HIDDEN, SETTLED], False),
        ([SETTLED, 2.0, 3.0, HIDDEN], False),
        ([SETTLED, SETTLED, SETTLED, SETTLED], True),
    ],
    ids=["no losses", "one rival", "all rivals", "everything left", "a limit", "all settled"],
)
def test_a_target_is_of_use_if_losses_hide_no_limit_and_not_all_that_it_needs(needs, shown):
    """Three arms, of which the first is the target, and its limit."""
    assert can_show(np.array(needs), 3) == shown
    assert is_any_hidden(np.array(needs)) == (HIDDEN in needs)


def test_the_share_of_lost_pulls_stays_below_one_while_no_result_has_come():
    assert share_lost(0.0, 0.0) == 0.0
    assert share_lost(9.0, 0.0) == 0.9
    assert share_lost(1.0, 3.0) == 0.25
