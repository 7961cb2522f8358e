"""The container recipe, the compose file and the systemd unit name only what exists."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import click
import pytest
import yaml

from fairtrial.cli.app import app
from fairtrial.server import create_app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "fairtrial.service").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def instructions(name):
    """Return the arguments of an instruction, wherever it is in the recipe."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.split(" ", 1)[1].strip() for line in joined.splitlines() if line.startswith(name)]


def require_understood(words):
    """Fail if the command does not know a subcommand or an option in these words."""
    command, words = app, list(words)
    while isinstance(command, click.Group):
        context = click.Context(command)
        found = command.get_command(context, words.pop(0))
        assert found is not None, words
        command = found
    command = command.load()
    options = {name for each in command.params for name in each.opts}
    used = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert set(used) <= options, (command.name, set(used) - options)
    # Only parsed, not carried out: values are checked as far as click checks them.
    command.make_context(command.name, words, resilient_parsing=True)


def settings_of_unit(name):
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


# ------------------------------------------------------------------------- the container


def test_all_that_the_container_copies_exists():
    for copied in instructions("COPY"):
        *sources, _ = [word for word in copied.split() if not word.startswith("--")]
        if "--from=build" not in copied:
            assert all((ROOT / source).exists() for source in sources), copied


def test_the_container_s_command_is_one_of_ours():
    [entry], [command] = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["fairtrial"]
    require_understood(json.loads(command))


def test_the_container_runs_as_nobody_who_may_do_anything():
    assert instructions("USER") == ["fairtrial"]
    assert "--uid 10001" in DOCKERFILE
    assert json.loads(instructions("VOLUME")[0]) == ["/data", "/cache"]
    assert "ADD " not in DOCKERFILE


def test_the_health_check_asks_for_a_route_that_exists():
    paths = set(create_app("memory://").openapi()["paths"])
    for text in (DOCKERFILE, json.dumps(COMPOSE)):
        for path in re.findall(r"127\.0\.0\.1:8000(/[\w/]+)", text):
            assert path in paths
    assert "/health/ready" in DOCKERFILE


def test_the_container_installs_the_versions_that_are_tested():
    installed, tested = (
        dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", path.read_text(), re.MULTILINE))
        for path in (DEPLOY / "requirements.lock", ROOT / "requirements.lock")
    )
    assert installed.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["server"], *extras["postgres"]]
    names = {re.split(r"[\[>=<~!;]", each)[0].strip() for each in wanted}
    assert names <= installed.keys()


def test_all_that_the_container_fetches_is_pinned_by_a_hash():
    for command in instructions("RUN"):
        for part in command.split("&&"):
            if "pip install" in part or "pip wheel" in part:
                is_ours = "--no-deps" in part and ("--no-index" in part or "--no-build-iso" in part)
                assert is_ours or "--require-hashes" in part, part
    for file in ("requirements.lock", "build.lock"):
        blocks = re.split(r"\n(?=\S)", (DEPLOY / file).read_text().strip())
        assert all("--hash=sha256:" in block for block in blocks)


def test_the_build_backend_is_locked_with_all_that_it_needs():
    locked = dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", (DEPLOY / "build.lock").read_text(), re.M))
    built_by = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wanted = [re.split(r"[\[>=<~!;]", each)[0].strip() for each in built_by]
    assert wanted
    while wanted:
        name = wanted.pop()
        assert locked[name] == version(name)
        wanted += [
            re.split(r"[ \[>=<~!;(]", each)[0]
            for each in requires(name) or ()
            if "python_version <" not in each and "extra ==" not in each
        ]


# ------------------------------------------------------------------------ the compose file


def test_the_compose_file_names_only_what_it_declares():
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"], name
        for secret in service.get("secrets", []):
            source = secret["source"] if isinstance(secret, dict) else secret
            assert source in COMPOSE["secrets"], name
        assert set(service.get("depends_on", {})) <= COMPOSE["services"].keys()
    build = COMPOSE["services"]["service"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).exists()


def test_the_composed_service_is_hardened_and_on_the_loopback_address_only():
    service = COMPOSE["services"]["service"]
    require_understood(service["command"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "ports" not in COMPOSE["services"]["database"]
    written = {volume.partition(":")[2] for volume in service["volumes"]}
    assert "NUMBA_CACHE_DIR=/cache" in DOCKERFILE
    assert "/cache" in written


def test_the_database_is_ready_only_once_it_is_reached_as_the_service_reaches_it():
    # While the image creates a new database, a temporary server answers on the socket, then ends.
    command = COMPOSE["services"]["database"]["healthcheck"]["test"]
    assert command[:2] == ["CMD", "pg_isready"]
    assert any(word.startswith("--host=") for word in command)


def test_no_secret_is_in_the_files():
    for path in DEPLOY.iterdir():
        assert not re.search(r"ft_[\w-]{43}|://[^:@/\s]+:[^@\s]+@", path.read_text()), path
    assert (DEPLOY / ".gitignore").read_text().split() == ["database-password", "pgpass"]


@pytest.mark.parametrize("text", [DOCKERFILE, UNIT, (DEPLOY / "compose.yaml").read_text()])
def test_commands_in_comments_are_ours(text):
    joined = text.replace(" \\\n#", " ")
    for words in re.findall(
        r"(?:bin/fairtrial|run --rm service) ((?:token|serve|study) .*)", joined
    ):
        require_understood(shlex.split(words))


def test_the_environment_variable_of_the_storage_is_the_command_s():
    serve = app.commands["serve"].load()
    [storage] = [each for each in serve.params if "--storage" in each.opts]
    assert storage.envvar == "FAIRTRIAL_STORAGE"
    assert "FAIRTRIAL_STORAGE" in DOCKERFILE
    assert "FAIRTRIAL_STORAGE" in UNIT
    assert "FAIRTRIAL_STORAGE" in COMPOSE["services"]["service"]["environment"]


# ------------------------------------------------------------------------ the systemd unit


def test_the_unit_s_command_is_one_of_ours():
    [command] = settings_of_unit("ExecStart")
    program, *words = shlex.split(command)
    assert program == "/opt/fairtrial/bin/fairtrial"
    require_understood(words)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    unit = tmp_path / "fairtrial.service"
    unit.write_text(UNIT.replace("/opt/fairtrial/bin/fairtrial", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr
    exposure = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit]
    done = subprocess.run(exposure, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]


# --------------------------------------------------------------- the folder of compiled code


def test_compiled_code_goes_where_the_container_lets_it(tmp_path):
    code = "from fairtrial.core.philox import philox_uniform as u; u(1, 2, 3, 4)"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "FAIRTRIAL_KERNELS": "compile"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert list(tmp_path.rglob("*.nbi"))
