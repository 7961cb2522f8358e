"""Errors and warnings about causal models and their use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairtrial.errors import InvalidArgument

__all__ = [
    "BIFError",
    "BoundTooTight",
    "BudgetInfeasible",
    "ContradictedModel",
    "ModelError",
    "NoInformation",
    "ThinOverlap",
]


class ModelError(InvalidArgument):
    """The causal model contradicts itself, or lacks a necessary part."""


class BIFError(ModelError):
    """A file is not a well-formed network in the BIF format; `line` is where the error is.

    Examples
    --------
    >>> error = BIFError("net.bif", 3, "expected ';'")
    >>> print(error)
    net.bif is not a well-formed BIF file: line 3: expected ';'
    """

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(source, f"is not a well-formed BIF file: line {line}: {problem}")
        self.source = source
        self.line = line
        self.problem = problem

    def __reduce__(self) -> tuple[type[BIFError], tuple[object, ...]]:
        return type(self), (self.source, self.line, self.problem)


class BudgetInfeasible(InvalidArgument):
    """The mean budget is below the cost of the cheapest row, which is `minimum`.

    Examples
    --------
    >>> print(BudgetInfeasible(2.0, 0.5))
    mean_budget must be at least the cost of the cheapest row, 2; got 0.5
    """

    def __init__(self, minimum: float, given: float) -> None:
        super().__init__(
            "mean_budget", f"must be at least the cost of the cheapest row, {minimum:g}", given
        )
        self.minimum = minimum

    def __reduce__(self) -> tuple[type[BudgetInfeasible], tuple[object, ...]]:
        return type(self), (self.minimum, self.given)


class BoundTooTight(InvalidArgument):
    """No arm can be found fair within the budget; `smallest_budget` is the smallest possible one.

    Examples
    --------
    >>> BoundTooTight(smallest_budget=820, given=100).smallest_budget
    820
    """

    def __init__(self, smallest_budget: int, given: int) -> None:
        accepted = (
            f"must be at least {smallest_budget} rows: with fewer no arm can pass the "
            "fairness bound, whatever the outcomes"
        )
        super().__init__("budget", accepted, given)
        self.smallest_budget = smallest_budget

    def __reduce__(self) -> tuple[type[BoundTooTight], tuple[object, ...]]:
        return type(self), (self.smallest_budget, self.given)


class NoInformation(UserWarning):
    """No possible row is informative about these arms.

    Examples
    --------
    >>> print(NoInformation(["b"]))
    no row that can be drawn is informative about 'b'
    """

    def __init__(self, arms: Sequence[str]) -> None:
        self.arms = tuple(arms)
        super().__init__(self.arms)

    def __str__(self) -> str:
        return f"no row that can be drawn is informative about {', '.join(map(repr, self.arms))}"


class ThinOverlap(UserWarning):
    """The rows say too little about these arms for normal intervals, which are left out.

    Examples
    --------
    >>> print(ThinOverlap({"b": 0.2}))
    too few informative rows for a normal interval: they are worth 0.2 rows of 'b'
    """

    def __init__(self, effective_rows: Mapping[str, float]) -> None:
        self.effective_rows = dict(effective_rows)
        super().__init__(self.effective_rows)

    def __str__(self) -> str:
        rows = self.effective_rows.items()
        told = ", ".join(f"{number:.2g} rows of {arm!r}" for arm, number in rows)
        return f"too few informative rows for a normal interval: they are worth {told}"


class ContradictedModel(UserWarning):
    """The rows contradict the model; `contradictions` lists where.

    Examples
    --------
    >>> print(ContradictedModel(["Y depends on S given V"]))
    the rows contradict the model: Y depends on S given V
    """

    def __init__(self, contradictions: Sequence[object]) -> None:
        self.contradictions = tuple(contradictions)
        super().__init__(self.contradictions)

    def __str__(self) -> str:
        return f"the rows contradict the model: {'; '.join(map(str, self.contradictions))}"
