"""Errors: their messages, how to catch them, and that they cross processes unchanged."""

import pickle

import pytest

from fairtrial import errors
from fairtrial.core import Pull
from fairtrial.errors import ConfigurationError, InvalidArgument, InvalidOutcome, MissingExtra


def test_every_error_is_of_the_family() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.FairtrialError)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InvalidArgument, ValueError),
        (InvalidOutcome, ValueError),
        (errors.NotSupported, NotImplementedError),
        (MissingExtra, ImportError),
        (errors.UnknownPull, LookupError),
        (errors.StudyNotFound, LookupError),
        (errors.StudyExists, ValueError),
        (errors.StorageError, OSError),
        (errors.ConflictingOutcome, errors.AlreadyTold),
        (ConfigurationError, ValueError),
    ],
)
def test_errors_can_be_caught_as_what_python_calls_them(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)


def test_a_long_value_is_cut_short() -> None:
    message = str(InvalidArgument("means", "must be short", "x" * 1000))
    assert message.startswith("means must be short; got 'xxx")
    assert message.endswith("...")
    assert len(message) < 200


def test_configuration_error_lists_all_mistakes() -> None:
    one = ConfigurationError(["policy.delta must be in (0, 1)"], "trial.toml")
    assert str(one) == "trial.toml: 1 mistake\n  policy.delta must be in (0, 1)"
    assert str(ConfigurationError(["a", "b"])) == "configuration: 2 mistakes\n  a\n  b"


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("delta", "must be in (0, 1)", 2.0),
        InvalidArgument("delta", "must be given", None),
        InvalidArgument("means", "must have shape (3); got shape (2)"),
        InvalidOutcome("reward", "must be finite", float("inf")),
        MissingExtra("to_frame", "data"),
        ConfigurationError(["a", "b"], "trial.toml"),
        errors.UnknownPull("never issued"),
        errors.TooFewUnits("assigned", "must have a unit of every arm", absent=[2, 3]),
        errors.TooFewUnits("assigned", "must determine every mean", undetermined="both"),
    ],
)
def test_errors_arrive_unchanged_from_another_process(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_an_error_about_a_pull_carries_the_labels_that_its_message_shows() -> None:
    pull = Pull(3, 1, {"arm": "b", "group": "x"})
    for one in (errors.UnknownPull, errors.AlreadyTold, errors.ConflictingOutcome):
        error = one.about(pull, "is gone")
        assert (error.labels, "arm='b'" in str(error)) == (pull.labels, True)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.labels) == (one, str(error), pull.labels)
        assert one("it is gone").labels is None
    assert errors.UnknownPull.about("no pull", "is gone").labels is None
