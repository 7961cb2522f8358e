"""Slow and obvious reference: every quantity by summing over all assignments of all nodes."""

import math
from itertools import product

import numpy as np

from fairtrial.causal import CausalModel, Problem, chain

TINY_ARMS = {
    "k0": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]],
    "k1": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]],
    "k2": [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]],
}
TINY_REWARD = [0.1, 0.1, 0.9]


def tiny(fairness_bound=0.2, **options):
    return chain(0.4, TINY_ARMS, TINY_REWARD, fairness_bound, **options)


def diamond(seed, arms=3, sensitive=2, intervened_is_carrier=False, attributes=1):
    """Return a random problem with mediators, confounders and an irrelevant node.

    A -> X <- S, A -> V <- X, X -> Y <- V, A -> Y, and S -> B, which leads nowhere.
    """
    generator = np.random.default_rng(seed)
    names = ["S", "T"][:attributes]
    sizes = dict.fromkeys(names, sensitive) | {"A": 2, "X": 3, "V": 2, "Y": 3, "B": 2}
    edges = [("A", "X"), *((name, "X") for name in names), ("A", "V"), ("X", "V")]
    if intervened_is_carrier:
        edges.append(("S", "V"))
    edges += [("X", "Y"), ("V", "Y"), ("A", "Y"), ("S", "B")]

    def table(node):
        shape = [sizes[parent] for parent, child in edges if child == node]
        # Keep away from zero, so that exp does not overflow in the divergences.
        return 0.7 * generator.dirichlet(np.ones(sizes[node]), size=shape) + 0.3 / sizes[node]

    tables = {node: table(node) for node in sizes if node != "V"}
    values = {"0": 0.0, "1": 0.3, "2": 1.0}
    return Problem(
        CausalModel(edges, sizes, tables),
        names[0] if attributes == 1 else names,
        "V",
        ("Y", values),
        {f"arm{k}": table("V") for k in range(arms)},
        fairness_bound=0.1,
    )


def confounded(seed, attributes=1, arms=3, states=2, **options):
    """Return a random problem whose sensitive attributes have a parent and are never forced.

    A -> S, A -> X <- S, A -> V <- X, S -> V, X -> Y <- V, A -> H -> Y. H is in no cell, and leads
    from the attribute's cause to the outcome.
    """
    generator = np.random.default_rng(seed)
    names = ["S", "T"][:attributes]
    sizes = {"A": 3} | dict.fromkeys(names, states) | {"X": 2, "V": 2, "H": 2, "Y": 3}
    edges = [("A", name) for name in names] + [(name, "X") for name in names]
    edges += [("A", "X"), ("A", "V"), ("X", "V"), ("S", "V")]
    edges += [("A", "H"), ("X", "Y"), ("V", "Y"), ("H", "Y")]

    def table(node):
        shape = [sizes[parent] for parent, child in edges if child == node]
        return 0.7 * generator.dirichlet(np.ones(sizes[node]), size=shape) + 0.3 / sizes[node]

    tables = {node: table(node) for node in sizes if node != "V"}
    given = {f"arm{k}": table("V") for k in range(arms)}
    return Problem(
        CausalModel(edges, sizes, tables),
        names[0] if attributes == 1 else names,
        "V",
        ("Y", {"0": 0.0, "1": 0.3, "2": 1.0}),
        given,
        **{"fairness_bound": 0.1, "forcing": "never", **options},
    )


def direct(seed, arms=3, attributes=1, is_small=False, **options):
    """Return a random problem in which S is a parent of the outcome, whose table it lacks.

    R -> X, S -> X -> V, S -> V -> Y, R -> Y, S -> Y; a small problem only has S, V and Y. The
    network with the outcome's table is also returned.
    """
    generator = np.random.default_rng(seed)
    names = ["S", "T"][:attributes]
    edges = [("S", "V"), ("V", "Y")] + [(name, "Y") for name in names]
    sizes = dict.fromkeys(names, 2) | {"V": 2, "Y": 3}
    if not is_small:
        sizes |= {"R": 3, "X": 2, "Y": 3}
        edges += [("R", "X"), ("S", "X"), ("X", "V"), ("R", "Y")]

    def table(node):
        shape = [sizes[parent] for parent, child in edges if child == node]
        return 0.8 * generator.dirichlet(np.ones(sizes[node]), size=shape) + 0.2 / sizes[node]

    tables = {node: table(node) for node in sizes if node != "V"}
    given = {f"arm{k}": table("V") for k in range(arms)}
    network = CausalModel(edges, sizes, tables)
    known = {node: table for node, table in tables.items() if node != "Y"}
    problem = Problem(
        CausalModel(edges, sizes, known),
        names[0] if attributes == 1 else names,
        "V",
        ("Y", {"0": 0.0, "1": 0.3, "2": 1.0}),
        given,
        **{"fairness_bound": 0.1, **options},
    )
    return problem, network


def without_overlap(cause_leads_to_outcome, bound=0.2):
    """Return a problem with an arm under which the groups of the attribute share no state of V.

    R -> S -> V -> Y, and optionally R -> Y. The outcome that units with S = 1 would have with S = 0
    then depends on cells into which none of them falls.
    """
    edges = [("R", "S"), ("S", "V"), ("V", "Y")]
    good = np.array([0.1, 0.8])
    if cause_leads_to_outcome:
        edges.append(("R", "Y"))
        good = np.array([[0.1, 0.2], [0.7, 0.9]])
    tables = {
        "R": [0.5, 0.5],
        "S": [[0.7, 0.3], [0.4, 0.6]],
        "Y": np.stack([1.0 - good, good], axis=-1),
    }
    model = CausalModel(edges, {"R": 2, "S": 2, "V": 2, "Y": ["0", "1"]}, tables)
    arms = {"apart": [[1.0, 0.0], [0.0, 1.0]]}
    return Problem(model, "S", "V", "Y", arms, bound, forcing="never")


def assignments(problem, nodes):
    model = problem.model
    for states in product(*(range(model.size(node)) for node in nodes)):
        yield dict(zip(nodes, states, strict=True))


def probability(problem, arm, node, row):
    """Return P(node given its parents) under an arm."""
    table = problem.model.tables.get(node)
    if node == problem.intervened:
        table = problem.arms[arm]
    return table[(*(row[parent] for parent in problem.model.parents(node)), row[node])]


def joint(problem, arm, row):
    return math.prod(probability(problem, arm, node, row) for node in row)


def with_value(problem, row, value):
    states = product(*(range(problem.model.size(node)) for node in problem.attributes))
    return {**row, **dict(zip(problem.attributes, list(states)[value], strict=True))}


def share_of(problem, value):
    row = with_value(problem, {}, value)
    return math.prod(problem.model.tables[node][row[node]] for node in problem.attributes)


def means_by_value(problem):
    """Return E_k[Y | S = u] by conditioning the full joint distribution."""
    nodes = problem.model.nodes
    numbers = list(problem.outcome_values.values())
    result = np.zeros((problem.n_arms, len(problem.values)))
    for k, arm in enumerate(problem.arms):
        total = np.zeros(len(problem.values))
        for row in assignments(problem, nodes):
            value = next(
                u for u in range(len(problem.values)) if with_value(problem, row, u) == row
            )
            p = joint(problem, arm, row)
            total[value] += p
            result[k, value] += p * numbers[row[problem.outcome_node]]
        result[k] /= total
    return result


def ratio_of_arms(problem, k, j, row):
    above = probability(problem, k, problem.intervened, row)
    below = probability(problem, j, problem.intervened, row)
    return 0.0 if above == 0.0 else math.inf if below == 0.0 else above / below


def outcome_divergence(problem, k, j):
    nodes = [node for node in problem.model.nodes if node != problem.outcome_node]
    total = 0.0
    for row in assignments(problem, nodes):
        p = joint(problem, k, row)
        if p > 0.0:
            total += p * math.exp(ratio_of_arms(problem, k, j, row))
    return math.log(total)


def carried(problem, arm, row, value):
    """Return the product of all factors that depend on the attribute, set to a value."""
    row = with_value(problem, row, value)
    nodes = {problem.intervened, *problem.carriers}
    return math.prod(probability(problem, arm, node, row) for node in nodes)


def gap_divergence(problem, k, j, a, b):
    nodes = [node for node in problem.model.nodes if node != problem.outcome_node]
    free = [node for node in nodes if node not in problem.attributes]
    total = 0.0
    for value in (a, b):
        for row in assignments(problem, free):
            full = with_value(problem, row, value)
            p = joint(problem, k, full) / share_of(problem, value)
            if p > 0.0:
                above = abs(carried(problem, k, row, a) - carried(problem, k, row, b))
                below = carried(problem, j, row, b)
                total += p * math.exp(above / below if above else 0.0)
    return math.log(total)


def effects(problem):
    """Return E_k[Y_{S<-a} | S = b], shape (K, a, b), by summing over all other nodes.

    Nodes that the attribute influences are drawn with S = a; its own probability is that of S = b.
    """
    others = [node for node in problem.model.nodes if node not in problem.attributes]
    numbers = list(problem.outcome_values.values())
    n = len(problem.values)
    result, total = np.zeros((problem.n_arms, n, n)), np.zeros(n)
    for k, arm in enumerate(problem.arms):
        for row in assignments(problem, others):
            for b in range(n):
                seen = with_value(problem, row, b)
                p = math.prod(probability(problem, arm, s, seen) for s in problem.attributes)
                for a in range(n):
                    made = with_value(problem, row, a)
                    q = p * math.prod(probability(problem, arm, node, made) for node in others)
                    result[k, a, b] += q * numbers[row[problem.outcome_node]]
                    total[b] += q if k == 0 and a == 0 else 0.0
    with np.errstate(invalid="ignore"):
        return result / total, total


def twin_effects(problem, arm, a, n, generator):
    """Return rows (observed value, counterfactual outcome) drawn with the same noise twice."""
    model, numbers = problem.model, np.array(list(problem.outcome_values.values()))
    factual, other = {}, {}
    for node in model.nodes:
        table = problem.arms[arm] if node == problem.intervened else model.tables[node]
        noise = generator.random(n)
        for values in (factual, other):
            borders = np.cumsum(table[tuple(values[p] for p in model.parents(node))], axis=-1)
            borders = np.broadcast_to(borders, (n, borders.shape[-1]))
            values[node] = (noise[:, None] >= borders[:, :-1]).sum(axis=1)
        if node in problem.attributes:
            other[node] = np.full(n, a)
    return factual[problem.attributes[0]], numbers[other[problem.outcome_node]]


def cell_estimates(problem, rows, predictors, strengths):
    """Return the `cell` estimates from rows of labels, one row after the other, (K, values).

    Every row's outcome is compared with the mean of the other rows with the same predictors, mixed
    with the number of rows of the overall mean that predicts best. If the attribute has parents,
    these are the means of the groups under their own values.
    """
    numbers = dict(zip(problem.model.states["Y"], problem.outcome_values.values(), strict=True))
    states = problem.model.states
    rows = [
        {
            "arm": row["arm"],
            "y": numbers.get(row["Y"], row["Y"]),
            **{n: states[n].index(str(row[n])) for n in (*problem.attributes, *problem.cell_nodes)},
        }
        for row in rows
    ]
    overall = sum(row["y"] for row in rows) / len(rows)

    def alike(one, other, nodes):
        return all(one[node] == other[node] for node in nodes)

    def group_of(row):
        return [] if problem.is_root else [n for n in problem.attributes if n in row]

    def mean_without(row, cell, strength):
        others = [
            other["y"]
            for other in rows
            if other is not row and alike(cell, other, (*predictors, *group_of(cell)))
        ]
        if math.isinf(strength):
            return overall
        return (sum(others) + strength * overall) / (len(others) + strength)

    def error(strength):
        return sum((row["y"] - mean_without(row, row, strength)) ** 2 for row in rows)

    strength = min(strengths, key=error)
    result = np.zeros((problem.n_arms, len(problem.values)))
    for (k, arm), u in product(enumerate(problem.arms), range(len(problem.values))):
        group = rows
        if not problem.is_root:
            group = [row for row in rows if with_value(problem, row, u) == row]
        model = weighted = weights = 0.0
        for row in group:
            seen = {node: row[node] for node in problem.attributes}
            for cell in assignments(problem, problem.cell_nodes):
                if alike(cell, row, problem.outside_nodes):
                    mean = mean_without(row, {**seen, **cell}, strength)
                    model += carried(problem, arm, cell, u) * mean / len(group)
            mixture = sum(
                carried(problem, other["arm"], row, with_position(problem, other))
                for other in group
            )
            weight = carried(problem, arm, row, u) / mixture
            weighted += weight * (row["y"] - mean_without(row, row, strength))
            weights += weight
        result[k, u] = model + weighted / weights
    return result


def with_position(problem, row):
    """Return the position of a row's value of the sensitive attribute."""
    values = range(len(problem.values))
    return next(u for u in values if with_value(problem, row, u) == row)


def thin(seed=0, states=400, fairness_bound=0.13):
    """Return a problem with thousands of cells whose sensitive attribute has a parent.

    A -> S -> X -> Y <- V, B -> X, B -> V <- X, B -> Y <- A: because of the many states of B, hardly
    any cell has two rows. All gaps are about .164.
    """
    generator = np.random.default_rng(seed)
    sizes = {"A": 3, "S": 2, "B": states, "X": 3, "V": 2, "Y": 2}
    edges = [("A", "S"), ("A", "Y"), ("S", "X"), ("B", "X"), ("B", "V"), ("X", "V")]
    edges += [("X", "Y"), ("V", "Y"), ("B", "Y")]
    a, x, v, b = np.ogrid[:3, :3, :2, :states]
    good = 0.1 + 0.3 * generator.random(states)[b] + 0.182 * x + 0.15 * v + 0.05 * a
    good = np.clip(good, 0.02, 0.98)
    rows = np.array([[0.6, 0.3, 0.1], [0.15, 0.3, 0.55]])
    tables = {
        "A": generator.dirichlet(np.ones(3)),
        "S": generator.dirichlet(np.ones(2), size=3),
        "B": np.full(states, 1 / states),
        "X": np.broadcast_to(rows[:, None], (2, states, 3)),
        "Y": np.stack([1 - good, good], axis=-1),
    }
    arms = {f"arm{k}": generator.dirichlet(np.ones(2), size=(states, 3)) for k in range(4)}
    model = CausalModel(edges, sizes, tables)
    outcome = ("Y", {"0": 0.0, "1": 1.0})
    return Problem(model, "S", "V", outcome, arms, fairness_bound, forcing="never")
