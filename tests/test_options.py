"""The table of options by family in the documentation, compared with the code."""

import re
from pathlib import Path

import numpy as np
import pytest

import fairtrial as ft
from fairtrial import allocation, delayed, linear, subpopulations
from fairtrial.errors import FairtrialError
from tests.causal.betting_instances import tiny

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "options.md"

CELLS = {"arms": 3, "groups": ["x", "y"]}
FAMILIES = {
    "`subpopulations`": (subpopulations.Problem, {**CELLS, "reward_range": (0, 1)}),
    "with `measures`": (
        subpopulations.Problem,
        {**CELLS, "measures": {"a": (0, 1), "b": (0, 1)}, "objective": "a"},
    ),
    "`linear`": (linear.Problem, {"features": np.eye(3), "noise_std": 1.0}),
    "`delayed`": (delayed.Problem, {"arms": 3, "reward_range": (0, 1)}),
    "`causal`": (tiny()[0].clone, {}),
    "`allocation`": (allocation.Problem, {"arms": 3, "shares": ["1/5"] * 3}),
}

PROBLEM = {
    "`measures`": {"measures": {"a": (0, 1)}, "reward_range": None},
    "`reward_range`": {"reward_range": (0, 1), "noise_std": None},
    "`noise_std`": {"noise_std": 1.0, "reward_range": None},
    "`floors`, `ceilings`": {"floors": 0.1, "ceilings": 0.9},
    "`control`": {"control": "0"},
    "`margin`, `superiority`": {"control": "0", "margin": 0.1},
    "`tolerance`": {"tolerance": 0.1},
    "`floor_tolerance`": {"floors": 0.1, "floor_tolerance": 0.05},
    "`costs`": {"costs": 2.0},
    "`top`": {"top": 2},
    "`prediction`": {"prediction": (0, 1)},
    '`outcomes="binary"`': {"outcomes": "binary"},
    "`direction`": {"direction": "minimize"},
}
ITS_OWN = {
    ("with `measures`", "`noise_std`"): {
        "measures": ["a", "b"],
        "noise_std": {"a": 1.0, "b": 1.0},
    },
    ("with `measures`", "`floors`, `ceilings`"): {"floors": {"a": 0.1}, "ceilings": {"b": 0.9}},
    ("with `measures`", "`margin`, `superiority`"): {
        "control": "0",
        "margin": {"a": 0.1},
        "superiority": 0.0,
    },
    ("with `measures`", "`floor_tolerance`"): {"floors": {"a": 0.1}, "floor_tolerance": 0.05},
    ("with `measures`", "`measures`"): {},
    ("with `measures`", "`prediction`"): {"prediction": {"a": (0, 1)}},
    ("`allocation`", "`reward_range`"): {"reward_range": (0, 2)},
}
"""What a family is asked in its own form."""

KNOWN_NOISE = {
    "`subpopulations`": {"noise_std": 1.0, "reward_range": None},
    "with `measures`": ITS_OWN["with `measures`", "`noise_std`"],
    "`delayed`": {"noise_std": 1.0, "reward_range": None},
}
"""Problems in which the scale of the noise is known."""

POLICY = {
    "`delta`": {"delta": 0.1},
    "`max_pulls`": {"max_pulls": 10},
    "`planned_end`": {"max_pulls": 500, "planned_end": True},
    '`noise="normal"` with a planned end': {
        "max_pulls": 500,
        "planned_end": True,
        "noise": "normal",
    },
    "`batch`": {"batch": 5},
    '`losses="ignorable"`': {"losses": "ignorable"},
    "`max_replacements` with this and a planned end": {
        "max_pulls": 500,
        "planned_end": True,
        "losses": "ignorable",
        "max_replacements": 5,
    },
    "`assigned` (`analyse`)": {"assigned": [0, 1, 2, 3, 4, 5] * 4},
    "`randomize`": {"randomize": False},
}


def policy_of(family, arguments=None, **options):
    """Return the default policy of a family."""
    make, usual = FAMILIES[family]
    problem = make(**{**usual, **(arguments or {})})
    if family == "`allocation`":
        return allocation.FairLearn(problem, learner=allocation.Thompson(), **options)
    return getattr(ft, problem.family).BlockBetting(problem, **options)


def takes(family, option):
    """Return whether a family takes an option."""
    try:
        if option in PROBLEM:
            policy_of(family, ITS_OWN.get((family, option), PROBLEM[option]))
        elif option in POLICY:
            own = dict(POLICY[option])
            if "assigned" in own:
                actions = policy_of(family).problem.n_actions
                own["assigned"] = [*range(actions)] * 4
            known = KNOWN_NOISE.get(family) if "noise" in own else None
            policy_of(family, known, **own)
        elif option.startswith("arriving groups"):
            assert policy_of(family).ask(group="x").group == "x"
        else:
            policy = policy_of(family)
            value = {"a": 0.5} if family == "with `measures`" else 0.5
            policy.report(policy.ask(), value)
    except FairtrialError:
        return False
    return True


def table():
    """Return what the page says, by option and family."""
    found, heads = {}, []
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|") or line.startswith("|--"):
            continue
        name, *cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if name == "option":
            heads = cells
        else:
            found |= {(name, head): cell for head, cell in zip(heads, cells, strict=True)}
    return found


TABLE = table()


@pytest.mark.parametrize(("option", "family"), list(TABLE))
def test_the_table_of_options_is_what_the_code_takes(option, family):
    said = TABLE[option, family]
    is_there = said.split(";")[0] == "yes"
    assert is_there == takes(family, option)
    # An option that is not there has a reason.
    assert is_there or len(said.split()) >= 3


def test_every_option_is_in_the_table():
    options = {option for option, _ in TABLE}
    assert options >= {*PROBLEM, *POLICY}
    assert {family for _, family in TABLE} == {*FAMILIES}
    assert len(options) == len(PROBLEM) + len(POLICY) + 2
