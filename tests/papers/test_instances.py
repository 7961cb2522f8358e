import gzip

import numpy as np
import pytest

from papers.baics import instances as environments


@pytest.mark.parametrize(
    ("instance", "best"),
    [
        (environments.E1, "arm 1"),
        (environments.E2, "arm 2"),
        (environments.NONE_FEASIBLE, None),
        (environments.TRAP, "arm 2"),
        (environments.CLICKS, "1"),
    ],
)
def test_answers_are_those_of_the_paper_and_the_reference(instance, best):
    assert instance.environment.truth.best == best


@pytest.mark.parametrize(
    ("outcome", "floor", "best"),
    [("cd4", 0.0, "zdv_ddi"), ("event_free", 0.75, "zdv_ddi"), ("event_free", 0.78, None)],
)
def test_trial_has_the_answers_of_the_catalogue(outcome, floor, best):
    instance = environments.trial(outcome, floor)
    assert instance.environment.truth.best == best
    assert len(instance.environment.table["reward"]) == 2139


def test_optimal_shares_of_e1_are_the_reference():
    shares = environments.E1.complexity().allocation
    reference = [
        [0.26194, 0.07935, 0.13226],
        [0.05290, 0.07935, 0.13226],
        [0.26194, 0.0, 0.0],
    ]
    np.testing.assert_allclose(shares, reference, atol=2e-4)


@pytest.mark.parametrize("noise", ["normal", "coins"])
def test_both_noises_of_a_hard_null_have_mean_and_deviation_alike(noise):
    for instance, normal in zip(
        environments.hard_nulls(noise), environments.hard_nulls("normal"), strict=True
    ):
        environment = instance.environment
        np.testing.assert_allclose(
            environment.cell_means, normal.environment.cell_means, atol=1e-12
        )
        np.testing.assert_allclose(environment.cell_stds, 1.0)
        assert environment.truth.best == normal.environment.truth.best


def test_hard_nulls_hang_on_a_millionth():
    truths = {i.name: i.environment.truth.best for i in environments.hard_nulls("normal")}
    assert truths["better arm infeasible by 1e-6"] == "1"
    assert truths["better arm feasible by 1e-6"] == "0"
    assert truths["answer on all its floors"] == "0"
    assert truths["none, all short by 1e-6"] is None
    bounded = {i.name: i.environment.truth.best for i in environments.bounded_nulls()}
    assert bounded["answer on all its floors, coins .9"] == "0"
    assert bounded["better arm infeasible by 1e-6, losses 2 % of 0"] == "1"
    assert bounded["none, all short by 1e-6, coins"] is None


def test_plain_environments_have_the_means_they_are_named_after():
    means = [
        instance.environment.cell_means.ravel() for instance in environments.plain_environments()
    ]
    np.testing.assert_allclose(means[3], [0.5, 0.45, 0.45, 0.4, 0.4])
    np.testing.assert_allclose(means[4], [0.5, 0.45, 0.4])
    np.testing.assert_allclose(means[5], [0.42, 0.40, 0.38])
    uniform = environments.plain_environments()[4].environment.cell_stds.ravel()
    np.testing.assert_allclose(uniform, np.array([1.0, 0.8, 0.8]) / np.sqrt(12), rtol=1e-6)


def test_noise_told_is_the_largest_of_the_environment():
    known = environments.with_noise_known(environments.plain_environments()[2])
    np.testing.assert_allclose(known.problem.scale, np.sqrt(0.06 * 0.94))
    assert known.problem.reward_range is None


def test_email_floors_stand_above_each_groups_own_rate(tmp_path):
    lines = ["segment,bought,newbie,visit"]
    for segment, visits in {"mens_mail": 3, "womens_mail": 2, "no_mail": 1}.items():
        lines += [f"{segment},mens,0,{int(i < visits)}" for i in range(4)]
        lines += [f"{segment},both,1,{int(i < visits)}" for i in range(8)]
    path = tmp_path / "email.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines))
    instance = environments.email(path)
    assert instance.problem.groups == ("both/1", "mens/0")
    np.testing.assert_allclose(instance.problem.shares, [2 / 3, 1 / 3])
    np.testing.assert_allclose(instance.problem.floors, [[0.135, 0.26]] * 3)
    assert instance.environment.truth.best == "mens_mail"
