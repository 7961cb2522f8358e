"""A paper's sections, shown one by one as they are made, and written into a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from fairtrial.errors import InvalidArgument
from fairtrial.reproduce.report import Report, Section

__all__ = ["publish", "writable_folder"]


def writable_folder(output: str | Path | None) -> Path | None:
    """Return the folder, made and proven writable before the long work begins.

    Raises
    ------
    InvalidArgument
        If it cannot be written.
    """
    if output is None:
        return None
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.md").touch()
    except OSError as error:
        reason = error.strerror or error
        raise InvalidArgument(
            "output", f"must be a writable folder ({reason})", str(output)
        ) from None
    return folder


def publish(
    title: str,
    quick: bool,
    seed: int,
    folder: Path | None,
    sections: Iterable[Section],
    write_figures: Callable[[Path], Iterable[Path]],
) -> Report:
    """Print the sections as they come; return them as a report, written if there is a folder."""
    started = time.perf_counter()
    click.echo(f"# {title}\n")
    made = []
    for section in sections:
        click.echo(f"{section}\n")
        made.append(section)
    report = Report(title, quick, seed, time.perf_counter() - started, tuple(made))
    click.echo(report.conclusion)
    if folder is not None:
        _write(report, folder, write_figures)
    return report


def _write(report: Report, folder: Path, write_figures: Callable[[Path], Iterable[Path]]) -> None:
    (folder / "report.md").write_text(f"{report}\n", encoding="utf-8")
    document = json.dumps(report.to_dict(), indent=2, allow_nan=False)
    (folder / "report.json").write_text(f"{document}\n", encoding="utf-8")
    written = ["report.md", "report.json"]
    try:
        written += [path.name for path in write_figures(folder)]
    except ImportError:
        click.echo("No figures: they need the extra 'plots' (pip install 'fairtrial[plots]').")
    click.echo(f"Written to {folder}: {', '.join(written)}")
