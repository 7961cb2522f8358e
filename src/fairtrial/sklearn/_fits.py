"""One pull of a search: a candidate is fitted and scored on one split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score
from sklearn.utils.parallel import delayed

from fairtrial.errors import InvalidArgument
from fairtrial.sklearn._candidates import HOW_TO_RACE_MODELS
from fairtrial.sklearn._splits import Split

__all__ = ["Fits", "check_settings", "with_setting"]


def with_setting(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """Return an unfitted copy of an estimator with a candidate's settings."""
    return clone(estimator).set_params(**clone(dict(setting), safe=False))


def check_settings(estimator: Any, settings: Sequence[Mapping[str, Any]]) -> None:
    """Refuse settings that the estimator does not have."""
    for setting in settings:
        try:
            with_setting(estimator, setting)
        except (AttributeError, TypeError, ValueError) as error:
            models = any(hasattr(value, "fit") for value in setting.values())
            accepted = f"must be settings of the estimator{HOW_TO_RACE_MODELS if models else ''}"
            raise InvalidArgument("candidates", f"{accepted}: {error}") from None


@dataclass(frozen=True)
class Fits:
    """Fits of candidates, in the way of scikit-learn's own searches.

    Parameters
    ----------
    estimator, X, y, scorer
        The estimator, its data, and the function that scores it.
    settings : sequence of dict
        The candidates.
    fit_params, score_params : mapping
        Arguments passed to `fit`, and to the scorer.
    return_train_score : bool
        Whether to score the training part as well.
    """

    estimator: Any
    X: Any
    y: Any
    scorer: Any
    settings: Sequence[dict[str, Any]]
    fit_params: Mapping[str, Any]
    score_params: Mapping[str, Any]
    return_train_score: bool

    def task(self, candidate: int, split: Split) -> Any:
        """Return the task that fits a candidate on a split, for `joblib.Parallel`."""
        return delayed(_evaluate)(
            clone(self.estimator),
            self.X,
            self.y,
            split,
            scorer=self.scorer,
            parameters=self.settings[candidate],
            fit_params=self.fit_params,
            score_params=self.score_params,
            return_train_score=self.return_train_score,
        )


def _evaluate(
    estimator: Any, X: Any, y: Any, split: Split, **how: Any
) -> dict[str, Any] | Exception:
    """Return scores and times by their names in `cv_results_`, or the error."""
    train, test = split
    try:
        told = _fit_and_score(
            estimator,
            X,
            y,
            train=train,
            test=test,
            verbose=0,
            return_times=True,
            error_score="raise",
            **how,
        )
    except Exception as error:  # noqa: BLE001 - any failure of a user's model is an outcome
        return error
    scores = {
        f"{part}_{name}": value
        for part in ("test", "train")
        for name, value in _by_name(told.get(f"{part}_scores", {})).items()
    }
    return {"fit_time": told["fit_time"], "score_time": told["score_time"], **scores}


def _by_name(scores: Any) -> Mapping[str, Any]:
    return scores if isinstance(scores, Mapping) else {"score": scores}
