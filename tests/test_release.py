"""What is published beside the package agrees with it: citation, conda recipe, templates."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from fairtrial.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
RECIPE = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())


def spaced(requirement):
    """Return a requirement as conda writes it.

    >>> spaced("numpy>=2.0")
    'numpy >=2.0'
    """
    return re.sub(r"\s*>=\s*", " >=", requirement)


def test_the_citation_has_the_keys_that_its_format_requires_and_the_version_of_the_package():
    required = {"authors", "cff-version", "message", "title"}
    assert required <= CITATION.keys()
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    # An author is an entity with a name, or a person with names.
    assert all("name" in author or "family-names" in author for author in CITATION["authors"])
    assert CITATION["version"] == __version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["authors"] == PROJECT["authors"]


def test_the_conda_recipe_requires_what_the_package_requires():
    python = spaced(f"python{PROJECT['requires-python']}")
    assert RECIPE["requirements"]["run"] == [python, *map(spaced, PROJECT["dependencies"])]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert RECIPE["requirements"]["host"] == [python, "pip", *map(spaced, build)]


def test_the_conda_recipe_describes_this_package():
    assert RECIPE["context"]["version"] == __version__
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    [command] = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(command)]


def test_the_conda_recipe_is_accepted_by_the_program_that_builds_it():
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build takes 80 MB")
    recipe = rattler.Stage0Recipe.from_yaml((ROOT / "recipe/recipe.yaml").read_text())
    [variant] = recipe.render(rattler.VariantConfig())
    package = variant.recipe.package
    assert (package.name, package.version) == ("fairtrial", __version__)
    assert list(variant.recipe.requirements.run) == RECIPE["requirements"]["run"]


def test_the_classifiers_are_known_to_pypi():
    from trove_classifiers import classifiers

    assert set(PROJECT["classifiers"]) <= classifiers


def test_the_address_of_the_project_is_in_all_its_places_or_in_none():
    site = (ROOT / "mkdocs.yml").read_text()
    places = [
        {"Documentation", "Source", "Issues", "Changelog"} <= PROJECT.get("urls", {}).keys(),
        "repository-code" in CITATION,
        "homepage" in RECIPE["about"],
        re.search(r"^site_url:", site, re.MULTILINE) is not None,
        re.search(r"^repo_url:", site, re.MULTILINE) is not None,
    ]
    assert len(set(places)) == 1


def test_every_python_that_is_classified_is_supported():
    versions = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name]
    assert f">={versions[0]}" == PROJECT["requires-python"]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_a_template_of_issues_has_the_keys_that_a_host_shows(name):
    text = (ROOT / f".github/ISSUE_TEMPLATE/{name}.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head.keys() == {"name", "about"}
