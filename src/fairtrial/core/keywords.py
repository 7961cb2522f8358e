"""Arguments that a function does not take: refused by name, with what was probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from fairtrial.core.mistakes import did_you_mean
from fairtrial.errors import InvalidArgument

__all__ = [
    "NamedArguments",
    "call_with",
    "named_arguments",
    "refuse_unknown",
    "require_keywords",
    "takes_keyword",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def named_arguments(function: _Function) -> _Function:
    """Return the function with errors of this package for arguments that it does not take.

    Examples
    --------
    >>> @named_arguments
    ... def plan(delta, power=0.8): ...
    >>> plan(0.05, powr=0.9)
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: powr is not an argument of plan: did you mean 'power'?
    accepted: delta, power; got 0.9
    """

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            _require_fitting(function, args, kwargs)
            raise

    return cast("_Function", checked)


class NamedArguments:
    """Base of classes whose public methods refuse arguments that they do not take, by name.

    Examples
    --------
    >>> class Log(NamedArguments):
    ...     def events(self, after=0): ...
    >>> Log().events(before=3)
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: before is not an argument of events: accepted: after; got 3
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap the public methods that a subclass defines."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, named_arguments(method))


def _require_fitting(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise if the arguments do not fit; say nothing of an error inside the function."""
    signature = inspect.signature(function)
    name = function.__name__
    if name == "__init__":
        name = type(args[0]).__name__
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        refuse_unknown(function, kwargs, f"an argument of {name}")
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        places = sum(one.kind in by_place for one in signature.parameters.values())
        given = signature.bind_partial(*args[:places])
        for twice in given.arguments.keys() & kwargs.keys():
            order = ", ".join(each for each in signature.parameters if each not in {"self", "cls"})
            said = f"is given twice, by its place and by its name: {name} takes {order}"
            raise InvalidArgument(twice, said, given.arguments[twice]) from None
        for parameter in signature.parameters.values() if len(args) <= places else ():
            named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            is_given = parameter.name in kwargs or parameter.name in given.arguments
            if named and parameter.default is parameter.empty and not is_given:
                raise InvalidArgument(parameter.name, f"is missing: {name} needs it") from None
        raise InvalidArgument("arguments", f"do not fit {name}: {error}") from None


def refuse_unknown(
    function: Callable[..., Any],
    given: Mapping[str, Any],
    what: str,
    also: Iterable[str] = (),
) -> None:
    """Raise if a function does not take one of the keywords.

    Parameters
    ----------
    function : callable
        The function.
    given : mapping of str to object
        The keywords.
    what : str
        What an accepted keyword is, to be read after "is not".
    also : iterable of str
        Further names that the caller accepts.
    """
    names = _keywords_of(function)
    if names is None:
        return
    for name, value in given.items():
        if name not in names:
            accepted = {*names, *also}
            hint = did_you_mean(name, accepted) if accepted else "it takes none"
            raise InvalidArgument(name, f"is not {what}: {hint}", value)


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether a function takes a keyword of this name, whatever values it accepts.

    Examples
    --------
    >>> def choose(group=None): ...
    >>> takes_keyword(choose, "group"), takes_keyword(choose, "arm")
    (True, False)
    """
    names = _keywords_of(function)
    return names is None or name in names


def _keywords_of(function: Callable[..., Any]) -> set[str] | None:
    """Return the names of the keywords that a function takes; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name for one in parameters if one.kind in by_name and one.name != "self"}


def call_with(
    function: Callable[..., Any], *args: Any, what: str, context: Mapping[str, Any]
) -> Any:
    """Return ``function(*args, **context)``; raise if the names in the context do not fit it."""
    try:
        return function(*args, **context)
    except TypeError:
        require_keywords(function, context, what, *args)
        raise


def require_keywords(
    function: Callable[..., Any], context: Mapping[str, Any], what: str, *args: Any
) -> None:
    """Raise if a function does not take a name in the context, or needs one that is missing.

    Examples
    --------
    >>> def choose(group): ...
    >>> require_keywords(choose, {}, "something that this policy can be asked for")
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: group is missing: it must be given every time
    """
    refuse_unknown(function, context, what)
    signature = inspect.signature(function)
    given = signature.bind_partial(*args, **context).arguments
    for parameter in signature.parameters.values():
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not several and parameter.name not in given:
            raise InvalidArgument(parameter.name, "is missing: it must be given every time")
