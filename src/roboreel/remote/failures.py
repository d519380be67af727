"""Errors of obstore as ours: what was asked, what the server said, and no secret."""

from __future__ import annotations

import re

from roboreel.errors import DatasetChangedError, MissingFileError, RemoteError
from roboreel.mirror.client import NoRangesError

__all__ = ["translate"]

_STATUS = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_RETRIES = re.compile(r"after (\d+) retries")
_SECRETS = re.compile(r"\?\S+|//[^/\s@]*@")
_ADVICE = {
    "PermissionDeniedError": "The credentials may not read it: see docs/remote.md.",
    "UnauthenticatedError": "There are no valid credentials for it: see docs/remote.md.",
    "UnknownConfigurationKeyError": "See docs/remote.md for what storage_options may hold.",
}


def translate(error: Exception, where: str, what: str) -> Exception:
    """Return one of our errors for one of obstore's.

    Args:
        error: What obstore raised. Its text may hold an address with a signature, and the server's
            answer; of these only the status is kept.
        where: The address, without secrets.
        what: What could not be done: ``"be listed"``.
    """
    kind, text = type(error).__name__, str(error)
    if isinstance(error, FileNotFoundError) or kind == "NotFoundError":
        return MissingFileError(f"There is no remote file {where!r}.")
    if kind == "PreconditionError":
        return DatasetChangedError(
            f"The file has changed since the dataset was opened. Open the dataset again: {where!r}."
        )
    if kind == "NotSupportedError" or "non-partial response" in text:
        return NoRangesError(f"The server does not send parts of files: {where!r}.")
    reason = _reason(text)
    advice = _ADVICE.get(kind, "")
    if "403 " in reason or "401 " in reason:
        advice = advice or _ADVICE["PermissionDeniedError"]
    return RemoteError(
        f"Remote data could not {what} ({reason}). {advice}{' ' if advice else ''}Address: {where!r}."
    )


def _reason(text: str) -> str:
    first = _SECRETS.sub("…", text.splitlines()[0] if text else "no reason given")
    tries = _RETRIES.search(first)
    tried = "" if tries is None else f", tried {int(tries[1]) + 1} times"
    status = _STATUS.search(first)
    if status is not None:
        return f"the server said {status[1].strip()}{tried}"
    said = first.rsplit(" - ", 1)[-1] if tries else first
    return f"{said[:200]}{tried}"
