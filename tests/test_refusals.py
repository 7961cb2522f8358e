"""If a public function or class gets a wrong type of object, the error says what it accepts."""

import importlib
import inspect
import warnings

import pytest

from fairtrial.errors import FairtrialError

PACKAGES = (
    *("core", "simulation", "study", "plots", "confidence"),
    *("subpopulations", "linear", "delayed", "causal", "allocation"),
)
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
