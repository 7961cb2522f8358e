"""`fairtrial token`: who may use a service, and what each person or machine may do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fairtrial.cli.display import print_rows
from fairtrial.cli.durations import parse_seconds
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.opening import required, storage_option
from fairtrial.cli.output import answer, emit, json_option, say
from fairtrial.core.files import create_private
from fairtrial.study import Tokens

if TYPE_CHECKING:
    from fairtrial.study.tokens import Scope, Token

__all__ = ["create", "list_", "revoke"]

_SCOPES = ("read", "run", "admin")


def _expiry(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> datetime | None:
    """Return when a token expires: after a time such as 90d, or at the start of a day (UTC)."""
    if given is None:
        return None
    after = parse_seconds(given)
    try:
        if after is not None:
            return datetime.now(UTC) + timedelta(seconds=after)
        moment = datetime.fromisoformat(given)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"must be a time such as 12h or 90d, or a date such as 2027-01-31; got {given!r}"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.command(epilog=EPILOG)
@click.option("--name", required=True, help="Name of the user of the token, as the log shows it.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    required=True,
    help="read: see everything. run: ask and tell, without seeing results of others. admin: both, "
    "and create and stop studies. Can be repeated.",
)
@click.option(
    "--study",
    "studies",
    metavar="NAME",
    multiple=True,
    help="Only this study, or studies whose names begin like this: 'heart-*'. Can be repeated.",
)
@click.option(
    "--expires",
    metavar="TIME",
    callback=_expiry,
    help="When the token expires: 12h, 90d, or a date such as 2027-01-31.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the token to this new file, readable by you only, instead of printing it.",
)
@storage_option
@json_option
def create(
    name: str,
    scopes: tuple[Scope, ...],
    studies: tuple[str, ...],
    expires: datetime | None,
    token_file: Path | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Create a token. It is shown only once: the storage keeps only its hash."""
    if token_file is not None:
        _make_file(token_file)
    try:
        with Tokens(required(storage)) as tokens:
            made, secret = tokens.create(name, scopes, studies=studies or None, expires_at=expires)
    except BaseException:
        if token_file is not None:
            token_file.unlink(missing_ok=True)
        raise
    if token_file is not None:
        token_file.write_text(f"{secret}\n", encoding="ascii")
    if as_json:
        shown = {} if token_file is not None else {"token": secret}
        emit({**_document(made), **shown})
    elif token_file is None:
        say(
            f"{name}: {_allowed(made)}. The token is shown only once; keep it like a password:",
            err=True,
        )
        say(secret)
    else:
        say(f"{name}: {_allowed(made)}. The token is in {token_file}")


def _make_file(path: Path) -> None:
    """Create an empty file that only its owner may read; refuse an existing one."""
    if not create_private(path):
        raise click.UsageError(f"{path} exists: give another name, or remove it")


@click.command("list", epilog=EPILOG)
@storage_option
@json_option
def list_(storage: str | None, as_json: bool) -> None:
    """List the tokens in a storage, including invalid ones. The secret texts are not shown."""
    with Tokens(required(storage), create=False) as tokens:
        found = tokens.all()
    if as_json:
        emit({"tokens": [_document(item) for item in found]})
        return
    rows = [
        (
            item.name,
            " ".join(item.scopes),
            "all" if item.studies is None else " ".join(item.studies),
            _state(item),
            _day(item.expires_at),
            _day(item.last_used_at),
        )
        for item in found
    ]
    print_rows(("token", "scopes", "studies", "state", "expires", "last used"), rows)


@click.command(epilog=EPILOG)
@click.option("--name", required=True, help="Name of the token to revoke.")
@storage_option
@json_option
def revoke(name: str, storage: str | None, as_json: bool) -> None:
    """Revoke a token.

    It is invalid from the next request on, and its name cannot be used again.
    """
    with Tokens(required(storage), create=False) as tokens:
        revoked = tokens.revoke(name)
    answer(as_json, _document(revoked), f"{name}: revoked")


def _allowed(made: Token) -> str:
    what = " and ".join("administer" if scope == "admin" else scope for scope in made.scopes)
    where = "all studies" if made.studies is None else ", ".join(made.studies)
    until = "" if made.expires_at is None else f", until {made.expires_at:%Y-%m-%d %H:%M} UTC"
    return f"may {what} {where}{until}"


def _state(item: Token) -> str:
    if item.revoked_at is not None:
        return "revoked"
    return "valid" if item.is_valid(datetime.now(UTC)) else "expired"


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"


def _document(item: Token) -> dict[str, Any]:
    moments = {
        name: None
        if (at := cast("datetime | None", getattr(item, name))) is None
        else at.isoformat()
        for name in ("created_at", "expires_at", "revoked_at", "last_used_at")
    }
    return {
        "name": item.name,
        "scopes": list(item.scopes),
        "studies": None if item.studies is None else list(item.studies),
        "state": _state(item),
        **moments,
    }
