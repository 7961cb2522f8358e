"""The documentation is true: its code runs, its links are valid, its commands exist."""

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from docs.notebooks import FOLDER, as_file, notebook_of
from docs.notebooks import PAGES as NOTEBOOKS
from fairtrial.core.tables import read_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(DOCS.rglob("*.md")),
]
BLOCK = re.compile(
    r"(?P<before><!-- no-run: [^>]+-->\n)?^(?P<fence>`{3,})(?P<language>\w*)(?P<title>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXTERNAL_ASSET = re.compile(
    r"!\[[^\]]*\]\(\s*(?:https?:)?//"
    r"|<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//"
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    return list(BLOCK.finditer(page.read_text(encoding="utf-8")))


def with_language(language):
    found = {page: [b for b in blocks(page) if b["language"] == language] for page in PAGES}
    return [page for page, matches in found.items() if matches]


def prose(page):
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------- code


@pytest.fixture
def trials(postgresql_server, monkeypatch):
    """A database called trials, to which addresses without user, host and password lead."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{postgresql_server.programs}")
    for name, value in postgresql_server.environment.items():
        monkeypatch.setenv(name, value)
    with postgresql_server.database("trials"):
        yield


@pytest.mark.parametrize("page", with_language("python"), ids=name_of)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, workplace, request):
    text = page.read_text(encoding="utf-8")
    if "postgresql:///trials" in text:
        request.getfixturevalue("trials")
    if 'open("campaign.csv"' in text:
        shutil.copy(ROOT / "examples/plates/campaign.csv", workplace)
    run_code(page)


def run_code(page):
    names = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block["language"] == "python" and not block["before"]:
            line = page.read_text(encoding="utf-8").count("\n", 0, block.start("text"))
            code = compile("\n" * line + block["text"], str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, names)
            printed = output.getvalue()
        elif 'title="Output"' in block["title"]:
            assert doctest.OutputChecker().check_output(block["text"], printed, FLAGS), printed
    if study := names.get("study"):
        study.close()


def test_the_notebooks_are_those_of_their_pages():
    written = {file.stem: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.ipynb")}
    made = {name: as_file(notebook_of(DOCS / page)) for name, page in NOTEBOOKS.items()}
    assert written == made, "run: python docs/notebooks.py"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_code_and_the_output_of_a_notebook_are_those_that_its_page_shows(name):
    cells = notebook_of(DOCS / NOTEBOOKS[name])["cells"]
    code = ["".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"]
    printed = ["".join(out["text"]) for cell in cells for out in cell.get("outputs", ())]
    shown = blocks(DOCS / NOTEBOOKS[name])
    assert code == [
        block["text"] for block in shown if block["language"] == "python" and not block["before"]
    ]
    assert printed == [block["text"] for block in shown if 'title="Output"' in block["title"]]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert not [text for text in texts if "```python" in text and "<!-- no-run" not in text]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_page_offers_its_notebook_and_the_notebook_does_not_offer_itself(name):
    page, notebook = DOCS / NOTEBOOKS[name], FOLDER / f"{name}.ipynb"
    begin = page.read_text(encoding="utf-8").partition("\n## ")[0]
    (target,) = re.findall(r"^\[Download this page as a notebook\]\((.*?)\)", begin, re.MULTILINE)
    assert (page.parent / target).resolve() == notebook
    assert "Download this page" not in notebook.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_of_a_notebook_lead_to_files(name):
    for cell in notebook_of(DOCS / NOTEBOOKS[name])["cells"]:
        for target in LINK.findall("".join(cell["source"])):
            if "://" not in target and not target.startswith("#"):
                assert (FOLDER / target.partition("#")[0]).exists(), target


def test_a_wrong_output_would_be_seen():
    assert not doctest.OutputChecker().check_output("1456 patients\n", "1457 patients\n", FLAGS)


@pytest.mark.parametrize("page", with_language("toml"), ids=name_of)
def test_every_configuration_of_a_page_is_accepted(page, workplace):
    from fairtrial.cli.config import load_configuration

    shipped = ROOT / "src/fairtrial/data/actg175/actg175.csv.gz"
    shutil.copy(shipped, workplace / shipped.name)
    shutil.copy(ROOT / "examples/plates/conditions.csv", workplace)
    sections = {}
    for block in blocks(page):
        if block["language"] == "toml":
            # A block with only some sections changes these sections of the previous file.
            sections |= {
                part[1]: part[0]
                for part in re.finditer(r"^\[(\w+)\]\n(?:(?!^\[\w+\]).*\n?)*", block["text"], re.M)
            }
            file = workplace / "trial.toml"
            file.write_text("".join(sections.values()), encoding="utf-8")
            by_hand = "study create" in page.read_text(encoding="utf-8")
            purpose = "create" if by_hand else "run" if "source" in sections else "plan"
            load_configuration(file, purpose)


# ----------------------------------------------------------------------------- command


def commands_of(page):
    lines = [
        line.removeprefix("$ ").partition(" #")[0]
        for block in blocks(page)
        if block["language"] == "console"
        for line in block["text"].splitlines()
        if line.startswith("$ ")
    ]
    inline = re.findall(r"(?<!`)`((?:fairtrial|\./dev) [^`\n]+)`", prose(page))
    return [line.split() for line in [*lines, *inline]]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=name_of)
def test_every_command_of_a_page_exists(page):
    from fairtrial.cli.app import app

    jobs = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    for program, *words in commands_of(page):
        if program == "./dev":
            assert re.search(rf"^  {words[0]}\s", jobs, re.MULTILINE), words
            continue
        assert program == "fairtrial", program
        command = app
        while (
            isinstance(command, click.Group)
            and words
            and words[0][0].isalpha()
            and words[0].islower()
        ):
            assert words[0] in command.commands, words
            command = command.commands[words.pop(0)]
        command = command if isinstance(command, click.Group) else command.load()
        options = {name for parameter in command.params for name in parameter.opts}
        for word in words:
            assert not word.startswith("--") or word in {*options, "--help"}, (command.name, word)


def test_the_reference_tells_of_every_command_and_option():
    from fairtrial.cli.app import app

    text = (DOCS / "reference/command.md").read_text(encoding="utf-8")
    everywhere = {"--help", "--json", "--version", "--storage"}

    def check(command, path):
        if isinstance(command, click.Group):
            for name, sub in command.commands.items():
                check(sub, f"{path} {name}")
            return
        rows = [line for line in text.splitlines() if line.startswith(f"| `{path}")]
        assert len(rows) == 1, path
        for parameter in command.load().params:
            for name in parameter.opts:
                known = name in everywhere or not name.startswith("--") or name in rows[0]
                assert known, (path, name)

    check(app, "fairtrial")


def test_the_reference_tells_every_exit_code_in_the_same_words():
    from fairtrial.cli.exits import ExitCode

    text = (DOCS / "reference/command.md").read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"| {code:d} | {code.meaning} |" in text


def test_the_reference_tells_every_key_of_a_configuration():
    import inspect

    from fairtrial import subpopulations
    from fairtrial.cli.sections import (
        CommandSource,
        PlanSection,
        ReplaySource,
        SimulatedSource,
        StudySection,
    )

    text = (DOCS / "reference/configuration.md").read_text(encoding="utf-8")
    models = (StudySection, ReplaySource, SimulatedSource, CommandSource, PlanSection)
    keys = {key for model in models for key in model.model_fields}
    classes = (subpopulations.Problem, subpopulations.BlockBetting, subpopulations.ExactTracking)
    keys |= {key for cls in classes for key in inspect.signature(cls).parameters}
    missing = {
        key for key in keys - {"problem"} if f"`{key}`" not in text and f"`{key} =" not in text
    }
    assert not missing


# ------------------------------------------------------------------------------ by hand


def by_hand(page):
    """Yield the commands of a page, each with the output that the page shows."""
    for block in blocks(page):
        if block["language"] == "console":
            for step in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, output = step.partition("\n")
                yield shlex.split(command)[1:], output


def fill_in(name, yields):
    """Fill in the yields of a plate, as the laboratory would."""
    from fairtrial.core.sheets import read_sheet
    from fairtrial.core.tables import write_table

    sheet = read_sheet(name)
    arms = sheet.cells("arm")
    for place, row in enumerate(sheet.rows):
        row[sheet.header.index("value")] = yields[arms[place]]
    write_table(sheet.file, sheet.header, sheet.rows)


def test_the_plates_of_the_page_are_run_by_its_commands(workplace):
    from click.testing import CliRunner

    from fairtrial.cli.app import app
    from fairtrial.data import direct_arylation

    page = DOCS / "how-to/run-plates-by-hand.md"
    reactions = direct_arylation()
    yields = {
        arm: 100 * share for arm, share in zip(reactions["arm"], reactions["reward"], strict=True)
    }
    shutil.copy(ROOT / "examples/plates/conditions.csv", workplace)
    (trial,) = (block["text"] for block in blocks(page) if block["language"] == "toml")
    (workplace / "trial.toml").write_text(trial, encoding="utf-8")
    # The page cannot know the ids of the well without a result and of the wrong value.
    placed = {}
    for words, expected in by_hand(page):
        words[3:5] = placed.get(words[1], words[3:5])
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 3), result.output
        assert doctest.OutputChecker().check_output(expected, result.stdout, FLAGS), result.stdout
        if words[1] == "ask":
            plate = read_table(words[-1], text=["pull_id"])
            (first, second), arms = plate["pull_id"][:2], plate["arm"]
            if not placed:
                assert len(set(arms)) == 96
                placed["fail"] = [first, "--reason"]
                fill_in(words[-1], yields | {arms[0]: ""})
            else:
                placed["amend"] = [second, str(yields[arms[1]])]
                fill_in(words[-1], yields | {arms[1]: 1.0})


@pytest.mark.filterwarnings("ignore:.*fsync = off")
def test_the_backup_of_the_page_is_made_and_restored_by_its_commands(
    workplace, trials, postgresql_server
):
    from click.testing import CliRunner

    from fairtrial.cli.app import app
    from fairtrial.study import Study

    page = DOCS / "how-to/use-postgresql.md"
    shutil.copy(ROOT / "src/fairtrial/data/actg175/actg175.csv.gz", workplace)
    for block in blocks(page)[1:]:
        if block["language"] == "toml":
            (workplace / "trial.toml").write_text(block["text"], encoding="utf-8")
            run_code(page)
        elif block["language"] == "sh":
            subprocess.run(["sh", "-e", "-c", block["text"]], check=True)
        elif block["language"] == "sql":
            with postgresql_server.administrator("trials") as connection:
                connection.execute(block["text"])
        elif block["language"] == "console":
            for line in block["text"].splitlines():
                result = CliRunner().invoke(app, shlex.split(line)[2:])
                assert result.exit_code in (0, 3), result.output
    with Study.open("postgresql:///trials", "small") as study:
        head = study.head_hash
    with Study.open("postgresql:///restored", "small") as study:
        assert study.verify(expected=head).ok
        study.snapshot()
    for storage in ("trials", "restored"):
        assert Study.open(f"postgresql:///{storage}", "actg175").verify().events == 120
    with postgresql_server.administrator() as connection:
        connection.execute("DROP DATABASE restored WITH (FORCE)")


def test_the_recorded_campaign_holds_the_measured_yields_of_different_reactions():
    from fairtrial.data import direct_arylation

    names = ["base", "ligand", "solvent", "concentration", "temperature"]
    reactions = direct_arylation()
    conditions = zip(*(reactions[name] for name in names), strict=True)
    yields = dict(zip(conditions, reactions["reward"], strict=True))
    table = read_table(ROOT / "examples/plates/campaign.csv")
    rows = list(zip(*(table[name] for name in names), strict=True))
    assert len(set(rows)) == len(rows) == 48
    assert [yields[row] for row in rows] == list(table["yield"])


def test_the_example_of_plates_is_that_of_the_page():
    page = DOCS / "how-to/run-plates-by-hand.md"
    (trial,) = (block["text"] for block in blocks(page) if block["language"] == "toml")
    example = (ROOT / "examples/plates/trial.toml").read_text(encoding="utf-8")
    assert tomllib.loads(example) == tomllib.loads(trial)


# ------------------------------------------------------------------------------- links


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://|#fairtrial", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        if anchor and not anchor.startswith("fairtrial."):
            assert anchor in anchors(target), link


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("randomisation", "how-to/randomise-a-trial.md"),
        ("placebo", "how-to/randomise-a-trial.md"),
        ("blinding", "how-to/randomise-a-trial.md"),
        ("power", "how-to/plan-an-experiment.md"),
        ("sample size", "how-to/plan-an-experiment.md"),
        ("drift", "explanation/assumption-checks.md"),
    ],
)
def test_a_word_that_newcomers_search_for_begins_a_page_or_heads_a_section(word, page):
    text = prose(DOCS / page)
    beginning = text.split("\n## ")[0]
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert word in " ".join([beginning, *headings]).lower()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_fetches_anything_from_elsewhere(page):
    assert not EXTERNAL_ASSET.search(page.read_text(encoding="utf-8"))


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_pages_that_guarantees_refer_to_exist():
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"docs/[\w/-]+\.md", source))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_pictures_are_small():
    pictures = list((DOCS / "images").iterdir())
    assert pictures
    assert all(picture.stat().st_size < 150_000 for picture in pictures)


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_fetches_nothing(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not EXTERNAL_ASSET.search(text), page
        # Markdown shows the lines of a table of reStructuredText as text.
        assert "<p>=====" not in text, page
