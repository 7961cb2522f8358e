"""The package installed from its wheel, on every Python and with the oldest and newest libraries.

``./dev matrix`` makes a root of Debian 13 (Python 3.13) and of the next Debian (3.14), and takes
the interpreters of this machine. In each of them it installs the wheel into a new environment and
runs the checks of `tests/matrix/checks.py`. It needs root, ``debootstrap`` and the package
registries; what is missing is said, and only a check that failed is an error.

- ``./dev matrix --short``: the root of Debian 13 and the checks that take seconds.
- ``./dev matrix [--short] [--newest | --oldest] PLACE ...``: only these places (``trixie``,
  ``forky``, ``3.11`` to ``3.14``) and libraries.
- ``./dev matrix --tests [ARGUMENT ...]``: ``./dev test`` in the root of Debian 13, or pytest with
  these arguments; ``--run COMMAND ...`` runs another command in a copy of the repository there.

Everything is in ``build/matrix``.
"""
