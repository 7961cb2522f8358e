"""The reproduction of a paper: sections are computed one by one, printed and written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import click

from fairtrial.core.seeds import as_seed
from fairtrial.errors import InvalidArgument
from papers.report import Report, Section

__all__ = ["Paper"]

_Cache = TypeVar("_Cache")


@dataclass(frozen=True, slots=True)
class Paper(Generic[_Cache]):
    """The published tables of one paper next to ours.

    Parameters
    ----------
    title : str
        Heading of the report.
    cache : callable
        ``cache(quick, seed)`` returns the object that runs each simulation once.
    sections : callable
        ``sections(cache)`` yields the sections in reading order, each computed on demand.
    write_figures : callable
        ``write_figures(cache, folder)`` writes the figures and returns their paths.
    """

    title: str
    cache: Callable[[bool, int], _Cache]
    sections: Callable[[_Cache], Iterable[Section]]
    write_figures: Callable[[_Cache, Path], Iterable[Path]]

    def reproduce(
        self, quick: bool = False, output: str | Path | None = None, seed: int = 1
    ) -> Report:
        """Compute the tables again, and print each section as soon as it is ready.

        Parameters
        ----------
        quick : bool
            Use few replications: about a minute instead of up to half an hour.
        output : str or Path, optional
            Folder for ``report.md``, ``report.json`` and, if matplotlib is installed, the figures.
            It is created if it does not exist.
        seed : int
            Source of all randomness.

        Returns
        -------
        Report
            All tables; ``to_dict()`` returns them as data.

        Raises
        ------
        InvalidArgument
            If `output` cannot be written.
        """
        folder = None if output is None else _writable_folder(Path(output))
        source = as_seed(seed)
        cache = self.cache(quick, source)
        started = time.perf_counter()
        click.echo(f"# {self.title}\n")
        made = []
        for section in self.sections(cache):
            click.echo(f"{section}\n")
            made.append(section)
        report = Report(self.title, quick, source, time.perf_counter() - started, tuple(made))
        click.echo(report.conclusion)
        if folder is not None:
            self._write(report, folder, cache)
        return report

    def _write(self, report: Report, folder: Path, cache: _Cache) -> None:
        (folder / "report.md").write_text(f"{report}\n", encoding="utf-8")
        document = json.dumps(report.to_dict(), indent=2, allow_nan=False)
        (folder / "report.json").write_text(f"{document}\n", encoding="utf-8")
        written = ["report.md", "report.json"]
        try:
            written += [path.name for path in self.write_figures(cache, folder)]
        except ImportError:
            click.echo("No figures: install the extra 'plots' (pip install 'fairtrial[plots]').")
        click.echo(f"Written to {folder}: {', '.join(written)}")


def _writable_folder(folder: Path) -> Path:
    """Create the folder if needed, and check that it is writable before the long computation."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.md").touch()
    except OSError as error:
        reason = error.strerror or error
        raise InvalidArgument(
            "output", f"must be a writable folder ({reason})", str(folder)
        ) from None
    return folder
