"""Tokens: made once, found by their secret, revoked, expired; sessions and stored answers."""

from datetime import UTC, datetime, timedelta

import pytest

from fairtrial.errors import InvalidArgument, StorageError, StudyExists, StudyNotFound
from fairtrial.study import Tokens
from fairtrial.study.store import AnswerRow, SessionRow
from fairtrial.study.tokens import digest_of
from tests.messages import raises
from tests.study.tools import Fault


@pytest.fixture
def tokens(store):
    return Tokens(store)


def at(clock) -> datetime:
    return datetime.fromtimestamp(clock(), UTC)


def test_a_token_is_found_by_its_secret_alone(tokens, clock):
    token, secret = tokens.create("ward 3", ["run", "read"], studies=["heart-*", "lung"])
    assert tokens.find(secret) == token
    assert (token.name, token.scopes, token.studies) == (
        "ward 3",
        ("read", "run"),
        ("heart-*", "lung"),
    )
    assert token.created_at == at(clock)
    assert tokens.find(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None


def test_the_secret_is_kept_nowhere(tokens, store):
    _, secret = tokens.create("ward 3", ["run"])
    assert len(secret) == 46
    assert secret.startswith("ft_")
    [row] = store.tokens()
    assert secret not in repr(row)
    assert row.secret_sha256 == digest_of(secret)


@pytest.mark.parametrize(
    "secret", ["", "ft_", "ft_" + "a" * 43, "x", None, b"ft_", "ft_" + "é" * 43]
)
def test_no_other_text_is_a_token(tokens, secret):
    tokens.create("ward 3", ["run"])
    assert tokens.find(secret) is None


def test_a_revoked_token_is_valid_no_longer_and_its_name_is_not_given_again(tokens, clock):
    _, secret = tokens.create("ward 3", ["run"])
    clock.advance(1)
    first = tokens.revoke("ward 3")
    assert first.revoked_at == at(clock)
    assert tokens.find(secret) is None
    clock.advance(1)
    assert tokens.revoke("ward 3") == first
    with raises(StudyExists):
        tokens.create("ward 3", ["read"])
    with raises(StudyNotFound):
        tokens.revoke("ward 4")


def test_a_token_expires(tokens, clock):
    _, secret = tokens.create("a", ["read"], expires_at=at(clock) + timedelta(minutes=1))
    assert tokens.find(secret) is not None
    clock.advance(60)
    assert tokens.find(secret) is None


def test_a_use_is_noted_at_most_once_an_hour(tokens, clock):
    _, secret = tokens.create("a", ["read"])
    tokens.touch(tokens.find(secret))
    first = tokens.find(secret).last_used_at
    assert first == at(clock)
    clock.advance(3599)
    tokens.touch(tokens.find(secret))
    assert tokens.find(secret).last_used_at == first
    clock.advance(1)
    tokens.touch(tokens.find(secret))
    assert tokens.find(secret).last_used_at == at(clock)


def test_a_use_that_is_noted_late_does_not_undo_a_revocation(tokens):
    token, secret = tokens.create("a", ["read"])
    tokens.revoke("a")
    tokens.touch(token)
    assert tokens.find(secret) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "a\r\nSet-Cookie: x"},
        {"name": "a" * 201},
        {"scopes": []},
        {"scopes": "read"},
        {"scopes": ["write"]},
        {"scopes": [["read"]]},
        {"studies": []},
        {"studies": "heart-*"},
        {"studies": ["a\nb"]},
        {"studies": ["a"] * 1001},
        {"expires_at": "tomorrow"},
        {"expires_at": datetime(2999, 1, 1)},
        {"expires_at": datetime(1999, 1, 1, tzinfo=UTC)},
    ],
)
def test_what_is_no_token_is_refused_and_nothing_is_kept(tokens, arguments):
    with raises(InvalidArgument) as caught:
        tokens.create(**{"name": "a", "scopes": ["read"], **arguments})
    assert caught.value.name.partition(".")[0] in arguments
    assert tokens.all() == []


def test_admin_may_do_everything_and_a_star_covers_beginnings(tokens):
    token, _ = tokens.create("a", ["admin"], studies=["heart-*", "lung"])
    assert all(token.allows(scope) for scope in ("read", "run", "admin"))
    assert [token.covers(name) for name in ("heart-1", "heart", "lung", "lung-2")] == [
        True,
        False,
        True,
        False,
    ]
    everything, _ = tokens.create("b", ["read"])
    assert everything.covers("whatever")
    assert not everything.allows("run")


def test_sessions_are_found_with_their_token_and_end(tokens, store):
    token, _ = tokens.create("a", ["read"])
    store.transact(lambda: store.insert_session(SessionRow("h", token.id, 1, 2)))
    session, row = store.session("h")
    assert (session, row.name) == (SessionRow("h", token.id, 1, 2), "a")
    store.transact(lambda: store.remove_session("h"))
    assert store.session("h") is None
    store.transact(lambda: store.remove_session("h"))


def test_an_answer_is_kept_once_for_every_actor(store):
    answer = AnswerRow("ann", "k", "f", 201, "{}", 5)
    store.transact(lambda: store.save_answer(answer))
    assert store.answer("ann", "k") == answer
    assert store.answer("bob", "k") is None
    with raises(StorageError):
        store.transact(lambda: store.save_answer(answer._replace(body="other")))
    assert store.answer("ann", "k") == answer


def test_old_answers_and_ended_sessions_are_forgotten(tokens, store):
    token, _ = tokens.create("a", ["read"])

    def fill() -> None:
        for number in (1, 2):
            store.save_answer(AnswerRow("ann", f"k{number}", "f", 200, "{}", number))
            store.insert_session(SessionRow(f"h{number}", token.id, 0, number))

    store.transact(fill)
    store.transact(lambda: store.drop_answers(2, 2))
    assert [store.answer("ann", f"k{number}") is None for number in (1, 2)] == [True, False]
    assert [store.session(f"h{number}") is None for number in (1, 2)] == [True, False]


def test_a_transaction_that_fails_keeps_nothing_of_it(tokens, store):
    token, secret = tokens.create("a", ["read"])
    kept = AnswerRow("ann", "kept", "f", 200, "{}", 1)
    store.transact(lambda: store.save_answer(kept))
    store.transact(lambda: store.insert_session(SessionRow("kept", token.id, 0, 1)))

    def fail() -> None:
        store.save_answer(kept._replace(key="new"))
        store.insert_session(SessionRow("new", token.id, 0, 9))
        store.remove_session("kept")
        store.revoke_token(token.id, 1)
        store.touch_token(token.id, 1)
        store.insert_token(store.tokens()[0]._replace(name="b", secret_sha256="b"))
        store.drop_answers(5, 5)
        raise Fault

    with pytest.raises(Fault):
        store.transact(fail)
    assert store.answer("ann", "new") is None
    assert store.answer("ann", "kept") == kept
    assert store.session("new") is None
    assert store.session("kept") is not None
    assert tokens.all() == [token]
    assert tokens.find(secret) == token
