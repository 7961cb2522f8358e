"""The report, read as a browser reads it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fairtrial import subpopulations
from fairtrial.core import AnswerStatus, Effect, Estimate, ValueLimit
from fairtrial.core.progress_parts import Losses
from fairtrial.errors import InvalidArgument
from fairtrial.presentation.charts import evidence_chart
from fairtrial.presentation.cuts import MOST_ARMS
from fairtrial.presentation.limits import Standing
from fairtrial.presentation.measures import missing_a_limit
from fairtrial.presentation.words import NOTHING
from fairtrial.report import write_report
from fairtrial.study import Study
from tests.messages import raises
from tests.plots.plot_fakes import (
    ARMS,
    GROUPS,
    BlockBetting,
    Endless,
    FakeStudy,
    GridProblem,
    cell,
    growing_trace,
    progress_of_grid,
)

REPOSITORY = Path(__file__).parents[2]
OPTIMAL = np.arange(1, 13) / 78
NASTY = [
    "<script>alert(1)</script>",
    "\"quotes\" & 'apostrophes'",
    "治療 \u202e reversed",
    "control \x00\x07 and lone \ud800",
    "x" * 300,
]


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        found = [self] if self.tag == tag else []
        for child in self.children:
            if isinstance(child, Node):
                found += child.all(tag)
        return found

    def of_class(self, name: str) -> list[Node]:
        return [n for n in self.everything() if name in (n.attributes.get("class") or "").split()]

    def everything(self) -> list[Node]:
        inner = [n for c in self.children if isinstance(c, Node) for n in c.everything()]
        return [self, *inner]

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)


class Reader(HTMLParser):
    """Builds the tree and refuses what is not well-formed."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        assert len(node.attributes) == len(attrs), f"<{tag}> repeats an attribute"
        self.open[-1].children.append(node)
        if tag != "meta":
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parse(page: str) -> Node:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


@pytest.fixture
def report(tmp_path):
    def build(study=None, **options) -> Node:
        path = write_report(study or FakeStudy(), tmp_path / "report.html", **options)
        return parse(path.read_text(encoding="utf-8"))

    return build


def rows_of(table: Node) -> list[list[str]]:
    return [
        [cell.text for cell in row.children if isinstance(cell, Node)] for row in table.all("tr")
    ]


def table_named(page: Node, start: str) -> list[list[str]]:
    (table,) = [t for t in page.all("table") if t.all("caption")[0].text.startswith(start)]
    return rows_of(table)


def section(page: Node, name: str) -> Node:
    (found,) = [s for s in page.all("section") if s.all("h2")[0].text == name]
    return found


def differing(progress, arms):
    """Let a progress report how far arms are from the last of them."""
    effects = tuple(Effect(arm, arms[-1], None, 0.1, -0.1, 0.3) for arm in arms[:-1])
    return replace(progress, find_effects=lambda: effects)


STUDIES = {
    "decided": FakeStudy(differing(progress_of_grid(), ARMS)),
    "no arm": FakeStudy(progress_of_grid(answer=None)),
    "undecided": FakeStudy(progress_of_grid(status="undecided")),
    "running": FakeStudy(progress_of_grid(status="running")),
    "no pulls": FakeStudy(progress_of_grid(status="running", told=0, answer=None, evidence=None)),
    "no floors": FakeStudy(progress_of_grid(limit=None)),
    "no groups": FakeStudy(
        progress_of_grid(["a", "b"], [], answer="a"), GridProblem(["a", "b"], [])
    ),
    "no estimates": FakeStudy(replace(progress_of_grid(), actions=(), arms=())),
    "nasty": FakeStudy(
        differing(progress_of_grid(NASTY, NASTY[:2], answer=NASTY[0]), NASTY),
        GridProblem(NASTY, NASTY[:2]),
        name=NASTY[0],
        policy=BlockBetting(delta=NASTY[1]),
    ),
}


@pytest.fixture(params=STUDIES)
def any_page(request, report):
    return report(STUDIES[request.param])


# ----------------------------------------------------------------------- the page


def test_every_page_is_well_formed_and_names_language_title_and_width(any_page):
    (html,) = any_page.all("html")
    assert html.attributes["lang"] == "en"
    (head,) = any_page.all("head")
    assert len(head.all("title")) == len(any_page.all("h1")) == len(any_page.all("main")) == 1
    assert any(m.attributes.get("name") == "viewport" for m in any_page.all("meta"))
    assert [h.text for h in any_page.all("h2")] == ["Decision", "Arms", "Fairness", "Health", "Log"]


def test_no_page_runs_or_fetches_anything(any_page):
    tags = {node.tag for node in any_page.everything()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "use", "base", "form"}
    for node in any_page.everything():
        assert not {"src", "href", "srcset", "action", "xlink:href"} & node.attributes.keys()
        assert not any(name.startswith("on") for name in node.attributes)
    (style,) = any_page.all("style")
    assert not re.search(r"url\(|@import|https?:|//", style.text)


def test_a_policy_of_contents_forbids_whatever_was_overlooked(any_page):
    (policy,) = [m for m in any_page.all("meta") if "http-equiv" in m.attributes]
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_every_figure_has_text_caption_table_and_a_key_of_what_is_drawn(any_page):
    assert any_page.all("figure")
    for figure in any_page.all("figure"):
        (caption,) = figure.all("figcaption")
        (picture,) = [n for n in figure.everything() if n.attributes.get("role") == "img"]
        assert picture.attributes["aria-label"] == caption.text
        assert caption.text.endswith(".")
        assert len(figure.all("table")) == 1
        assert bool(figure.of_class("key")) == ("no result yet" not in caption.text)


def test_captions_state_numbers(report):
    for figure in report().all("figure"):
        assert re.search(r"\d", figure.all("figcaption")[0].text)


def test_every_table_has_a_caption_and_full_rows_with_heads(any_page):
    for table in any_page.all("table"):
        assert table.all("caption")[0].text
        widths = {len(row) for row in rows_of(table)}
        assert len(widths) == 1
        assert {h.attributes["scope"] for h in table.all("th")} == {"col", "row"} or not table.all(
            "tbody"
        )[0].children


def test_identifiers_are_unique_and_sections_are_labelled_by_them(any_page):
    names = [n.attributes["id"] for n in any_page.everything() if "id" in n.attributes]
    assert len(names) == len(set(names))
    for part in any_page.all("section"):
        assert part.attributes["aria-labelledby"] in names


def test_hostile_labels_are_text_and_nothing_else(report):
    page = report(STUDIES["nasty"], title="</title><b>", facts={"<i>": "<u>", "x&y": 3})
    assert not {node.tag for node in page.everything()} & {"b", "i", "u", "script"}
    assert page.all("title")[0].text == "</title><b>"
    assert page.of_class("answer")[0].text == f"Answer: {NASTY[0]}"
    assert table_named(page, "Facts")[1:] == [["<i>", "<u>"], ["x&y", "3"]]
    assert "\x00" not in page.text


def test_long_labels_lose_their_middle_and_keep_themselves_as_title(report):
    page = report(STUDIES["nasty"])
    (first, *_) = [n for n in page.all("bdi") if n.attributes.get("title") == "x" * 300]
    assert len(first.text) == 48
    assert max(len(n.text) for n in page.of_class("name")) <= 48


def test_the_same_study_gives_the_same_bytes(tmp_path):
    one = write_report(FakeStudy(), tmp_path / "one.html", optimal=OPTIMAL)
    two = write_report(FakeStudy(), str(tmp_path / "two.html"), optimal=OPTIMAL)
    assert one.read_bytes() == two.read_bytes()


def test_many_arms_and_groups_stay_a_page_of_moderate_size(tmp_path):
    arms, groups = [f"arm {i}" for i in range(40)], [f"group {i}" for i in range(10)]
    study = FakeStudy(
        progress_of_grid(arms, groups, answer="arm 3", told=40_000), GridProblem(arms, groups)
    )
    path = write_report(study, tmp_path / "big.html")
    page = parse(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 600_000
    assert len(page.of_class("panel")) == 1 + 10 + 10 + 1
    assert len(table_named(page, "Floors with their distance")) == 1 + 10 * MOST_ARMS


def test_of_thousands_of_arms_the_page_shows_the_best_and_says_how_many_it_leaves_out(report):
    arms = [f"arm {number}" for number in range(1728)]
    end = progress_of_grid(arms, [], answer="arm 3", told=50_000)
    page = report(FakeStudy(end, GridProblem(arms, [])))
    _, *rows = table_named(page, "Estimates by arm")
    assert len(rows) == MOST_ARMS
    assert rows[0][0] == "arm 3"
    means = sorted(action.mean for action in end.actions[:3] + end.actions[4:] if action.mean)
    shown = [float(row[2].replace("\N{MINUS SIGN}", "-")) for row in rows[1:]]
    assert shown == pytest.approx(means[:-MOST_ARMS:-1], abs=1e-3)
    assert len(table_named(page, "Results and share")) == 1 + MOST_ARMS
    part = section(page, "Arms").text
    assert part.count(f"Showing {MOST_ARMS} of 1,728 arms: the answer, then the best") >= 2


def weighed(**wealth):
    """Return a decided progress with the evidence against every answer."""
    answers = tuple(
        AnswerStatus(name if name != "none" else None, w > 3, log_wealth=w)
        for name, w in wealth.items()
    )
    return progress_of_grid(answers=answers, evidence_scale="log_e_value")


def test_the_page_says_what_speaks_against_every_other_answer_and_what_that_means(report):
    end = weighed(zdv=3.5, zdv_ddi=-1.0, zdv_ddc=7.4, ddi=40.0, none=3.1)
    page = report(FakeStudy(end))
    head, *rows = table_named(page, "Evidence against each answer")
    assert head == ["Answer", "Evidence against it (20 or more rules it out)", "Standing"]
    by_answer = {row[0]: row[1:] for row in rows}
    assert by_answer["zdv"][0] == "33.1"
    assert by_answer["ddi"][0] == "over a million"
    assert by_answer["zdv_ddi"][1] == "accepted"
    assert by_answer["no arm"][1].startswith("ruled out")
    said = section(page, "Decision").text
    assert "the evidence against a right answer ever reaches 20 is at most 5 %" in said
    assert "The strength of evidence against every other answer has reached 20." in said
    assert "3.00" not in said
    assert "against a threshold" not in said


def test_the_moment_of_a_ruling_is_that_of_the_first_progress_that_says_it(report):
    study = FakeStudy(weighed(zdv=3.5, zdv_ddi=0.0))
    early = [
        replace(study.end, told=n,
                answers=tuple(replace(one, rejected=False) for one in study.end.answers))
        for n in (0, 400)
    ]  # fmt: skip
    study.trace = lambda points=200: [*early, replace(study.end, told=700), study.end]
    rows = table_named(report(study), "Evidence against each answer")
    assert ["zdv", "33.1", "ruled out by result 700"] in rows


def test_a_policy_that_never_stops_serves_on_and_its_shares_are_shown(report):
    shares = tuple(
        Estimate({"arm": name}, pulls=pulls, mean=pulls / 40, lower_limit=limit)
        for name, pulls, limit in [("a", 30, 0.5), ("b", 10, 0.25)]
    )
    cells = tuple(cell(20, labels={"arm": name}, limit=None) for name in "ab")
    running = progress_of_grid(status="running", told=40, evidence=None, threshold=None)
    end = replace(running, arms=shares, actions=cells, quantity="share", remaining=None)
    study = FakeStudy(end, GridProblem("ab", []), policy=Endless())
    page = report(study)
    assert page.of_class("answer")[0].text.startswith("Serving continues: ")
    assert "not yet a decision" not in section(page, "Decision").text
    assert "No evidence" not in page.text
    _, *rows = table_named(page, "Shares of 40 pulls")
    assert rows[1][:5] == ["b", "10", "25.0 %", "25.0 %", "25.0 %"]
    _, *estimates = table_named(page, "Estimates by arm")
    assert [row[1:3] for row in estimates] == [["20", "0.2000"]] * 2
    assert "Every arm is guaranteed its share of the pulls" in section(page, "Fairness").text
    measured = replace(end, largest_shortfall=0.75)
    page = report(FakeStudy(measured, GridProblem("ab", []), policy=Endless()))
    assert "ever more than 0.75 pulls behind" in section(page, "Fairness").text


def test_the_report_needs_no_matplotlib(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from fairtrial.report import write_report\n"
        "from tests.plots.plot_fakes import FakeStudy\n"
        f"write_report(FakeStudy(), {str(tmp_path / 'r.html')!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_a_file_that_cannot_be_written_and_senseless_shares_are_refused(tmp_path):
    with raises(InvalidArgument, "path"):
        write_report(FakeStudy(), tmp_path / "missing" / "report.html")
    with raises(InvalidArgument, "optimal"):
        write_report(FakeStudy(), tmp_path / "report.html", optimal=2 * OPTIMAL)
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------- what it says


def test_decision_says_answer_guarantee_assumptions_source_and_pulls(report):
    said = section(report(facts={"Patients": "2,139"}), "Decision").text
    for part in (
        "Answer: zdv_ddi",
        "ever gives a wrong answer is at most 5 % (proven: block betting).",
        "Why: Every other answer was rejected.",
        "1,322 results so far, 4 open.",
        "Proven (block betting): The answer is wrong with probability at most 0.05.",
        "Rewards lie in [-1, 1].",
        "Source: Wealth processes and Ville's inequality, theorem 2.",
        "More results will not change this answer: the study has stopped.",
        "2,139",
    ):
        assert part in said


def test_decision_of_a_running_study_says_what_is_missing(report):
    progress = progress_of_grid(status="running", evidence=2.0, threshold=3.0)
    said = section(report(FakeStudy(progress)), "Decision").text
    assert "Evidence: 2 of 3 so far." in said
    assert "1,322 results so far, 4 open." in said
    assert said.count("420") == 1
    assert "Answer" not in said
    bounded = section(report(FakeStudy(replace(progress, remaining_at_most=900))), "Decision").text
    assert "at most 900" in bounded
    waits = replace(progress, remaining=None, no_forecast="nothing can be forecast until then")
    said = section(report(FakeStudy(waits)), "Decision").text
    assert said.count("Nothing can be forecast until then.") == 1
    assert "420" not in said


@pytest.mark.parametrize(
    ("open_", "said"),
    [
        (0, "No more results: the study has stopped undecided, and asks for no more."),
        (1, "Perhaps the 1 result that is still open: the study asks for no more."),
        (3, "Perhaps the 3 results that are still open: the study asks for no more."),
    ],
)
def test_only_open_results_can_still_decide_a_study_that_has_stopped(report, open_, said):
    stopped = replace(progress_of_grid(status="undecided"), outstanding=open_)
    assert said in section(report(FakeStudy(stopped)), "Decision").text


@pytest.mark.parametrize(
    ("status", "usual"),
    [("running", "More results: the study"), ("undecided", "the study asks for no more.")],
)
def test_more_results_do_not_seem_to_help_if_too_many_are_lost(report, status, usual):
    few, many = (
        replace(progress_of_grid(status=status), losses=Losses("the worst value", 0.1, too_many))
        for too_many in (False, True)
    )
    said = section(report(FakeStudy(few)), "Decision").text
    assert usual in said
    assert "more results cannot decide" not in said
    said = section(report(FakeStudy(many)), "Decision").text
    assert "Fewer lost results: while so many are lost, more results cannot decide." in said
    assert usual not in said


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("no arm", "Answer: no arm is acceptable"),
        ("undecided", "No decision: "),
        ("no pulls", "No decision yet: no arm leads so far"),
    ],
)
def test_answers_that_are_no_arm(report, name, answer):
    assert report(STUDIES[name]).of_class("answer")[0].text.startswith(answer)


def test_a_heuristic_is_called_one(report):
    end = progress_of_grid()
    weak = end.recommendation.guarantee.weakened("Nothing was lost.")
    progress = replace(end, recommendation=replace(end.recommendation, guarantee=weak))
    said = section(report(FakeStudy(progress)), "Decision").text
    assert "Heuristic, not proven" in said
    assert "Nothing was lost." in said


def test_a_calibrated_guarantee_is_called_one(report):
    end = progress_of_grid()
    measured = replace(end.recommendation.guarantee, proven=False, calibrated=True)
    progress = replace(end, recommendation=replace(end.recommendation, guarantee=measured))
    said = section(report(FakeStudy(progress)), "Decision").text
    assert "Calibrated, not proven: its errors were measured" in said


def test_without_a_guarantee_none_is_claimed(report):
    end = progress_of_grid()
    bare = replace(end, recommendation=replace(end.recommendation, guarantee=None))
    assert "The policy claims no guarantee." in section(report(FakeStudy(bare)), "Decision").text


def test_the_narrowest_floor_of_the_answer_is_named(report):
    cells = [
        cell(mean=mean, labels={"arm": arm, "group": group})
        for arm, group, mean in (
            ("a", "x", 0.5),
            ("a", "y", 0.25),
            ("b", "x", -3.0),
            ("b", "y", 0.01),
        )
    ]
    progress = replace(progress_of_grid(answer="a"), actions=tuple(cells), arms=())
    study = FakeStudy(progress, GridProblem("ab", "xy"))
    said = section(report(study), "Decision").text
    assert "Its narrowest floor, 0, is that of a / y: the mean 0.25 is 0.25 above it." in said


def test_evidence_is_drawn_to_scale(report):
    trace = growing_trace(progress_of_grid())
    page = report()
    paths = {
        n.attributes["class"]: n.attributes["d"]
        for n in page.all("path")
        if n.attributes.get("vector-effect")
    }
    points = [tuple(map(float, p.split(","))) for p in re.split("[ML]", paths["evidence"])[1:]]
    assert len(points) == len(trace)
    high = max(m.evidence for m in trace)
    for (x, y), moment in zip(points, trace, strict=True):
        assert x == pytest.approx(1000 * moment.told / 1322, abs=0.06)
        assert y == pytest.approx(1000 * (1 - moment.evidence / (1.08 * high)), abs=0.06)
    threshold = {float(p.split(",")[1]) for p in re.split("[ML]", paths["threshold"])[1:]}
    assert list(threshold) == [pytest.approx(1000 * (1 - np.log(20) / (1.08 * high)), abs=0.06)]


def test_leaders_fill_the_strip_under_the_evidence(report):
    (strip,) = report().of_class("strip")
    periods = strip.of_class("period")
    assert [one.all("title")[0].text for one in periods] == ["zdv", "ddi", "zdv_ddi"]
    widths = [float(one.attributes["width"][:-1]) for one in periods]
    assert sum(widths) == pytest.approx(100, abs=0.05)


def test_arms_are_listed_with_results_and_intervals(report):
    study = FakeStudy()
    head, *rows = table_named(report(study), "Estimates by arm")
    assert head == ["Arm", "Results", "Mean", "Lower", "Upper", "Limits"]
    answer, *others = sorted(study.end.arms, key=lambda arm: arm.labels["arm"] != "zdv_ddi")
    ranked = [answer, *sorted(others, key=lambda arm: -arm.mean)]
    for row, arm in zip(rows, ranked, strict=True):
        assert row[0] == arm.labels["arm"]
        shown = [float(text.replace("\N{MINUS SIGN}", "-")) for text in row[2:5]]
        assert shown == pytest.approx([arm.mean, arm.lower, arm.upper], abs=5e-5)
        assert row[5] == missing_a_limit(study.end).get(row[0], NOTHING)


def test_differences_are_listed_overall_and_by_group(report):
    effects = tuple(
        Effect(arm, "<b>zdv</b>", group, value, value - 0.1, value + 0.1)
        for group in (None, *GROUPS)
        for arm, value in (("zdv_ddi", 0.25), ("ddi", 0.125))
    )
    progress = replace(progress_of_grid(), find_effects=lambda: effects)
    page = report(FakeStudy(progress))
    head, *rows = table_named(page, "Overall")
    assert head == ["Arm", "Difference", "Lower", "Upper"]
    assert [row[0] for row in rows] == ["zdv_ddi", "ddi"]
    assert [float(text) for text in rows[0][1:]] == [0.25, 0.15, 0.35]
    assert len(table_named(page, "By group")) == 1 + 2 * len(GROUPS)
    assert "Difference from <b>zdv</b>" in [node.text for node in page.all("h3")]


def test_allocation_bars_and_ticks_are_to_scale(report):
    study = FakeStudy()
    part = section(report(study, optimal=OPTIMAL), "Arms")
    figure = part.all("figure")[1]
    (chart,) = figure.of_class("panels")
    shares = np.array([a.pulls for a in study.end.actions]) / study.end.told
    most = 1.04 * max(shares.max(), OPTIMAL.max())
    order = [3 * arm + group for group in range(3) for arm in range(4)]
    widths = [float(n.attributes["width"][:-1]) for n in chart.of_class("bar")]
    ticks = [float(n.attributes["x1"][:-1]) for n in chart.of_class("limit")]
    assert widths == pytest.approx(100 * shares[order] / most, abs=0.01)
    assert ticks == pytest.approx(100 * OPTIMAL[order] / most, abs=0.01)
    misplaced = 50 * np.abs(shares - OPTIMAL).sum()
    assert f"{misplaced:.3g} % of all went elsewhere than in" in figure.all("figcaption")[0].text


def test_fairness_lists_every_floor_with_distance_and_standing(report):
    cells = [
        cell(mean=mean, half=0.1, limit=0.2, labels={"arm": arm, "group": "x"})
        for arm, mean in {"a": 0.5, "b": 0.25, "c": 0.15, "d": 0.0}.items()
    ]
    progress = replace(progress_of_grid(answer="a"), actions=tuple(cells), arms=())
    page = report(FakeStudy(progress, GridProblem("abcd", "x")))
    _, *rows = table_named(page, "Every floor")
    assert [row[-3:] for row in rows] == [
        ["0.3000", "0.2000", "met"],
        ["0.0500", "\N{MINUS SIGN}0.0500", "met so far, not settled"],
        ["\N{MINUS SIGN}0.0500", "\N{MINUS SIGN}0.1500", "missed so far, not settled"],
        ["\N{MINUS SIGN}0.2000", "\N{MINUS SIGN}0.3000", "missed"],
    ]
    caption = section(page, "Fairness").all("figcaption")[0].text
    assert "4 floors: 1 met, 1 met so far, not settled" in caption
    assert "Of a: 1 met." in caption
    assert "the guarantee covers the floors of the answer together" in caption


def test_ceilings_are_called_ceilings_and_distance_turns_around(report):
    cells = (cell(mean=0.5, half=0.1, limit=None, upper_limit=0.2),)
    progress = replace(progress_of_grid(answer="a"), actions=cells, arms=())
    page = report(FakeStudy(progress, GridProblem("a", "x", "minimize")))
    _, row = table_named(page, "Every ceiling")
    assert row[-3:] == ["\N{MINUS SIGN}0.3000", "\N{MINUS SIGN}0.4000", "missed"]


def test_marks_of_intervals_are_to_scale_and_tell_standing_without_colour(report):
    cells = [
        cell(mean=mean, half=0.1, labels={"arm": arm, "group": "x"})
        for arm, mean in {"a": 0.5, "b": 0.05, "c": -0.05, "d": -0.5}.items()
    ]
    progress = replace(progress_of_grid(answer="a"), actions=tuple(cells), arms=())
    page = report(FakeStudy(progress, GridProblem("abcd", "x")))
    chart = section(page, "Fairness").of_class("panels")[0]
    marks = [(n.attributes["x"], n.all("path")[0].attributes) for n in chart.of_class("mark")]
    circle, cross = marks[0][1]["d"], marks[3][1]["d"]
    assert circle != cross
    assert [look["d"] for _, look in marks] == [circle, circle, cross, cross]
    assert ["open" in look["class"] for _, look in marks] == [False, True, True, False]
    at = [float(x[:-1]) for x, _ in marks]
    (floor,) = {float(n.attributes["x1"][:-1]) for n in chart.of_class("limit")}
    assert at[0] - floor == pytest.approx(10 * (at[1] - floor), abs=0.2)
    assert at[3] < at[2] < floor < at[1] < at[0]


def test_the_key_explains_the_marks_that_occur_and_no_others(report):
    page = report(STUDIES["no floors"])
    (key, *_) = section(page, "Arms").of_class("key")
    assert [item.text for item in key.all("li")] == [
        "mean",
        "anytime interval of each mean on its own, for orientation",
    ]


def test_no_floor_is_said_so(report):
    assert (
        "This study sets no limit for any group"
        in section(report(STUDIES["no floors"]), "Fairness").text
    )


def test_health_shows_counts_and_that_the_log_replays(report):
    page = report()
    assert (
        "The log replays to the same decisions: 2,650 events checked."
        in section(page, "Health").text
    )
    rows = dict(table_named(page, "State of the study")[1:])
    assert rows["Results that came late"] == "2"
    assert rows["A pull whose time runs out is"] == "given up"


def test_a_log_that_does_not_replay_is_a_warning(report):
    page = report(FakeStudy(healthy=False))
    (warning,) = page.of_class("warning")
    assert "event 17: recorded action 3, replayed action 5" in warning.text


def test_what_the_results_contradict_is_a_warning(report):
    study = FakeStudy()
    study.health = lambda **_: {"open": 3, "warnings": ["the results contradict <noise_std>"]}
    page = report(study)
    (warning,) = page.of_class("warning")
    assert warning.text == "The results contradict <noise_std>."
    assert table_named(page, "State of the study")[1:] == [["Pulls without a result yet", "3"]]


def test_health_without_anything_amiss_lists_no_zeros(report):
    study = FakeStudy()
    study.health = lambda **_: {"open": 0, "lost": 0, "expiry": "drop"}
    text = section(report(study), "Health").text
    assert "No pull is open, and none was lost, late, corrected or told twice." in text
    assert "time runs out" not in text


def test_the_page_begins_with_the_question(report):
    problem = subpopulations.Problem(ARMS, GROUPS, floors=0, reward_range=(-1, 1))
    page = report(FakeStudy(problem=problem))
    rows = dict(table_named(page, "What was asked")[1:])
    assert rows == dict(problem.in_words())
    assert "among those whose mean in every group is at least 0" in rows["Question"]
    assert page.text.index("The question") < page.text.index("Decision")


def test_nested_health_is_flattened(report):
    study = FakeStudy()
    study.health = lambda **_: {"pulls": {"open": 3, "late_by": 2.5}, "ok": True, "lease": None}
    rows = table_named(report(study), "State of the study")[1:]
    assert rows == [
        ["pulls: open", "3"],
        ["pulls: late by", "2.5"],
        ["ok", "yes"],
        ["lease", "\N{EN DASH}"],
    ]


def test_log_shows_both_ends_and_how_to_check(report):
    page = report()
    _, *rows = table_named(page, "First and last of 40 events")
    assert [row[0] for row in rows] == [*map(str, range(1, 9)), "…", *map(str, range(33, 41))]
    assert rows[0] == ["1", "pull asked for", "zdv / upto52w", "", "2025-03-01 12:00:01", "ab" * 6]
    assert rows[1][1:4] == ["result", "zdv / over52w", "0.25"]
    assert rows[8][1] == "24 left out"
    origin = dict(table_named(page, "The study consists of these")[1:])
    assert origin["seed"] == "7"
    assert origin["last event, SHA-256"] == "9f" * 32
    assert origin["policy"] == "BlockBetting(delta=0.05)"
    assert origin["problem, SHA-256"] == FakeStudy().problem.digest


@pytest.mark.parametrize("number_of", [0, 1, 8, 9, 16, 17])
def test_short_logs_are_shown_whole(report, number_of):
    study = FakeStudy()
    study.log = (study.log * 2)[:number_of]
    _, *rows = table_named(report(study), "First and last of")
    shown = [row[0] for row in rows]
    assert len(shown) == min(number_of, 17)
    assert ("…" in shown) == (number_of > 16)


def test_the_command_to_check_is_quoted_for_the_shell(report):
    page = report(FakeStudy(name="it's; rm -rf /"))
    command, python = page.all("pre")[0].text.splitlines()
    assert shlex.split(command) == [
        "fairtrial",
        "study",
        "verify",
        "it's; rm -rf /",
        "--storage",
        "STORAGE",
    ]
    assert python == 'ft.Study.open(STORAGE, "it\'s; rm -rf /").verify()'


def test_an_event_of_named_fields_or_of_no_action_is_shown(report):
    study = FakeStudy()
    study.log = study.log[:2]
    record, wait = study.log
    record.outcome = {"age": 31, "outcome": 1}
    wait.action, wait.kind, wait.outcome = None, "wait", None
    _, first, second = table_named(report(study), "First and last of")
    assert first[3] == "age: 31, outcome: 1"
    assert second[1:4] == ["no pull to give yet", "", ""]


def test_the_blinded_page_shows_who_came_and_nothing_of_how_they_fared(report):
    study = FakeStudy()
    page = report(study, blinded=True, facts={"Lower bound": "812"})
    rows = dict(table_named(page, "So far")[1:])
    assert rows["results"] == "1,322"
    assert {name for name in rows if name.startswith("results of ")} == {
        f"results of {group}" for group in GROUPS
    }
    headings = [node.text for node in page.all("h2")]
    assert headings == ["Recruitment", "Health"]
    assert "812" not in page.text
    for arm in ARMS:
        assert arm not in page.all("main")[0].text.replace(study.name, "")


def test_the_blinded_page_shows_health_as_the_blinded_may_see_it(report):
    study = FakeStudy()
    study.health = lambda *, blinded=False: {
        "warnings": ["something was found" if blinded else f"results of {ARMS[0]} have changed"]
    }
    (warning,) = report(study, blinded=True).of_class("warning")
    assert warning.text == "Something was found."
    (warning,) = report(study).of_class("warning")
    assert warning.text == f"Results of {ARMS[0]} have changed."


@pytest.mark.parametrize("delta", [1e-310, 5e-324])
def test_an_error_that_hardly_anybody_accepts_is_no_obstacle_to_a_report(delta, tmp_path):
    """Its e-value would not be a finite number."""
    problem = subpopulations.Problem(["a", "b"], 1, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem, delta=delta)
    with Study.create(problem, policy, storage="memory://", name="strict", seed=1) as study:
        for _ in range(60):
            study.tell(study.ask(), 0.5)
        page = write_report(study, tmp_path / "strict.html").read_text()
    assert "ruled out at 1.01e+304" in page


def test_counterfactual_gaps_are_held_against_their_bound(report):
    problem = GridProblem(["a", "b"], [])
    end = progress_of_grid(["a", "b"], [], answer="a")
    arms = tuple(replace(one, lower_limit=None) for one in end.actions)
    gaps = {"a": (0.05, -0.05), "b": (-0.5, 0.5)}
    bounds = [
        ValueLimit(arm, "counterfactual gap", of, 0.2, value=value)
        for arm, values in gaps.items()
        for of, value in zip(("s instead of t", "t instead of s"), values, strict=True)
    ]
    study = FakeStudy(replace(end, actions=arms, arms=arms, value_limits=tuple(bounds)), problem)
    page = report(study)
    head, *rows = table_named(page, "Counterfactual gaps")
    assert head == ["Arm", "Of", "Counterfactual gap", "Standing"]
    assert rows[0] == ["a", "s instead of t", "0.050", Standing.DECIDED.value]
    assert [row[-1] for row in rows[2:]] == [Standing.LIKELY_BROKEN.value] * 2
    said = section(page, "Fairness").text
    assert "if they had another value and everything else stayed the same" in said
    assert "below 0 the bound is exceeded" in said


def test_distances_from_limits_are_drawn_over_the_results(report):
    said = section(report(), "Fairness").text
    assert "over the results; below 0 a floor is missed. Nearest to its limit now:" in said
    assert len(table_named(report(), "Distance from the limit")) > 2


def test_how_long_results_take_is_said_and_shown(report):
    page = report()
    assert "Time from a pull to its result, of 20 results." in section(page, "Health").text
    assert table_named(page, "Results by the time they took")[1] == [
        "1 to 10 seconds",
        "20",
        "100.0 %",
    ]
    blinded = report(blinded=True)
    assert "How long results take" in section(blinded, "Health").text
    assert "Pulls that brought a result" not in section(blinded, "Health").text


@pytest.mark.parametrize("participants", [None, "W##"])
def test_health_speaks_of_pulls_only_where_they_are_no_participants(report, participants):
    problem = subpopulations.Problem(["A", "B"], groups=1, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem)
    given = {"storage": "memory://", "name": "trial", "participants": participants}
    with Study.create(problem, policy, **given) as study:
        for number in ("W01", "W02"):
            study.tell(study.ask(participant=number) if participants else study.ask(), 1.0)
        full, blinded = report(study), report(study, blinded=True)
    said = section(full, "Health").text
    assert ("pull" in said.lower()) == (participants is None)
    assert ("Time from a participant's assignment to the result" in said) == bool(participants)
    assert ("Participants with a result" in said) == bool(participants)
    assert "pull" not in section(blinded, "Health").text.lower()


def test_a_newcomer_finds_the_words_of_the_page_explained(report):
    (words,) = report().of_class("glossary")
    assert {"Arm", "Pull", "Evidence", "Leads"} <= {one.text for one in words.all("dt")}


def test_corrections_closures_and_accesses_are_listed_with_who_and_why(report):
    problem = subpopulations.Problem(["A", "B", "C"], ["x"], reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem)
    rules = {"masked": True, "kits": "K####"}
    given = {"storage": "memory://", "name": "trial", "seed": 7}
    with Study.create(problem, policy, **given, **rules) as study:
        study.supply(9, actor="pharmacy")
        first, second = study.ask(2)
        study.tell(first, 0.2512345)
        assert "accesses to the codes" not in report(study).text
        study.amend(first, 0.2512354, "typing error", actor="Dr No")
        sealed = study.seal_names({"A": "placebo", "B": "10 mg", "C": "20 mg"}, actor="pharmacy")
        study.unmask(sealed, "overdose", pull=second, actor="Dr Who")
        study.close_arm("C", "harm", actor="board")
        _, *rows = table_named(report(study), "What people did")
    assert [row[1:] for row in rows] == [
        ["Dr No", "pull 0: corrected from 0.2512345 to 0.2512354", "typing error"],
        ["pharmacy", "unmasking list made", ""],
        ["Dr Who", "code of pull 1 opened", "overdose"],
        ["board", "arm C closed", "harm"],
    ]


def test_a_blinded_report_lists_no_closure(tmp_path):
    problem = subpopulations.Problem(["A", "B", "C"], ["x"], reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="trial", seed=7) as study:
        study.ask(2)
        study.close_arm("C", "harm", actor="board")
        page = write_report(study, tmp_path / "report.html", blinded=True)
    text = parse(page.read_text(encoding="utf-8")).text
    assert "harm" not in text
    assert "closed" not in text


def test_tables_of_pulls_and_of_missing_values_mark_a_closed_arm(report):
    problem = subpopulations.Problem(
        ["A", "B"], ["x", "y"], measures={"good": (0, 1), "bad": (0, 1)}, objective="good"
    )
    policy = subpopulations.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="trial", seed=7) as study:
        for place, pull in enumerate(study.ask(12)):
            if place % 2:
                study.fail(pull, "left")
            else:
                study.tell(pull, {"good": 0.5, "bad": 0.5})
        study.close_arm("B", "harm")
        page = report(study)
    for start in ("Pulls and results", "Values that will never be known"):
        _, *rows = table_named(page, start)
        assert {row[0] for row in rows} == {"A", "B (closed)"}


def test_of_many_leaders_the_present_one_is_named(report, monkeypatch):
    study = FakeStudy()
    trace = growing_trace(study.end, points=20)
    moments = [
        replace(one, recommendation=replace(one.recommendation, leader=ARMS[k % 2]))
        for k, one in enumerate(trace)
    ]
    monkeypatch.setattr(FakeStudy, "trace", lambda _, points=200: moments)
    sampled, _, rest = report(study).text.partition("Who led, looked at every ")[2].partition(": ")
    assert sampled.endswith(" results and at the end")
    said = rest.partition(".")[0]
    assert " more; " in said
    last = evidence_chart(moments).lead_periods[-1]
    assert said.rpartition("; ")[2] == f"{last.leader} from {last.start:,}"
