"""Compiling the mathematics before it is needed."""

import json
import subprocess
import sys

import pytest

from fairtrial.cli import ExitCode
from fairtrial.core.family import FAMILIES
from tests import effort

USED_FOR_THE_FIRST_TIME = """
import gc, sys
import numpy as np
import fairtrial as ft
from fairtrial.core.family import compile_family
from numba.core.dispatcher import Dispatcher

def compiled():
    return {
        (each.py_func.__module__, each.py_func.__qualname__, str(signature))
        for each in gc.get_objects() if isinstance(each, Dispatcher)
        for signature in each.signatures
    }

def questions(family):
    if family == "subpopulations":
        problem = ft.subpopulations.Problem(3, ["x", "y"], reward_range=(0, 1), floors=0.2)
        yield problem, ft.subpopulations.BlockBetting, lambda pull: 0.5
        problem = problem.clone(reward_range=None, noise_std=1.0)
        yield problem, ft.subpopulations.BlockBetting, lambda pull: 0.5
    if family == "linear":
        for kind in ({"reward_range": (0, 1)}, {"noise_std": 1.0}):
            problem = ft.linear.Problem([[1, 0], [0, 1], [0.7, 0.7]], **kind)
            yield problem, ft.linear.BlockBetting, lambda pull: 0.5
    if family == "delayed":
        problem = ft.delayed.Problem(3, reward_range=(0, 1))
        yield problem, ft.delayed.BlockBetting, lambda pull: 0.5
    if family == "causal":
        arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
        problem, environment = ft.causal.chain(0.4, arms, [0.1, 0.9], 0.2)
        draws = np.random.default_rng(1)
        yield problem, ft.causal.BlockBetting, lambda pull: environment.sample(pull, draws)
    if family == "allocation":
        problem = ft.allocation.Problem(3, 0.25)
        yield problem, ft.allocation.FairLearn, lambda pull: 0.5

compile_family(sys.argv[1])
before = compiled()
for problem, policy, result in questions(sys.argv[1]):
    with ft.Study.create(problem, policy(problem), storage="memory://", name="x") as study:
        lost, late = study.ask(), study.ask()
        study.fail(lost)
        study.fail(late)
        study.tell(late, result(late))
        study.amend(late, result(late), reason="a typing error")
        for _ in range(60):
            if not study.stopped:
                pull = study.ask()
                study.tell(pull, result(pull))
        study.progress(), study.recommend(), study.health()
print(sorted(compiled() - before))
"""


def test_it_says_how_long_each_family_took(invoke):
    result = invoke("compile", "allocation", "--json")
    assert result.exit_code == ExitCode.OK
    assert set(json.loads(result.stdout)["seconds"]) == {"allocation"}


def test_an_unknown_family_is_refused_before_anything_is_compiled(invoke):
    result = invoke("compile", "allocation", "liner")
    assert result.exit_code == ExitCode.USAGE
    assert "did you mean 'linear'?" in result.stderr
    assert "ready" not in result.stdout


ADOPTING = """
import ctypes, os, signal, subprocess, sys, time

def children(of):
    command = ["ps", "-ww", "-o", "pid=,stat=,args=", "--ppid", str(of)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if "ps -ww" not in line]

# Those that another process leaves become ours.
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
command = [sys.executable, "-m", "fairtrial", "compile", "allocation"]
process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
if sys.argv[1] != "whole":
    while not any("compile_one" in line for line in children(process.pid)):
        time.sleep(0.01)
    process.send_signal(getattr(signal, sys.argv[1]))
    process.wait()
    # Those that have lost their parent take a moment to end; what has ended has the status Z.
    deadline = time.monotonic() + 20
    while any(" Z" not in line for line in children(os.getpid())) and time.monotonic() < deadline:
        time.sleep(0.01)
print(process.wait() == 0, [line for line in children(os.getpid()) if " Z" not in line])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux adopts children")
@pytest.mark.parametrize("end", ["whole", "SIGKILL", *["SIGTERM", "SIGINT"] * effort.long])
def test_no_process_is_left_however_it_ends(end):
    found = subprocess.run(
        [sys.executable, "-c", ADOPTING, end],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.split() == [str(end == "whole"), "[]"]


@pytest.mark.parametrize("family", FAMILIES[: effort.runs(1, whole=len(FAMILIES))])
def test_a_study_by_the_default_rule_compiles_nothing_more(family):
    command = [sys.executable, "-c", USED_FOR_THE_FIRST_TIME, family]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
