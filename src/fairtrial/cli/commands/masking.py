"""The commands of `fairtrial study` for masked studies: kits, and what is behind the codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fairtrial.cli.commands.by_hand import actor_option, check_table, force_option, pull_named
from fairtrial.cli.display import print_rows
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.opening import open_study, storage_option
from fairtrial.cli.output import answer, emit, json_option
from fairtrial.core.files import create_private
from fairtrial.core.sheets import read_sheet
from fairtrial.core.tables import write_table
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, NotSupported, StorageError
from fairtrial.study import Study

__all__ = ["mask", "supply", "unmask"]


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("number", type=click.IntRange(min=1))
@click.option(
    "--csv",
    "--xlsx",
    "table",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Write the new kits to this table, for whoever packs them: their numbers and arms.",
)
@force_option
@actor_option
@storage_option
@json_option
def supply(
    study: str,
    number: int,
    table: Path,
    force: bool,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Add NUMBER kits of each arm to the masked study STUDY.

    Their numbers are drawn at random, so that they show nothing.
    """
    check_table(table, force)
    with open_study(study, storage) as opened:
        kits = opened.supply(number, actor=actor).body["kits"]
        rows = sorted((kit, arm) for arm, own in kits.items() for kit in own)
        write_table(table, ["kit", "arm"], rows)
        done = {"study": opened.name, "kits": len(rows), "table": str(table)}
        answer(as_json, done, f"{opened.name}: {plural(len(rows), 'kit')} in {table}")


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("names", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("path", metavar="LIST", type=click.Path(path_type=Path, dir_okay=False))
@actor_option
@storage_option
@json_option
def mask(
    study: str, names: Path, path: Path, actor: str | None, storage: str | None, as_json: bool
) -> None:
    """Seal what the arms of the masked study STUDY are: write its unmasking list to the file LIST.

    NAMES is a table with the columns arm and name: what is behind each code. Delete it afterwards,
    and keep LIST apart from the storage. Only `unmask` opens it, and records every access.
    """
    if not path.parent.is_dir():
        raise click.UsageError(f"{path.parent} is not a folder")
    with open_study(study, storage) as opened:
        if not isinstance(opened, Study):
            raise NotSupported("the unmasking list is made where the storage is, not by a service")
        named = _names_in(names)
        # The list is made once: find out before whether the file can be written.
        if not create_private(path):
            raise click.UsageError(f"{path} exists: give another name")
        try:
            sealed = opened.seal_names(named, actor=actor)
        except BaseException:
            path.unlink()
            raise
        path.write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
        said = f"{opened.name}: the unmasking list is in {path}; now delete {names}"
        answer(as_json, {"study": opened.name, "list": str(path)}, said)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("path", metavar="LIST", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("pull", required=False)
@click.option("--reason", required=True, help="Why (recorded).")
@actor_option
@storage_option
@json_option
def unmask(
    study: str,
    path: Path,
    pull: str | None,
    reason: str,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Show what a pull of the masked study STUDY is, or what all codes are; record who asked.

    LIST is the unmasking list, which `mask` wrote. PULL is the id of a pull, or the number of its
    participant. Give --actor, unless a service keeps the study: it records the name of the token.
    """
    sealed = _list_in(path)
    with open_study(study, storage) as opened:
        named = None if pull is None else pull_named(opened, pull)
        found = opened.unmask(sealed, reason, pull=named, actor=actor)
        if as_json:
            emit({"study": opened.name, "names": found})
            return
        print_rows(("arm", "name"), list(found.items()))


def _names_in(path: Path) -> dict[str, str]:
    """Return what is behind each code, from a table."""
    sheet = read_sheet(path)
    arms, names = sheet.labels("arm"), sheet.labels("name")
    if len(set(arms)) < len(arms):
        raise InvalidArgument("NAMES", "must have each arm once", path.name)
    return dict(zip(arms, names, strict=True))


def _list_in(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidArgument("LIST", "must be an unmasking list, as `fairtrial study mask` writes")
    return content
