"""The unmasking list: which arm is behind each code, sealed, and opened code by code.

The list is a file apart from the study. It is sealed with keys that follow from the secret of the
study, so that neither the file nor a copy of the log without its secret shows anything. Whoever
gets a key is recorded in the log before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fairtrial.errors import InvalidArgument
from fairtrial.study.log import canonical
from fairtrial.study.statements import is_encodable

__all__ = ["FORMAT", "check_names", "list_digest", "opened_names", "sealed_names", "unmasking_key"]

FORMAT = "fairtrial_unmasking_list"
_VERSION = 1
_LONGEST = 100
_BYTES = 640
"""Every name is filled up to this length, so that the length of a seal shows nothing."""
_NONCE = 16


def unmasking_key(secret: str, code: str) -> str:
    """Return the key of one code's name, as hexadecimal digits."""
    return hmac.new(secret.encode(), b"unmask\0" + code.encode(), hashlib.sha256).hexdigest()


def check_names(names: object, codes: Sequence[str]) -> dict[str, str]:
    """Return what is behind each code; raise unless every code has a name of its own.

    Raises
    ------
    InvalidArgument
        If a code is unknown or missing, or names are blank, too long or equal. The message does
        not repeat a name.
    """
    if not isinstance(names, Mapping) or set(names) != set(codes):
        accepted = f"must have one name for each of the codes {', '.join(codes)}"
        raise InvalidArgument("names", accepted)
    for name in names.values():
        if not isinstance(name, str) or not name.strip() or not _fits(name):
            accepted = f"must be texts of at most {_LONGEST} characters, and not blank"
            raise InvalidArgument("names", accepted)
    if len(set(names.values())) < len(names):
        raise InvalidArgument("names", "must differ from each other")
    return {code: names[code] for code in codes}


def sealed_names(study: str, names: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the list as the content of its file: each name is sealed with the key of its code."""
    return {
        FORMAT: _VERSION,
        "study": study,
        "names": {code: _sealed(name, keys[code]) for code, name in names.items()},
    }


def opened_names(sealed: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the codes whose keys are given.

    Raises
    ------
    InvalidArgument
        If the list is damaged, or belongs to another study.
    """
    try:
        return {code: _opened(str(sealed["names"][code]), key) for code, key in keys.items()}
    except (LookupError, TypeError, ValueError):
        accepted = "must be the unmasking list of this study, unchanged"
        raise InvalidArgument("list", accepted) from None


def list_digest(sealed: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a sealed list, which the log holds."""
    try:
        return hashlib.sha256(canonical(dict(sealed)).encode()).hexdigest()
    except (TypeError, ValueError):
        raise InvalidArgument("list", "must be the unmasking list of this study") from None


def _fits(name: str) -> bool:
    return len(name) <= _LONGEST and is_encodable(name)


def _sealed(name: str, key: str) -> str:
    nonce = secrets.token_bytes(_NONCE)
    text = json.dumps(name, ensure_ascii=False).encode().ljust(_BYTES)
    covered = _combined(text, key, nonce)
    return (nonce + covered + _tag(nonce + covered, key)).hex()


def _opened(seal: str, key: str) -> str:
    content = bytes.fromhex(seal)
    body, tag = content[: _NONCE + _BYTES], content[_NONCE + _BYTES :]
    if not hmac.compare_digest(tag, _tag(body, key)):
        raise ValueError(seal)
    name: str = json.loads(_combined(body[_NONCE:], key, body[:_NONCE]))
    return name


def _combined(text: bytes, key: str, nonce: bytes) -> bytes:
    # Each key seals one name, and each seal has its own nonce.
    stream = hashlib.shake_256(b"stream\0" + bytes.fromhex(key) + nonce).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))


def _tag(content: bytes, key: str) -> bytes:
    return hmac.new(bytes.fromhex(key), b"tag\0" + content, hashlib.sha256).digest()
