"""Where the package is tried: roots of Debian that are made here, and this machine's Pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "matrix"

_SCRIPTS = Path("/usr/share/debootstrap/scripts")
_PACKAGES = "python3,python3-venv,ca-certificates"
_CONFIGURATION = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
"""What programs in a root need to reach the registries that this machine reaches."""

_ENTER = """
mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    mount --rbind /sys "$0/sys" && cd / && exec chroot "$0" "$@"
"""
"""The root is mounted over itself, so that programs in it find the kind of its file system."""


class Unavailable(Exception):
    """A place cannot be made on this machine; the message says why."""


@dataclass(frozen=True)
class Place:
    """A machine's Python, or that of a root.

    Attributes
    ----------
    name : str
        What the table calls it.
    python : str
        The interpreter, as a path inside the place.
    root : Path, optional
        The folder that becomes ``/``.
    """

    name: str
    python: str
    root: Path | None = None

    @property
    def home(self) -> Path:
        """The folder for our files, as this process sees it."""
        return (self.root or FOLDER) / "work" / self.name.replace(" ", "-")

    def inside(self, path: Path) -> str:
        """Return a path as programs in the place see it."""
        return f"/{path.relative_to(self.root)}" if self.root else str(path)

    def run(
        self, command: list[str], folder: Path, seconds: float, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder; return its status and what it printed.

        A command that takes longer is ended with everything that it started.
        """
        return subprocess.run(
            self._entering(command, folder),
            cwd=folder,
            env=_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )

    def stream(self, command: list[str], folder: Path) -> int:
        """Run a command that prints where we print, and return its status."""
        command = self._entering(command, folder)
        return subprocess.run(command, cwd=folder, env=_environment(), check=False).returncode

    def _entering(self, command: list[str], folder: Path) -> list[str]:
        if self.root is None:
            return command
        # The mounts and all processes end with the command.
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER]
        script = ["sh", "-c", 'cd "$0" && exec "$@"', self.inside(folder)]
        return [*enter, str(self.root), *script, *command]


def _environment() -> dict[str, str]:
    """Return our environment without what belongs to our Python and our terminal."""
    ours = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "NUMBA", "UV_", "PYENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def debian(suite: str, seconds: float) -> Place:
    """Return the root of a Debian, which is made if it does not exist yet.

    Raises
    ------
    Unavailable
        If it cannot be made here, or not in that time.
    """
    root = FOLDER / suite
    place = Place(f"Debian {suite}", "/usr/bin/python3", root)
    if not (root / "ready").exists():
        if os.geteuid() != 0:
            raise Unavailable("only root can make it")
        FOLDER.mkdir(parents=True, exist_ok=True)
        _fill(root, suite, seconds)
        for name in filter(os.path.exists, _CONFIGURATION):
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, root / name[1:])
        (root / "ready").touch()
    if place.run(["true"], root, 30).returncode != 0:
        raise Unavailable("programs cannot be started in it (unshare, mount or chroot is refused)")
    return place


def _fill(root: Path, suite: str, seconds: float) -> None:
    if shutil.which("debootstrap") is None:
        for job in (["update"], ["install", "-y", "--no-install-recommends", "debootstrap"]):
            subprocess.run(["apt-get", "-q", *job], capture_output=True, check=False)
    if shutil.which("debootstrap") is None:
        raise Unavailable("debootstrap is missing, and apt-get cannot install it")
    if root.exists():
        shutil.rmtree(root)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", suite, str(root)]
    command.append(_mirror())
    if not (_SCRIPTS / suite).exists():
        command.append(str(_SCRIPTS / "sid"))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"debootstrap took more than {seconds:.0f} seconds") from None
    if done.returncode != 0:
        raise Unavailable(f"debootstrap failed: {done.stdout.strip().splitlines()[-1:]}")


def _mirror() -> str:
    """Return the address from which apt installs Debian's own packages here."""
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)|$(REPO_URI)|$(ORIGIN)"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in shown.splitlines():
        _, address, origin = line.split("|")
        if origin == "Debian" and "security" not in address:
            return address.rstrip("/")
    raise Unavailable("apt-get names no mirror of Debian")


def interpreters(versions: Sequence[str]) -> list[Place]:
    """Return the Pythons of this machine that start, one of each of these versions."""
    found: dict[str, str] = {}
    shims = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    for wanted in versions:
        for command in [f"python{wanted}", *map(str, shims)]:
            if _version(command) == wanted:
                found.setdefault(wanted, command)
    return [Place(f"Python {version}", command) for version, command in found.items()]


def _version(command: str) -> str | None:
    script = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [command, "-c", script], cwd="/", capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
