"""Zoom by addresses: links and a form that need no script, and what is refused."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fairtrial.study import Study
from tests.server.pages import sites
from tests.server.pages.people import forms_of

DECISION = "/studies/wards/decision"


def links(page):
    """Return the targets of the zoom's links, by their text."""
    found = re.findall(r'<li><a href="([^"]+)" data-zoom="\w+">([^<]+)</a>', page)
    return {text: unescape(link) for link, text in found}


def shown(page):
    return re.search(r'data-begin="(\d+)" data-end="(\d+)" data-total="(\d+)"', page).groups()


def test_links_lead_through_the_experiment_and_back(people):
    board = people["board"]
    page = board.get(DECISION).text
    assert shown(page) == ("0", "20", "20")
    assert links(page) == {
        "Zoom in": f"{DECISION}?from=5&to=15#zoom-evidence",
        "Newest": f"{DECISION}?from=15#zoom-evidence",
    }
    for step, part in (
        ("Zoom in", ("5", "15")),
        ("Later", ("10", "20")),
        ("Earlier", ("5", "15")),
        ("Zoom in", ("7", "12")),
        ("Zoom out", ("5", "15")),
        ("Newest", ("15", "20")),
        ("Whole", ("0", "20")),
    ):
        page = board.get(links(page)[step].partition("#")[0]).text
        assert shown(page) == (*part, "20")
        caption = f"Showing results {part[0]} to {part[1]} of 20."
        assert (caption in page) == (step != "Whole")


def test_a_part_is_drawn_with_its_own_axis_and_its_own_table(people):
    page = people["board"].get(f"{DECISION}?from=5&to=15").text
    axis = re.findall(r"<text[^>]*>([^<]+)</text>", page.partition('class="axis"')[2])
    assert axis[:3] == ["5", "10", "15"]
    table = page.partition("Evidence over time</span>")[2].partition("</table>")[0]
    rows = [int(n) for n in re.findall(r'<th scope="row" class="number">(\d+)</th>', table)]
    assert rows == list(range(5, 16))


def test_the_form_zooms_and_takes_numbers_as_pages_write_them(people):
    board = people["board"]
    form = forms_of(board.get(DECISION).text)[f"{DECISION}#zoom-evidence"]
    assert form == {"from": "0", "to": ""}
    answer = board.client.get(DECISION, params={"from": " 4 ", "to": "9"})
    assert shown(answer.text) == ("4", "9", "20")
    assert forms_of(answer.text)[f"{DECISION}#zoom-evidence"] == {"from": "4", "to": "9"}
    refused = board.client.get(DECISION, params={"from": "1,000"})
    assert "1,000" in refused.text
    assert refused.status_code == 422


def test_a_part_that_reaches_to_the_newest_result_grows_with_the_study(people, storage):
    address = f"{DECISION}?from=15"
    assert shown(people["board"].get(address).text) == ("15", "20", "20")
    _, environment = sites.wards()
    sites.carry_on(Study.open(storage, "wards"), environment, 4)
    assert shown(people["board"].get(address).text) == ("15", "24", "24")
    assert shown(people["board"].get(f"{DECISION}?from=2&to=8").text) == ("2", "8", "24")


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        ("15", "5", "“From” must be smaller than “To”; they are 15 and 5"),
        ("5", "5", "“From” must be smaller than “To”; they are 5 and 5"),
        ("20", "", "“From” must be smaller than “To”; they are 20 and 20"),
        ("-1", "", "it is “-1”"),
        ("nan", "", "it is “nan”"),
        ("1e1", "", "it is “1e1”"),
        ("inf", "-inf", "it is “inf”"),
        ("0x1", "", "it is “0x1”"),
        ("1.5", "", "it is “1.5”"),
        ("٣", "", "it is “٣”"),
        ("", "21", "“To” must be a whole number from 0 to 20"),
        ("", "9" * 5000, "“To” must be a whole number from 0 to 20"),
        ("", "1,2", "it is “1,2”"),
        ("\x00\r\nSet-Cookie: a=b", "", "Set-Cookie: a=b"),
        ("' OR 1=1 --", "", "OR 1=1"),
    ],
)
def test_a_part_that_there_is_not_is_refused_with_the_reason(people, begin, end, said):
    answer = people["board"].client.get(DECISION, params={"from": begin, "to": end})
    assert answer.status_code == 422
    alert = unescape(answer.text).partition('role="alert"')[2].partition("</div>")[0]
    assert said in alert
    assert "Everything is shown." in alert
    assert shown(answer.text) == ("0", "20", "20")
    assert "a=b" not in answer.headers.get("set-cookie", "")
    # The input stays, and a page with an error is not polled.
    typed = forms_of(answer.text)[f"{DECISION}#zoom-evidence"]
    assert typed["to"][:5] == end[:5]
    assert "data-state" not in answer.text
    assert len(answer.text) < 60_000


def test_a_query_that_is_markup_is_text(people):
    for begin, end in ((sites.NASTY, "3"), ("3", '"><img src=x onerror=alert(1)>')):
        for tab in ("decision", "fairness"):
            answer = people["board"].client.get(
                f"/studies/wards/{tab}", params={"from": begin, "to": end}
            )
            assert "<script>alert" not in answer.text
            assert "<img" not in answer.text


def test_those_who_recruit_learn_nothing_by_zooming(people):
    clinic, query = people["clinic"], "?from=2&to=9"
    for tab in ("decision", "fairness", "arms"):
        plain = clinic.get(f"/studies/wards/{tab}")
        assert plain.status_code == 404
        for tried in (query, "?from=30", "?from=x"):
            answer = clinic.get(f"/studies/wards/{tab}{tried}")
            # Not even the number of results, or whether a part would be refused.
            assert (answer.status_code, _body(answer)) == (404, _body(plain))
    for tab in ("recruitment", "health"):
        assert _body(clinic.get(f"/studies/wards/{tab}{query}")) == _body(
            clinic.get(f"/studies/wards/{tab}")
        )
    stranger = people["stranger"].get(f"{DECISION}{query}")
    assert stranger.status_code == 404


def _body(answer):
    """Return the text of a page without the moment and the address that colours return to."""
    return re.sub(r'As of event [^<]+|name="back" value="[^"]+"', "", answer.text)


def test_a_part_that_has_not_changed_is_not_sent_again(people, storage):
    board, address = people["board"], f"{DECISION}?from=2&to=9"
    tag = board.get(address).headers["ETag"]
    assert tag != board.get(DECISION).headers["ETag"]
    assert tag != board.get(f"{DECISION}?from=2&to=8").headers["ETag"]
    assert board.get(address, **{"If-None-Match": tag}).status_code == 304
    _, environment = sites.wards()
    sites.carry_on(Study.open(storage, "wards"), environment, 1)
    assert board.get(address, **{"If-None-Match": tag}).status_code == 200


def test_a_part_is_kept_by_whoever_logs_in_first_or_chooses_colours(people):
    person, address = people["board"], f"{DECISION}?from=2&to=9"
    assert forms_of(person.get(address).text)["/colours"]["back"] == address
    back = person.client.post("/colours", data={"theme": "dark", "back": address})
    assert back.headers["location"] == address
    person.client.cookies.clear()
    form = forms_of(person.get(person.get(address).headers["location"]).text)["/login"]
    there = person.client.post("/login", data=form | {"token": person.token})
    assert there.headers["location"] == address


def test_tabs_without_pictures_over_time_have_no_zoom(people):
    for tab in ("arms", "health", "log"):
        page = people["board"].get(f"/studies/wards/{tab}?from=2&to=9")
        assert page.status_code == 200
        assert 'class="zoom"' not in page.text


def test_a_study_without_results_has_nothing_to_zoom():
    from fairtrial.study.memory import MemoryStore
    from tests.server.pages.people import visited

    store = MemoryStore()
    policy, environment = sites.wards()
    study = Study.create(policy.problem, policy, storage=store, name="wards", seed=5)
    with visited(store) as people:
        for pulls in range(3):
            page = people["board"].get(DECISION)
            assert page.status_code == 200
            assert ('class="zoom"' in page.text) == (pulls == 2)
            assert people["board"].get(f"{DECISION}?from=3").status_code == 422
            sites.carry_on(study, environment, 1)
        assert shown(people["board"].get(f"{DECISION}?from=1&to=2").text) == ("1", "2", "3")


def test_every_figure_over_time_of_every_family_can_be_zoomed(tmp_path):
    from tests.server.pages.people import visited

    storage = f"sqlite:///{tmp_path}/all.db"
    sites.make_studies(storage, 40)
    with visited(storage) as people:
        zoomed = set()
        for name in sites.STUDIES:
            for tab in ("decision", "fairness"):
                page = people["board"].get(f"/studies/{name}/{tab}?from=3&to=9").text
                figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
                over_time = [one for one in figures if "timeline" in one]
                assert page.count('class="timeline') == len(over_time)
                for one in over_time:
                    assert 'class="zoom"' in one
                    assert "Showing results 3 to 9 of" in one
                    zoomed.add((name, re.search(r'id="zoom-([\w-]+)"', one)[1]))
                assert len(set(re.findall(r' id="([^"]+)"', page))) == page.count(' id="')
    assert zoomed == {
        *((name, "evidence") for name in sites.STUDIES if name not in ("articles", "readings")),
        *(("checkouts", f"distance-of-measure-{number}") for number in range(3)),
        ("wards", "distance-from-the-limit"),
        ("loans", "distance-from-the-bound"),
        ("articles", "pulls-behind"),
    }
