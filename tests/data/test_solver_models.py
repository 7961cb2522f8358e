import gzip
from importlib.resources import files

import pytest

from fairtrial.data import solver_models

OPTIMA = {  # MIPLIB 3
    "bell5": 8966406.49,
    "egout": 568.1007,
    "flugpl": 1201500.0,
    "gt2": 21166.0,
    "lseu": 1120.0,
    "p0548": 8691.0,
    "rgn": 82.1999,
}


def test_there_are_eleven_models_in_the_order_of_their_names():
    models = solver_models()
    assert list(models) == sorted(models)
    assert len(models) == 11
    for path in models.values():
        assert gzip.decompress(path.read_bytes()).lstrip().startswith((b"NAME", b"*"))


@pytest.mark.parametrize("name", sorted(OPTIMA))
def test_a_solver_finds_the_published_optimum(name):
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.readModel(str(solver_models()[name]))
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert solver.getInfo().objective_function_value == pytest.approx(OPTIMA[name], rel=1e-4)


def test_origin_and_licence_travel_with_the_models():
    folder = files("fairtrial.data") / "solver_models"
    assert "ERGO-Code/HiGHS" in (folder / "ORIGIN.md").read_text(encoding="utf-8")
    assert "MIT License" in (folder / "LICENSE").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in solver_models().values()) < 100_000
