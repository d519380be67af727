"""Waiting for a server that is busy, as long as it asks for.

obstore tries again by itself, but it neither reads a server's Retry-After nor hands it on. So it
makes a few quick tries, and the long waits are here. After a 429 or 503 a small request asks for the
header, once for all threads of a client.
"""

from __future__ import annotations

import random
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from roboreel.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Result = TypeVar("Result")

BUSY_S = 180.0
"""How long a server may be busy: most ask for 1 to 60 s."""
OTHER_S = 25.0
"""How long a server may fail otherwise, or not be reached."""
_FIRST_WAIT_S = 1.0
_MOST_WAIT_S = 15.0
_ASKING_S = 10.0
_BUSY = (429, 503)
_STATUS = re.compile(r"status code: (\d{3})")
_RETRIES = re.compile(r"after (\d+) retries")
# Of its own: the generator that programs seed is left alone.
_JITTER = random.Random()


@dataclass(frozen=True, slots=True, repr=False)
class Place:
    """Where a busy server is asked how long to wait. It may hold secrets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class GaveUpError(Exception):
    """What was tried has failed for good."""

    def __init__(self, last: Exception, tries: int, asked_s: float | None) -> None:
        super().__init__("Gave up.")
        self.last = last
        self.tries = tries
        self.asked_s = asked_s
        """How long the server asked to wait, if that is too long."""


class Patience:
    """The waits of one client: all of its threads keep to what the server asks of one.

    Args:
        waits: Whether to wait at all. A user who gives a ``retry_config`` has obstore's tries alone.
    """

    def __init__(self, *, waits: bool = True) -> None:
        self._waits = waits
        self._asking = threading.Lock()
        self._not_before = 0.0

    def call(self, call: Callable[[], Result], place: Callable[[], Place | None]) -> Result:
        """Return what a call returns, made again while its errors may pass.

        Args:
            call: A request by obstore.
            place: Says where to ask how long to wait; None if nothing can be asked.

        Raises:
            GaveUpError: It has failed too often, or for good.
        """
        begun, tries, wait_s = time.monotonic(), 0, _FIRST_WAIT_S
        while True:
            time.sleep(max(0.0, self._not_before - time.monotonic()))
            try:
                return call()
            except RemoteError:  # Told by us: it will not pass.
                raise
            except Exception as error:
                tries += _tries_of(error)
                patience_s = _patience_s(error) if self._waits else 0.0
                asked_s = self._asked_s(place) if patience_s == BUSY_S else None
                # A little later than asked, and not all threads at once.
                pause_s = (wait_s if asked_s is None else asked_s) * _JITTER.uniform(1.0, 1.1)
                if time.monotonic() + pause_s > begun + patience_s:
                    raise GaveUpError(error, tries, asked_s) from error
                wait_s = min(2 * wait_s, _MOST_WAIT_S)
                time.sleep(pause_s)

    def _asked_s(self, place: Callable[[], Place | None]) -> float | None:
        """Return how long the server asks to wait; None if it does not say."""
        with self._asking:
            left_s = self._not_before - time.monotonic()
            if left_s > 0:  # Another thread has just asked.
                return left_s
            asked = place()
            said_s = None if asked is None else _ask(asked)
            if said_s is not None and said_s < BUSY_S:
                self._not_before = time.monotonic() + said_s
            return said_s


def _tries_of(error: Exception) -> int:
    found = _RETRIES.search(str(error))
    return 1 + (int(found[1]) if found else 0)


def _patience_s(error: Exception) -> float:
    """Return how long an error may last; 0 for one that will not pass."""
    text = str(error)
    found = _STATUS.search(text)
    if found is None:  # obstore tries again by itself what may pass; urllib does not.
        may_pass = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        return OTHER_S if may_pass or _tries_of(error) > 1 else 0.0
    status = int(found[1])
    if status in _BUSY:
        return BUSY_S
    return OTHER_S if status >= 500 or status == 408 else 0.0


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: headers with secrets go to no other host."""

    def redirect_request(self, *about: object) -> None:
        """Return nothing to follow."""
        del about


def _ask(place: Place) -> float | None:
    """Return the seconds of a server's Retry-After; 0 if it is not busy any more, None if unknown."""
    request = urllib.request.Request(place.url, headers={**place.headers, "Range": "bytes=0-0"})
    try:
        with urllib.request.build_opener(_StayHere).open(request, timeout=_ASKING_S):
            return 0.0
    except urllib.error.HTTPError as error:
        said = error.headers.get("Retry-After") if error.code in _BUSY else None
        error.close()
        return None if said is None else _seconds(said)
    except (OSError, ValueError):  # Not reached: the waits grow by themselves then.
        return None


def _seconds(said: str) -> float | None:
    """Return a Retry-After in seconds: it is a number of them, or a date.

    Examples:
        >>> _seconds("30"), _seconds("soon")
        (30.0, None)
    """
    if said.strip().isdigit():
        return float(said)
    try:
        moment = parsedate_to_datetime(said)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
