"""Addresses of remote datasets: their parts, without secrets, and the names of their mirrors."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from roboreel.errors import NotADatasetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.mirror.file_table import RemoteFile

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_OBJECTS, _HUB = "roboreel.remote.objects", "roboreel.remote.hub"
# Loaded when an address of the kind is opened: nothing below the rim imports the network.
_CLIENTS = {
    **dict.fromkeys(("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"), _OBJECTS),
    **dict.fromkeys(("http", "https"), _OBJECTS),
    "hf": _HUB,
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a dataset lies."""

    full: str
    """As it was given; it may hold a signature or a password."""
    plain: str
    """Without query, fragment, user and password: this one may be shown and kept."""
    scheme: str

    def __repr__(self) -> str:
        return f"Address({self.plain!r})"

    def mirror_name(self, endpoint: str, version: str) -> str:
        """Return the name of the folder of its mirror: readable, and one for each version."""
        key = f"{endpoint}\n{self.plain}\n{version}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        words = re.sub(r"[^\w.-]+", "-", self.plain.split("://", 1)[1]).strip("-.")
        return f"{words[-60:].strip('-.') or 'dataset'}-{digest}"


def is_address(path: object) -> bool:
    """Whether a path is an address rather than a folder."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def parse_address(url: str) -> Address:
    """Return the parts of an address.

    Raises:
        NotADatasetError: Datasets are not read from such addresses.

    Examples:
        >>> parse_address("https://me:secret@host/a/b/?signature=x").plain
        'https://host/a/b'
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if "http" in parts.scheme and parts.port else ""
    except ValueError:
        raise NotADatasetError("The dataset's address is not valid.") from None
    is_http = parts.scheme in ("http", "https")
    # The names of buckets keep their case; a user and a password are part of no other address.
    host = f"{parts.hostname}{port}" if is_http else parts.netloc
    plain = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    if parts.scheme not in _CLIENTS:
        known = ", ".join(f"{scheme}://" for scheme in ("s3", "gs", "az", "https", "hf"))
        raise NotADatasetError(
            f"No dataset at {plain!r}: give a folder, or an address that begins with one of {known}."
        )
    return Address(url, plain, parts.scheme)


def client_module(scheme: str) -> str:
    """Return the module that reads addresses of a kind."""
    return _CLIENTS[scheme]


def version_of(files: Sequence[RemoteFile]) -> str | None:
    """Return what changes when any file does; None if a file does not say its version.

    Files beside a dataset do not count: those that begin with a dot, and the README.
    """
    beside = ("readme.md", "license")
    counted = [f for f in files if not f.name.startswith(".") and f.name.lower() not in beside]
    if any(file.etag is None for file in counted):
        return None
    digest = hashlib.sha256()
    for file in sorted(counted, key=lambda file: file.name):
        digest.update(f"{file.name}\n{file.size_bytes}\n{file.etag}\n".encode())
    return digest.hexdigest()
