"""Let LeRobot 0.6.1 be imported by Python 3.11: five of its files have syntax of Python 3.12.

``python -m benchmarks.peers.older_python`` changes the LeRobot of the interpreter that runs it.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

_FILES = (
    "processor/pipeline.py",
    "motors/motors_bus.py",
    "datasets/streaming_dataset.py",
    "datasets/aggregate.py",
    "utils/io_utils.py",
)
_ALIAS = re.compile(r"^type (\w+) = ", re.MULTILINE)
_CLASS = re.compile(r"^( *)class (\w+)\[([^\]]+)\](?:\((.*)\))?:$", re.MULTILINE)
_FUNCTION = re.compile(r"^( *)def (\w+)\[([^\]]+)\]\(", re.MULTILINE)
_FIRST_IMPORT = re.compile(r"^(?:from (?!__future__)|import )", re.MULTILINE)


def main() -> None:
    """Change the files, unless the interpreter understands them."""
    spec = find_spec("lerobot")
    if spec is None or spec.origin is None:
        sys.exit("There is no LeRobot here.")
    if sys.version_info < (3, 12):
        for name in _FILES:
            path = Path(spec.origin).parent / name
            path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")


def rewrite(source: str) -> str:
    r"""Return a module without type aliases and type parameters.

    Examples:
        >>> print(rewrite("import re\nclass Box[T]:\n    pass"))
        from typing import Generic as _Generic, TypeVar as _TypeVar
        T = _TypeVar("T")
        import re
        class Box(_Generic[T]):
            pass
    """
    parameters: dict[str, None] = {}

    def names(listed: str) -> list[str]:
        found = [name.partition(":")[0].strip() for name in listed.split(",")]
        parameters.update(dict.fromkeys(found))
        return found

    def plain_class(match: re.Match[str]) -> str:
        bases = f"{match[4]}, " if match[4] else ""
        return f"{match[1]}class {match[2]}({bases}_Generic[{', '.join(names(match[3]))}]):"

    def plain_function(match: re.Match[str]) -> str:
        names(match[3])
        return f"{match[1]}def {match[2]}("

    source = _ALIAS.sub(r"\1 = ", source)
    source = _FUNCTION.sub(plain_function, _CLASS.sub(plain_class, source))
    first = _FIRST_IMPORT.search(source)
    if not parameters or first is None:
        return source
    lines = ["from typing import Generic as _Generic, TypeVar as _TypeVar"]
    lines += [f'{name} = _TypeVar("{name}")' for name in parameters]
    return source[: first.start()] + "\n".join([*lines, source[first.start() :]])


if __name__ == "__main__":
    main()
