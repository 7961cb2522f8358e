"""Alternative truths instead of the assumed means."""

import pytest

from fairtrial.delayed import CurveEnvironment, Problem, SimulatedEnvironment
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.simulation import at_effect, default_scenarios
from tests.messages import raises


def test_differences_shrink_and_delays_remain():
    problem = Problem(["a", "b", "c"], top=2, noise_std=1.0)
    environment = SimulatedEnvironment(problem, [1.0, 2.0, 4.0], delay=7.0, loss=0.1)
    found = {s.name: s.environment for s in default_scenarios(environment)}
    assert list(found) == ["null", "half", "full"]
    assert found["null"].truth.tied
    assert found["half"].means == pytest.approx([1.0, 1.5, 2.5])
    assert (found["half"].delay, found["half"].loss) == (7.0, 0.1)
    assert at_effect(environment, 2, control="b").environment.means == pytest.approx([0, 2, 6])
    with raises(InvalidArgument, "control"):
        at_effect(environment, 0.5, control="nobody")


def test_recorded_curves_have_no_scenarios():
    table = {"arm": ["a", "b"], "curve": [0, 0], "elapsed": [1, 1], "value": [0.2, 0.4]}
    environment = CurveEnvironment(Problem(["a", "b"], noise_std=1.0), table)
    with raises(NotSupported):
        default_scenarios(environment)
