"""A user with a browser that runs no scripts, as far as tests need one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

with warnings.catch_warnings():
    # It recommends a successor of httpx, and uses that where it is installed.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient, httpx

from fairtrial.server.app import create_app
from fairtrial.study import Tokens
from tests.server.pages.sites import SCOPES


class _Forms(HTMLParser):
    """Reads the forms of a page: where each is sent, and what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self._form: dict[str, str] = {}
        self._choice = ""
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = self.forms.setdefault(known["action"], {})
        elif tag == "input":
            self._form[known["name"]] = known.get("value", "")
        elif tag == "select":
            self._choice = known["name"]
        elif tag == "option" and (self._choice not in self._form or "selected" in known):
            self._form[self._choice] = known["value"]
        elif tag == "textarea":
            self._area = known["name"]
            self._form[self._area] = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self._form[self._area] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""


def forms_of(page: str) -> dict[str, dict[str, str]]:
    """Return the fields of every form of a page, by where it is sent."""
    reader = _Forms()
    reader.feed(page)
    return reader.forms


class Person:
    """A client that logs in, reads pages, and sends their forms.

    Parameters
    ----------
    client : TestClient
        A client that runs the service; this person has their own cookies.
    token : str
        The token for the login.
    """

    def __init__(self, client: TestClient, token: str) -> None:
        self.client = httpx.Client(transport=client._transport, base_url=client.base_url)
        self.token = token
        self.client.post("/login", data={"token": token})

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def send(self, page: str, action: str, **typed: Any) -> httpx.Response:
        """Fill in a form of a page and send it."""
        return self.client.post(action, data=forms_of(self.get(page).text)[action] | typed)


@contextmanager
def visited(storage: Any) -> Iterator[dict[str, Person]]:
    """Yield by name the visitors of a service: one for each of `SCOPES`, and a stranger."""
    with TestClient(create_app(storage), base_url="http://127.0.0.1") as client:
        tokens = Tokens(storage)
        found = {
            name: Person(client, tokens.create(name, scopes)[1]) for name, scopes in SCOPES.items()
        }
        secret = tokens.create("stranger", ["read", "run"], studies=["other*"])[1]
        yield found | {"stranger": Person(client, secret)}
