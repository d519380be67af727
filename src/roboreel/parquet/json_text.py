"""JSON as Python values whose texts can be written again."""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_json(raw: bytes) -> Any:  # noqa: ANN401  # typed by the caller
    r"""Return what JSON in UTF-8 says, with U+FFFD for each half of a surrogate pair.

    JSON may spell such a half as ``\ud800``. It is no character, so that no file, no terminal and no
    Arrow array could take the text.

    Raises:
        ValueError: It is not JSON, or not UTF-8.
        RecursionError: It is nested too deep.

    Examples:
        >>> parse_json(b'["lift \\ud83d\\ude00", "lift \\ud83d"]') == ["lift \U0001f600", "lift \ufffd"]
        True
    """
    value = json.loads(raw.decode("utf-8-sig"))
    if _ESCAPE.search(raw) is None:
        return value
    return json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
