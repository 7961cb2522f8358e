import json
from datetime import UTC, datetime, timedelta

import pytest

from fairtrial.errors import StudyExists, StudyNotFound
from fairtrial.study import Tokens


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/trial.db"


def make(invoke, storage, *more, name="ward 3", scope="run"):
    return invoke("token", "create", "--storage", storage, "--name", name, "--scope", scope, *more)


def test_a_token_is_the_only_thing_on_standard_output(invoke, storage):
    result = make(invoke, storage, "--scope", "read")
    (secret,) = result.stdout.splitlines()
    assert "shown only once" in result.stderr
    with Tokens(storage) as tokens:
        token = tokens.find(secret)
    assert (token.name, token.scopes, token.studies) == ("ward 3", ("read", "run"), None)


@pytest.mark.parametrize("command", [("list",), ("revoke", "--name", "ward 3")])
def test_looking_for_tokens_makes_no_storage(invoke, tmp_path, command):
    path = tmp_path / "mistyped.db"
    result = invoke("token", *command, "--storage", f"sqlite:///{path}")
    assert result.exit_code != 0
    assert "no such file" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_token_may_be_for_some_studies_and_some_time(document, storage):
    found, _ = document(
        *("token", "create", "--storage", storage, "--name", "ana", "--scope", "read"),
        *("--study", "heart-*", "--study", "lung", "--expires", "90d"),
    )
    assert found["studies"] == ["heart-*", "lung"]
    until = datetime.fromisoformat(found["expires_at"]) - datetime.now(UTC)
    assert abs(until - timedelta(days=90)) < timedelta(minutes=5)
    with Tokens(storage) as tokens:
        assert tokens.find(found["token"]).name == "ana"


def test_a_date_is_the_start_of_that_day(document, storage):
    found, _ = document(
        *("token", "create", "--storage", storage, "--name", "a", "--scope", "run"),
        *("--expires", "2999-01-31"),
    )
    assert found["expires_at"] == "2999-01-31T00:00:00+00:00"


@pytest.mark.parametrize("expires", ["soon", "", "90", "-3d", "9" * 30 + "w", "2999-13-01"])
def test_a_time_that_is_none_is_refused(invoke, storage, expires):
    result = make(invoke, storage, "--expires", expires)
    assert result.exit_code == 2
    assert "2027-01-31" in result.stderr


def test_a_time_in_the_past_is_refused(invoke, storage):
    result = make(invoke, storage, "--expires", "2020-01-01")
    assert result.exit_code == 2
    assert "must be a time in the future" in result.stderr


def test_a_token_in_a_file_is_for_its_owner_only_and_not_on_the_screen(invoke, storage, tmp_path):
    file = tmp_path / "ward.token"
    result = make(invoke, storage, "--token-file", file)
    secret = file.read_text().strip()
    assert secret not in result.output
    assert file.stat().st_mode & 0o777 == 0o600
    with Tokens(storage) as tokens:
        assert tokens.find(secret).name == "ward 3"


def test_an_existing_file_is_not_overwritten_and_no_token_made(invoke, storage, tmp_path):
    file = tmp_path / "ward.token"
    file.write_text("another secret")
    result = make(invoke, storage, "--token-file", file)
    assert result.exit_code == 2
    assert file.read_text() == "another secret"
    assert not (tmp_path / "trial.db").exists()


def test_after_an_error_no_file_is_left(invoke, storage, tmp_path):
    file = tmp_path / "ward.token"
    result = make(invoke, storage, "--token-file", file, name="")
    assert result.exit_code == 2
    assert not file.exists()


def test_a_name_is_used_once_even_after_it_was_revoked(invoke, storage):
    make(invoke, storage)
    assert invoke("token", "revoke", "--storage", storage, "--name", "ward 3").exit_code == 0
    result = make(invoke, storage)
    assert result.exit_code == 2
    assert "has, or had, a token 'ward 3'" in result.stderr


def test_a_revoked_token_is_valid_no_longer(invoke, storage):
    secret = make(invoke, storage).stdout.strip()
    invoke("token", "revoke", "--storage", storage, "--name", "ward 3")
    with Tokens(storage) as tokens:
        assert tokens.find(secret) is None


def test_nobody_else_is_revoked(invoke, storage):
    make(invoke, storage)
    result = invoke("token", "revoke", "--storage", storage, "--name", "ward")
    assert result.exit_code == 2
    assert "no token 'ward'" in result.stderr


def test_a_list_tells_all_of_tokens_but_not_their_text(invoke, document, storage):
    secrets = [make(invoke, storage, name=name).stdout.strip() for name in ("ana", "ben")]
    invoke("token", "revoke", "--storage", storage, "--name", "ana")
    found, result = document("token", "list", "--storage", storage)
    assert [(one["name"], one["state"]) for one in found["tokens"]] == [
        *(("ana", "revoked"), ("ben", "valid"))
    ]
    text = result.stdout + invoke("token", "list", "--storage", storage).stdout
    assert "ana" in text
    assert not any(secret in text or secret[3:] in text for secret in secrets)


def test_a_storage_must_be_named(invoke, monkeypatch):
    monkeypatch.delenv("FAIRTRIAL_STORAGE", raising=False)
    result = invoke("token", "list")
    assert result.exit_code == 2
    assert "--storage" in result.stderr


def test_errors_come_as_a_document_if_wanted(invoke, storage):
    make(invoke, storage)
    result = invoke("token", "revoke", "--storage", storage, "--name", "x", "--json")
    assert json.loads(result.stdout)["error"]["type"] == StudyNotFound.__name__
    result = make(invoke, storage, "--json")
    assert json.loads(result.stdout)["error"]["type"] == StudyExists.__name__


@pytest.mark.parametrize(
    ("scope", "words"),
    [("admin", "may administer all studies"), ("run", "may run all studies")],
)
def test_what_a_token_allows_is_said_in_words(invoke, storage, scope, words):
    made = invoke("token", "create", "--name", "ana", "--scope", scope, "--storage", storage)
    assert words in made.stderr
