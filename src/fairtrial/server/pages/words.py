"""What pulls are called on the pages of a study: by what they are for, if they have numbers."""

from __future__ import annotations

from dataclasses import dataclass

from fairtrial.study.conduct import Conduct

__all__ = ["PullWords", "words_for"]


@dataclass(frozen=True, slots=True)
class PullWords:
    """The words for pulls on a page.

    Parameters
    ----------
    one, many : str
        What a pull, and several, are called in a sentence.
    tab : str
        The title of the tab that lists them.
    open : str
        The title of the list of those without a result.
    ask_title, ask_text, ask_button : str
        The form to ask for one.
    asked_on, asked_by : str
        Titles of when, and by whom, it was asked for.
    stopped : str
        What the end of a study means for whoever carries it out.
    """

    one: str
    many: str
    tab: str
    open: str
    ask_title: str
    ask_text: str
    ask_button: str
    asked_on: str
    asked_by: str
    stopped: str


_PULLS = PullWords(
    one="pull",
    many="pulls",
    tab="Pulls",
    open="Open pulls",
    ask_title="Ask what to try next",
    ask_text="The study chooses what to try. Each answer is a pull: carry it out, and tell its "
    "result when you have it, even if that is days later.",
    ask_button="Ask",
    asked_on="Asked on",
    asked_by="Asked for by",
    stopped="The study has stopped: it has no more pulls to give. Results of open pulls are still "
    "taken.",
)
_PARTICIPANTS = PullWords(
    one="participant",
    many="participants",
    tab="Participants",
    open="Participants without a result",
    ask_title="Somebody has arrived",
    ask_text="Enter the number, and the study says what this participant gets. Enter the results "
    "when you have them, even if that is weeks later.",
    ask_button="Assign",
    asked_on="Assigned on",
    asked_by="Assigned by",
    stopped="The study has stopped: nobody else is assigned. Results that are not there yet are "
    "still taken.",
)


def words_for(conduct: Conduct) -> PullWords:
    """Return the words for the pulls of a study.

    Examples
    --------
    >>> words_for(Conduct(participants="W#-###")).one, words_for(Conduct()).one
    ('participant', 'pull')
    """
    return _PULLS if conduct.participants is None else _PARTICIPANTS
