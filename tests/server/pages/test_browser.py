"""The pages in a real browser: every tab of every family, wide and narrow, light and dark."""

from __future__ import annotations

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from fairtrial.study import Study
from tests import effort
from tests.server.pages import sites
from tests.server.pages.browser import opened

TABS = ("decision", "arms", "fairness", "health", "log", "pulls")
LOOKS = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]


def looks_of(place):
    """Return the styles in which a page is tried: one of the four, or under `--long` all."""
    number = effort.runs(1, whole=len(LOOKS))
    return [LOOKS[(place + other) % len(LOOKS)] for other in range(number)]


SHOWN = [name for name in sites.STUDIES if effort.long or name != "readings"]
"""One study of each family, or under `--long` all."""

CASES = [
    (name, tab, *look)
    for row, name in enumerate(SHOWN)
    for column, tab in enumerate(TABS)
    if effort.long or (row + column) % 2 == 0
    for look in looks_of(row + (row + column) // 2)
]
"""Every second page, so that each tab is seen with half of the families; or under `--long` all."""


def assert_accessible(page):
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def too_wide(page):
    """Return the elements that must be scrolled sideways to be read."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return page.evaluate(
        """[...document.querySelectorAll("body *")]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .filter((one) => !one.closest(".scroll, svg, .skip"))
        .map((one) => one.outerHTML.slice(0, 200))"""
    )


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_tab_of_every_family_is_accessible_and_fits(browser, site, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(browser, site, **look) as page:
        for name, tab, wide, colours in CASES:
            if (wide, colours) != (width, scheme):
                continue
            answer = page.goto(f"/studies/{name}/{tab}")
            assert answer.status == 200, (name, tab)
            assert page.locator("[aria-current=page]").inner_text().lower() == tab
            assert page.locator("h1").inner_text() == name
            assert too_wide(page) == [], (name, tab)
            assert_accessible(page)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_pages_beside_the_studies_are_accessible(browser, site, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(browser, site, who=None, **look) as page:
        page.goto("/studies/wards/decision")
        assert page.url.endswith("/login?next=%2Fstudies%2Fwards%2Fdecision")
        assert_accessible(page)
        page.fill("#token", "ft_wrong")
        page.click("text=Log in >> nth=-1")
        assert page.locator("#token-error").is_visible()
        assert_accessible(page)
        page.fill("#token", site.tokens["board"])
        page.keyboard.press("Enter")
        page.wait_for_url("**/studies/wards/decision")
        page.goto("/")
        assert too_wide(page) == []
        assert_accessible(page)
        page.goto("/studies/nothing/decision")
        assert page.locator("h1").inner_text() == "Not found"
        assert_accessible(page)


def test_a_blinded_page_is_accessible_and_a_refused_form_leads_to_its_mistakes(browser, site):
    with opened(browser, site, who="clinic", viewport={"width": 390, "height": 900}) as page:
        for tab in ("recruitment", "health", "pulls"):
            page.goto(f"/studies/articles/{tab}")
            assert too_wide(page) == []
            assert_accessible(page)
        page.fill("#n", "many")
        page.click("button:has-text('Ask')")
        page.wait_for_selector(".problems")
        assert page.evaluate("document.activeElement.className") == "problems"
        assert page.input_value("#n") == "many"
        assert too_wide(page) == []
        assert_accessible(page)
        page.click(".problems a")
        assert page.evaluate("document.activeElement.id") == "n"


def test_everything_is_reached_and_done_by_keyboard_alone(browser, own_site):
    with opened(browser, own_site, viewport={"width": 1280, "height": 900}) as page:
        page.goto("/studies/wards/decision")

        def focused():
            return page.evaluate("(document.activeElement.innerText || '').trim()")

        def press_until(wanted, key="Tab", most=60):
            for _ in range(most):
                page.keyboard.press(key)
                if focused() == wanted:
                    outline = "getComputedStyle(document.activeElement).outlineStyle"
                    assert page.evaluate(outline) == "solid"
                    return
            raise AssertionError(f"{wanted!r} is not reached")

        page.keyboard.press("Tab")
        assert focused() == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        press_until("Words on this page")
        page.keyboard.press("Enter")
        assert page.locator("dl dt >> text=Leads").is_visible()
        press_until("Pulls", key="Shift+Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/pulls")
        press_until("Ask")
        page.keyboard.press("Enter")
        page.wait_for_url("**/pulls/*")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "value":
                break
        page.keyboard.type("0.5")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=The result is recorded")


def test_a_table_that_is_too_wide_is_moved_by_keyboard(browser, site):
    with opened(browser, site, viewport={"width": 390, "height": 900}) as page:
        page.goto("/studies/wards/log")
        box = page.locator(".scroll").first
        box.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(300)
        assert page.evaluate("document.querySelector('.scroll').scrollLeft") > 0


def test_an_open_page_follows_its_study_and_leaves_its_reader_in_peace(browser, own_site):
    with opened(browser, own_site) as page:
        page.clock.install()
        page.goto("/studies/wards/decision")
        page.locator("summary", has_text="moments").click()
        assert "30 results so far" in page.locator(".verdict").inner_text()
        _, environment = sites.wards()
        with Study.open(own_site.storage, "wards", durability="process") as study:
            sites.carry_on(study, environment, 5, seed=2)
        page.clock.run_for(3_500)
        page.wait_for_selector("text=35 results so far")
        assert page.locator("details", has_text="moments").first.get_attribute("open") is not None
        assert "Updated. As of event 70" in page.locator("#news").inner_text()
        answers = []
        page.on("response", lambda response: answers.append(response.status))
        # The first answers may have new checks of the assumptions, which are made meanwhile.
        while not answers or answers[-1] != 304:
            with page.expect_response("**/decision"):
                page.clock.run_for(3_500)
            assert len(answers) < 20


def test_whoever_types_is_not_disturbed_by_news(browser, own_site):
    with opened(browser, own_site) as page:
        page.clock.install()
        page.goto("/studies/wards/pulls")
        page.locator("summary", has_text="Stop it by hand").click()
        page.locator("#reason").fill("half a sen")
        _, environment = sites.wards()
        with Study.open(own_site.storage, "wards", durability="process") as study:
            sites.carry_on(study, environment, 2, seed=2)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(10_000)
        assert asked == []
        assert page.input_value("#reason") == "half a sen"


def test_a_server_that_is_away_is_asked_less_often_and_the_page_stays(browser, own_site):
    with opened(browser, own_site) as page:
        page.clock.install()
        page.goto("/studies/wards/decision")
        tried = []

        def refuse(route):
            tried.append(route.request.url)
            route.fulfill(status=503, body="")

        page.route("**/decision", refuse)
        for _ in range(30):
            page.clock.run_for(1_000)
            page.wait_for_timeout(5)
        assert 2 <= len(tried) <= 4
        assert "trying again" in page.locator("#news").inner_text()
        assert page.locator(".answer").is_visible()


def test_without_a_script_a_pull_is_asked_told_and_corrected(browser, own_site):
    with opened(browser, own_site, java_script_enabled=False) as page:
        page.goto("/studies/wards/pulls")
        page.click("button:has-text('Ask')")
        page.fill("#value", "2")
        page.click("button:has-text('Record the result')")
        assert "must be in [0, 1]" in page.locator("#value-error").inner_text()
        assert page.input_value("#value") == "2"
        page.fill("#value", "0.5")
        page.click("button:has-text('Record the result')")
        assert "The result is recorded" in page.locator(".done").inner_text()
        page.fill("#amend-value", "0.25")
        page.fill("#amend-reason", "misread")
        page.click("button:has-text('Record the correction')")
        assert "The correction is recorded" in page.locator(".done").inner_text()


def test_the_choice_of_colours_lasts_and_needs_no_script(browser, own_site):
    options = {"java_script_enabled": False, "color_scheme": "light"}
    with opened(browser, own_site, **options) as page:
        page.goto("/studies/wards/decision")
        page.click("button:has-text('Dark')")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.goto("/studies/wards/log")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.click("button:has-text('As the device')")
        assert page.locator("html").get_attribute("data-theme") is None


def test_a_printed_page_shows_what_is_folded_and_no_controls(browser, site):
    with opened(browser, site, color_scheme="dark") as page:
        page.goto("/studies/wards/decision")
        page.emulate_media(media="print")
        assert not page.locator("nav").first.is_visible()
        assert not page.locator(".colophon").is_visible()
        assert page.locator("details:not([open]) table").first.is_visible()
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        printed = page.pdf(format="A4", print_background=True)
        assert printed.startswith(b"%PDF")
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6


def test_pictures_have_their_words_and_numbers(browser, site):
    with opened(browser, site) as page:
        studies = "wards", "checkouts", "articles"
        for name, tab in itertools.product(studies, ("decision", "arms", "fairness")):
            page.goto(f"/studies/{name}/{tab}")
            for figure in page.locator("figure").all():
                assert re.search(r"\d", figure.locator("figcaption").inner_text())
                assert figure.locator("table").count() == 1
                assert figure.locator("[role=img]").first.bounding_box()["height"] > 20
