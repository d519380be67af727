"""From a recipe to a plan: which files there will be, and how each is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.edit.context import EditContext
from roboreel.edit.encoding import check_encodings
from roboreel.edit.layout import lay_out
from roboreel.edit.plan import EditPlan
from roboreel.edit.tasks import plan_subtasks, plan_tasks
from roboreel.errors import EditError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roboreel.edit.recipe import Recipe
    from roboreel.edit.sources import Source


def plan_edit(
    sources: Sequence[Source],
    recipe: Recipe,
    said: Sequence[str],
    out: Path | None,
    *,
    link: bool = False,
) -> EditPlan:
    """Return what an edit would do. Nothing is changed.

    Args:
        sources: What the recipe's pieces refer to.
        recipe: What the new dataset is made of.
        said: What was asked for, in words.
        out: Where the new dataset is written; None to change the first source.
        link: Whether files of a new dataset may share their bytes with the old ones.

    Raises:
        EditError: It cannot be done as asked.
        EncodingError: Images cannot be encoded as asked.
    """
    if out is not None:
        _check_place(out, sources)
    manifests = [source.manifest for source in sources]
    tasks = plan_tasks(recipe, manifests)
    layout = lay_out(recipe, sources, tasks, in_place=out is None, link=link)
    context = EditContext(
        recipe, tuple(sources), tasks, plan_subtasks(manifests), layout, in_place=out is None
    )
    check_encodings(context)
    return EditPlan(sources[0].root, out, tuple(said), context.states(), context)


def _check_place(out: Path, sources: Sequence[Source]) -> None:
    """Raise if a new dataset would lie inside an old one, and so become a part of it."""
    place = out.resolve()
    for source in sources:
        if source.root.resolve() in place.parents:
            raise EditError(
                f"The new dataset would lie inside the old one: choose a folder outside "
                f"{str(source.root)!r}, not {str(out)!r}."
            )
