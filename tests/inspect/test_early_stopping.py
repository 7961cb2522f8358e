"""Races in evaluations of inspect_ai, with its mock models and without a network."""

import pytest

pytest.importorskip(
    "inspect_ai",
    reason="inspect_ai and what it needs take 325 MB, so it is not among the locked packages",
)

from inspect_ai import Task, eval  # noqa: A004 - after the check
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes, match
from inspect_ai.solver import solver

from fairtrial.errors import InvalidArgument
from fairtrial.inspect import Race

RIGHT = {"mockllm/bad": 20, "mockllm/good": 90, "mockllm/fair": 50}
MODELS = list(RIGHT)
SAMPLES = [Sample(input=f"question {at}", target="yes") for at in range(100)]


@solver
def answers(fails_on=None, calls=None):
    async def solve(state, generate):
        name, number = str(state.model), int(state.input_text.split()[1])
        if calls is not None:
            calls.append((name, number))
        if name == fails_on:
            raise RuntimeError("no answer")
        state.output.completion = "yes" if number * 37 % 100 < RIGHT[name] else "no"
        return state

    return solve


def evaluate(race, tmp_path, models=MODELS, scorer=None, dataset=None, **given):
    solving = {name: given.pop(name) for name in ("fails_on", "calls") if name in given}
    task = Task(
        dataset=race.dataset if dataset is None else dataset,
        solver=answers(**solving),
        scorer=scorer or match(),
        early_stopping=race,
    )
    options = {"display": "none", "log_dir": str(tmp_path / "logs"), **given}
    return eval(task, model=models, **options)


def test_the_best_model_is_found_with_few_samples(tmp_path):
    race, calls = Race(MODELS, SAMPLES), []
    logs = evaluate(race, tmp_path, calls=calls)
    result = race.result
    assert all(log.status == "success" for log in logs)
    assert (result.best, result.guarantee.label) == ("mockllm/good", "proven")
    assert result.states["mockllm/bad"] == "rejected"
    assert len(calls) < 150
    assert len(calls) == len(set(calls))
    of_bad = next(log for log in logs if log.eval.model == "mockllm/bad").results.early_stopping
    assert len(of_bad.early_stops) > 50
    assert of_bad.metadata["state"] == "rejected"
    assert race.study.verify().ok


def test_no_model_runs_far_ahead_of_others_in_the_race(tmp_path):
    race, calls = Race(MODELS, SAMPLES, ahead=3, delta=1e-9), []
    evaluate(race, tmp_path, calls=calls, max_samples=5)
    places = {int(one.input.split()[1]): at for at, one in enumerate(race.dataset)}
    seen = dict.fromkeys(MODELS, -1)
    for model, number in calls[:90]:
        seen[model] = max(seen[model], places[number])
        # A model begins before the tasks of others have started.
        assert max(seen.values()) <= min(seen.values()) + 3 + 5 + 1


def test_models_one_after_the_other_do_not_wait_for_each_other(tmp_path):
    race = Race(MODELS, SAMPLES, patience=1e6)
    evaluate(race, tmp_path, max_tasks=1)
    assert race.result.best == "mockllm/good"


def test_the_same_race_continues_and_scores_nothing_again(tmp_path):
    calls, storage = [], tmp_path / "race.db"
    first = Race(MODELS, SAMPLES, storage=storage, delta=1e-6)
    evaluate(first, tmp_path, models=MODELS[:1], calls=calls)
    assert first.result.status == "running"
    first.study.close()
    again = Race(MODELS, SAMPLES, storage=storage, delta=1e-6)
    evaluate(again, tmp_path, calls=calls)
    assert again.result.best == "mockllm/good"
    assert len(calls) == len(set(calls))


def test_a_model_whose_samples_fail_leaves_and_is_named(tmp_path):
    race = Race(MODELS, SAMPLES, patience=0.2)
    evaluate(race, tmp_path, fails_on="mockllm/good", fail_on_error=False)
    assert race.result.states["mockllm/good"] == "withdrawn"
    assert race.result.best == "mockllm/fair"


@pytest.mark.parametrize(
    "given",
    [
        {"models": ["mockllm/other"]},
        {"epochs": 2},
        {"dataset": SAMPLES},
        {"limit": 5},
        {"scorer": [match(), includes()]},
    ],
)
def test_another_evaluation_than_that_of_the_race_is_refused(given, tmp_path):
    race = Race(MODELS, SAMPLES)
    if "dataset" in given:
        given = {"dataset": race.dataset[::-1]}
    logs = evaluate(race, tmp_path, **given)
    assert all(log.status == "error" for log in logs)
    assert race.result.evaluations == 0


@pytest.mark.parametrize(
    ("models", "samples", "name"),
    [
        (MODELS, [], "samples"),
        (MODELS, ["text"], "samples"),
        (MODELS, [Sample(input="a", id=1), Sample(input="b", id=1)], "samples"),
        ([], SAMPLES, "models"),
    ],
)
def test_a_race_that_means_nothing_is_refused(models, samples, name):
    with pytest.raises(InvalidArgument) as error:
        Race(models, samples)
    assert error.value.name == name
