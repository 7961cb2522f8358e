"""If a public function or class gets a wrong type of object, the error says what it accepts."""

import dataclasses
import importlib
import inspect
import math
import warnings

import pytest

from fairtrial import causal, subpopulations
from fairtrial.client import RemoteStudy
from fairtrial.core import Policy
from fairtrial.core.validation import check_error_probability
from fairtrial.errors import FairtrialError, InvalidArgument
from fairtrial.study import Study
from tests.testing.families import POLICIES

PACKAGES = (
    *("core", "simulation", "study", "plots", "confidence"),
    *("subpopulations", "linear", "delayed", "causal", "allocation"),
)
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
NOT_MADE_BY_USERS = ("Pull", "RemoteStudy", "Study", "StudyPull")
NONSENSE = (None, "x", 3, object())


def public_callables(package):
    module = importlib.import_module(f"fairtrial.{package}")
    for name in sorted(module.__all__):
        found = getattr(module, name)
        is_class = inspect.isclass(found)
        if is_class and (issubclass(found, BaseException) or inspect.isabstract(found)):
            continue
        if callable(found) and not getattr(found, "_is_protocol", False):
            yield name, found


def required(function):
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_nonsense_for_every_argument_is_answered_with_an_error_of_ours(
    package, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    raw = []
    for name, function in public_callables(package):
        for given in NONSENSE:
            by_name = {p.name: given for p in required(function) if p.kind == p.KEYWORD_ONLY}
            by_place = [given for p in required(function) if p.kind != p.KEYWORD_ONLY]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*by_place, **by_name)
            except FairtrialError:
                pass
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                raw.append(f"{name}({given!r}): {type(error).__name__}: {error}")
    assert raw == []


def is_record(function):
    """Return whether a class only holds fields: users read it, and do not make it."""
    return dataclasses.is_dataclass(function) or (
        inspect.isclass(function) and issubclass(function, tuple)
    )


@pytest.mark.parametrize("package", [*PACKAGES, "report", "client", "testing", "sklearn"])
def test_an_argument_that_nothing_takes_is_answered_with_an_error_that_names_it(package):
    silent = []
    for name, function in public_callables(package):
        kinds = {p.kind for p in inspect.signature(function).parameters.values()}
        if (
            name in NOT_MADE_BY_USERS
            or is_record(function)
            or inspect.Parameter.VAR_KEYWORD in kinds
        ):
            continue
        by_place = ["x" for p in required(function) if p.kind != p.KEYWORD_ONLY]
        by_name = {p.name: "x" for p in required(function) if p.kind == p.KEYWORD_ONLY}
        try:
            function(*by_place, **by_name, no_such_argument=1)
        except InvalidArgument as error:
            if error.name == "no_such_argument":
                continue
            silent.append(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            silent.append(f"{name}: {type(error).__name__}: {error}")
    assert silent == []


@pytest.mark.parametrize("row", POLICIES, ids=lambda row: row.name)
def test_what_a_policy_cannot_be_asked_for_is_named_and_changes_nothing(row):
    policy, _ = row.make()
    for ask in (lambda: policy.ask(stratum="x"), lambda: policy.ask(2, stratum="x")):
        with pytest.raises(InvalidArgument) as error:
            ask()
        assert (error.value.name, error.value.given) == ("stratum", "x")
    assert policy.asked == 0


ODD = (10**30, 2**53 + 1, -1, 1.5, "3", None, math.nan, math.inf, True)
"""Values of which each may be a mistake: too large, too small, or of another type."""

ABOUT_OTHERS = {"assigned": "losses", "margin": "skips", "n_blocks": "margin"}
"""Arguments that only make sense together with another one, which the error may name."""


def odd_answers(make, names, *, by_name=True):
    """Give each argument each odd value; return the answers that are no refusal (by its name)."""
    wrong = []
    for name in names:
        for given in ODD:
            try:
                made = make(**{name: given})
                if isinstance(made, Policy) and made.problem.family != "allocation":
                    made.ask(2)
            except InvalidArgument as error:
                if not by_name or name in error.name or error.name == ABOUT_OTHERS.get(name):
                    continue
                wrong.append(f"{name}={given!r}: {error}")
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                wrong.append(f"{name}={given!r}: {type(error).__name__}: {error}")
    return wrong


def each_class(of):
    """Return one row for each policy, or problem, of each kind."""
    return {of(row): row for row in POLICIES}.values()


@pytest.mark.parametrize(
    "row", each_class(lambda row: (row.policy, row.instance)), ids=lambda row: row.name
)
def test_an_odd_value_of_any_argument_of_a_policy_is_refused_by_name_or_taken(row):
    problem, _ = row.instance()
    names = inspect.signature(row.policy).parameters.keys() - {"problem"}
    assert odd_answers(lambda **given: row.policy(problem, **row.options | given), names) == []


@pytest.mark.parametrize("row", each_class(lambda row: row.instance), ids=lambda row: row.name)
@pytest.mark.filterwarnings("ignore:fairness_bound")
def test_an_odd_value_of_any_argument_of_a_problem_is_refused_or_taken(row):
    """Arguments of problems depend on each other, so another one may be named."""
    problem, _ = row.instance()
    names = inspect.signature(type(problem)).parameters
    assert odd_answers(problem.clone, names, by_name=False) == []


def test_a_count_is_one_that_a_float_holds_and_a_flag_is_true_or_false():
    problem = subpopulations.Problem(2, 1, floors=None, noise_std=1.0)
    assert subpopulations.BlockBetting(problem, max_pulls=2**53).max_pulls == 2**53
    with pytest.raises(InvalidArgument) as error:
        subpopulations.BlockBetting(problem, initial_pulls=2**53 + 1)
    assert (error.value.name, error.value.given) == ("initial_pulls", 2**53 + 1)
    chain, _ = causal.chain(0.5, {"a": [[0.9, 0.1]] * 2, "b": [[0.2, 0.8]] * 2}, [0.2, 0.9], 0.2)
    with pytest.raises(InvalidArgument) as error:
        causal.PlugIn(chain, budget=50, phased="no")
    assert (error.value.name, error.value.given) == ("phased", "no")


@pytest.mark.parametrize("row", POLICIES, ids=lambda row: row.name)
def test_a_confidence_in_place_of_delta_is_refused(row):
    problem, _ = row.instance()
    if "delta" in inspect.signature(row.policy).parameters:
        for delta in (0.5, 0.95, 1.0, 95):
            with pytest.raises(InvalidArgument) as error:
                row.policy(problem, **row.options | {"delta": delta})
            assert (error.value.name, error.value.given) == ("delta", delta)


def test_the_error_about_a_confidence_says_which_delta_was_meant():
    with pytest.raises(InvalidArgument) as error:
        check_error_probability("delta", 0.95)
    assert "did you mean 0.05?" in error.value.accepted.lower()


def methods_of(cls):
    """Return the public methods of a class that do not take any keyword."""
    for name, method in inspect.getmembers(
        cls, lambda it: inspect.isfunction(it) or inspect.ismethod(it)
    ):
        if name.startswith("_"):
            continue
        kinds = {one.kind for one in inspect.signature(method).parameters.values()}
        if VAR_KEYWORD not in kinds:
            yield name, method


@pytest.mark.parametrize("cls", [Study, RemoteStudy])
def test_a_method_of_a_study_refuses_a_keyword_that_it_does_not_take(cls):
    """The arguments do not fit, so the method itself is never entered."""
    study, silent = object.__new__(cls), []
    for name, method in methods_of(cls):
        given = () if inspect.ismethod(method) else (study,)
        needed = [one for one in required(method) if one.name != "self"]
        by_place = ["x" for one in needed if one.kind != one.KEYWORD_ONLY]
        by_name = {one.name: "x" for one in needed if one.kind == one.KEYWORD_ONLY}
        try:
            method(*given, *by_place, **by_name, no_such_argument=1)
        except InvalidArgument as error:
            if (error.name, error.given) == ("no_such_argument", 1):
                continue
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            silent.append(f"{name}: {type(error).__name__}: {error}")
    assert silent == []


def test_a_misspelled_or_missing_argument_of_a_study_is_named():
    problem = subpopulations.Problem(2, 1, floors=None, noise_std=1.0)
    with Study.create(
        problem, subpopulations.BlockBetting(problem), storage="memory://", name="x"
    ) as study:
        pull = study.ask()
        for call, name, meant in (
            (lambda: study.tell(pull, 0.5, acter="lab"), "acter", "'actor'"),
            (lambda: study.fail(pull, reasn="x"), "reasn", "'reason'"),
            (lambda: study.ask(grup="x"), "grup", ""),
            (lambda: study.stop(), "reason", "missing"),
        ):
            with pytest.raises(InvalidArgument) as error:
                call()
            assert error.value.name == name
            assert meant in error.value.accepted
        assert study.n_events == 1
