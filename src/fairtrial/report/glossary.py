"""A glossary for readers who see the pages for the first time."""

from __future__ import annotations

from fairtrial.report.html import Markup, element, text_of

__all__ = ["glossary"]

_WORDS = {
    "Arm": "One of the options that the study compares: a treatment, a variant, a setting.",
    "Pull": "One observation that the study asks for: try this arm, and tell what came of it.",
    "Result": "What came of a pull: a number, or a few named fields.",
    "Reading": "An early value of a pull whose result is still to come.",
    "Group": "People or units that must each be served well, not only on average.",
    "Floor, ceiling": "A mean must not be below its floor, nor above its ceiling.",
    "Evidence": "How much the results speak against every answer but one. The study stops when it "
    "is enough, and not before.",
    "Interval": "The true mean probably lies within it, however often one looks. It is for "
    "orientation: the decision uses all results together.",
    "Leads": "Looks best so far. That is no answer yet: the leader may change.",
}


_OF_UNITS = {
    "Unit": "One row of the table: a person or a thing that was assigned to an arm.",
    "Result": "The outcome of a unit.",
    "Evidence": "How much the results speak against every answer but one. The analysis reads the "
    "units in their order, and has its answer once there is enough.",
}
_ONLY_LIVE = ("Pull", "Reading")


def glossary(of_units: bool = False) -> Markup:
    """Return the words with their meanings, folded under a line that opens them.

    With `of_units` they are those of the analysis of a finished experiment.
    """
    words = _WORDS
    if of_units:
        words = {name: said for name, said in _WORDS.items() if name not in _ONLY_LIVE}
        words |= _OF_UNITS
    rows = [text_of([element("dt", word), element("dd", said)]) for word, said in words.items()]
    return element(
        "details",
        element("summary", "Words on this page"),
        element("dl", *rows),
        class_="glossary",
    )
