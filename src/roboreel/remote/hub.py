"""Datasets on the Hugging Face Hub, read in place. Importing this needs the ``remote`` extra."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from roboreel.errors import MissingFileError, NotADatasetError, RemoteError
from roboreel.mirror.addresses import Address
from roboreel.mirror.file_table import RemoteFile
from roboreel.remote.helper import ask_helper
from roboreel.remote.objects import CLIENT_OPTIONS, RETRIES, Reading
from roboreel.remote.patience import Patience, Place

try:
    import huggingface_hub
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from obstore.store import HTTPStore
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Datasets on the Hub need huggingface_hub. Install it with: pip install 'roboreel[remote]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SCHEME = "hf://datasets/"
_TRIES = 6
_MOST_WAIT_S = 60.0
_VALID_S = 1800.0
"""Signed addresses are valid for an hour."""


def connect(address: Address, options: Mapping[str, Any]) -> tuple[HubClient, str]:
    """Return a client for a dataset, pinned to the commit that its revision has now.

    Args:
        address: ``hf://datasets/owner/name[@revision]``.
        options: ``token``. Default: the one that huggingface_hub finds.
    """
    client = HubClient(address, options)
    return client, str(huggingface_hub.constants.ENDPOINT)


class HubClient:
    """Reads the files of one commit of a dataset. Safe to use from several threads.

    The Hub is asked once per file where its bytes are; ranges are then read from there, without the
    token if that is another host.
    """

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        unknown = [name for name in options if name != "token"]
        if unknown:
            raise ValueError(f"storage_options of an hf:// address is 'token', not {unknown[0]!r}.")
        self._options = options
        self._token = options.get("token")
        self._repo_id, _, revision = address.full.removeprefix(_SCHEME).rstrip("/").partition("@")
        api = huggingface_hub.HfApi(token=self._token)
        about = _asked(lambda: api.dataset_info(self._repo_id, revision=revision or None), address)
        self._commit = str(about.sha)
        self.url = f"{_SCHEME}{self._repo_id}@{self._commit}"
        self._address = Address(self.url, self.url, "hf")
        self._is_forked = False
        self._patience = Patience()
        self._places: dict[str, tuple[Reading, float]] = {}
        self._asking: dict[str, threading.Lock] = {}

    def list_files(self) -> list[RemoteFile]:
        """Return all files of the commit."""
        api = huggingface_hub.HfApi(token=self._token)
        listed = _asked(
            lambda: list(
                api.list_repo_tree(
                    self._repo_id, recursive=True, revision=self._commit, repo_type="dataset"
                )
            ),
            self._address,
        )
        files = [entry for entry in listed if hasattr(entry, "blob_id")]
        return [RemoteFile(file.path, file.size, _version_of(file)) for file in files]

    def find(self, name: str) -> RemoteFile | None:
        """Return None: all files were listed."""
        del name
        return None

    def read(self, file: RemoteFile, start: int, stop: int) -> memoryview:
        """Return the bytes ``[start, stop)`` of a file."""
        if self._is_forked:
            return memoryview(ask_helper(self._address, self._options, "read", file, start, stop))
        try:
            return self._reading(file.name).read(file, start, stop)
        except RemoteError as error:
            if "403" not in str(error):
                raise
            self._places.pop(file.name, None)  # The signature has expired.
            return self._reading(file.name).read(file, start, stop)

    def read_whole(self, file: RemoteFile) -> Iterator[memoryview]:
        """Yield all bytes of a file."""
        yield self.read(file, 0, file.size_bytes)

    def begin_anew(self) -> None:
        """Use a process of its own for all connections: this is a forked child."""
        self._is_forked = True

    def _reading(self, name: str) -> Reading:
        """Return how to read a file: the Hub is asked where its bytes are, if that is not known."""
        with self._asking.setdefault(name, threading.Lock()):
            known = self._places.get(name)
            if known is None or time.monotonic() > known[1]:
                place = _place_of(self._location(name), self._token)
                reading = Reading(_open(place), "", self.url, self._patience, lambda: place)
                known = self._places[name] = (reading, time.monotonic() + _VALID_S)
        return known[0]

    def _location(self, name: str) -> str:
        url = huggingface_hub.hf_hub_url(
            self._repo_id, name, repo_type="dataset", revision=self._commit
        )
        about = _asked(
            lambda: huggingface_hub.get_hf_file_metadata(url, token=self._token),
            Address(f"{self.url}/{name}", f"{self.url}/{name}", "hf"),
        )
        return str(about.location)


def _version_of(file: Any) -> str:  # noqa: ANN401  # a RepoFile
    """Return what changes with the content: the hash of a large file, or Git's of a small one."""
    lfs = file.lfs
    return str(file.blob_id if lfs is None else getattr(lfs, "sha256", None) or lfs["sha256"])


def _place_of(location: str, token: object) -> Place:
    """Return where a file is; the token goes to the Hub itself, and to no other host."""
    if urlsplit(location)[:2] != urlsplit(str(huggingface_hub.constants.ENDPOINT))[:2]:
        return Place(location)
    found = token or huggingface_hub.get_token()
    return Place(location, {"authorization": f"Bearer {found}"} if found else {})


def _open(place: Place) -> Any:  # noqa: ANN401  # a store of obstore's
    """Return a store of one file."""
    options = {**CLIENT_OPTIONS, "default_headers": dict(place.headers)}
    if place.url.startswith("http://"):
        options["allow_http"] = True
    return HTTPStore.from_url(place.url, client_options=options, retry_config=RETRIES)


def _asked(call: Callable[[], Any], address: Address) -> Any:  # noqa: ANN401
    """Return what the Hub answers; too many requests are waited out, as it asks for."""
    for left in reversed(range(_TRIES)):
        try:
            return call()
        except EntryNotFoundError:  # noqa: PERF203  # a few tries
            raise MissingFileError(f"There is no remote file {address.plain!r}.") from None
        except (RepositoryNotFoundError, RevisionNotFoundError):
            raise NotADatasetError(
                f"The Hub has no dataset {address.plain!r}, or this token may not read it."
            ) from None
        except HfHubHTTPError as error:
            status = getattr(error.response, "status_code", 0)
            if status not in (429, 500, 502, 503, 504) or not left:
                raise RemoteError(
                    f"The Hub said {status}, tried {_TRIES - left} times. Address: {address.plain!r}."
                ) from None
            time.sleep(_wait_s(error, _TRIES - left))
        except Exception as error:
            if not _is_of_network(error):
                raise
            if not left:
                raise RemoteError(
                    f"The Hub cannot be reached ({type(error).__name__}), tried {_TRIES} times. "
                    f"Address: {address.plain!r}."
                ) from None
            time.sleep(0.2 * 2 ** (_TRIES - left))
    raise AssertionError("unreachable")


def _is_of_network(error: Exception) -> bool:
    """Whether an error is one of the library that huggingface_hub talks by, whichever that is."""
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or library.startswith(("httpx", "httpcore", "requests"))


def _wait_s(error: HfHubHTTPError, tries: int) -> float:
    """Return how long to wait: what the server says, or twice as long each time."""
    said = getattr(error.response, "headers", {}).get("Retry-After", "")
    wait = float(said) if str(said).replace(".", "", 1).isdigit() else 0.5 * 2.0**tries
    return min(wait, _MOST_WAIT_S)
