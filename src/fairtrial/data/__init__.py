"""Real data sets that come with the package, each with its origin and licence beside it."""

from fairtrial.data.headlines import headline_tests
from fairtrial.data.learning_curves import learning_curves
from fairtrial.data.models import solver_models
from fairtrial.data.networks import adult_offer, hepar2
from fairtrial.data.reactions import direct_arylation, suzuki
from fairtrial.data.trials import actg175

__all__ = [
    "actg175",
    "adult_offer",
    "direct_arylation",
    "headline_tests",
    "hepar2",
    "learning_curves",
    "solver_models",
    "suzuki",
]
