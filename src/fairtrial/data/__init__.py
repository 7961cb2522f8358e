"""Real data sets that come with the package, each with its origin and licence beside it."""

from fairtrial.data.trials import actg175

__all__ = ["actg175"]
