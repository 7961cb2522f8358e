import pickle

import pytest

from fairtrial.causal.errors import ContradictedModel, NoInformation, ThinOverlap


@pytest.mark.parametrize(
    "warning",
    [NoInformation(["a", "b"]), ThinOverlap({"a": 0.5}), ContradictedModel(["Y depends on S"])],
)
def test_a_warning_is_made_again_from_its_arguments(warning):
    """Warnings are sent between processes as their class and arguments."""
    for again in (type(warning)(*warning.args), pickle.loads(pickle.dumps(warning))):
        assert (type(again), str(again), vars(again)) == (
            type(warning),
            str(warning),
            vars(warning),
        )
