"""The pages and the report of a masked trial in a real browser, on a narrow phone."""

import json

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
    folder = tmp_path_factory.mktemp("trial")
    storage = f"sqlite:///{folder}/trial.db"
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
        (folder / "codes.list").write_text(json.dumps(sealed))
        study.close_arm("C", "two deaths, and what the board says about them", actor="board")
        study.close_group("treated before", "no more patients", actor="board")
    site = sites.Site(storage)
    site.unmasking_list = folder / "codes.list"
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
            if tab == "health":
                assert "Kits that were not handed out" in page.content()
        page.goto("/studies/trial/log")
        assert "unmasking list opened" in page.content()


def test_a_ward_asks_and_gets_another_kit_on_a_phone(browser, trial):
    with opened(browser, trial, who="clinic", **PHONE) as page:
        for tab in ("recruitment", "pulls", "entered"):
            page.goto(f"/studies/trial/{tab}")
            assert too_wide(page) == [], tab
            if tab == "pulls":
                link = page.get_by_role("link", name="Tell the result").first.bounding_box()
                assert link["x"] + link["width"] <= 360
                assert_accessible(page)
            assert_accessible(page)
        page.click("a:has-text('Participants without a result')")
        page.click("a:has-text('Tell the result') >> nth=0")
        assert too_wide(page) == []
        assert_accessible(page)
        facts = page.locator("main").inner_text()
        assert "Kits" in facts
        assert "\nArm" not in facts
        page.click("button:has-text('Get another kit')")
        assert "The kit is recorded" in page.locator(".done").inner_text()
        assert page.locator("main").inner_text().count("K") > facts.count("K")


def unmask(page, reason):
    """Send the form to open the unmasking list, which is the only one with a reason that shows."""
    page.fill("form[action$='/forms/unmask'] textarea", reason)
    page.click("button:has-text('Record the access')")


def names_behind(page, file):
    """Return what the page shows behind each code after a file was chosen."""
    # The script shows the form: a file that is chosen before would be chosen unnoticed.
    page.locator("#list-form").wait_for(state="visible")
    page.set_input_files("input[type=file]", file)
    # A function: the page's policy does not allow to evaluate an expression again and again.
    page.wait_for_function(
        "() => document.querySelector('[data-code]').textContent != 'sealed'"
        " || document.getElementById('list-problem').textContent"
    )
    shown = page.locator("[data-code]").all()
    return {one.get_attribute("data-code"): one.inner_text() for one in shown}


def test_an_admin_unmasks_one_patient_on_a_phone_and_the_log_says_why(browser, trial):
    with Study.open(trial.storage, "trial") as study:
        pull, before = study.pull_of("W1-0003"), study.n_events
    with opened(browser, trial, **PHONE) as page:
        page.goto(f"/studies/trial/pulls/{pull.id}")
        assert_accessible(page)
        unmask(page, " ")
        assert "please fill this in" in page.locator("[role=alert]").inner_text()
        unmask(page, "allergic shock")
        assert too_wide(page) == []
        assert_accessible(page)
        found = names_behind(page, trial.unmasking_list)
        assert found == {pull.arm: {"A": "placebo", "B": "10 mg", "C": "20 mg"}[pull.arm]}
        assert_accessible(page)
        page.click("a:has-text('Back')")
        assert "Participant W1-0003" in page.locator("h2").first.inner_text()
    with Study.open(trial.storage, "trial") as study:
        [event] = study.events(before)
    assert (event.kind, event.pull_id, event.actor) == ("unmask", pull.id, "chief")
    assert event.body["reason"] == "allergic shock"


def test_an_admin_unmasks_all_codes_and_a_wrong_list_shows_nothing(browser, trial, tmp_path):
    sealed = json.loads(trial.unmasking_list.read_text())
    names = sealed["names"]
    wrong = tmp_path / "wrong.list"
    wrong.write_text(json.dumps(sealed | {"names": names | {"A": names["B"]}}))
    with opened(browser, trial, **PHONE) as page:
        page.goto("/studies/trial/pulls")
        page.click("summary:has-text('Open the unmasking list')")
        assert too_wide(page) == []
        unmask(page, "the study is over")
        assert names_behind(page, wrong)["A"] == "sealed"
        assert "must be the unmasking list" in page.locator("#list-problem").inner_text()
        found = names_behind(page, trial.unmasking_list)
        assert found == {"A": "placebo", "B": "10 mg", "C": "20 mg"}
        assert not page.locator("#list-problem").is_visible()


def test_a_ward_is_offered_no_unmasking(browser, trial):
    with Study.open(trial.storage, "trial") as study:
        pull = study.pull_of("W1-0003")
    with opened(browser, trial, who="clinic", **PHONE) as page:
        for path in ("/studies/trial/pulls", f"/studies/trial/pulls/{pull.id}"):
            page.goto(path)
            assert page.locator("form[action$='/forms/unmask']").count() == 0


def test_the_report_of_a_trial_is_accessible_and_fits_on_a_phone(browser, trial, tmp_path):
    with Study.open(trial.storage, "trial") as study:
        file = write_report(study, tmp_path / "report.html")
    with opened(browser, trial, who=None, **PHONE) as page:
        page.set_content(file.read_text(encoding="utf-8"))
        assert too_wide(page) == []
        assert_accessible(page)
        assert "C (closed)" in page.content()
