"""Files on a web server whose requests carry more secrets than obstore drops at a redirect.

obstore sends ``Authorization`` and ``Cookie`` to no other host, but all other headers, and the
address itself as ``Referer``. Here nothing of them goes to another host.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from obstore.exceptions import GenericError, PreconditionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPResponse

_DROPPED = {"authorization", "cookie", "proxy-authorization", "www-authenticate", "user-agent"}
"""What obstore sends to no other host, or is no secret."""
_KNOWN = ("default_headers", "timeout", "connect_timeout", "allow_http")
_ASKED = {"range", "if-match", "if-unmodified-since"}


def headers_that_follow(client_options: Mapping[str, Any]) -> list[str]:
    """Return the names of the headers that obstore would send to the host of a redirect."""
    return [n for n in client_options.get("default_headers") or {} if n.lower() not in _DROPPED]


def url_of(address: str, name: str) -> str:
    """Return the address of a file below an address, which may have a query.

    A user and a password leave it, as obstore has it: urllib takes them for a part of the host's
    name, and asks for that.
    """
    parts = urlsplit(address)
    host, path = parts.netloc.rpartition("@")[2], f"{parts.path.rstrip('/')}/{quote(name)}"
    return urlunsplit(parts._replace(netloc=host, path=path))


class WebStore:
    """What `ObjectClient` needs of a store, over urllib.

    Args:
        address: Of the folder.
        client_options: As obstore takes them.

    Raises:
        ValueError: One of the options cannot be followed.
    """

    config: Mapping[str, Any] = {}

    def __init__(self, address: str, client_options: Mapping[str, Any]) -> None:
        unknown = [name for name in client_options if name not in _KNOWN]
        if unknown:
            raise ValueError(
                f"client_options cannot have {unknown[0]!r} beside headers other than Authorization "
                "and Cookie, or an address with a query: those are sent to no other host, and obstore "
                f"would. They can have {', '.join(_KNOWN)}."
            )
        headers = client_options.get("default_headers") or {}
        self._address = address
        self._headers = {name: _text(value) for name, value in headers.items()}
        timeout = client_options.get("timeout")
        self._timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else 20.0
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context())
        self._opener = urllib.request.build_opener(_Strangers, https)

    def head(self, name: str) -> dict[str, Any]:
        """Return what is known of a file."""
        with self._open(name, "HEAD", {}) as response:
            return _about(name, response)

    def get(self, name: str, options: Mapping[str, Any] | None = None) -> _Body:
        """Return a file, or a part of it."""
        asked = dict(options or {})
        headers = {}
        if "range" in asked:
            headers["Range"] = f"bytes={asked['range'][0]}-{asked['range'][1] - 1}"
        if "if_match" in asked:
            headers["If-Match"] = asked["if_match"]
        if "if_unmodified_since" in asked:
            headers["If-Unmodified-Since"] = format_datetime(
                asked["if_unmodified_since"], usegmt=True
            )
        response = self._open(name, "GET", headers)
        if "range" in asked and response.status != 206:
            response.close()
            raise GenericError("A non-partial response to a request for a range.")
        return _Body(response, _about(name, response))

    def _open(self, name: str, method: str, headers: Mapping[str, str]) -> HTTPResponse:
        request = urllib.request.Request(
            url_of(self._address, name), headers={**self._headers, **headers}, method=method
        )
        try:
            response: HTTPResponse = self._opener.open(request, timeout=self._timeout_s)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(name) from None
            kind = PreconditionError if error.code == 412 else GenericError
            raise kind(f"status code: {error.code} {error.reason}") from None
        return response


@dataclass(frozen=True, slots=True)
class _Body:
    """An answer with bytes, as obstore gives them."""

    response: HTTPResponse
    meta: dict[str, Any]

    def stream(self, min_chunk_size: int) -> Iterator[bytes]:
        """Yield the bytes that the server announced, or all until it ends."""
        with self.response as response:
            while chunk := response.read(min_chunk_size):
                yield chunk
            if response.length:
                raise ConnectionResetError("The connection broke.")


class _Strangers(urllib.request.HTTPRedirectHandler):
    """Follows redirects, to another host with nothing but what is asked for."""

    def redirect_request(self, req: urllib.request.Request, *about: Any) -> Any:  # noqa: ANN401
        """Return the next request."""
        following = super().redirect_request(req, *about)
        if following is None or following.type not in (req.type, "https"):
            return None
        following.method = req.get_method()
        if urlsplit(following.full_url)[:2] != urlsplit(req.full_url)[:2]:
            kept = following.headers.items()
            following.headers = {key: value for key, value in kept if key.lower() in _ASKED}
        return following


def _about(name: str, response: HTTPResponse) -> dict[str, Any]:
    said, span = response.headers, response.headers.get("Content-Range", "")
    size = span.rpartition("/")[2] if response.status == 206 else said.get("Content-Length")
    modified = said.get("Last-Modified")
    try:
        return {
            "path": name,
            "size": int(size or ""),
            "e_tag": said.get("ETag"),
            "last_modified": None if modified is None else parsedate_to_datetime(modified),
        }
    except ValueError:
        response.close()
        raise GenericError("The server does not say how large the file is.") from None


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
