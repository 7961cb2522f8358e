"""Configuration files for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROWS = [
    ("a", "x", 0.9),
    ("a", "x", 0.7),
    ("a", "y", 0.6),
    ("a", "y", 0.8),
    ("b", "x", 0.1),
    ("b", "x", 0.3),
    ("b", "y", -0.2),
    ("b", "y", 0.2),
]


def write_table(folder: Path, rows: list[tuple[Any, ...]] = ROWS, name: str = "rows.csv") -> Path:
    path = folder / name
    lines = ["arm,group,reward", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(**changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a small study on replayed rows that decides for 'a'; sections can be changed."""
    sections: dict[str, Any] = {
        "study": {"name": "small", "storage": "sqlite:///small.db", "seed": 7},
        "problem": {
            "family": "subpopulations",
            "arms": ["a", "b"],
            "groups": {"x": 0.5, "y": 0.5},
            "floors": 0.0,
            "reward_range": [-1, 1],
        },
        "policy": {"name": "BlockBetting", "delta": 0.05},
        "source": {"kind": "replay", "table": "rows.csv", "group": "group"},
    }
    sections.update(changes)
    return {name: section for name, section in sections.items() if section is not None}


def write(folder: Path, sections: Mapping[str, Any], name: str = "trial.toml") -> Path:
    path = folder / name
    path.write_text(
        "\n".join(
            f"[{section}]\n" + "\n".join(f"{key} = {toml(value)}" for key, value in keys.items())
            for section, keys in sections.items()
        )
    )
    return path


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)
