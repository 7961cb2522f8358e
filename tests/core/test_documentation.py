import inspect

import pytest

from fairtrial.core.documentation import documented_by
from fairtrial.core.family import FAMILIES, family_module
from fairtrial.core.policy import Policy


class Source:
    """The source.

    Parameters
    ----------
    budget : int
        Number of pulls.
    first, last : float
        Both ends.

        With a second paragraph.
    seed : int
        Of the random numbers.

    Notes
    -----
    Not taken over.
    """

    def __init__(self, budget, first, last, seed): ...


def test_parameters_stand_in_the_order_of_the_signature_and_own_descriptions_win():
    @documented_by(Source)
    class Own:
        """Say something.

        In two paragraphs.

        Parameters
        ----------
        seed : None
            Ignored.

        Examples
        --------
        None.
        """

        def __init__(self, seed, last, first): ...

    assert Own.__doc__ == inspect.cleandoc(
        """Say something.

        In two paragraphs.

        Parameters
        ----------
        seed : None
            Ignored.
        first, last : float
            Both ends.

            With a second paragraph.

        Examples
        --------
        None.
        """
    )


def test_a_parameter_that_nothing_describes_is_refused():
    with pytest.raises(TypeError, match="horizon"):

        @documented_by(Source)
        class Own:
            """Say something."""

            def __init__(self, budget, horizon): ...


@pytest.mark.parametrize("family", FAMILIES)
def test_every_policy_describes_every_parameter(family):
    module = family_module(family)
    for name in dir(module):
        cls = getattr(module, name)
        if inspect.isclass(cls) and issubclass(cls, Policy):
            section = inspect.getdoc(cls).split("Parameters\n----------\n")[1].split("\n\n")[0]
            heads = [line.split(" : ")[0] for line in section.splitlines() if line[0] != " "]
            described = [each for head in heads for each in head.split(", ")]
            assert sorted(described) == sorted(inspect.signature(cls).parameters), name
