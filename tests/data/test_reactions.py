from importlib.resources import files

import numpy as np
import pytest

from fairtrial.data import direct_arylation, suzuki


@pytest.mark.parametrize(
    ("data", "rows", "width", "longest", "explained", "best"),
    [(direct_arylation, 1728, 20, 2.66, 0.603, 1552), (suzuki, 3696, 25, 2.45, 0.550, 1828)],
)
def test_reactions_have_the_catalogues_features_and_fit(
    data, rows, width, longest, explained, best
):
    table = data()
    features, reward = np.array(table["features"]), np.array(table["reward"])
    assert features.shape == (rows, width)
    assert np.linalg.matrix_rank(features) == width
    assert len(set(table["arm"])) == rows
    assert np.linalg.norm(features, axis=1).max() == pytest.approx(longest, abs=0.006)
    fitted = features @ np.linalg.lstsq(features, reward, rcond=None)[0]
    assert 1 - np.var(reward - fitted) / np.var(reward) == pytest.approx(explained, abs=6e-4)
    assert int(reward.argmax()) == best
    assert reward.max() == 1.0
    assert reward.min() >= 0.0


@pytest.mark.parametrize("name", ["direct_arylation", "suzuki"])
def test_origin_and_licence_travel_with_the_data(name):
    folder = files("fairtrial.data") / name
    assert "b-shields/edbo" in (folder / "ORIGIN.md").read_text(encoding="utf-8")
    assert "MIT License" in (folder / "LICENSE").read_text(encoding="utf-8")
    assert "SMILES" in (folder / "ORIGIN.md").read_text(encoding="utf-8")
