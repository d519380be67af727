"""Operations as JSON values, as a file or a page in a browser writes them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetError, EditError, QueryError
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from roboreel.edit.operations import Edit

OPERATIONS = (
    "delete",
    "keep",
    "trim",
    "trim_idle",
    "cut",
    "set_task",
    "replace_task",
    "set",
    "rename",
    "remove",
    "reencode",
    "resize",
    "resample",
)
"""The operations of a recipe, by the names of the methods of `Edit`."""


def replay_operations(edit: Edit, said: object) -> Edit:
    """Return an edit with the operations that a recipe lists.

    Args:
        edit: The edit to add to.
        said: ``{"operations": [{"do": "delete", "episodes": [3]}, …]}``; the other keys of an
            operation are the arguments of the method of this name.

    Raises:
        EditError: It is not such a list.
    """
    operations = said.get("operations") if isinstance(said, dict) else None
    if not isinstance(operations, list):
        raise EditError('A recipe is an object {"operations": [...]}.')
    for place, operation in enumerate(operations):
        edit = _replayed(edit, operation, place)
    return edit


def _replayed(edit: Edit, operation: object, place: int) -> Edit:
    name = operation.get("do") if isinstance(operation, dict) else None
    if not isinstance(operation, dict) or name not in OPERATIONS:
        raise EditError(
            f"Operation {place} of the recipe is {operation!r}: 'do' must be one of "
            f"{', '.join(OPERATIONS)}."
        )
    given: dict[str, Any] = {key: value for key, value in operation.items() if key != "do"}
    if name == "reencode":
        given = _with_encoding(given)
    method = getattr(edit, name)
    try:
        inspect.signature(method).bind(**given)
    except TypeError as error:
        raise EditError(f"Operation {place} of the recipe, {name!r}: {error}.") from None
    wrong: Exception
    try:
        return method(**given)  # type: ignore[no-any-return]  # an Edit
    except QueryError as error:
        wrong = error
    except DatasetError:
        raise
    except (AttributeError, TypeError, ValueError) as error:  # a value of another type
        wrong = error
    said = str(wrong).rstrip(".")
    raise EditError(f"Operation {place} of the recipe, {name!r}: {said}.") from wrong


def _with_encoding(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `reencode`, whose encoding is spelled in keys of its own."""
    known = ("codec", "keyframe_distance", "crf", "preset")
    encoding = Encoding(**{key: given[key] for key in known if key in given})
    return {**{k: v for k, v in given.items() if k not in known}, "encoding": encoding}
