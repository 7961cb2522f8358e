"""Instances of fair interventions with stopping times measured by an independent rule."""

import numpy as np

from fairtrial.causal import CausalModel, NetworkEnvironment, Problem, chain

TINY = {
    "k0": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]],
    "k1": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]],
    "k2": [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]],
}

_SMALL = """
.228 .087 .058 .418 .129 .080 | .254 .023 .245 .106 .314 .058 ;
.045 .110 .196 .308 .044 .297 | .048 .109 .183 .323 .042 .295 ;
.251 .162 .135 .160 .249 .043 | .194 .121 .234 .120 .262 .069 ;
.361 .245 .227 .046 .022 .099 | .296 .233 .057 .079 .077 .258 ;
.161 .252 .081 .359 .090 .057 | .051 .364 .041 .129 .030 .385 ;
.071 .009 .244 .042 .356 .278 | .034 .353 .104 .160 .193 .156 ;
.290 .235 .178 .050 .045 .202 | .232 .169 .169 .107 .036 .287 ;
.121 .616 .014 .186 .046 .017 | .116 .407 .029 .223 .171 .054
"""

_THREE = """
.195 .398 .042 .344 .021 | .140 .458 .084 .215 .103 | .232 .296 .031 .314 .127 ;
.125 .200 .249 .299 .127 | .110 .156 .240 .260 .234 | .153 .275 .162 .261 .149 ;
.200 .123 .104 .169 .404 | .204 .080 .134 .246 .336 | .203 .123 .166 .210 .298 ;
.442 .042 .225 .232 .059 | .429 .082 .180 .174 .135 | .276 .123 .295 .188 .118 ;
.031 .037 .148 .287 .497 | .173 .163 .117 .180 .367 | .039 .100 .163 .358 .340
"""


def _tables(text):
    rows = [[list(map(float, part.split())) for part in arm.split("|")] for arm in text.split(";")]
    tables = np.array(rows)
    return tables / tables.sum(axis=-1, keepdims=True)


def tiny(bound=0.2):
    """Return three arms with a clear answer; with a bound of .05, no arm is fair."""
    return chain(0.4, TINY, [0.1, 0.1, 0.9], bound)


def small():
    """Return eight arms on six cells."""
    return chain(0.5, _tables(_SMALL), [0.9, 0.9, 0.9, 0.1, 0.1, 0.1], 0.05)


def three():
    """Return five arms, with three values of the sensitive attribute."""
    return chain([0.5, 0.3, 0.2], _tables(_THREE), [0.1, 0.3, 0.5, 0.7, 0.9], 0.12)


REGION_ARMS = [[0.5] * 3, [0.9] * 3, [0.1, 0.5, 0.95], [0.6, 0.7, 0.8], [0.8, 0.6, 0.5]]


def region(bound=0.06):
    """Return five unfair arms; region R leads to the attribute, to X and to the outcome."""
    p_x = [
        [[0.2, 0.4, 0.4], [0.4, 0.4, 0.2]],
        [[0.25, 0.4, 0.35], [0.5, 0.3, 0.2]],
        [[0.3, 0.4, 0.3], [0.55, 0.3, 0.15]],
    ]
    no = np.array([[0.30, 0.25, 0.20], [0.40, 0.35, 0.30], [0.50, 0.45, 0.40]])
    yes = np.array([[0.30, 0.20, 0.15], [0.60, 0.50, 0.45], [0.90, 0.80, 0.75]])
    good = np.stack([no, yes])
    model = CausalModel(
        [("R", "S"), ("R", "X"), ("S", "X"), ("X", "V"), ("V", "Y"), ("X", "Y"), ("R", "Y")],
        {"R": 3, "S": ["s", "t"], "X": 3, "V": ["no", "yes"], "Y": ["0", "1"]},
        {
            "R": [0.3, 0.4, 0.3],
            "S": [[0.7, 0.3], [0.5, 0.5], [0.4, 0.6]],
            "X": p_x,
            "Y": np.stack([1.0 - good, good], axis=-1),
        },
    )
    arms = {f"k{k}": [[1 - p, p] for p in row] for k, row in enumerate(REGION_ARMS)}
    problem = Problem(model, "S", "V", "Y", arms, bound, (0.0, 1.0), forcing="never")
    return problem, NetworkEnvironment(problem)


# ------------------------------------------------------------------------------ hard nulls

TWO, THREE = [0.1, 0.9], [0.9, 0.2, 0.6]
JUST, NOTHING = 1e-7, 1e-12


def _pair(mean, gap):
    """Return P(V | S) over two states from mean and gap of P(V = 1), with P(S) = 1/2."""
    first, second = mean + gap / 2, mean - gap / 2
    return [[1 - first, first], [1 - second, second]]


def _two_states(bound, *arms, reward=TWO):
    """Return a chain; arms are (mean, gap) of P(V = 1), the bound is that of the outcome."""
    return chain(0.5, {f"k{k}": _pair(*arm) for k, arm in enumerate(arms)}, reward, bound)


def _tied(bound, *arms):
    """Return a chain of arms with equal means from different states, and a worse arm.

    Each arm is given by its distance along a direction that changes no mean, and half its change by
    S.
    """
    tables = {}
    for k, (along, change) in enumerate(arms):
        base = np.array([0.3, 0.4, 0.3]) + along * np.array([4.0, 3.0, -7.0])
        apart = change * np.array([1.0, 0.0, -1.0])
        tables[f"k{k}"] = [base + apart, base - apart]
    return chain(0.5, {**tables, "worse": [[0.2, 0.5, 0.3]] * 2}, THREE, bound)


def _three_values(bound, *arms):
    """Return a chain with three values of S; arms are P(V = 1) by value."""
    tables = {f"k{k}": [[1 - p, p] for p in arm] for k, arm in enumerate(arms)}
    return chain([0.4, 0.3, 0.3], tables, TWO, bound)


def _rare(bound, *arms):
    """Return a chain with a rare first state; arms are P(V) by value."""
    return chain(0.5, {f"k{k}": arm for k, arm in enumerate(arms)}, THREE, bound)


def _two_attributes(bound, *arms):
    """Return two roots that lead to V; arms are P(V = 1) by the values of both."""
    model = CausalModel(
        [("A", "V"), ("B", "V"), ("V", "Y")],
        {"A": ["a", "b"], "B": ["x", "y"], "V": 2, "Y": ["0", "1"]},
        {
            "A": [0.4, 0.6],
            "B": [0.7, 0.3],
            "Y": [[1.0 - TWO[0], TWO[0]], [1.0 - TWO[1], TWO[1]]],
        },
    )
    tables = {
        f"k{k}": [[[1 - p, p] for p in by_first] for by_first in arm] for k, arm in enumerate(arms)
    }
    problem = Problem(model, ["A", "B"], "V", "Y", tables, bound)
    return problem, NetworkEnvironment(problem)


def _direct(bound, *arms, rewards=((0.1, 0.8), (0.2, 0.9))):
    """Return S -> V -> Y and S -> Y; arms are P(V = 1) by value of S, rewards means by S and V."""
    good = np.array(rewards)
    tables = {"S": [0.5, 0.5], "Y": np.stack([1.0 - good, good], axis=-1)}
    edges = [("S", "V"), ("S", "Y"), ("V", "Y")]
    states = {"S": ["s", "t"], "V": 2, "Y": ["0", "1"]}
    given = {f"k{k}": [[1 - p, p] for p in arm] for k, arm in enumerate(arms)}
    model = CausalModel(edges, states, {"S": tables["S"]})
    problem = Problem(model, "S", "V", "Y", given, bound)
    return problem, NetworkEnvironment(problem, CausalModel(edges, states, tables))


def direct():
    """Return four arms; the attribute is a parent of the outcome; the best arm is unfair."""
    return _direct(0.08, (0.9, 0.6), (0.7, 0.6), (0.5, 0.5), (0.4, 0.1))


HARD_NULLS = {
    "two best arms tied": lambda: _tied(0.3, (-0.02, 0.1), (0.02, 0.15)),
    "eight arms tied": lambda: _tied(0.3, *[(0.007 * k - 0.03, 0.02 * k) for k in range(8)]),
    "best arm unfair by nothing": lambda: _two_states(0.16 - NOTHING, (0.6, 0.2), (0.5, 0.05)),
    "best arm just fair": lambda: _two_states(0.16 + JUST, (0.6, 0.2), (0.55, 0.05)),
    "all unfair by nothing": lambda: _two_states(
        0.16 - NOTHING, (0.6, 0.2), (0.5, 0.2), (0.4, -0.2)
    ),
    "all unfair by nothing, rare outcomes": lambda: _two_states(
        0.008 - NOTHING, (0.6, 0.2), (0.5, 0.2), (0.4, -0.2), reward=[0.005, 0.045]
    ),
    "best arm just fair, and tied": lambda: _tied(0.06 + JUST, (-0.02, 0.1), (0.02, 0.05)),
    "three values, two best arms tied": lambda: chain(
        [0.4, 0.3, 0.3],
        {
            "k0": [[0.22, 0.34, 0.44]] * 3,
            "k1": [[0.42, 0.49, 0.09]] * 3,
            "k2": [[0.2, 0.5, 0.3], [0.2, 0.6, 0.2], [0.1, 0.6, 0.3]],
        },
        THREE,
        0.3,
    ),
    "three values, best arm unfair by nothing": lambda: _three_values(
        0.24 - NOTHING, (0.8, 0.5, 0.6), (0.5, 0.5, 0.5)
    ),
    "rare state, best arm unfair by nothing": lambda: _rare(
        0.08 - NOTHING, [[0.02, 0.28, 0.7], [0.02, 0.48, 0.5]], [[0.01, 0.5, 0.49]] * 2
    ),
    "rare state, all unfair by nothing": lambda: _rare(
        0.08 - NOTHING,
        [[0.02, 0.28, 0.7], [0.02, 0.48, 0.5]],
        [[0.01, 0.29, 0.7], [0.01, 0.49, 0.5]],
    ),
    "two attributes, best arm unfair by nothing": lambda: _two_attributes(
        0.24 - NOTHING, [[0.8, 0.7], [0.6, 0.5]], [[0.5, 0.5], [0.5, 0.5]]
    ),
    "rare state decides, tied": lambda: _rare(
        0.3, [[0.02, 0.49, 0.49]] * 2, [[0.006, 0.4795, 0.5145]] * 2, [[0.01, 0.7, 0.29]] * 2
    ),
    "parent of the outcome, two best arms tied": lambda: _direct(
        0.3, (0.8, 0.5), (0.7, 0.6), (0.2, 0.2)
    ),
    "parent of the outcome, best arm unfair by nothing": lambda: _direct(
        0.11 - NOTHING, (0.8, 0.5), (0.5, 0.4)
    ),
    "parent of the outcome, all unfair by nothing": lambda: _direct(
        0.11 - NOTHING, (0.8, 0.5), (0.6, 0.3), (0.3, 0.22 / 0.7)
    ),
    "parent of the outcome alone, best arm unfair by nothing": lambda: _direct(
        0.14 - NOTHING, (0.8, 0.8), (0.5, 0.5), rewards=((0.1, 0.8), (0.2, 0.6))
    ),
    "S with a parent, none fair by nothing": lambda: region(_least_gap() - NOTHING),
    "S with a parent, one arm just fair": lambda: region(_least_gap() + 1e-9),
}


def _least_gap():
    """Return the largest gap of the least unfair arm of `region`."""
    gaps = np.array(list(region()[1].truth.gaps.values()))
    return float(np.abs(gaps).max(axis=0).min())
