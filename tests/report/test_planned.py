"""The page on a planned experiment, as a reader and as a browser would read it."""

import re
from datetime import date
from html.parser import HTMLParser

import pytest

from fairtrial import delayed, linear, report, subpopulations
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import (
    Scenario,
    at_effect,
    default_scenarios,
    example_runs,
    operating_characteristics,
)
from tests.messages import raises

PROBLEM = subpopulations.Problem(
    ["old <b>", "new"], {"young": 0.25, "old": 0.75}, floors=0.0, noise_std=1.0
)
ASSUMED = subpopulations.GaussianEnvironment(PROBLEM, [[0.5, 0.5], [1.5, 1.5]])
POLICY = subpopulations.BlockBetting(PROBLEM, delta=0.2)


def evaluated(policy, scenarios, **more):
    return operating_characteristics(policy, scenarios, [40, 200], 20, progress=False, **more)


def text_of(file):
    page = file.read_text(encoding="utf-8")
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


@pytest.fixture(scope="module")
def found():
    return evaluated(POLICY, default_scenarios(ASSUMED), pulls_per_day=10)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    effects = [at_effect(ASSUMED, size) for size in (0.25, 1.25)]
    between = operating_characteristics(POLICY, effects, 200, 20, progress=False)
    curve = [(0.25, between[0]), (1.0, found.row("full")), (1.25, between[1])]
    return report.write_characteristics(
        found,
        tmp_path_factory.mktemp("plan") / "plan.html",
        title="A plan",
        curve=curve,
        examples=example_runs(POLICY, found.row("full")),
        configuration="[study]\nname = '<x>'",
        command="fairtrial simulate trial.toml --scenarios",
    )


def test_the_sections_come_in_the_order_in_which_regulators_read_them(page):
    heads = re.findall(r"<h2[^>]*>([^<]*)</h2>", page.read_text(encoding="utf-8"))
    assert heads == [
        "The question",
        "Estimand",
        "Design",
        "Decision rules",
        "Example runs",
        "Scenarios",
        "Replications",
        "Operating characteristics",
        "Exposure",
        "The usual designs",
        "Limitations",
        "Configuration",
        "Where to find what",
    ]


def test_the_numbers_are_those_of_the_rows(page, found):
    text = text_of(page)
    row = found.row("full")
    assert f"{row.right.rate:.3g}"
    assert f"{row.pulls.mean:.4g}" in text
    assert f"{row.days.mean:.4g}" in text
    assert f"{row.fixed_sample[0.8]:,}" in text
    assert str(row.pulls_for(0.8)) in text
    assert "Standard error of a probability near one half 11.2 %" in text
    assert "Most pulls 40 or 200" in text
    assert "of 2 equal arms each is excluded" in text
    assert "at most 0.4." in text


def test_the_share_that_has_decided_includes_runs_with_pulls_in_place_of_lost_ones(tmp_path):
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    environment = subpopulations.BernoulliEnvironment(problem, [[0.35], [0.65]])
    policy = subpopulations.BlockBetting(
        problem, delta=0.1, losses="ignorable", planned_end=True, max_pulls=120
    )
    scenario = Scenario("dropouts", LossyEnvironment(environment, rate=0.3))
    found = operating_characteristics(policy, [scenario], 120, 20, progress=False)
    row = found.rows[0]
    most = int(row.pulls_of_runs[row.simulation.decided].max())
    assert most > 120
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
    assert f"By {most}: dropouts {100 * (1 - row.undecided.rate):.3g} %." in text


def test_with_a_control_the_bias_of_the_difference_is_shown(tmp_path):
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=1.0, control="a")
    environment = subpopulations.GaussianEnvironment(problem, [[0.0], [2.0]])
    policy = subpopulations.BlockBetting(problem, delta=0.1)
    found = evaluated(policy, [Scenario("full", environment)])
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
    assert "Bias of its difference from the control" in text


def test_with_a_control_the_sections_for_a_board_are_there(tmp_path):
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=1.0, control="a")
    environment = subpopulations.GaussianEnvironment(problem, [[0.0], [2.0]])
    policy = subpopulations.BlockBetting(problem, delta=0.1)
    found = operating_characteristics(
        policy,
        default_scenarios(environment),
        60,
        6,
        progress=False,
        pulls_per_day=2,
        delay_days=3,
        looks=[14],
    )
    file = report.write_characteristics(
        found,
        tmp_path / "plan.html",
        protocol={"Population": "adults <18+>"},
        starts=date(2027, 1, 4),
    )
    page, text = file.read_text(encoding="utf-8"), text_of(file)
    for place in ("estimand", "interim-looks", "claims", "exposure", "calendar"):
        assert f'id="{place}"' in page
        assert f'href="#{place}"' in page
    assert "adults &lt;18+&gt;" in page
    assert "2027-01-18" in text
    row = found.row("full")
    better = row.claims[0].made
    assert f"power {100 * better.rate:.3g} %" in text
    assert "this policy" in text
    assert all(f"{one.most:,}" in text for one in row.comparators)
    assert "6 pulls are in flight while pulls go on" in text
    # Two claims: the answer, and one interval against the control.
    assert "over all claims the bound is 0.2" in text


def test_usual_designs_are_shown_by_the_question_that_they_answer(tmp_path):
    problem = subpopulations.Problem(
        ["placebo", "low", "high"],
        {"out": 0.6, "in": 0.4},
        measures={"healed": (0, 1), "toxic": (0, 1)},
        objective="healed",
        control="placebo",
        ceilings={"toxic": 0.3},
    )
    healed = [[0.2, 0.2], [0.6, 0.6], [0.7, 0.7]]
    toxic = [[0.05, 0.05], [0.1, 0.1], [0.4, 0.4]]
    environment = subpopulations.BernoulliEnvironment(problem, {"healed": healed, "toxic": toxic})
    policy = subpopulations.BlockBetting(problem, delta=0.1)
    scenario = Scenario("full", environment)
    found = operating_characteristics(policy, [scenario], 60, 4, progress=False)
    file = report.write_characteristics(found, tmp_path / "plan.html")
    page, text = file.read_text(encoding="utf-8"), text_of(file)
    section = text[text.index("The usual designs These designs") : text.index("Limitations The")]
    heads = re.findall(r"<h3[^>]*>([^<]*)</h3>", page[page.index('id="the-usual-designs"') :])
    assert heads[:3] == [
        "Better than the control, and keeps every limit",
        "Better than the control",
        "What these figures assume",
    ]
    limited, plain = section.split("unlike the policy, they do not show")
    for one in found[0].comparators:
        part = limited if one.claim == "better within limits" else plain
        assert f"{one.name.replace(chr(39), '&#x27;')} {one.most:,} " in part
        assert f"{100 * one.wrong.rate:.3g} %" in part
    # Below each table's own rows, one of the policy.
    assert [part.count("full this policy") for part in (limited, plain)] == [1, 1]
    assert "normal approximation" in section
    assert "Results are known at once" in section


def test_an_item_that_the_file_says_nothing_about_is_named_as_missing(page):
    text = text_of(page)
    assert "does not state the estimand" in text
    assert "the file does not state what it needs" in text


def test_three_single_runs_are_shown(page, found):
    text = text_of(page)
    runs = example_runs(POLICY, found.row("full"))
    assert [run.name for run in runs] == ["fast", "typical", "slow"]
    lengths = [run.trace[-1].told for run in runs]
    assert lengths == sorted(lengths)
    times = found.row("full").simulation.stopping_time
    assert lengths == [times[run.replication] for run in runs]
    for run in runs:
        assert f"A {run.name} run: answer: new" in text


def test_what_is_in_flight_when_a_run_ends_is_neither_lost_nor_without_a_result(tmp_path):
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    environment = subpopulations.BernoulliEnvironment(problem, [[0.1], [0.9]])
    policy = subpopulations.BlockBetting(problem, delta=0.1, losses="ignorable")
    found = operating_characteristics(
        policy,
        [Scenario("full", environment)],
        200,
        4,
        pulls_per_day=2,
        delay_days=5,
        progress=False,
    )
    examples = example_runs(policy, found.row("full"))
    last = examples[0].trace[-1]
    assert last.recommendation.decided
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html", examples=examples))
    assert f"{last.told} results so far, {last.asked - last.told} open" in text
    assert "will have none" not in text
    assert "lost pull" not in text


def test_the_page_can_be_run_again_and_says_what_is_proven(page):
    text = text_of(page)
    assert "fairtrial simulate trial.toml --scenarios" in text
    assert "[study] name = &#x27;&lt;x&gt;&#x27;" in text
    assert "Proven (block betting" in text
    assert POLICY.problem.digest in text


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.ids = set(), [], []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_for_nothing(page):
    source = page.read_text(encoding="utf-8")
    parser = _Parser()
    parser.feed(source)
    assert parser.open == []
    assert "b" not in parser.tags
    assert not parser.tags & {"script", "img", "link", "iframe"}
    assert "default-src 'none'" in source.replace("&#x27;", "'")
    assert "http:" not in source
    assert len(parser.ids) == len(set(parser.ids))
    assert all(" " not in place for place in parser.ids)
    # A coordinate that is not a number would make a line disappear.
    assert "nan" not in source.lower().replace("<title>", "")


def test_without_curve_and_examples_there_are_fewer_sections(found, tmp_path):
    written = report.write_characteristics(found, tmp_path / "plan.html")
    text = text_of(written)
    assert "Example runs" not in text
    assert "size of the effect" not in text


def test_linear_arms_and_a_table_have_a_page(tmp_path):
    arms = linear.Problem([[1, 0], [1, 1]], arms=["old", "new"], noise_std=1.0)
    table = {"arm": ["old", "old", "new", "new"], "reward": [0.0, 1.0, 3.0, 4.0]}
    environment = linear.ReplayEnvironment(arms, table)
    found = evaluated(linear.BlockBetting(arms), default_scenarios(environment))
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
    assert "About 4 rows, sampled repeatedly" in text
    assert "In scenarios with other means, the rows are shifted to these means." in text


def test_a_scenario_in_which_nothing_is_decided_has_a_page(tmp_path):
    found = operating_characteristics(POLICY, [Scenario("short", ASSUMED)], 2, 2, progress=False)
    examples = example_runs(POLICY, found[0])
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html", examples=examples))
    assert "cut off, with no decision" in text
    assert len(examples) <= 2


@pytest.mark.parametrize("given", [None, [], "rows"])
def test_what_is_not_characteristics_is_refused(given, tmp_path):
    with raises(InvalidArgument, "found", given=given):
        report.write_characteristics(given, tmp_path / "plan.html")
    assert not (tmp_path / "plan.html").exists()


def test_a_page_that_cannot_be_written_is_refused(found, tmp_path):
    with raises(InvalidArgument, "path"):
        report.write_characteristics(found, tmp_path / "nowhere" / "plan.html")
    with raises(InvalidArgument, "path", given=7):
        report.write_characteristics(found, 7)


def test_of_many_arms_those_with_the_most_pulls_are_shown(tmp_path):
    problem = subpopulations.Problem(40, 1, floors=None, noise_std=1.0)
    means = [[3.0 if arm >= 38 else 0.0] for arm in range(40)]
    environment = subpopulations.GaussianEnvironment(problem, means)
    found = operating_characteristics(
        subpopulations.BlockBetting(problem), [Scenario("x", environment)], 1000, 3, progress=False
    )
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
    assert "Mean pulls by arm and group, the 24 with the most" in text
    shown = text[text.index("the 24 with the most") : text.index("What the answer")]
    assert "38/0" in shown
    assert "39/0" in shown


def test_what_a_guarantee_allows_for_equal_arms_is_said_where_one_is_to_be_named(tmp_path):
    for top, is_said in ((1, True), (2, False)):
        problem = delayed.Problem(3, top=top, noise_std=1.0)
        environment = delayed.SimulatedEnvironment(problem, [0.0, 1.0, 2.0])
        found = evaluated(delayed.InformationRacing(problem), default_scenarios(environment))
        text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
        assert ("of 3 equal arms each is excluded" in text) is is_said


@pytest.mark.parametrize("planned_end", [True, False])
def test_the_design_says_when_the_study_ends_and_how_losses_count(tmp_path, planned_end):
    problem = subpopulations.Problem(["old", "new"], 1, floors=None, reward_range=(0, 1))
    assumed = subpopulations.BernoulliEnvironment(problem, [[0.2], [0.8]])
    policy = subpopulations.BlockBetting(
        problem, delta=0.2, max_pulls=200 if planned_end else None, planned_end=planned_end
    )
    found = operating_characteristics(policy, default_scenarios(assumed)[:1], 200, 5)
    text = text_of(report.write_characteristics(found, tmp_path / "plan.html"))
    assert ("Planned end after 200 pulls" in text) == planned_end
    assert ("The end is planned" in text) == planned_end
    assert ("Most pulls 200" in text) == (not planned_end)
    assert "A pull without a result counts as the worst value" in text
