"""`fairtrial analyse`: a finished experiment from a file and a table."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.analyse import write_experiment
from fairtrial.cli import ExitCode
from fairtrial.report import write_report
from fairtrial.study import Study
from fairtrial.study.replica import Replica
from tests.cli.configurations import write

PROBLEM = {
    "family": "subpopulations",
    "arms": ["old", "new"],
    "groups": {"f": 0.5, "m": 0.5},
    "floors": 0.1,
    "reward_range": [0, 1],
}


def configuration(folder: Path, **changes: object) -> Path:
    """Write a file with a problem and without a source."""
    sections = {"study": {"name": "cure", "storage": "sqlite:///cure.db"}, "problem": PROBLEM}
    return write(folder, {**sections, **changes})


@pytest.fixture
def table(folder: Path) -> Path:
    """A trial of 600 people, by date; every fiftieth result was lost."""
    rng = np.random.default_rng(0)
    lines = ["person,treatment,group,cured"]
    for person in range(600):
        arm, group = rng.integers(2), rng.integers(2)
        cured = "" if person % 50 == 49 else int(rng.random() < 0.3 + 0.4 * arm)
        lines.append(f"{person},{('old', 'new')[arm]},{'fm'[group]},{cured}")
    path = folder / "results.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


OPTIONS = ("--order", "person", "--outcome", "cured", "--column", "arm=treatment")


def test_the_answer_is_shown_and_kept_as_a_study(folder, invoke, table):
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    assert done.exit_code == ExitCode.OK, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("A finished experiment with 600 units. The answer uses the first ")
    assert second.startswith("Answer: new")
    assert "Kept as the study 'cure-analysis'." in done.stdout
    with Study.open(folder / "cure.db", "cure-analysis") as study:
        assert study.recommend().arm == "new"
    shown = invoke("study", "show", "cure-analysis", "--storage", "sqlite:///cure.db")
    assert "Answer: new" in shown.stdout


def test_an_experiment_without_an_answer_is_not_said_to_have_one(folder, invoke, table):
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:41]) + "\n")
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    assert done.exit_code == ExitCode.NO_ANSWER
    assert "There is no answer from the first 40" in done.stdout
    notes = [line for line in done.stdout.splitlines() if "results count" in line]
    assert len(notes) <= 1


def test_the_same_as_a_document(folder, document, table):
    found, done = document("analyse", configuration(folder), table, *OPTIONS, "--name", "mine")
    assert done.exit_code == ExitCode.OK
    assert found["study"] == "mine"
    assert found["units"]["assigned"] == 600
    assert found["units"]["lost"] == found["units"]["used"] // 50
    assert found["progress"]["recommendation"]["arm"] == "new"


def test_the_delta_is_that_of_the_file(folder, document, table):
    path = configuration(folder, policy={"name": "BlockBetting", "delta": 0.2})
    found, _ = document("analyse", path, table, *OPTIONS)
    assert found["progress"]["recommendation"]["confidence"] == pytest.approx(0.8)


def test_the_report_is_written_beside(folder, invoke, table):
    invoke("analyse", configuration(folder), table, *OPTIONS, "--report", folder / "page.html")
    assert "in which they were assigned" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("delta", [0.05, 1e-40], ids=["decided", "undecided"])
def test_the_report_is_that_of_a_replay_of_the_log(folder, invoke, table, delta):
    path = configuration(folder, policy={"name": "BlockBetting", "delta": delta})
    invoke("analyse", path, table, *OPTIONS, "--report", folder / "page.html")
    with Study.open(folder / "cure.db", "cure-analysis") as study:
        write_report(study, folder / "replayed.html")
    assert (folder / "page.html").read_bytes() == (folder / "replayed.html").read_bytes()


def test_the_report_takes_its_history_from_the_analysis(folder, invoke, table, monkeypatch):
    replayed = []
    replay = Replica.replay
    monkeypatch.setattr(
        Replica, "replay", lambda self, steps: replayed.append(1) or replay(self, steps)
    )
    monkeypatch.setattr(Study, "verify", lambda study: study.verify_last(10))
    invoke("analyse", configuration(folder), table, *OPTIONS, "--report", folder / "page.html")
    assert (folder / "page.html").exists()
    assert not replayed


def test_an_undecided_experiment_ends_with_its_own_exit_code(folder, invoke, table):
    few = folder / "few.csv"
    few.write_text("\n".join(table.read_text().splitlines()[:60]) + "\n")
    done = invoke("analyse", configuration(folder), few, *OPTIONS)
    assert done.exit_code == ExitCode.NO_ANSWER
    assert "not decided" in done.stdout


def test_groups_weigh_as_in_the_table(folder, invoke, table):
    invoke("analyse", configuration(folder), table, *OPTIONS, "--weights-from-table")
    with Study.open(folder / "cure.db", "cure-analysis") as study:
        lines = table.read_text().splitlines()[1:]
        women = sum(line.split(",")[2] == "f" for line in lines)
        assert study.problem.shares[0] == pytest.approx(women / 600)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--order", "person"], "must have the column 'outcome'"),
        ([*OPTIONS, "--column", "arm"], "must be LABEL=COLUMN"),
        ([*OPTIONS, "--column", "dose=treatment"], "must name labels: arm, group"),
        (["--order", "when", *OPTIONS[2:]], "must have the column 'when'"),
    ],
    ids=str,
)
def test_a_mistake_in_the_options_is_named(folder, invoke, table, options, message):
    done = invoke("analyse", configuration(folder), table, *options)
    assert done.exit_code == ExitCode.USAGE
    assert message in done.stderr


def test_a_refused_outcome_is_named_with_its_line_and_nothing_is_kept(folder, invoke, table):
    lines = table.read_text().splitlines()
    lines[300] = lines[300].rsplit(",", 1)[0] + ",7"
    table.write_text("\n".join(lines) + "\n")
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    assert done.exit_code == ExitCode.USAGE
    assert "line 301: cured" in done.stderr
    assert not (folder / "cure.db").exists()


def test_a_second_analysis_needs_another_name(folder, invoke, table):
    invoke("analyse", configuration(folder), table, *OPTIONS)
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    assert done.exit_code == ExitCode.USAGE
    assert "cure-analysis" in done.stderr


OTHERS = {
    "delayed": {"family": "delayed", "arms": ["old", "new"], "top": 1, "reward_range": [0, 1]},
    "linear": {
        "family": "linear",
        "features": [[1, 0], [1, 1]],
        "arms": ["old", "new"],
        "reward_range": [0, 1],
    },
}


@pytest.mark.parametrize("family", OTHERS)
def test_other_families_are_analysed_as_well(folder, invoke, document, table, family):
    path = configuration(folder, problem=OTHERS[family])
    done = invoke("analyse", path, table, *OPTIONS)
    assert done.exit_code == ExitCode.OK, done.stderr
    assert "Answer: new" in done.stdout
    few = folder / "few.csv"
    few.write_text("\n".join(table.read_text().splitlines()[:40]) + "\n")
    found, done = document("analyse", path, few, *OPTIONS, "--name", "few")
    assert done.exit_code == ExitCode.NO_ANSWER
    assert found["progress"]["remaining"] > 0


UNITS = "user;arm;cured\n1;old;0,5\n2;new;1\n1;new;0\n2;new;0\n3;old;failed\n4;old;0,25\n"


@pytest.mark.parametrize("in_file", [True, False])
def test_units_and_the_decimal_separator_are_stated_by_options_or_in_the_file(
    folder, document, in_file
):
    tables = "[tables]\nunit = 'user'\ndecimal = ','\n" if in_file else ""
    (folder / "cure.toml").write_text(
        "[study]\nname = 'cure'\n[problem]\nfamily = 'subpopulations'\narms = ['old', 'new']\n"
        f"groups = ['all']\nreward_range = [0, 1]\n{tables}"
    )
    (folder / "cure.csv").write_text(UNITS)
    options = [] if in_file else ["--unit", "user", "--decimal", ","]
    found, _ = document(
        *("analyse", "cure.toml", "cure.csv", "--order", "as given", "--outcome", "cured"),
        *("--report", "cure.html", *options),
    )
    assert found["units"] == {
        "assigned": 3,
        "used": 3,
        "lost": 1,
        "without_outcome": 0,
        "left_out": {
            "several_variants": 1,
            "rows_of_them": 2,
            "later_rows": 1,
            "with_other_results": 1,
        },
    }
    assert "1 unit in several variants" in (folder / "cure.html").read_text()


COUNTS = "day;arm;users;bought\n" + "".join(
    f"{day};old;1.000;100\n{day};new;1.000;180\n" for day in range(1, 4)
)


@pytest.mark.parametrize("in_file", [True, False])
def test_counts_are_stated_by_options_or_in_the_file(folder, document, in_file):
    tables = "[tables]\ncount = 'users'\nsuccesses = 'bought'\n" if in_file else ""
    (folder / "shop.toml").write_text(
        "[study]\nname = 'shop'\n[problem]\nfamily = 'subpopulations'\narms = ['old', 'new']\n"
        f"groups = ['all']\nreward_range = [0, 1]\n{tables}"
    )
    (folder / "shop.csv").write_text(COUNTS)
    options = [] if in_file else ["--count", "users", "--successes", "bought"]
    found, done = document(
        *("analyse", "shop.toml", "shop.csv", "--order", "day", "--decimal", ",", *options)
    )
    assert done.exit_code == ExitCode.OK
    assert found["units"]["assigned"] == 6000
    assert found["progress"]["recommendation"]["arm"] == "new"


def test_an_unknown_key_for_tables_is_refused(folder, invoke, table):
    path = configuration(folder)
    path.write_text(path.read_text() + "\n[tables]\ndecimals = ','\n")
    done = invoke("analyse", path, table, *OPTIONS)
    assert done.exit_code == ExitCode.USAGE
    assert "tables.decimals" in done.stderr


def test_effects_by_segment_share_one_error_probability(folder, invoke, document, table):
    lines = table.read_text().splitlines()
    kinds = ["device,country", *("phone,x" if n % 3 else "desk,y" for n in range(600))]
    table.write_text("\n".join(f"{a},{b}" for a, b in zip(lines, kinds, strict=True)) + "\n")
    options = (*OPTIONS, "--segment", "device", "--segment", "country")
    page = folder / "page.html"
    done = invoke("analyse", configuration(folder), table, *options, "--report", page)
    assert "Differences by segment" in done.stdout
    assert "All 4 intervals hold together" in " ".join(done.stdout.split())
    assert "device = phone: new minus old" in page.read_text(encoding="utf-8")
    found, _ = document("analyse", configuration(folder), table, *options, "--name", "again")
    assert found["segments"]["level_of_each"] == pytest.approx(0.05 / 4)
    [phone, *_] = found["segments"]["effects"]
    assert (phone["segment"], phone["units"]) == ("phone", 400)


def test_the_planned_shares_are_those_of_the_file(folder, document, table):
    found, _ = document("analyse", configuration(folder), table, *OPTIONS)
    assert not found["table"]["sample_ratio"]["differs"]
    assert [one["planned"] for one in found["table"]["arms"]] == [0.5, 0.5]
    path = configuration(folder, tables={"shares": {"old": 9, "new": 1}})
    found, done = document("analyse", path, table, *OPTIONS, "--name", "again")
    assert found["table"]["sample_ratio"]["differs"]
    assert done.exit_code == ExitCode.OK


def test_what_the_checks_find_is_said_and_stands_in_the_report(folder, invoke, table):
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *(x for x in lines[1:] if ",new," in x)][:200]) + "\n")
    table.write_text(table.read_text() + "\n".join(x for x in lines if ",old," in x) + "\n")
    page = folder / "page.html"
    done = invoke(
        *("analyse", configuration(folder), table, "--order", "as given", *OPTIONS[2:]),
        *("--report", page),
    )
    for text in (done.stdout, page.read_text(encoding="utf-8")):
        assert " ".join(text.split()).count("the table looks sorted by arm") == 1


def test_the_report_shows_segments_with_the_differences(folder, invoke, table):
    page = folder / "page.html"
    options = (*OPTIONS, "--segment", "group", "--report", page)
    done = invoke("analyse", configuration(folder), table, *options)
    assert done.exit_code == ExitCode.OK
    question, arms = page.read_text(encoding="utf-8").split(">Arms</h2>")
    assert "group = f: new minus old" in arms
    assert "group = f: new minus old" not in question


def test_the_report_audits_only_the_end_of_a_long_log(folder, invoke, table, monkeypatch):
    monkeypatch.setattr("fairtrial.cli.commands.analyse._MOST_AUDITED", 100)
    page = folder / "page.html"
    done = invoke("analyse", configuration(folder), table, *OPTIONS, "--report", page)
    assert f"Writing {page}" in done.stderr
    assert "The last 100 events follow each other unaltered" in page.read_text(encoding="utf-8")
    verified = invoke("study", "verify", "cure-analysis", "--storage", "sqlite:///cure.db")
    assert verified.exit_code == ExitCode.OK


def test_the_progress_is_shown_on_standard_error(folder, monkeypatch, table, invoke):
    monkeypatch.setattr("fairtrial.core.counting._LINE_SECONDS", 0.0)
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    assert "Analysing: 600 of 600 units" in done.stderr


def test_a_messy_table_is_read_and_everything_odd_is_named(folder, document):
    configuration_file, table = write_experiment(folder, 4_000, seed=1)
    options = ("--order", "time", "--column", "arm=variant", "--outcome", "revenue")
    found, done = document("analyse", configuration_file, table, *options)
    assert done.exit_code in (ExitCode.OK, ExitCode.NO_ANSWER)
    left_out = found["units"]["left_out"]
    assert left_out["several_variants"] > 0
    assert left_out["rows_of_them"] == 2 * left_out["several_variants"]
    assert found["table"]["crowded"] == {
        "number": 1,
        "most_extreme": [{"unit": "crawler", "value": len(visits_of(table, "crawler"))}],
    }
    assert found["table"]["losses_differ"]
    assert not found["table"]["sample_ratio"]["differs"]
    users = {line.split(";")[0] for line in table.read_text().splitlines()[1:]} - {""}
    assert found["units"]["assigned"] == len(users) - left_out["several_variants"]


def visits_of(table: Path, user: str) -> list[str]:
    """Return the lines of a user."""
    return [line for line in table.read_text().splitlines() if line.startswith(f"{user};")]


def with_policy(folder: Path, **arguments: object) -> Path:
    return configuration(folder, policy={"name": "BlockBetting", **arguments})


def test_losses_that_the_file_calls_ignorable_are_left_out_and_the_label_says_so(
    folder, invoke, document, table
):
    found, _ = document("analyse", with_policy(folder, losses="ignorable"), table, *OPTIONS)
    assert found["units"]["assigned"] == 600
    assert found["units"]["without_outcome"] == 12
    assert found["units"]["lost"] == 0
    assert any(said.startswith("losses: 12 of 600 units") for said in found["remarks"])
    guarantee = found["progress"]["recommendation"]["guarantee"]
    assert any("lost" in said for said in guarantee["assumptions"])
    shown = invoke(
        "analyse", with_policy(folder, losses="ignorable"), table, *OPTIONS, "--name", "b"
    )
    assert shown.stdout.startswith(
        "A finished experiment with 600 units, of which 12 without an outcome are left out."
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"name": "TrackAndStop"}, "policy.name"),
        ({"planned_end": True, "max_pulls": 600}, "policy.planned_end"),
        ({"assigned": [0, 1]}, "policy.assigned"),
    ],
)
def test_what_would_change_the_claim_of_an_analysis_is_refused_by_name(
    folder, invoke, table, arguments, name
):
    done = invoke("analyse", with_policy(folder, **arguments), table, *OPTIONS)
    assert done.exit_code == ExitCode.USAGE
    assert name in done.stderr


def test_arguments_about_the_pulls_of_a_live_study_are_said_to_be_unused(folder, document, table):
    file = with_policy(folder, batch=50, max_pulls=900)
    found, _ = document("analyse", file, table, *OPTIONS)
    [said] = [said for said in found["remarks"] if "does not use" in said]
    assert "policy.batch, policy.max_pulls" in said


def test_the_terminal_talks_of_units_and_not_of_pulls(folder, invoke, table):
    done = invoke("analyse", configuration(folder), table, *OPTIONS)
    shown = invoke("study", "show", "cure-analysis", "--storage", "sqlite:///cure.db")
    for found in (done, shown):
        text = " ".join(found.stdout.split())
        assert "results of 600 units" in text
        assert not re.findall(r"\bpulls?\b|nsolicited|asked for", text)
    assert "results that the answer does not use: " in " ".join(shown.stdout.split())
