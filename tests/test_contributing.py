"""CONTRIBUTING names folders, files, classes and functions; all of them exist."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from fairtrial.core.family import FAMILIES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/fairtrial"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
OVERVIEW = TEXT[TEXT.index("## Overview of the code") : TEXT.index("## Tests")]

QUOTED = re.findall(r"`([^`\n]+)`", OVERVIEW)
PATHS = sorted({one for one in QUOTED if re.fullmatch(r"[\w/.-]+(\.\w+|/)", one) and "/" in one})
PLACED = sorted(set(re.findall(r"`([A-Za-z_][\w.]*)` in `([\w/]+\.py)`", OVERVIEW)))
METHODS = sorted({one for one in QUOTED if re.fullmatch(r"[A-Z][a-z]\w+\.[a-z_]\w*", one)})


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def found(name: str) -> Path | None:
    places = (PACKAGE / name, ROOT / name)
    return next((place for place in places if place.exists()), None)


def test_the_overview_is_read_whole():
    assert len(PATHS) > 60
    assert len(PLACED) > 20
    assert len(METHODS) > 20


@pytest.mark.parametrize("name", PATHS)
def test_a_file_or_folder_that_is_named_exists(name):
    assert found(name), f"CONTRIBUTING.md names {name}, which does not exist"


@pytest.mark.parametrize(("name", "path"), PLACED)
def test_a_name_is_in_the_file_that_is_named_with_it(name, path):
    place = found(path) or next(PACKAGE.glob(f"*/{path}"))
    # The class itself may inherit what stands there.
    own = name.rpartition(".")[2]
    assert re.search(rf"\b{own}\b", source(place)), f"{path} has no {own}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_named_exists(name):
    owner, method = name.split(".")
    texts = [source(path) for path in PACKAGE.rglob("*.py")]
    assert any(re.search(rf"^class {owner}\b", text, re.MULTILINE) for text in texts)
    pattern = rf"^    (async def|def) {method}\b|^    {method}\s*[:=]"
    assert any(re.search(pattern, text, re.MULTILINE) for text in texts)


MARKED = (*FAMILIES, "simulation", "sklearn")
PARTS = set(
    re.findall(r"`(\w+)(?:\.py)?`", TEXT[TEXT.index("| part |") : TEXT.index("**Underscores.**")])
)


def names_in(path: Path) -> set[str]:
    """Return the names that a module offers: its `__all__`, or else all that it defines."""
    tree = ast.parse(source(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


@pytest.mark.parametrize("folder", MARKED)
def test_a_module_has_an_underscore_if_it_is_no_part_and_has_no_public_name(folder):
    public = set(import_module(f"fairtrial.{folder}").__all__)
    for path in (PACKAGE / folder).glob("[!_]*.py"):
        assert path.stem in {*PARTS, "compiling"} or names_in(path) & public, path
    for path in (PACKAGE / folder).glob("_[!_]*.py"):
        assert not names_in(path) & public, path


def test_no_module_elsewhere_has_an_underscore():
    places = {path.relative_to(PACKAGE).parts[:-1] for path in PACKAGE.rglob("_[!_]*.py")}
    assert places <= {(folder,) for folder in (*MARKED, "plots")}
