"""``./dev release``: build and check what is published, and say what to do next."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from release.building import build, checksum, is_clean, unpack_commit
from release.contents import faults
from release.versions import later_steps, missing, versions

ROOT = Path(__file__).parent.parent


@click.command()
@click.option("--draft", is_flag=True, help="Only list what must be done before publication.")
@click.option("--tag", help="Also check that this is the tag of the version, such as v1.2.3.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT,
    hidden=True,
)
def main(draft: bool, tag: str | None, root: Path) -> None:
    """Build the distributions of the last commit into dist/, and check them."""
    found = _versions(root, tag)
    left = missing(root)
    if not is_clean(root):
        left.append("the folder has changes that are not in the last commit")
    if not draft:
        found += left
    _end_if(found)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "commit"
        tracked = unpack_commit(root, source)
        try:
            made = build(root, source, root / "dist")
        except ValueError as error:
            _end_if([str(error)])
    _end_if(faults(made[0], made[1], tracked))
    for file in made:
        click.echo(f"{checksum(file)}  dist/{file.name}")
    click.echo("Built twice with the same bytes, and checked.")
    if left:
        click.echo("\nA draft. Before publication:\n")
        click.echo("\n".join(f"- {what}" for what in left))
    click.echo(f"\nNext, by hand (CONTRIBUTING.md, Release):\n\n{later_steps(root)}")


def _versions(root: Path, tag: str | None) -> list[str]:
    stated = versions(root)
    version = stated["src/fairtrial/version.py"]
    found = [
        f"{file} states version {other or 'none'}, src/fairtrial/version.py {version}"
        for file, other in stated.items()
        if other != version
    ]
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}; version {version} needs v{version}")
    return found


def _end_if(found: list[str]) -> None:
    if found:
        for what in found:
            click.echo(f"not ready: {what}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="./dev release")
