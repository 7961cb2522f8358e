import pytest

from fairtrial.client.tokens import read_token
from fairtrial.errors import InvalidArgument
from tests.messages import raises

TOKEN = "ft_" + 43 * "x"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def test_a_token_is_that_given_or_of_the_file_or_of_the_environment(file, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", "from-the-environment")
    assert read_token("given", file) == "given"
    assert read_token(None, file) == TOKEN
    assert read_token() == "from-the-environment"


def test_without_a_token_the_message_says_where_it_may_be(monkeypatch):
    monkeypatch.delenv("FAIRTRIAL_TOKEN", raising=False)
    with raises(InvalidArgument, "token"):
        read_token()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_is_refused(file, mode):
    file.chmod(mode)
    with raises(InvalidArgument, "token_file"):
        read_token(token_file=file)


@pytest.mark.parametrize("path", ["missing", ".", "x" * 5000, "a\0b"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, path):
    with raises(InvalidArgument, "token_file"):
        read_token(token_file=f"{tmp_path}/{path}")


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ü", "x" * 5000, 3, b"x"])
def test_what_no_header_can_carry_is_refused_and_not_shown(token):
    with raises(InvalidArgument, "token") as caught:
        read_token(token)
    assert "two words" not in str(caught.value)


def test_a_huge_file_is_not_read_whole(file):
    file.write_bytes(b"x" * 10_000_000)
    with raises(InvalidArgument, "token_file"):
        read_token(token_file=file)
