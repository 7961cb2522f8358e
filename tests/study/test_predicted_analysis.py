"""Finished experiments whose units have predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairtrial import analyse, errors
from fairtrial.study import Study
from fairtrial.study.fitted_predictions import fitted_predictions
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["old", "new"], ["f", "m"], floors=None, reward_range=(0, 1), prediction=(0, 1))


def trial(units: int = 260, seed: int = 0, gain: float = 0.15) -> pd.DataFrame:
    """A randomised trial whose scores explain a third of the variance of outcomes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"arm": rng.choice(["old", "new"], units), "group": rng.choice(["f", "m"], units)}
    )
    frame["score"] = rng.choice([0.1, 0.5, 0.9], units)
    chance = 0.05 + 0.8 * frame.score * (1.0 - gain) + gain * (frame.arm == "new")
    frame["outcome"] = (rng.random(units) < chance).astype(float)
    frame["day"] = np.arange(units)
    return frame


def wealth(study: Study) -> list[float]:
    return study.policy._wealth.tolist()


def test_predictions_of_a_table_are_used_as_a_live_study_uses_them() -> None:
    frame = trial()
    with analyse(PROBLEM, frame, order="day", prediction="score") as study:
        actions = [PROBLEM.action(arm=row.arm, group=row.group) for row in frame.itertuples()]
        policy = BlockBetting(PROBLEM, assigned=actions)
        for row in frame.itertuples():
            if policy.stopped:
                break
            policy.tell(policy.ask(prediction=row.score), row.outcome)
        assert wealth(study) == policy._wealth.tolist()
        assert study.progress().asked == policy.asked
        assert study.verify().ok
        guarantee = study.recommend().guarantee
        assert guarantee.proven
        assert any("before the arm" in one for one in guarantee.assumptions)


def test_predictions_narrow_the_difference_and_raise_the_evidence() -> None:
    frame = trial(gain=0.03)
    plain = PROBLEM.clone(prediction=None)
    with (
        analyse(PROBLEM, frame, order="day", prediction="score") as study,
        analyse(plain, frame, order="day") as other,
    ):
        effect, unadjusted = study.progress().effects[0], other.progress().effects[0]
        assert effect.upper - effect.lower < 0.95 * (unadjusted.upper - unadjusted.lower)


def test_useless_predictions_leave_the_evidence_as_it_is() -> None:
    frame = trial()
    frame["score"] = 0.5
    with pytest.warns(UserWarning, match="saves nothing"):
        study = analyse(PROBLEM, frame, order="day", prediction="score")
    with study, analyse(PROBLEM.clone(prediction=None), frame, order="day") as other:
        assert wealth(study) == pytest.approx(wealth(other), rel=1e-6)


def test_the_log_keeps_the_prediction_of_every_unit_that_is_asked_for(tmp_path) -> None:
    frame, storage = trial(90), f"sqlite:///{tmp_path / 'study.db'}"
    analyse(PROBLEM, frame, order="day", prediction="score", storage=storage, name="s").close()
    with Study.open(storage=storage, name="s") as study:
        asks = [event.body["context"] for event in study.events() if event.kind == "ask"]
        assert asks == [{"prediction": score} for score in frame.score[: len(asks)]]
        assert study.verify().ok


def test_a_unit_without_a_prediction_counts_as_the_mean_of_its_group_if_that_is_stated() -> None:
    frame = trial()
    frame.loc[::7, "score"] = None
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM, frame, order="day", prediction="score")
    assert error.value.name.endswith(": score")
    problem = PROBLEM.clone(prediction={"range": (0, 1), "missing": "mean"})
    with analyse(problem, frame, order="day", prediction="score") as study:
        said = study.progress().predictions
        assert said.missing == pytest.approx(1 / 7, abs=0.02)


def test_rows_of_a_table_of_counts_share_their_prediction() -> None:
    frame = trial()
    counts = frame.groupby(["arm", "group", "score", "outcome"], as_index=False).size()
    options = {"order": "at random", "count": "size", "prediction": "score"}
    with pytest.warns(UserWarning, match="order"), analyse(PROBLEM, counts, **options) as study:
        assert study.progress().predictions.groups[0].r_squared > 0.02


def test_a_table_sorted_by_prediction_is_warned_of() -> None:
    frame = trial().sort_values("score", kind="stable")
    with pytest.warns(UserWarning, match="sorted by prediction"):
        analyse(PROBLEM, frame, order="as given", prediction="score").close()


@pytest.mark.parametrize("scale", [1.0, 1e-130, -1e130])
def test_the_outcome_is_no_prediction(scale: float) -> None:
    frame = trial()
    frame["late"] = scale * frame.outcome
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM, frame, order="day", prediction="late")
    assert error.value.name == "prediction"


@pytest.mark.parametrize("column", ["outcome", "arm", "group", None, "absent"])
def test_a_column_that_holds_no_predictions_is_refused(column: str | None) -> None:
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM, trial(100), order="day", prediction=column)
    assert error.value.name != "outcome"


def test_a_problem_without_predictions_takes_no_column_of_them() -> None:
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM.clone(prediction=None), trial(100), order="day", prediction="score")
    assert error.value.name == "prediction"


@pytest.mark.parametrize("odd", [np.inf, "soon"])
def test_a_prediction_that_is_no_number_is_refused_with_its_row(odd: object) -> None:
    frame = trial(100).astype({"score": object})
    frame.loc[3, "score"] = odd
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM, frame, order="day", prediction="score")
    assert "3" in error.value.name


def test_differences_use_all_units_also_those_before_and_after_the_blocks() -> None:
    """The sums of what is in no block are those of its outcomes minus one guess per group."""
    frame = trial(400, gain=0.6)
    frame.loc[::9, "outcome"] = None
    with analyse(PROBLEM, frame, order="day", prediction="score") as study:
        policy = study.policy
        asked = study.progress().asked
        assert policy.stopped
        assert asked < 300
        cuts, blocks = policy._cuts, policy._blocks
        before, after = policy._outside_blocks(cuts)
        guess, unit = blocks._mean_until_stop(before), blocks._units.unit[0]
        parts = blocks._with_one_guess(before, blocks._middle), blocks._with_one_guess(after, guess)
    frame["outcome"] /= unit
    until = frame[:asked].dropna()
    for group, name in enumerate(["f", "m"]):
        mean = until[until.group == name].outcome.mean()
        assert [guess[group], guess[2 + group]] == pytest.approx([mean, mean])
        for part, rows, own in (
            (parts[0], frame[: cuts.begin], 0.5 / unit),
            (parts[1], frame[asked:], mean),
        ):
            for arm, label in enumerate(["old", "new"]):
                cell = rows[(rows.arm == label) & (rows.group == name)].outcome
                off, at = cell.dropna() - own, (0, 2 * arm + group)
                assert (part.counts[at], part.losses[at]) == (len(off), cell.isna().sum())
                assert part.sums[at] == pytest.approx(off.sum())
                assert part.squares[at] == pytest.approx((off**2).sum())
                assert part.lost_guesses[at] == pytest.approx(own * cell.isna().sum())


def asked_with(study: Study) -> list[float]:
    asks = [event for event in study.events() if event.kind == "ask"]
    return [event.body["context"]["prediction"] for event in asks]


def with_features(units: int = 260, seed: int = 0) -> pd.DataFrame:
    frame = trial(units, seed, gain=0.1)
    rng = np.random.default_rng(seed)
    frame["late"] = 30.0 - 10.0 * frame.score + rng.normal(size=units)
    frame["noise"] = rng.normal(size=units)
    return frame


def test_features_are_fitted_to_earlier_blocks_only() -> None:
    """Outcomes of a block and of later ones do not change its predictions."""
    frame = with_features()
    with analyse(PROBLEM, frame, order="day", features=["late", "noise"]) as study:
        asks = asked_with(study)
        ends = study.policy.ends_of_blocks
        assert study.progress().predictions.groups[1].r_squared > 0.02
        assert study.verify().ok
    changed = frame.copy()
    place = len(ends) // 2
    begin, end = ends[place], ends[place + 1]
    changed.loc[begin:, "outcome"] = 1.0 - changed.outcome[begin:]
    with analyse(PROBLEM, changed, order="day", features=["late", "noise"]) as study:
        other = asked_with(study)
    assert other[:end] == asks[:end]
    assert other[end:] != asks[end:]


def test_fitted_predictions_are_those_of_least_squares() -> None:
    """Beside the same regression with an indicator of every cell, from past units only."""
    frame = with_features(120)
    frame.loc[::11, "outcome"] = None
    features = frame[["late", "noise"]].to_numpy()
    cells = np.array([PROBLEM.action(arm=r.arm, group=r.group) for r in frame.itertuples()])
    found = fitted_predictions(features, frame.outcome.to_numpy(), cells.tolist(), [40, 80, 120])
    past = np.arange(120) < 80
    scale = np.sqrt(
        np.square(features[past & frame.outcome.notna()] - features[past].mean(0)).mean(0)
    )
    known = past & frame.outcome.notna().to_numpy()
    design = np.hstack([features / scale, np.eye(4)[cells]])[known]
    ridge = np.diag([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    slopes = np.linalg.solve(design.T @ design + ridge, design.T @ frame.outcome[known])[:2]
    expected = (features - features[past].mean(0)) / scale @ slopes + frame.outcome[known].mean()
    assert found[80:] == pytest.approx(expected[80:])


@pytest.mark.parametrize(
    "options",
    [
        {"features": ["late"], "prediction": "score"},
        {"features": "late"},
        {"features": ["outcome"]},
        {"features": ["arm"]},
        {"features": ["absent"]},
        {"features": ["copy"]},
    ],
)
def test_features_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    frame = with_features(100)
    frame["copy"] = 3.0 * frame.outcome
    with raises(errors.InvalidArgument):
        analyse(PROBLEM, frame, order="day", **options)
    with raises(errors.InvalidArgument) as error:
        analyse(PROBLEM.clone(prediction=None), frame, order="day", features=["late"])
    assert error.value.name == "features"


def test_with_several_measures_means_and_differences_use_all_units_too() -> None:
    frame = trial(900, gain=0.5)
    rng = np.random.default_rng(4)
    frame["harm"] = (rng.random(len(frame)) < 0.1).astype(float)
    frame.loc[::9, "harm"] = None
    problem = Problem(
        ["old", "new"],
        {"f": 0.5, "m": 0.5},
        measures={"good": (0, 1), "harm": (0, 1)},
        objective="good",
        ceilings={"harm": 0.5},
        control="old",
        prediction={"good": (0, 1)},
    )
    columns = {"good": "outcome", "harm": "harm"}
    with analyse(
        problem, frame, order="day", outcome=columns, prediction={"good": "score"}
    ) as study:
        progress, policy = study.progress(), study.policy
        assert policy.stopped
        assert progress.asked < 600
        good, harm = (policy._measure_in_range(one).results for one in (0, 1))
    cells = frame.groupby(["arm", "group"])
    for results, name in ((good, "outcome"), (harm, "harm")):
        assert len(results.counts) == len(policy._blocks.paid) + 2
        for action in range(4):
            labels = problem.labels(action)
            cell = cells.get_group((labels["arm"], labels["group"]))[name]
            assert results.counts[:, action].sum() == cell.count()
            assert results.losses[:, action].sum() == cell.isna().sum()
            sums = (results.sums + results.counts * results.centres)[:, action].sum()
            assert sums == pytest.approx(cell.sum())
    effect = next(one for one in progress.effects if one.group is None)
    assert effect.upper - effect.lower < 0.3
    assert effect.lower < 0.5 < effect.upper
