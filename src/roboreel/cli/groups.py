"""Options that travel together reach a command as one value."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes each field of its dataclass parameters as an option.

    ``where: Where`` becomes ``--workers``, ``--on`` and so on, with the defaults of the fields. Fields
    may be groups themselves.
    """
    return grouped_as(command, command, parameters_of(command))


def grouped_as(
    named: Callable[..., Any], run: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Return a command whose parameters are given; see `grouped`.

    Args:
        named: Whose name and help the command has.
        run: Called with the parameters, by name.
        parameters: With their types, not the names of those.
    """

    def command(**given: Any) -> None:  # noqa: ANN401  # as typer parsed them
        run(**{one.name: _gather(one, given) for one in parameters})

    if len({one.name for one in parameters}) < len(parameters):
        raise ValueError(f"Two parameters of {named.__name__!r} have the same name.")
    spread = [option for one in parameters for option in _spread(one)]
    command.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in spread}
    command.__name__, command.__doc__ = named.__name__, named.__doc__
    return command


def parameters_of(taking: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or the fields of a group, with their types."""
    # Not typing.get_type_hints: Python 3.10 hides what is Annotated behind a default of None.
    hints = inspect.get_annotations(taking, eval_str=True)
    taken = inspect.signature(taking).parameters.values()
    return [one.replace(annotation=hints[one.name]) for one in taken]


def _spread(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield a parameter, or the fields of its group."""
    if not _is_group(parameter.annotation):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    for field in parameters_of(parameter.annotation):
        yield from _spread(field)


def _gather(parameter: inspect.Parameter, given: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the value of a parameter: what was given, or a group made of it."""
    if not _is_group(parameter.annotation):
        return given[parameter.name]
    fields = parameters_of(parameter.annotation)
    return parameter.annotation(**{field.name: _gather(field, given) for field in fields})


def _is_group(kind: Any) -> bool:  # noqa: ANN401  # any type
    return is_dataclass(kind)
