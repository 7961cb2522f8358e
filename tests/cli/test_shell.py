"""Labels on their way through a shell."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.cli.shell import Misplaced, filled, misplaced, placeholders, referring, variable
from tests import effort

NAMES = ("arm", "group", "pull")
SHOW = "show() { printf '<%s>' \"$@\"; }; "

ACCEPTED = [
    "show {arm}",
    "show x{arm}y",
    "show {arm}{arm}",
    "show 'a b' {arm}",
    'show "a b" {arm}',
    "show \\\\ {arm}",
    "show \\' {arm} \\'",
    'show "$(show {arm})"',
    "(show {arm})",
    "show 'it' | cat; show {arm}",
    "# don't\nshow {arm}",
    "show ${HOME#/} {arm}",
    "show $((1 + 2)) {arm}",
    "show `echo 1` {arm}",
    "awk '{print}' </dev/null; show {arm}",
    "if test -n x; then show {arm}; fi",
    "case {arm} in x) show 1;; *) show {arm};; esac",
    "X={arm} sh -c 'printf %s \"$X\"'",
    "show a#b {arm}",
]

REFUSED = [
    ("echo '{arm}'", "within single quotes"),
    ('echo "{arm}"', "within double quotes"),
    ('echo "x {arm}"', "within double quotes"),
    ("echo `show {arm}`", "within backquotes"),
    ("echo `show $(show {arm})`", "within backquotes"),
    ('echo "`show {arm}`"', "within backquotes"),
    ("echo ${x:-{arm}}", "within an expansion"),
    ("echo $(({arm} + 1))", "within arithmetic"),
    ('echo "$(show "{arm}")"', "within double quotes"),
    ("cat <<END\n{arm}\nEND", "after <<, perhaps in a here-document"),
    ("echo \\{arm}", "after a backslash"),
    ("eval show {arm}", "in the arguments of eval, which reads them again"),
    ("cd x && ssh host show {arm}", "in the arguments of ssh, which reads them again"),
    ("/usr/bin/ssh host {arm}", "in the arguments of /usr/bin/ssh, which reads them again"),
    ("sh -c 'show {arm}'", "within single quotes"),
    ("python -c \"print('{arm}')\"", "within double quotes"),
]

HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "'$(touch pwned)'",
    "a b",
    "*",
    "-n",
    "",
    "a\nb",
    "\\",
    "${HOME}",
    "$HOME",
    "\x1b[31m",
    "\u00e9\u6f22",
]


def run(command, label, folder):
    found = subprocess.run(
        ["/bin/sh", "-c", SHOW + referring(command, NAMES)],
        env={variable("arm"): label, "PATH": "/usr/bin:/bin", "HOME": "/h"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return found.stdout.decode(errors="replace")


@pytest.mark.parametrize("command", ACCEPTED)
def test_a_placeholder_among_words_is_one_word_whatever_it_holds(command, tmp_path):
    assert misplaced(command, NAMES) == []
    for label in HOSTILE:
        shown = run(command, label, tmp_path)
        assert label.rstrip("\n") in shown
        assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(("command", "where"), REFUSED)
def test_a_placeholder_elsewhere_is_refused_and_would_still_run_nothing(command, where, tmp_path):
    assert misplaced(command, NAMES) == [Misplaced("arm", where)]
    if "eval" in command or "ssh" in command or "sh -c" in command or "python" in command:
        return
    for label in HOSTILE:
        run(command, label, tmp_path)
        assert not (tmp_path / "pwned").exists()


@settings(max_examples=effort.runs(20, whole=60), deadline=None)
@given(label=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_no_label_can_break_out_of_its_place(label):
    assert run("show 'x' {arm} end", label, "/") == f"<x><{label}><end>"


@settings(max_examples=effort.runs(120, whole=300), deadline=None)
@given(text=st.text(alphabet="{}arm'\"`$()\\<# \n;", max_size=40))
def test_any_text_is_gone_through_to_its_end(text):
    found = [one.name for one in misplaced(text, ["arm"])]
    assert len(found) <= placeholders(text).count("arm")


@pytest.mark.parametrize("text", ["awk '{print}'", "echo ${arm}", "{unknown}", "f() { echo 1; }"])
def test_braces_that_are_not_ours_are_left_to_the_shell(text):
    assert filled(text, {"arm": "a"}) == text
    assert referring(text, ["arm"]) == text
    assert misplaced(text, ["arm"]) == []
