"""Labels in any script: no boxes, and only one warning."""

import io
import warnings

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

import fairtrial as ft
from fairtrial.plots import _fonts as fonts
from fairtrial.plots import means, overview, survivors_over_time
from fairtrial.simulation import trace
from tests.messages import warns

CHINESE, EMOJI, ACCENTS = "药物甲", "go 🚀\U000e0020", "Größe ≥ 5"


def progress_of(*arms: str):
    problem = ft.subpopulations.Problem(list(arms), 1, reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem)
    for _ in range(20):
        pull = policy.ask()
        policy.tell(pull, 0.5)
    return policy.progress()


def seen_when_drawn(figure: Figure) -> list[str]:
    """Draw a figure; return the texts in it. Matplotlib must not warn about a glyph."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(io.BytesIO(), dpi=30)
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.fixture
def only_western_fonts(monkeypatch):
    """Leave only the fonts that come with matplotlib, whatever is installed."""
    ours = [font for font in fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(fontManager, "ttflist", ours)
    fonts._other_font.cache_clear()
    yield
    fonts._other_font.cache_clear()


def test_a_label_that_no_font_can_draw_is_spelled_out_with_one_warning(only_western_fonts):
    with warns(UserWarning) as caught:
        figure = means(progress_of(CHINESE, EMOJI))
    (warning,) = caught
    assert rf"of '{CHINESE}': it is drawn as '\u836f\u7269\u7532';" in str(warning.message)
    assert warning.filename == __file__
    texts = seen_when_drawn(figure)
    assert {r"\u836f\u7269\u7532", "go [rocket]"} <= set(texts)
    assert not {CHINESE, EMOJI} & set(texts)


def test_labels_in_a_key_are_spelled_out_too(only_western_fonts):
    problem = ft.linear.Problem([[1, 0], [0, 1]], noise_std=0.5)
    environment = ft.linear.GaussianEnvironment(problem, [1.0, 0.0])
    moments = trace(ft.linear.BlockBetting(problem), environment, points=5)
    with warns(UserWarning):
        figure = survivors_over_time({CHINESE: moments})
    assert r"\u836f\u7269\u7532" in seen_when_drawn(figure)


def test_what_the_usual_font_can_draw_stays_as_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = means(progress_of(ACCENTS, "b"))
    assert ACCENTS in seen_when_drawn(figure)


def test_a_font_that_has_the_characters_is_used(only_western_fonts):
    usual = get_font(findfont(FontProperties(family=["DejaVu Sans"]))).get_charmap()
    stix = get_font(findfont(FontProperties(family=["STIXGeneral"]))).get_charmap()
    rare = chr(min(set(stix) - set(usual)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = means(progress_of(f"dose {rare}", "b"))
    assert f"dose {rare}" in seen_when_drawn(figure)


def test_an_overview_warns_once_of_a_label(only_western_fonts):
    problem = ft.subpopulations.Problem([CHINESE, "b"], ["x", "y"], floors=0.1, reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem)
    with ft.Study.create(problem, policy, storage="memory://", name="trial", seed=1) as study:
        for index in range(60):
            study.tell(study.ask(), float(index % 2))
        with warns(UserWarning) as caught:
            figure = overview(study)
    assert len(caught) == 1
    assert CHINESE not in " ".join(seen_when_drawn(figure))
