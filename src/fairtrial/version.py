"""The version of the package: in a module of its own, so that every other may import it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
