"""Files in object stores and on web servers, by obstore. Importing this needs the ``remote`` extra."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetChangedError, MissingFileError, RemoteError
from roboreel.mirror.connection import is_secret
from roboreel.mirror.file_table import RemoteFile
from roboreel.remote.credentials import with_profile
from roboreel.remote.failures import translate
from roboreel.remote.helper import ask_helper
from roboreel.remote.patience import Patience, Place

try:
    import obstore
    from obstore.store import from_url

    from roboreel.remote.web import WebStore, headers_that_follow, url_of
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Remote datasets need obstore. Install it with: pip install 'roboreel[remote]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from roboreel.mirror.addresses import Address

CLIENT_OPTIONS = {"timeout": timedelta(seconds=20), "connect_timeout": timedelta(seconds=10)}
"""A body that stalls is asked for again, from the byte that came last."""
RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
"""Quick tries after errors 429 and 5xx, and after connections that break: see `Patience` for more."""
_WHOLE_FILE_CHUNK_BYTES = 2**20
_SIGNED_FOR = timedelta(seconds=60)
_MOST_FILES = 3_000_000
"""A listing that goes on for ever is not waited for."""


def connect(address: Address, options: Mapping[str, Any]) -> tuple[ObjectClient, str]:
    """Return a client for an address, and the endpoint that it talks to.

    Args:
        address: Of an object store or a web server.
        options: obstore's configuration keys; and ``client_options``, ``retry_config`` and
            ``credential_provider``, which are handed on to it, and ``profile``, of ~/.aws.
    """
    client = ObjectClient(address, options)
    return client, client.endpoint


class ObjectClient:
    """Reads the files below one address. Safe to use from several threads."""

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        self._address = address
        self._options = with_profile(address, options)
        self._is_web = address.scheme in ("http", "https")
        self._is_forked = False
        self._patience = Patience(waits=not options.get("retry_config"))
        self.url = address.plain
        self._store = self._open()
        config: Mapping[str, Any] = getattr(self._store, "config", None) or {}
        self.endpoint = str(config.get("endpoint") or "")

    def list_files(self) -> list[RemoteFile] | None:
        """Return all files; None for a web server, which has no list."""
        if self._is_web:
            return None
        try:
            listed = self._patience.call(self._list, lambda: None)
        except Exception as error:  # noqa: BLE001  # obstore's errors share no class with FileNotFoundError
            raise translate(error, self._address.plain, "be listed") from None
        if len(listed) > _MOST_FILES:
            raise RemoteError(
                f"More than {_MOST_FILES:,} files are listed: no dataset has so many. Address: "
                f"{self._address.plain!r}."
            )
        folders = {str(entry["path"]).rpartition("/")[0] for entry in listed}
        for folder in list(folders):
            parts = folder.split("/")
            folders.update("/".join(parts[:stop]) for stop in range(1, len(parts)))
        # Some tools make an empty object for each folder.
        return [_described(entry) for entry in listed if entry["path"] not in folders]

    def _list(self) -> list[Any]:
        listed: list[Any] = []
        for page in obstore.list(self._store):
            listed += page
            if len(listed) > _MOST_FILES:
                break
        return listed

    def find(self, name: str) -> RemoteFile | None:
        """Return what is known of a file; None if there is none."""
        if self._is_forked:
            found: RemoteFile | None = self._ask("find", name)
            return found
        try:
            meta = self._patience.call(lambda: self._store.head(name), lambda: self._place(name))
            return _described(meta)
        except Exception as error:  # noqa: BLE001
            failure = translate(error, f"{self._address.plain}/{name}", "be found")
            if isinstance(failure, MissingFileError):
                return None
            raise failure from None

    def read(self, file: RemoteFile, start: int, stop: int) -> memoryview:
        """Return the bytes ``[start, stop)`` of a file."""
        if self._is_forked:
            return memoryview(self._ask("read", file, start, stop))
        place = partial(self._place, file.name)
        reading = Reading(self._store, file.name, self._address.plain, self._patience, place)
        return reading.read(file, start, stop)

    def read_whole(self, file: RemoteFile) -> Iterator[memoryview]:
        """Yield all bytes of a file, in order."""
        if self._is_forked:
            for part in self._ask("read_whole", file):
                yield memoryview(part)
            return
        try:
            result = self._patience.call(
                lambda: self._store.get(file.name), lambda: self._place(file.name)
            )
            check_unchanged(file, result.meta, self._address.plain)
            for chunk in result.stream(min_chunk_size=_WHOLE_FILE_CHUNK_BYTES):
                yield memoryview(chunk)
        except DatasetChangedError:
            raise
        except Exception as error:  # noqa: BLE001
            raise translate(error, f"{self._address.plain}/{file.name}", "be fetched") from None

    def begin_anew(self) -> None:
        """Use a process of its own for all connections: this is a forked child."""
        self._is_forked = True

    def _place(self, name: str) -> Place | None:
        """Return where the server says how long to wait for a file."""
        if not self._is_web:
            try:
                return Place(obstore.sign(self._store, "GET", name, expires_in=_SIGNED_FOR))
            except Exception:  # noqa: BLE001  # Without keys nothing can be signed: nothing is asked.
                return None
        headers = (self._options.get("client_options") or {}).get("default_headers") or {}
        return Place(url_of(self._address.full, name), headers)

    def _ask(self, *call: Any) -> Any:  # noqa: ANN401
        return ask_helper(self._address, self._options, *call)

    def _open(self) -> Any:  # noqa: ANN401  # one of obstore's classes
        options = dict(self._options)
        client_options = {**CLIENT_OPTIONS, **(options.pop("client_options", None) or {})}
        retries = {**RETRIES, **(options.pop("retry_config", None) or {})}
        endpoint = str(options.get("endpoint") or options.get("aws_endpoint") or "")
        if self._address.scheme == "http" or endpoint.startswith("http://"):
            client_options.setdefault("allow_http", True)
        following = headers_that_follow(client_options)
        if self._is_web and (following or "?" in self._address.full):
            return WebStore(self._address.full, client_options)
        if any(is_secret(name, "") for name in following):
            raise ValueError(
                "default_headers of an object store cannot hold secrets, which would be sent to the "
                "host of a redirect too: give credentials as storage_options. Address: "
                f"{self._address.plain!r}."
            )
        try:
            return from_url(
                self._address.full,
                client_options=client_options,
                retry_config=retries,
                **options,
            )
        except Exception as error:  # noqa: BLE001
            raise translate(error, self._address.plain, "be opened") from None


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """How the bytes of one file are read."""

    store: Any
    """One of obstore's classes."""
    path: str
    """Of the file in it."""
    where: str
    """The address of the dataset, without secrets."""
    patience: Patience
    place: Callable[[], Place | None]
    """Says where to ask how long to wait."""

    def read(self, file: RemoteFile, start: int, stop: int) -> memoryview:
        """Return bytes of a file that is still as it was when it was listed.

        Raises:
            DatasetChangedError: It is not.
            MissingFileError: It is gone.
            NoRangesError: The server sent all of it.
            RemoteError: It cannot be fetched.
        """
        options: dict[str, Any] = {"range": (start, stop)}
        if file.etag is not None and file.etag.startswith('"'):
            options["if_match"] = file.etag
        elif file.modified_ns:
            moment = datetime.fromtimestamp(file.modified_ns / 1e9, timezone.utc)
            options["if_unmodified_since"] = moment

        def get() -> memoryview:
            result = self.store.get(self.path, options=options)
            check_unchanged(file, result.meta, self.where)
            return _body(result, stop - start, f"{self.where}/{file.name}")

        try:
            return self.patience.call(get, self.place)
        except RemoteError:
            raise
        except Exception as error:  # noqa: BLE001
            what = f"be fetched, bytes {start:,} to {stop:,}"
            raise translate(error, f"{self.where}/{file.name}", what) from None


def _body(result: Any, size_bytes: int, where: str) -> memoryview:  # noqa: ANN401  # obstore's
    """Return what a server sends; more than was asked for is not read to its end."""
    parts, count = [], 0
    for chunk in result.stream(min_chunk_size=size_bytes):
        parts.append(memoryview(chunk))
        count += len(parts[-1])
        if count > size_bytes:
            raise RemoteError(f"More than the {size_bytes:,} bytes asked for came: {where!r}.")
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def check_unchanged(file: RemoteFile, meta: Mapping[str, Any], where: str) -> None:
    """Raise if a file is not the one that was listed.

    Raises:
        DatasetChangedError: Its size, ETag or time differs.
    """
    now = _described(meta)
    same = now.size_bytes == file.size_bytes
    if file.etag is not None and file.etag.startswith('"'):
        same &= now.etag in (None, file.etag)
    elif file.etag is None and file.modified_ns:
        same &= now.modified_ns == file.modified_ns
    if not same:
        raise DatasetChangedError(
            f"{file.name!r} has changed since the dataset was opened. Open the dataset again: "
            f"{where!r}."
        )


def strong_etag(etag: str | None) -> str | None:
    """Return an ETag if it stands for the same bytes; None for a weak one, or none."""
    return None if not etag or etag.startswith("W/") else etag


def _described(meta: Mapping[str, Any]) -> RemoteFile:
    modified: datetime | None = meta.get("last_modified")
    modified_ns = 0 if modified is None else round(modified.timestamp()) * 10**9
    return RemoteFile(
        str(meta["path"]), int(meta["size"]), strong_etag(meta.get("e_tag")), modified_ns
    )
