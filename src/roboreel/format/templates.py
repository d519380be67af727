"""Path templates of info.json, checked before they are used."""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING

from roboreel.errors import MetadataError, UnsafePathError
from roboreel.schema import FileSet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

# A width of two digits at most: `{chunk_index:09999999d}` would fill the memory.
_NUMBER_SPEC = re.compile(r"(0?\d{1,2})?d?")


def file_set(
    template: str,
    columns: Mapping[str, NDArray[np.int64]],
    constants: Mapping[str, str] | None = None,
    *,
    info_path: Path,
) -> FileSet:
    """Return the files that a template spells.

    Raises:
        MetadataError: The template has a field that this version does not know.
        UnsafePathError: A path would lead out of the dataset's folder.
    """
    constants = dict(constants or {})
    check_template(template, columns, constants, info_path=info_path)
    used = template_fields(template)
    return FileSet(
        template=template,
        numbers=dict(columns),
        constants={name: value for name, value in constants.items() if name in used},
    )


def template_fields(template: str) -> set[str]:
    """Return the names of a template's fields; none if it is not a template at all."""
    try:
        return {name for _, name, _, _ in Formatter().parse(template) if name}
    except ValueError:
        return set()


def numbers_in(template: str, path: str, constants: Mapping[str, str]) -> dict[str, int] | None:
    """Return the numbers in the path of a file; None if it is not named by the template."""
    pattern = ""
    seen: set[str] = set()
    for literal, name, _, _ in Formatter().parse(template):
        pattern += re.escape(literal)
        if name is None:
            continue
        if name in constants:
            pattern += re.escape(constants[name])
        else:
            pattern += f"(?P={name})" if name in seen else rf"(?P<{name}>\d+)"
            seen.add(name)
    match = re.fullmatch(pattern, path)
    return None if match is None else {name: int(text) for name, text in match.groupdict().items()}


def check_template(
    template: str,
    numbers: Collection[str],
    texts: Mapping[str, str],
    *,
    info_path: Path,
) -> None:
    """Raise if a template has unknown fields or leads out of the dataset's folder."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise MetadataError(
            f"Not a path template ({error}): {template!r}, in {str(info_path)!r}."
        ) from error
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        known = name in numbers or name in texts
        spelled = _NUMBER_SPEC.fullmatch(spec or "") if name in numbers else not spec
        if not known or not spelled or conversion:
            raise MetadataError(
                f"The path template {template!r} has the field {{{name}{':' if spec else ''}{spec}}}: "
                f"known here are {', '.join(sorted({*numbers, *texts}))}, in {str(info_path)!r}."
            )
    example = template.format(**dict.fromkeys(numbers, 0), **texts)
    if leaves_folder(example):
        raise UnsafePathError(
            f"A path template or a camera's name would lead out of the dataset: {example!r}. "
            f"Paths must stay below the dataset's folder; correct {str(info_path)!r}."
        )


def leaves_folder(path: str) -> bool:
    """Return whether a relative path leads out of the folder it counts from."""
    parts = re.split(r"[/\\]", path)
    absolute = path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path) is not None
    return absolute or ".." in parts or "\0" in path or not path.strip()
