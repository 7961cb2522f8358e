from collections import defaultdict
from importlib.resources import files

import numpy as np
import pytest

from fairtrial.data import learning_curves
from fairtrial.delayed import CurveEnvironment, InformationRacing, Problem
from fairtrial.errors import InvalidArgument
from tests.messages import raises

# Best and second arm, their means, the best one's standard deviation (of the catalogue, which
# divides by n - 1), and the seconds of the fastest and the slowest arm over all recorded sizes.
TRUTH = {
    "letter": ("ExtraTreesClassifier", 0.9720, "RandomForestClassifier", 0.9634, 0.0039),
    "mfeat-factors": ("LinearDiscriminantAnalysis", 0.9823, "RidgeClassifier", 0.9784, 0.0103),
    "mfeat-fourier": ("SVC_poly", 0.8645, "SVC_rbf", 0.8514, 0.0198),
}
COSTS = {
    ("letter", "KNeighborsClassifier"): 0.0115,
    ("letter", "GradientBoostingClassifier"): 265.06,
    ("mfeat-factors", "GradientBoostingClassifier"): 175.93,
    ("mfeat-fourier", "SVC_poly"): 0.1929,
}


@pytest.fixture(scope="module", params=list(TRUTH))
def task(request):
    return request.param


@pytest.fixture(scope="module")
def curves(task):
    return learning_curves(task)


@pytest.fixture(scope="module")
def by_arm(curves):
    """Return the accuracies of every arm, shape (splits, sizes)."""
    rows = defaultdict(lambda: defaultdict(list))
    table = curves["table"]
    for arm, curve, value in zip(table["arm"], table["curve"], table["value"], strict=True):
        rows[arm][curve].append(value)
    return {arm: np.array(list(own.values())) for arm, own in rows.items()}


def test_all_classifiers_and_splits_are_there(task, by_arm):
    splits = {arm: len(values) for arm, values in by_arm.items()}
    assert len(splits) == 20
    incomplete = {arm: number for arm, number in splits.items() if number != 125}
    assert incomplete == ({"QuadraticDiscriminantAnalysis": 120} if task == "letter" else {})
    assert all(((values >= 0) & (values <= 1)).all() for values in by_arm.values())


def test_the_truth_is_the_catalogues(task, curves):
    environment = CurveEnvironment(Problem(**curves["problem"], top=2), curves["table"])
    best, mean, second, other, std = TRUTH[task]
    assert environment.truth.best == (best, second)
    place = [curves["problem"]["arms"].index(arm) for arm in (best, second)]
    assert environment.arm_means[place] == pytest.approx([mean, other], abs=5e-5)
    assert environment.arm_stds[place[0]] * np.sqrt(125 / 124) == pytest.approx(std, abs=6e-5)


def test_the_stated_noise_is_that_of_the_records_and_never_zero(curves):
    problem = Problem(**curves["problem"])
    environment = CurveEnvironment(problem, curves["table"])
    assert (problem.scale >= environment.arm_stds - 1e-12).all()
    assert ((problem.scale <= environment.arm_stds + 1e-12) | (problem.scale < 0.006)).all()


def test_sizes_grow_and_so_does_the_time_of_every_curve(curves):
    table = curves["table"]
    names = list(zip(table["arm"], table["curve"], strict=True))
    for before, after in zip(range(len(names)), range(1, len(names)), strict=False):
        if names[before] == names[after]:
            assert table["size"][before] < table["size"][after]
            assert 0 < table["elapsed"][before] < table["elapsed"][after]


@pytest.mark.parametrize(("task", "arm"), list(COSTS))
def test_costs_are_below_those_of_all_recorded_sizes_and_in_their_order(task, arm):
    table = learning_curves(task)["table"]
    last = max(table["size"])
    rows = zip(table["arm"], table["size"], table["elapsed"], strict=True)
    seconds = np.mean([time for name, size, time in rows if name == arm and size == last])
    # About half of the sizes are shipped, including the largest.
    assert 0.4 * COSTS[task, arm] < seconds < COSTS[task, arm]


def test_curves_cross(task, by_arm):
    means = {arm: values.mean(axis=0) for arm, values in by_arm.items()}

    def place(arm, size):
        return 1 + sum(other[size] > means[arm][size] for other in means.values())

    if task == "letter":
        assert (place("KNeighborsClassifier", 0), place("KNeighborsClassifier", -1)) == (14, 3)
        qda = "QuadraticDiscriminantAnalysis"
        assert (place(qda, 0), place(qda, -1)) == (19, 8)
    if task == "mfeat-fourier":
        assert (place("SVC_rbf", 0), place("SVC_rbf", -1)) == (7, 2)


def test_early_accuracies_are_biased_low_by_amounts_that_differ(by_arm):
    lost = [float((values[:, -1] - values[:, 0]).mean()) for values in by_arm.values()]
    assert np.mean(np.array(lost) > 0) >= 0.85
    assert np.std(lost) > 0.05


def test_a_race_on_the_outcomes_finds_the_best(task, curves):
    problem = Problem(**curves["problem"])
    environment = CurveEnvironment(problem, curves["table"])
    run = InformationRacing(problem).compiled_run(environment, np.random.default_rng(1), None)
    assert run.answer == (TRUTH[task][0],)
    assert run.elapsed > max(curves["table"]["elapsed"][:7])


def test_another_task_is_refused():
    with raises(InvalidArgument, "task"):
        learning_curves("iris")


def test_origin_and_licence_travel_with_the_data():
    folder = files("fairtrial.data") / "learning_curves"
    assert "lcdb" in (folder / "ORIGIN.md").read_text(encoding="utf-8")
    assert "MIT License" in (folder / "LICENSE").read_text(encoding="utf-8")
    assert len((folder / "learning_curves.json.gz").read_bytes()) < 150_000
