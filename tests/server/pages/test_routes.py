"""Who sees which page, and what a page contains."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from fairtrial.report.health import _audit
from fairtrial.server.pages.site import static_address
from fairtrial.study import Study
from tests.server.pages import sites
from tests.server.pages.people import forms_of, visited

TABS = ["decision", "arms", "fairness", "health", "log"]


def studies(storage):
    return Study.open(storage, "wards")


def tabs_on(page):
    inside = page.partition('class="tabs"')[2].partition("</ul>")[0]
    return re.findall(r">([A-Z]\w+)</a>", inside)


TITLES = ["Decision", "Arms", "Fairness", "Health", "Log"]


def test_the_monitoring_board_sees_everything_and_has_no_forms(people):
    for tab in TABS:
        answer = people["board"].get(f"/studies/wards/{tab}")
        assert answer.status_code == 200
        assert tabs_on(answer.text) == [*TITLES, "Pulls"]
        assert not any("/forms/" in action for action in forms_of(answer.text))


def test_those_who_recruit_see_how_many_came_and_nothing_of_how_they_fared(people, storage):
    clinic = people["clinic"]
    assert clinic.get("/studies/wards").headers["location"] == "/studies/wards/recruitment"
    for tab in ("decision", "arms", "fairness", "log"):
        assert clinic.get(f"/studies/wards/{tab}").status_code == 404
    best = studies(storage).recommend().leader
    for tab in ("recruitment", "health", "pulls"):
        text = clinic.get(f"/studies/wards/{tab}").text
        assert tabs_on(text) == ["Recruitment", "Health", "Pulls"]
        shown = text.partition('id="live"')[2]
        assert f"{best} leads" not in shown
        assert not re.search(r"[Ee]vidence of|Mean|Estimates|Share with result", shown)
    assert "20" in clinic.get("/studies/wards/recruitment").text


def test_no_page_for_those_who_recruit_holds_what_a_result_could_be_found_by(people, storage):
    head = studies(storage).head_hash
    for tab in ("recruitment", "health", "pulls"):
        answer = people["clinic"].get(f"/studies/wards/{tab}")
        assert head[:8] not in answer.text + str(answer.headers)


def test_those_who_recruit_are_not_told_where_a_log_was_altered():
    log = SimpleNamespace(ok=False, first_difference="event 5: told 0.8125", skipped=0, events=4)
    assert "0.8125" in str(_audit(log, blinded=False))
    assert "0.8125" not in str(_audit(log, blinded=True))


def test_the_result_of_a_pull_is_shown_to_whoever_told_it_or_may_read(people):
    form = forms_of(people["clinic"].get("/studies/wards/pulls").text)["/studies/wards/forms/ask"]
    asked = people["clinic"].client.post("/studies/wards/forms/ask", data=form)
    pull = asked.headers["location"].partition("?")[0]
    people["chief"].send(pull, "/studies/wards/forms/tell", value="0.8125")
    assert "0.8125" in people["chief"].get(pull).text
    assert "0.8125" not in people["clinic"].get(pull).text


def test_a_study_that_is_none_of_theirs_does_not_exist_for_them(people):
    stranger = people["stranger"]
    assert "wards" not in stranger.get("/").text
    unknown = stranger.get("/studies/nothing/decision")
    for path in ("decision", "log", "pulls", f"pulls/{'0' * 32}"):
        answer = stranger.get(f"/studies/wards/{path}")
        assert answer.status_code == unknown.status_code == 404
        assert answer.text.replace("wards", "nothing").count("no study") == 1


def test_whoever_is_not_logged_in_is_led_to_the_form_and_back(people):
    nobody = people["board"].client
    nobody.cookies.clear()
    answer = nobody.get("/studies/wards/arms")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/login?next=%2Fstudies%2Fwards%2Farms",
    )
    form = forms_of(nobody.get(answer.headers["location"]).text)["/login"]
    refused = nobody.post("/login", data=form | {"token": "ft_wrong"})
    assert refused.status_code == 403
    assert "This token is unknown" in refused.text
    assert "set-cookie" not in refused.headers
    back = nobody.post("/login", data=form | {"token": people["board"].token})
    assert back.headers["location"] == "/studies/wards/arms"
    assert "HttpOnly" in back.headers["set-cookie"]
    assert "SameSite=strict" in back.headers["set-cookie"]


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "", "/é"],
)
def test_no_login_and_no_choice_of_colours_leads_to_another_site(people, wanted):
    person = people["board"]
    after = person.client.post("/login", data={"token": person.token, "next": wanted})
    assert after.headers["location"] == "/"
    after = person.client.post("/colours", data={"theme": "dark", "back": wanted})
    assert after.headers["location"] == "/"


def test_whoever_logs_out_is_nobody_at_once(people):
    person = people["board"]
    assert person.client.post("/logout", data={"csrf": "wrong"}).status_code == 403
    assert person.get("/").status_code == 200
    person.send("/", "/logout")
    assert person.get("/").headers["location"] == "/login"


def test_a_browser_keeps_no_page_for_whoever_uses_it_next(people):
    board = people["board"]
    for path in ("/", "/studies/wards/decision", "/studies/wards/log"):
        assert board.get(path).headers["Cache-Control"] == "no-store"
    form = forms_of(board.get("/").text)["/logout"]
    left = board.client.post("/logout", data=form)
    assert left.headers["Clear-Site-Data"] == '"cache"'


def test_a_choice_of_colours_lasts(people):
    person = people["board"]
    assert "data-theme" not in person.get("/").text
    person.client.post("/colours", data={"theme": "dark", "back": "/"})
    assert 'data-theme="dark"' in person.get("/studies/wards/log").text
    person.client.post("/colours", data={"theme": '"><script>', "back": "/"})
    assert 'data-theme="dark"' in person.get("/").text


def test_a_page_that_has_not_changed_is_not_sent_again(people, storage):
    for tab in TABS:
        path = f"/studies/wards/{tab}"
        first = people["board"].get(path)
        again = people["board"].get(path, **{"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.text) == (304, "")
    # Other users see other tabs of the same study.
    health = "/studies/wards/health"
    tag = people["board"].get(health).headers["ETag"]
    assert people["clinic"].get(health, **{"If-None-Match": tag}).status_code == 200
    _policy, environment = sites.wards()
    sites.carry_on(studies(storage), environment, 1)
    assert people["board"].get(health, **{"If-None-Match": tag}).status_code == 200
    # It shows how many pulls are overdue, and a lease is extended without an event.
    pull = studies(storage).ask(lease=60)
    tag = people["board"].get(health).headers["ETag"]
    studies(storage).extend(pull, 3_600)
    assert people["board"].get(health, **{"If-None-Match": tag}).status_code == 200


def test_a_page_shows_what_came_a_moment_ago_from_another_process(people, storage):
    before = people["board"].get("/studies/wards/decision").text
    assert "20 results so far" in before
    _, environment = sites.wards()
    sites.carry_on(studies(storage), environment, 3)
    assert "23 results so far" in people["board"].get("/studies/wards/decision").text


def test_pages_of_a_long_log_lead_from_one_end_to_the_other(people, storage):
    _, environment = sites.wards()
    sites.carry_on(studies(storage), environment, 40)
    seen: list[int] = []
    path = "/studies/wards/log"
    for _ in range(4):
        text = people["board"].get(path).text
        rows = text.partition("<tbody>")[2].partition("</tbody>")[0]
        seen += [int(n) for n in re.findall(r'<th scope="row" class="words">(\d+)</th>', rows)]
        older = re.search(r'<a href="([^"]+)">Older</a>', text)
        if older is None:
            break
        path = older[1]
    assert sorted(set(seen), reverse=True) == list(range(120, 0, -1))
    for after in ("-5", "99999999999999999999", "7"):
        assert people["board"].get(f"/studies/wards/log?after={after}").status_code == 200
    assert people["board"].get("/studies/wards/log?after=x").status_code == 404


def test_files_are_kept_for_ever_under_an_address_of_their_content(people):
    text = people["board"].get("/").text
    for name in ("report.css", "page.css", "page.js", "icon.svg"):
        assert static_address(name) in text
        answer = people["board"].get(static_address(name))
        assert "immutable" in answer.headers["Cache-Control"]
    assert people["board"].get("/static/page.000000000000.js").status_code == 404


def test_every_page_forbids_what_it_does_not_need(people):
    for path in ("/", "/login", "/studies/wards/decision", "/studies/wards/nothing"):
        policy = people["board"].get(path).headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        text = people["board"].get(path).text
        assert "style=" not in text
        assert not re.search(r"<script(?! src=\"/static/)|\son\w+=|javascript:", text)


def test_names_that_are_markup_are_text_on_every_page():
    from fairtrial import subpopulations
    from fairtrial.study.memory import MemoryStore

    store = MemoryStore()
    problem = subpopulations.Problem(
        [sites.NASTY, "b"], [sites.NASTY, "y"], floors=0.1, reward_range=(0, 1)
    )
    study = Study.create(
        problem, subpopulations.BlockBetting(problem), storage=store, name=sites.NASTY, seed=5
    )
    for pull in study.ask(12, worker=sites.NASTY):
        study.tell(pull, 0.5, actor=sites.NASTY)
    for pull in study.ask(4, worker=sites.NASTY)[:2]:
        study.fail(pull, sites.NASTY, actor=sites.NASTY)
    with visited(store) as people:
        listed = people["chief"].get("/").text
        first = re.search(r'<a href="(/studies/[^"]+)">', listed)
        assert first is not None
        base = first[1].rpartition("/")[0]
        for tab in (*TABS, "pulls"):
            answer = people["chief"].get(f"{base}/{tab}")
            assert answer.status_code == 200, tab
            assert "<script>alert" not in answer.text
            assert "&lt;script&gt;alert" in answer.text
        pulls = people["chief"].get(f"{base}/pulls").text
        pull = re.search(r'<a href="([^"]+/pulls/[0-9a-f]{32})">', pulls)
        assert pull is not None
        action = f"{base}/forms/fail"
        refused = people["chief"].send(pull[1], action, reason="")
        assert refused.status_code == 422
        assert people["chief"].send(pull[1], action, reason=sites.NASTY).status_code == 303


def test_a_storage_that_cannot_be_used_is_said_without_its_place(people, storage, monkeypatch):
    from fairtrial.errors import StorageError

    def broken(*_):
        raise StorageError("/secret/place.db: disk I/O error")

    monkeypatch.setattr(type(storage), "read_study", broken)
    answer = people["board"].get("/studies/wards/decision")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "The storage cannot be used now" in answer.text


def test_the_pages_own_style_changes_no_class_of_the_reports_sections():
    def classes(style):
        return set(re.findall(r"\.([a-z][\w-]*)", re.sub(r"\{[^}]*\}", "{}", style)))

    from fairtrial.server.pages import site

    own, shared = (site._content(name).decode() for name in ("page.css", "report.css"))
    assert not classes(own) & classes(shared)
