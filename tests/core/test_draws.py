import numba as nb
import numpy as np
import pytest

from fairtrial.core.draws import Source, VectorSource

RUNS = 4_000


def draws(source, action, runs=RUNS):
    generator = np.random.default_rng(3)
    return np.array([source.draw(action, generator) for _ in range(runs)])


@pytest.mark.statistical
def test_gaussian_draws_have_their_action_s_mean_and_deviation():
    source = Source.gaussian(np.array([[0.0, 5.0]]), np.array([[1.0, 2.0]]))
    found = draws(source, 1)
    assert abs(found.mean() - 5.0) < 4 * 2.0 / np.sqrt(RUNS)
    assert abs(found.std() - 2.0) < 4 * 2.0 / np.sqrt(2 * RUNS)


@pytest.mark.statistical
def test_bernoulli_draws_are_ones_as_often_as_they_should():
    found = draws(Source.bernoulli(np.array([0.1, 0.7])), 1)
    assert set(found) == {0.0, 1.0}
    assert abs(found.mean() - 0.7) < 4 * np.sqrt(0.21 / RUNS)


@pytest.mark.statistical
def test_beta_draws_have_their_mean_and_stay_between_zero_and_one():
    found = draws(Source.beta(np.array([1.0, 2.0]), np.array([1.0, 6.0])), 1)
    assert found.min() > 0.0
    assert found.max() < 1.0
    assert abs(found.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 9 / RUNS)


def test_sources_of_every_kind_and_of_read_only_arrays_share_compiled_kernels():
    frozen = np.array([[0.25, 0.5]])
    frozen.setflags(write=False)
    sources = [
        Source.gaussian(frozen, np.broadcast_to(1.0, (1, 2))),
        Source.gaussian(frozen.copy(), frozen),
        Source.bernoulli(frozen),
        Source.beta(frozen, frozen),
        Source.replay([frozen[0], frozen[0]]),
    ]
    assert len({nb.typeof(source) for source in sources}) == 1


def test_a_replay_draws_each_action_s_own_rows_and_all_of_them():
    source = Source.replay([np.array([1.0]), np.array([2.0, 3.0, 4.0]), np.array([9.0])])
    assert set(draws(source, 0, 20)) == {1.0}
    assert set(draws(source, 1, 200)) == {2.0, 3.0, 4.0}
    assert set(draws(source, 2, 20)) == {9.0}


@pytest.mark.statistical
def test_noise_is_added_to_a_replayed_row():
    found = draws(Source.replay([np.array([1.0]), np.array([2.0])], noise_std=0.5), 1)
    assert abs(found.mean() - 2.0) < 4 * 0.5 / np.sqrt(RUNS)
    assert abs(found.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * RUNS)


@pytest.mark.statistical
def test_gaussian_measures_have_their_action_s_means_and_covariance():
    covariance = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.0]])
    means = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    found = draws(VectorSource.gaussian(means, np.stack([np.eye(3), covariance])), 1)
    assert np.abs(found.mean(axis=0) - means[1]).max() < 4 / np.sqrt(RUNS)
    assert np.abs(np.cov(found.T) - covariance).max() < 4 * np.sqrt(2 / RUNS)
    assert (found[:, 2] == 3.0).all()


def test_a_replay_draws_whole_rows_of_measures():
    rows = [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, np.nan]])]
    found = draws(VectorSource.replay(rows), 1, 100)
    assert {tuple(row) for row in np.nan_to_num(found)} == {(3.0, 4.0), (5.0, 0.0)}


@pytest.mark.statistical
def test_points_come_as_often_as_they_should_and_never_without_probability():
    points = np.array([[[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]] * 2)
    source = VectorSource.points(points, np.array([[1.0, 0, 0, 0], [0.1, 0.0, 0.5, 0.4]]))
    assert not draws(source, 0, 20).any()
    found = [tuple(row) for row in draws(source, 1)]
    for point, share in (((0.0, 0.0), 0.1), ((1.0, 0.0), 0.5), ((1.0, 1.0), 0.4)):
        assert abs(found.count(point) / RUNS - share) < 4 * np.sqrt(share * (1 - share) / RUNS)
    assert (0.0, 1.0) not in found
