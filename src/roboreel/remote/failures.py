"""Errors of obstore as ours: what was asked, what the server said, and no secret."""

from __future__ import annotations

import re

from roboreel.errors import DatasetChangedError, MissingFileError, RemoteError
from roboreel.mirror.client import NoRangesError
from roboreel.remote.patience import GaveUpError

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
    tries = asked_s = None
    if isinstance(error, GaveUpError):
        tries, asked_s = error.tries, error.asked_s
        error = error.last
    kind, text = type(error).__name__, str(error)
    if isinstance(error, FileNotFoundError) or kind == "NotFoundError":
        return MissingFileError(f"There is no remote file {where!r}.")
    if kind == "PreconditionError":
        return DatasetChangedError(
            f"The file has changed since the dataset was opened. Open the dataset again: {where!r}."
        )
    if kind == "NotSupportedError" or "non-partial response" in text:
        return NoRangesError(f"The server does not send parts of files: {where!r}.")
    reason = _reason(text, tries)
    if asked_s is not None:
        reason += f", and asks to wait {asked_s:,.0f} s"
    advice = _ADVICE.get(kind, "")
    if "403 " in reason or "401 " in reason:
        advice = advice or _ADVICE["PermissionDeniedError"]
    return RemoteError(
        f"Remote data could not {what} ({reason}). {advice}{' ' if advice else ''}Address: {where!r}."
    )


def _reason(text: str, tries: int | None) -> str:
    first = _SECRETS.sub("…", text.splitlines()[0] if text else "no reason given")
    retries = _RETRIES.search(first)
    if tries is None and retries is not None:
        tries = int(retries[1]) + 1
    tried = "" if tries is None or retries is None else f", tried {tries} times"
    status = _STATUS.search(first)
    if status is not None:
        return f"the server said {status[1].strip()}{tried}"
    said = first.rsplit(" - ", 1)[-1] if retries else first
    return f"{said[:200]}{tried}"
