"""Compile every kernel, and install PostgreSQL's server, once before parallel test processes."""

from fairtrial.cli.commands.compile import compile_families
from tests import postgresql

if __name__ == "__main__":
    postgresql.install()
    compile_families()
