"""The workflow that publishes does what the recipe says, with no more rights than it needs."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FILE = ".github/workflows/release.yml"
WORKFLOW = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))
BUILD, PUBLISH = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["publish"]
RECIPE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Release\n")[2]
ACTIONS = [step["uses"] for job in (BUILD, PUBLISH) for step in job["steps"] if "uses" in step]


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_it_runs_the_commands_of_the_recipe_in_their_order():
    assert commands(BUILD) == ["./dev test", './dev release --tag "$GITHUB_REF_NAME"']
    assert commands(PUBLISH) == []
    assert f"`{FILE}`" in RECIPE
    assert "runs `./dev test` and `./dev release --tag vX.Y.Z`" in RECIPE.replace("\n", " ")


def test_only_a_tag_starts_it():
    # YAML 1.1 reads the key `on` as true.
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}


def test_only_the_job_that_uploads_can_identify_itself_and_it_runs_nothing_of_ours():
    assert WORKFLOW["permissions"] == {}
    assert BUILD["permissions"] == {"contents": "read"}
    assert PUBLISH["permissions"] == {"id-token": "write"}
    assert PUBLISH["environment"] == "pypi"
    assert "an environment `pypi`" in RECIPE
    assert PUBLISH["needs"] == "build"
    assert BUILD["steps"][0]["with"] == {"persist-credentials": False}


def test_what_was_built_is_uploaded_with_attestations():
    kept, taken = BUILD["steps"][-1]["with"], PUBLISH["steps"][0]["with"]
    assert (kept["name"], kept["path"]) == (taken["name"], taken["path"]) == ("dist", "dist/")
    last = PUBLISH["steps"][-1]
    assert last["uses"].partition("@")[0] == "pypa/gh-action-pypi-publish"
    assert last["with"] == {"attestations": True}
    assert "`pypa/gh-action-pypi-publish`" in RECIPE


def test_every_action_is_a_commit_with_its_version_beside_it():
    assert len(ACTIONS) == 5
    source = (ROOT / FILE).read_text(encoding="utf-8")
    for action in ACTIONS:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
        assert re.search(rf"uses: {action} # v\d+\.\d+\.\d+\n", source)
