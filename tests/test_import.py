"""Importing the package is cheap: nothing heavy is imported before it is used."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fairtrial

HEAVY = ["numpy", "numba", "scipy", "pandas", "matplotlib", "click", "rich", "pydantic"]


def modules_after(code: str) -> set[str]:
    """Return the modules that a fresh process has loaded after running `code`."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy() -> None:
    assert modules_after("import fairtrial").isdisjoint(HEAVY)


def test_the_contract_and_simulation_load_neither_numba_nor_tables_nor_pictures() -> None:
    loaded = modules_after("import fairtrial\nfairtrial.Policy, fairtrial.simulate")
    assert "numpy" in loaded
    heavy = {"numba", "scipy.special", "scipy.optimize", "pandas", "matplotlib", "click"}
    assert loaded.isdisjoint(heavy)


@pytest.mark.parametrize("family", ["subpopulations", "linear", "allocation", "delayed"])
def test_a_problem_loads_no_compiled_code(family: str) -> None:
    loaded = modules_after(f"import fairtrial\nfairtrial.{family}.Problem")
    assert f"fairtrial.{family}.problem" in loaded
    assert loaded.isdisjoint({"numba", "pandas"})


def test_a_family_names_what_it_has_not_imported_yet() -> None:
    code = "import fairtrial\nassert 'Racing' in dir(fairtrial.delayed)"
    assert "fairtrial.delayed.policies" not in modules_after(code)
    assert "fairtrial.delayed.policies" in modules_after("from fairtrial.delayed import Racing")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fairtrial.delayed.nonsense  # noqa: B018


def test_errors_load_alone() -> None:
    assert modules_after("import fairtrial.errors").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", ["Policy", "Problem", "Pull", "Environment", "simulate"])
def test_public_names_are_found_when_used(name: str) -> None:
    assert name in dir(fairtrial)
    assert getattr(fairtrial, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fairtrial.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [
        ("httpx", "connect", "client"),
        ("fastapi", "server.create_app", "server"),
        ("matplotlib", "plots.means", "plots"),
        ("sklearn", "sklearn.RacingSearchCV", "sklearn"),
        ("inspect_ai", "inspect.Race", "inspect"),
        ("openfeature", "openfeature.StudyProvider", "openfeature"),
        ("mcp", "mcp.mcp_server", "mcp"),
    ],
)
def test_an_optional_package_that_is_missing_is_named_by_its_extra(package, name, extra) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import fairtrial, fairtrial.inspect, fairtrial.server\n"
        "import fairtrial.mcp, fairtrial.openfeature\n"
        f"try: fairtrial.{name}\n"
        "except fairtrial.errors.MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"fairtrial[{extra}]" in done.stdout


def test_a_race_needs_no_extra(tmp_path) -> None:
    """Without httpx, pandas and matplotlib, as after a plain installation."""
    program = (
        "import sys\n"
        "for name in ('httpx', 'pandas', 'matplotlib', 'fastapi', 'sklearn', 'psycopg'):\n"
        "    sys.modules[name] = None\n"
        "import fairtrial as ft\n"
        "scores = {'a': [0.1] * 60, 'b': [0.9] * 60}\n"
        f"result = ft.race(['a', 'b'], range(60), lambda name, item: scores[name][item],\n"
        f"                 reward_range=(0, 1), storage={str(tmp_path / 'race.db')!r},\n"
        "                 parallel=4, cost=1.0, max_cost=100, progress=True)\n"
        "print(result.best, result.rows()[0]['state'], len(result._repr_html_()) > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["b", "best", "True"], done.stderr


PACKAGE = Path(fairtrial.__file__).parent


def folder(file: Path) -> str:
    return str(file.parent.relative_to(PACKAGE.parent))


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("__init__.py")), ids=folder)
def test_every_public_name_is_in_the_source_for_type_checkers_and_the_reference(file) -> None:
    """Lazy names are imported when they are used; tools that only read need an import, too."""
    bound, public = set(), set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom | ast.Import):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            bound |= names
            if "__all__" in names and isinstance(node.value, ast.List | ast.Tuple):
                public.update(item.value for item in node.value.elts)
    assert public <= bound
