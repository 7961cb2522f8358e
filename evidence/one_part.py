"""Measure one part and print the figures of each case as a line of JSON: used by `running`."""

from __future__ import annotations

import contextlib
import json
import sys

from evidence.parts import PARTS


def main(arguments: list[str]) -> None:
    """Measure the part of that name, with an effort and a seed, without the named cases."""
    name, effort, seed, *skip = arguments
    output = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for figures in PARTS[name].measure(set(skip), float(effort), int(seed)):
            output.write(f"{json.dumps(figures, allow_nan=False)}\n")
            output.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
