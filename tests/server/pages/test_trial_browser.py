"""The pages and the report of a masked trial in a real browser, on a narrow phone."""

import numpy as np
import pytest

from fairtrial.report import write_report
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.server.pages import sites
from tests.server.pages.browser import opened
from tests.server.pages.test_browser import assert_accessible, too_wide

PHONE = {"viewport": {"width": 360, "height": 800}}
RULES = {"participants": "W#-####", "kits": "K######", "masked": True, "require_group": True}
NOTES = {
    "Population": "adults with newly diagnosed disease, of whom some are treated elsewhere",
    "Estimand": "difference of means between each arm and the control, " + "whatever happens " * 9,
}


def carry_on(study, pulls, groups):
    """Ask for patients with predictions, and tell most results."""
    generator = np.random.default_rng(3)
    for place in range(pulls):
        known = {"group": groups[place % len(groups)], "prediction": generator.random()}
        pull = study.ask(participant=f"W1-{place:04}", worker="clinic", **known)
        if place % 9 == 4:
            study.fail(pull, "left the study", actor="clinic")
        elif place % 9 != 7:
            study.tell(pull, float(generator.random() < 0.5), actor="clinic")


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A service with a trial that has notes, predictions, a planned end, and closed parts."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('trial')}/trial.db"
    problem = Problem(
        ["A", "B", "C"],
        {"naive patients": 0.6, "treated before": 0.4},
        control="A",
        reward_range=(0, 1),
        prediction=(0, 1),
    )
    policy = BlockBetting(problem, delta=0.05, max_pulls=200, planned_end=True)
    given = {"storage": storage, "name": "trial", "seed": 5, "durability": "process"}
    with Study.create(problem, policy, **given, **RULES, notes=NOTES) as study:
        study.supply(90, actor="pharmacy")
        sealed = study.seal_names({"A": "placebo", "B": "10 mg", "C": "20 mg"}, actor="pharmacy")
        carry_on(study, 30, list(problem.groups))
        study.unmask(sealed, "overdose", pull=study.pull_of("W1-0001"), actor="on call")
        study.close_arm("C", "two deaths, and what the board says about them", actor="board")
        study.close_group("treated before", "no more patients", actor="board")
    site = sites.Site(storage)
    site.start()
    yield site
    site.stop()


def test_every_tab_of_a_trial_is_accessible_and_fits_on_a_phone(browser, trial):
    with opened(browser, trial, **PHONE) as page:
        for tab in ("decision", "arms", "fairness", "health", "log", "pulls", "entered"):
            assert page.goto(f"/studies/trial/{tab}").status == 200
            assert too_wide(page) == [], tab
            assert_accessible(page)
            if tab == "arms":
                assert "C (closed)" in page.content()
        page.goto("/studies/trial/log")
        assert "unmasking list opened" in page.content()


def test_a_ward_asks_and_gets_another_kit_on_a_phone(browser, trial):
    with opened(browser, trial, who="clinic", **PHONE) as page:
        for tab in ("recruitment", "pulls", "entered"):
            page.goto(f"/studies/trial/{tab}")
            assert too_wide(page) == [], tab
            assert_accessible(page)
        page.click("a:has-text('Open pulls')")
        page.click("a:has-text('Tell the result') >> nth=0")
        assert too_wide(page) == []
        assert_accessible(page)
        facts = page.locator("main").inner_text()
        assert "Kits" in facts
        assert "\nArm" not in facts
        page.click("button:has-text('Get another kit')")
        assert "The kit is recorded" in page.locator(".done").inner_text()
        assert page.locator("main").inner_text().count("K") > facts.count("K")


def test_the_report_of_a_trial_is_accessible_and_fits_on_a_phone(browser, trial, tmp_path):
    with Study.open(trial.storage, "trial") as study:
        file = write_report(study, tmp_path / "report.html")
    with opened(browser, trial, who=None, **PHONE) as page:
        page.set_content(file.read_text(encoding="utf-8"))
        assert too_wide(page) == []
        assert_accessible(page)
        assert "C (closed)" in page.content()
