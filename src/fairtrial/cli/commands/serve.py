"""`fairtrial serve`: serve the studies of a storage over HTTP, with a page for people."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from fairtrial import server
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.opening import required, storage_option
from fairtrial.cli.output import emit, json_option, say
from fairtrial.client.address import is_loopback
from fairtrial.client.tokens import read_secret_file
from fairtrial.study import Tokens
from fairtrial.study.location import parse_storage
from fairtrial.study.server_address import without_passwords

__all__ = ["serve"]

_SECRET_VARIABLE = "FAIRTRIAL_WEBHOOK_SECRET"  # noqa: S105 - a name, not a secret
_PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"
_HINT = "For example: fairtrial token create --name NAME --scope admin --storage STORAGE"


@click.command(epilog=EPILOG)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. If other machines can reach it, a valid token must exist.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="0: any free port.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Name by which other machines reach the service: trials.example.org. Can be repeated.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Address or network of a proxy that states the client's address and protocol in "
    "X-Forwarded-For and X-Forwarded-Proto: 127.0.0.1. Can be repeated. Nobody else is believed.",
)
@click.option(
    "--root-path",
    metavar="PATH",
    default="",
    help="Path under which a proxy shows the service: /trials.",
)
@click.option(
    "--webhook",
    metavar="URL",
    help="Notify this address when a study stops or needs attention; the messages are signed with "
    f"the secret in {_SECRET_VARIABLE} or --webhook-secret-file.",
)
@click.option(
    "--webhook-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the secret; only its owner may have the right to read it.",
)
@storage_option
@json_option
def serve(
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    root_path: str,
    webhook: str | None,
    webhook_secret_file: Path | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Run the service of a storage until Ctrl-C: studies over HTTP, and a page for people.

    Tokens decide who may do what: see `fairtrial token create`. If other machines should reach the
    service, put a proxy that speaks https in front of it.
    """
    address = required(storage)
    _require_lasting(address)
    hook = _checked_webhook(webhook, webhook_secret_file)
    has_token = _has_valid_token(address)
    _require_token(host, has_token)
    settings = server.Settings(hosts=allowed_hosts, root_path=root_path)
    app = server.create_app(address, settings=settings, webhook=hook)
    proxies = trusted_proxies or _proxies_of_environment()
    try:
        server.serve(
            *(app, host, port),
            lambda url: _announce(url, address, has_token, as_json),
            trusted_proxies=proxies,
        )
    except SystemExit:
        raise click.ClickException(
            f"the service cannot listen on {host}:{port}; the log above says why"
        ) from None


def _proxies_of_environment() -> tuple[str, ...]:
    given = os.environ.get(_PROXIES_VARIABLE, "")
    return tuple(part.strip() for part in given.split(",") if part.strip())


def _require_lasting(storage: str) -> None:
    """Raise if a storage does not last: it could not hold tokens, which another command makes."""
    if parse_storage(storage) is None:
        raise click.UsageError(
            "a service needs a storage in a file or in PostgreSQL: nobody could make a token for "
            f"{storage}"
        )


def _has_valid_token(storage: str) -> bool:
    with Tokens(storage) as tokens:
        return any(token.is_valid(datetime.now(UTC)) for token in tokens.all())


def _require_token(host: str, has_token: bool) -> None:
    """Raise if other machines could reach a service for which no token exists."""
    if not is_loopback(host) and not has_token:
        raise click.UsageError(
            f"--host {host} lets other machines reach the service, and no token is valid: make one "
            f"first. {_HINT}"
        )


def _checked_webhook(url: str | None, secret_file: Path | None) -> tuple[str, bytes] | None:
    if url is None:
        if secret_file is not None:
            raise click.UsageError("--webhook-secret-file needs --webhook")
        return None
    if secret_file is not None:
        return server.check_webhook(url, read_secret_file("--webhook-secret-file", secret_file))
    secret = os.environ.get(_SECRET_VARIABLE)
    if secret is None:
        raise click.UsageError(
            f"--webhook needs a secret: set {_SECRET_VARIABLE}, or give --webhook-secret-file"
        )
    return server.check_webhook(url, secret)


def _announce(url: str, storage: str, has_token: bool, as_json: bool) -> None:
    if as_json:
        document = {"page": f"{url}/", "storage": without_passwords(storage)}
        emit({**document, "has_token": has_token})
        return
    say(f"The page: {url}/")
    if not has_token:
        say(f"Nobody has a token yet. {_HINT}")
