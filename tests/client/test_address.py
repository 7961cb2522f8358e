import pytest

import fairtrial as ft
from fairtrial.client.address import parse_address
from fairtrial.errors import InvalidArgument
from tests.messages import raises

TOKEN = "ft_" + 43 * "x"


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://trials.example.org", "https://trials.example.org"),
        ("https://trials.example.org:8443/fair/", "https://trials.example.org:8443/fair"),
        ("HTTP://localhost:8765", "HTTP://localhost:8765"),
        ("http://127.0.0.2:1", "http://127.0.0.2:1"),
        ("http://[::1]:8765", "http://[::1]:8765"),
    ],
)
def test_an_address_may_be_encrypted_or_this_machine(url, clean):
    assert parse_address(url).url == clean


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.7",
        "http://localhost.example.org",
        "http://127.0.0.1.example.org",
        "http://127.1",
        "http://0.0.0.0",
    ],
)
def test_a_token_is_not_sent_unencrypted_to_another_machine(url):
    with raises(InvalidArgument, "url"):
        ft.connect(url, TOKEN)
    assert ft.connect(url, TOKEN, allow_plain=True).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("", "trials.example.org", "ftp://x", "sqlite:///x.db", "https://", "https:///x", None, 3),
        *("https://x:99999", "https://[::1", "https://x/?a=b", "https://x/#a", "https://x\n.org"),
    ],
)
def test_what_is_no_address_is_refused(url):
    with raises(InvalidArgument, "url", given=url):
        ft.connect(url, TOKEN)


def test_a_password_in_an_address_is_refused_and_not_shown():
    with raises(InvalidArgument) as caught:
        ft.connect("https://ana:secret@example.org", TOKEN)
    assert "secret" not in str(caught.value)
