"""Zoom in a real browser: by mouse, touch, keyboard and links, while the study continues."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from fairtrial.study import Study
from tests.server.pages import sites
from tests.server.pages.browser import opened
from tests.server.pages.test_browser import too_wide

DECISION = "/studies/wards/decision"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 900}


@pytest.fixture(scope="module")
def visit(browser, site):
    """Return a function that opens a page, scrolled to its picture."""

    def start(page, address=DECISION):
        page.goto(address)
        picture = page.locator("figure:has(.zoom) [role=img]").first
        picture.scroll_into_view_if_needed()
        return picture

    return start


def part(page):
    return tuple(int(page.locator(".zoom").first.get_attribute(f"data-{end}")) for end in ENDS)


ENDS = ("begin", "end")


def wait_for(page, begin, end):
    page.wait_for_selector(f".zoom[data-begin='{begin}'][data-end='{end}']")


def until(page, expression):
    """Wait until a condition is true; Playwright's own way needs `eval`, which pages forbid."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(expression)


def plot_of(page):
    return page.locator("figure:has(.zoom) .plot").first.bounding_box()


def at(box, across):
    return box["x"] + across * box["width"], box["y"] + box["height"] / 2


def ticks(page):
    return page.locator(".timeline .axis text").all_text_contents()


def test_a_drag_of_the_mouse_zooms_and_going_back_undoes_it(browser, site, visit):
    with opened(browser, site, viewport=WIDE) as page:
        visit(page)
        before = ticks(page)
        box = plot_of(page)
        page.mouse.move(*at(box, 0.5))
        page.mouse.down()
        page.mouse.move(*at(box, 0.75), steps=3)
        assert page.locator(".selection").bounding_box()["width"] > 0.2 * box["width"]
        page.mouse.up()
        wait_for(page, 30, 45)
        assert page.url.endswith("?from=30&to=45")
        assert ticks(page) != before
        assert "Showing results 30 to 45 of 60." in page.locator("figcaption").first.inner_text()
        assert page.locator("#news").inner_text() == "Showing results 30 to 45 of 60."
        assert page.locator(".selection").count() == 0
        page.mouse.dblclick(*at(plot_of(page), 0.5))
        wait_for(page, 0, 60)
        assert page.url.endswith("/decision")
        page.go_back()
        wait_for(page, 30, 45)
        page.reload()
        assert part(page) == (30, 45)


def test_the_wheel_scrolls_the_page_and_with_control_zooms(browser, site, visit):
    with opened(browser, site, viewport={"width": 1280, "height": 700}) as page:
        visit(page)
        page.mouse.move(*at(plot_of(page), 0.5))
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, -100)
        until(page, f"scrollY < {before}")
        assert part(page) == (0, 60)
        page.mouse.move(*at(plot_of(page), 0.5))
        page.keyboard.down("Control")
        for _ in range(3):
            page.mouse.wheel(0, -100)
        page.keyboard.up("Control")
        page.wait_for_selector(".zoom:not([data-begin='0'])")
        begin, end = part(page)
        assert abs((end - begin) - 60 / 1.25**3) <= 2
        assert abs((begin + end) / 2 - 30) <= 2


def test_keys_zoom_move_and_show_everything(browser, site, visit):
    with opened(browser, site, viewport=WIDE) as page:
        picture = visit(page)
        picture.focus()
        for key, there in (
            ("+", (15, 45)),
            ("ArrowRight", (30, 60)),
            ("ArrowLeft", (15, 45)),
            ("-", (0, 60)),
            ("End", (45, 60)),
            ("0", (0, 60)),
        ):
            page.keyboard.press(key)
            wait_for(page, *there)
            until(page, "document.activeElement.matches('.zoomable')")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"


def test_links_are_pressed_by_keyboard_and_keep_the_focus(browser, site, visit):
    with opened(browser, site, viewport=NARROW) as page:
        visit(page)
        link = page.locator("[data-zoom=in]").first
        link.focus()
        for there in ((15, 45), (22, 37), (26, 33), (27, 31)):
            page.keyboard.press("Enter")
            wait_for(page, *there)
            until(page, "document.activeElement.dataset.zoom === 'in'")
        # No closer zoom is possible: the link is still there, and says this.
        assert link.get_attribute("aria-disabled") == "true"
        page.keyboard.press("Enter")
        assert part(page) == (27, 31)


def test_a_part_that_was_refused_is_mended_by_zooming(browser, site, visit):
    with opened(browser, site, viewport=WIDE) as page:
        visit(page, f"{DECISION}?from=40&to=3").focus()
        assert page.locator("[role=alert]").is_visible()
        page.keyboard.press("+")
        wait_for(page, 15, 45)
        assert page.locator("[role=alert]").count() == 0


def test_a_link_within_the_page_loads_nothing(browser, site, visit):
    with opened(browser, site, viewport=WIDE) as page:
        visit(page, f"{DECISION}?from=15&to=45")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        page.go_back()
        assert [one for one in asked if "/studies/" in one] == []
        assert part(page) == (15, 45)


class Fingers:
    """Fingers on a screen, simulated for a browser."""

    def __init__(self, page):
        self._tell = page.context.new_cdp_session(page)

    def _send(self, kind, points):
        touches = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        self._tell.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    def move(self, *ways):
        """Move fingers, each from one place to another, at the same time."""
        self._send("touchStart", [start for start, _ in ways])
        for step in range(1, 6):
            self._send(
                "touchMove",
                [
                    tuple(a + (b - a) * step / 5 for a, b in zip(start, end, strict=True))
                    for start, end in ways
                ],
            )
        self._send("touchEnd", [])


def test_two_fingers_zoom_and_one_moves_on_a_phone(browser, site, visit):
    with opened(browser, site, viewport=NARROW, has_touch=True, is_mobile=True) as page:
        visit(page)
        fingers, box = Fingers(page), plot_of(page)
        fingers.move((at(box, 0.4), at(box, 0.2)), (at(box, 0.6), at(box, 0.8)))
        page.wait_for_selector(".zoom:not([data-begin='0'])")
        begin, end = part(page)
        # What was under the fingers, a fifth of the whole, is now three fifths of the visible part.
        assert abs((end - begin) - 20) <= 2
        assert abs((begin + end) / 2 - 30) <= 2
        fingers.move((at(plot_of(page), 0.75), at(plot_of(page), 0.25)))
        page.wait_for_selector(f".zoom:not([data-begin='{begin}'])")
        moved, until = part(page)
        assert until - moved == end - begin
        assert abs((moved - begin) - 10) <= 2
        assert page.evaluate("visualViewport.scale") == 1


def test_a_finger_that_moves_up_scrolls_the_page(browser, site, visit):
    with opened(browser, site, viewport=NARROW, has_touch=True, is_mobile=True) as page:
        visit(page, f"{DECISION}?from=10&to=40")
        before, box = page.evaluate("scrollY"), plot_of(page)
        x, y = at(box, 0.5)
        Fingers(page).move(((x, y), (x, y - 150)))
        until(page, f"scrollY > {before}")
        assert part(page) == (10, 40)
        assert page.locator("#live").get_attribute("data-busy") is None


def test_a_part_stays_while_the_study_goes_on(browser, own_site, visit):
    with opened(browser, own_site) as page:
        page.clock.install()
        picture = visit(page, f"{DECISION}?from=10&to=20")
        picture.focus()
        _, environment = sites.wards()
        with Study.open(own_site.storage, "wards", durability="process") as study:
            sites.carry_on(study, environment, 5, seed=2)
        page.clock.run_for(3_500)
        page.wait_for_selector("text=35 results so far")
        assert part(page) == (10, 20)
        assert page.url.endswith("?from=10&to=20")
        assert page.evaluate("document.activeElement.matches('.zoomable')")
        page.keyboard.press("End")
        wait_for(page, 27, 35)
        with Study.open(own_site.storage, "wards", durability="process") as study:
            sites.carry_on(study, environment, 3, seed=3)
        page.clock.run_for(3_500)
        wait_for(page, 27, 38)


def test_without_a_script_links_and_the_form_zoom(browser, site, visit):
    with opened(browser, site, java_script_enabled=False, viewport=NARROW) as page:
        page.goto(DECISION)
        page.click("text=Zoom in")
        page.wait_for_url("**/decision?from=15&to=45#zoom-evidence")
        assert part(page) == (15, 45)
        assert not page.locator("text=Drag over the picture").is_visible()
        page.fill("#zoom-evidence-from", "20")
        page.fill("#zoom-evidence-to", "")
        page.click(".range button")
        page.wait_for_url("**/decision?from=20&to=#zoom-evidence")
        assert part(page) == (20, 60)
        page.fill("#zoom-evidence-to", "7")
        page.click(".range button")
        assert "must be smaller" in page.locator("[role=alert]").inner_text()
        assert page.input_value("#zoom-evidence-to") == "7"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_zoomed_pages_are_accessible_and_fit(browser, site, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(browser, site, **look) as page:
        for address in (
            f"{DECISION}?from=20",
            "/studies/articles/fairness?from=7&to=21",
            f"{DECISION}?from=20&to=3",
        ):
            page.goto(address)
            assert too_wide(page) == [], address
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.activeElement.className") == "problems"


def test_a_printed_part_says_which_it_is_and_has_no_controls(browser, site):
    with opened(browser, site) as page:
        page.goto(f"{DECISION}?from=20&to=30")
        page.emulate_media(media="print")
        assert not page.locator(".zoom").first.is_visible()
        assert "Showing results 20 to 30 of 60." in page.locator("figcaption").first.inner_text()


def test_each_picture_of_limits_on_measures_zooms_and_follows_the_study(browser, own_site):
    policy, environment = sites.checkouts()
    with (
        Study.create(
            policy.problem,
            policy,
            storage=own_site.storage,
            name="checkouts",
            seed=5,
            durability="process",
        ) as study,
        opened(browser, own_site, viewport=NARROW) as page,
    ):
        sites.carry_on(study, environment, 120)
        page.clock.install()
        page.goto("/studies/checkouts/fairness")
        pictures = page.locator("figure:has(.zoom) [role=img]")
        assert pictures.count() == 4
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        pictures.nth(2).focus()
        page.keyboard.press("+")
        wait_for(page, 30, 90)
        until(page, "document.activeElement.matches('[role=img]')")
        assert pictures.nth(2).evaluate("(one) => one === document.activeElement")
        for figure in page.locator("figure:has(.zoom)").all():
            assert "Showing results 30 to 90" in figure.locator("figcaption").inner_text()
        assert too_wide(page) == []
        page.keyboard.press("0")
        wait_for(page, 0, 120)
        sites.carry_on(study, environment, 5, seed=2)
        page.clock.run_for(3_500)
        wait_for(page, 0, 125)
        row = page.locator("figure:has(.zoom) tbody tr").last.locator("th")
        assert row.text_content() == "125"
