"""`fairtrial qualify`: the record of an installation, and how the command ends."""

import hashlib
import json

import pytest

from fairtrial.cli import ExitCode
from fairtrial.core.compilation import tier, use_tier
from fairtrial.qualification import report
from fairtrial.qualification.checks import CheckSkipped, carried_out
from fairtrial.version import __version__

WHO = ("--operator", "Ana <b>Díaz</b>", "--reason", "new server")


@pytest.fixture
def checks(monkeypatch):
    """Return a function that sets how the only two checks end."""

    def use(action):
        def both(_request):
            yield carried_out("installation", "files", lambda: "3 files")
            yield carried_out("operation", "decisions", action)

        monkeypatch.setattr("fairtrial.cli.commands.qualify.checks", both)

    return use


def test_the_record_names_who_why_and_what_and_its_checksums_are_right(folder, document, checks):
    checks(lambda: "as recorded")
    found, result = document("qualify", *WHO, "--output", folder / "new")
    assert result.exit_code == ExitCode.OK
    files = {
        kind: folder / "new" / path.rpartition("/")[2] for kind, path in found["files"].items()
    }
    written = json.loads(files["json"].read_text())
    assert {**written, "files": found["files"]} == found
    assert (written["operator"], written["reason"]) == ("Ana <b>Díaz</b>", "new server")
    assert written["software"]["fairtrial"] == __version__
    assert written["passed"] is True
    sums = dict(reversed(line.split("  ")) for line in files["sha256"].read_text().splitlines())
    for kind in ("json", "html"):
        digest = hashlib.sha256(files[kind].read_bytes()).hexdigest()
        assert sums[files[kind].name] == digest
    page = files["html"].read_text()
    assert hashlib.sha256(files["json"].read_bytes()).hexdigest() in page
    assert "Ana &lt;b&gt;" in page
    assert page.count("What it does not show") == 1


def test_a_check_that_fails_is_told_recorded_and_ends_with_its_code(folder, invoke, checks):
    def broken():
        raise ZeroDivisionError("at decision 7")

    checks(broken)
    result = invoke("qualify", *WHO)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert "failed  decisions" in result.stdout
    assert "at decision 7" in result.stdout
    (page,) = folder.glob("qualification-*.html")
    assert "FAILED" in page.read_text()
    (record,) = folder.glob("qualification-*.json")
    assert json.loads(record.read_text())["passed"] is False


def test_a_check_that_is_skipped_says_why(folder, invoke, checks):
    def impossible():
        raise CheckSkipped("no machine code")

    checks(impossible)
    result = invoke("qualify", *WHO)
    assert result.exit_code == ExitCode.OK
    assert "skipped decisions" in result.stdout
    assert "no machine code" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--operator", " ", "--reason", "r"), "operator"),
        (("--operator", "o", "--reason", ""), "reason"),
        ((*WHO, "--database", "sqlite:///trial.db"), "database"),
        (("--reason", "r"), "operator"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_checked(folder, invoke, checks, arguments, named):
    checks(lambda: pytest.fail("was checked"))
    result = invoke("qualify", *arguments)
    assert result.exit_code == ExitCode.USAGE
    assert named in result.stderr
    assert not list(folder.glob("qualification-*"))


def test_compiling_is_refused_where_it_is_switched_off(folder, invoke, checks):
    checks(lambda: pytest.fail("was checked"))
    before = tier()
    use_tier("interpret")
    try:
        result = invoke("qualify", *WHO, "--compile")
    finally:
        use_tier(before)
    assert result.exit_code == ExitCode.USAGE


def test_no_password_is_in_the_record(folder):
    request = report.Request("o", "r", folder, "postgresql://ana:sesame@db/trials")
    found = report.Qualification(request, report.now(), report.now(), [])
    for path in report.write(found).values():
        assert "sesame" not in path.read_text()


def test_every_check_is_made(folder, monkeypatch):
    made = []
    for name in ("installation_checks", "decision_checks", "storage_checks"):
        monkeypatch.setattr(report, name, lambda *_, name=name, **__: made.append(name) or [])
    assert list(report.checks(report.Request("o", "r", folder))) == []
    assert made == ["installation_checks", "decision_checks", "storage_checks"]


def test_whatever_does_not_pass_says_why_on_its_own_line(folder, invoke, checks):
    def impossible():
        raise CheckSkipped("no machine code\nat all")

    checks(impossible)
    lines = invoke("qualify", *WHO).stdout.splitlines()
    (at,) = [place for place, line in enumerate(lines) if line.startswith("skipped")]
    assert lines[at].endswith(": no machine code")
    assert lines[at + 1] == "        at all"
