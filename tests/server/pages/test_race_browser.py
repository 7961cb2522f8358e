"""The pages of races in a real browser: who is in, who is out, and where they differ."""

import itertools

import pytest

import fairtrial as ft
from tests.server.pages import sites
from tests.server.pages.browser import opened
from tests.server.pages.test_browser import LOOKS, assert_accessible, looks_of, too_wide

LONG = "claude-sonnet-4 with a long system prompt, few-shot examples and a calculator"
STUDIES = "limits", "decided"
TABS = "decision", "arms", "health", "log", "pulls"
LABELS = ["hard" if at % 4 == 0 else "easy" for at in range(160)]
MEANS = {
    "today": (0.5, 0.5),
    LONG: (0.47, 0.85),
    "gpt-4o-mini": (0.4, 0.5),
    sites.NASTY: (0.3, 0.4),
}


def score(candidate, item):
    noise = (item * 37 + 11 * len(candidate)) % 101 / 101 - 0.5
    return min(1.0, max(0.0, MEANS[candidate][LABELS[item] == "easy"] + 0.28 * noise))


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    """A service with a race in which candidates wait, and one that is decided."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('races')}/races.db"
    given = {"reward_range": (0, 1), "storage": storage}
    limits = {"control": "today", "margin": 0.08, "category": LABELS, "delta": 1e-4}
    for most in range(100, 600, 4):
        part = ft.race(
            list(MEANS), range(160), score, name="limits", max_evaluations=most, **limits, **given
        )
        if "waiting" in part.states.values():
            break
    whole = ft.race(list(MEANS), range(160), score, name="decided", tolerance=0.02, **given)
    assert whole.best == LONG
    site = sites.Site(storage)
    site.start()
    yield site
    site.stop()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_tab_of_a_race_is_accessible_and_fits(browser, races, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(browser, races, **look) as page:
        for place, (name, tab) in enumerate(itertools.product(STUDIES, TABS)):
            if (width, scheme) in looks_of(place):
                assert page.goto(f"/studies/{name}/{tab}").status == 200
                assert too_wide(page) == [], (name, tab)
                assert_accessible(page)


def test_the_page_says_who_waits_and_on_which_items_of_which_category_they_differ(browser, races):
    with opened(browser, races) as page:
        page.goto("/studies/limits/arms")
        standings = page.locator("table:has-text('Behind the leader')").inner_text()
        assert "waiting" in standings
        assert "leads" in standings
        assert "Waiting: out as soon as the leader is known" in page.locator("main").inner_text()
        disputed = page.locator("table:has-text('Category')").inner_text()
        assert "easy" in disputed
        page.goto("/studies/decided/arms")
        assert "Set aside: better than the leader" in page.locator("main").inner_text()
        assert page.locator("table:has-text('Category')").count() == 0
