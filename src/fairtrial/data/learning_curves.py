"""Learning curves of classifiers as a race: which one is best when trained on all data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from statistics import pstdev
from typing import Any, Literal

from fairtrial.core.validation import check_choice

__all__ = ["learning_curves"]

TASKS = ("letter", "mfeat-factors", "mfeat-fourier")

_PATH = Path(__file__).parent / "learning_curves" / "learning_curves.json.gz"


def learning_curves(
    task: Literal["letter", "mfeat-factors", "mfeat-fourier"] = "letter",
) -> dict[str, Any]:
    """Return 20 classifiers that learn one task, with real accuracies and training times.

    A curve is one classifier on one random split of the data, trained on more and more of it:
    the accuracy after each size is a reading, the last one is the outcome. Training on a size
    comes after training on all smaller ones, so the time of a curve is the sum of their times.

    The best two of each task:

    - letter: ExtraTrees .9720 (std .004), RandomForest .9634;
    - mfeat-factors: LinearDiscriminantAnalysis .9823, RidgeClassifier .9784 (std .011);
    - mfeat-fourier: SVC_poly .8645 (std .020), SVC_rbf .8514.

    Parameters
    ----------
    task : {"letter", "mfeat-factors", "mfeat-fourier"}
        The task that is learned.

    Returns
    -------
    dict of str to dict
        ``problem``: the arguments ``arms`` and ``noise_std`` of a `fairtrial.delayed.Problem`;
        the latter is each arm's standard deviation in these records, at least one row of
        the validation data. ``table``: the columns of a `fairtrial.delayed.CurveEnvironment`,
        which are ``arm``, ``curve`` (number of the split), ``elapsed`` (seconds), ``value``
        (accuracy) and ``size`` (rows trained on).

    Raises
    ------
    InvalidArgument
        If `task` is unknown.

    Notes
    -----
    Points to note:

    - **Early accuracies are biased low**, by an amount that differs between arms and shrinks with
      the size: as readings they fit neither ``"unbiased"`` nor ``"biased"`` feedback, and no
      deviation makes them ``"refining"`` ones of mean zero. Only ``"full"`` is covered by a proof.
    - **Curves cross.** On letter KNeighbors is 14th at the first size and 3rd at the last; on
      mfeat-fourier SVC_rbf goes from 7th to 2nd.
    - **Costs differ** by a factor of 20,000 and more within one task.
    - Early and late accuracies of the same split are hardly correlated: an early reading informs
      about the arm, not about the split.

    References
    ----------
    F. Mohr, T. J. Viering, M. Loog, J. N. van Rijn, "LCDB 1.0: an extensive learning curves
    database for classification tasks", ECML PKDD 2022. The data's origin and licence are in
    ``ORIGIN.md`` and ``LICENSE`` beside them.

    Examples
    --------
    >>> curves = learning_curves("letter")
    >>> len(curves["problem"]["arms"]), len(curves["table"]["value"])
    (20, 17465)
    >>> from fairtrial.delayed import CurveEnvironment, Problem
    >>> environment = CurveEnvironment(Problem(**curves["problem"]), curves["table"])
    >>> environment.truth.best
    ('ExtraTreesClassifier',)
    """
    check_choice("task", task, TASKS)
    with gzip.open(_PATH, "rt", encoding="utf-8") as stream:
        record = json.load(stream)[task]
    sizes, rows = record["sizes"], record["validation_rows"]
    noise, columns = [], _empty_table()
    for arm, by_size in record["learners"].items():
        hits = list(zip(*by_size["hits"], strict=True))
        times = list(zip(*by_size["seconds"], strict=True))
        for split, (own, seconds) in enumerate(zip(hits, times, strict=True)):
            _add_curve(columns, arm, split, sizes, seconds, [hit / rows for hit in own])
        noise.append(max(pstdev([own[-1] / rows for own in hits]), 1.0 / rows))
    return {
        "problem": {"arms": list(record["learners"]), "noise_std": noise},
        "table": columns,
    }


def _empty_table() -> dict[str, list[Any]]:
    return {name: [] for name in ("arm", "curve", "elapsed", "value", "size")}


def _add_curve(
    columns: dict[str, list[Any]],
    arm: str,
    split: int,
    sizes: Sequence[int],
    seconds: Sequence[float],
    accuracies: Sequence[float],
) -> None:
    columns["arm"] += [arm] * len(sizes)
    columns["curve"] += [split] * len(sizes)
    columns["elapsed"] += accumulate(seconds)
    columns["value"] += accuracies
    columns["size"] += sizes
