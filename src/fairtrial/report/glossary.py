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


def glossary() -> Markup:
    """Return the words with their meanings, folded under a line that opens them."""
    rows = [text_of([element("dt", word), element("dd", said)]) for word, said in _WORDS.items()]
    return element(
        "details",
        element("summary", "Words on this page"),
        element("dl", *rows),
        class_="glossary",
    )
