"""How a remote dataset is reached: where its mirror is, and the client's options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.errors import RemoteError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_SECRET_WORDS = ("secret", "token", "password", "key", "sas", "authorization")


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """The arguments of `open_dataset` that concern remote datasets."""

    mirror: str | os.PathLike[str] | None = None
    """The folder of mirrors."""
    limit_bytes: int | None = None
    """The most that all mirrors in it may take."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the client."""

    def __repr__(self) -> str:
        names = ", ".join(self.options) or "none"
        return f"Connection(mirror={self.mirror!r}, options: {names})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Not __getstate__, which Python 3.10 replaces in dataclasses with slots.
        secret = [name for name, value in self.options.items() if is_secret(name, value)]
        if secret:
            raise RemoteError(
                f"storage_options has {secret[0]!r}, which is never sent to other processes: give workers "
                "their credentials through the environment, a profile or a credential_provider."
            )
        return Connection, (self.mirror, self.limit_bytes, dict(self.options))


def is_secret(name: str, value: object) -> bool:
    """Whether an option must not be pickled; a provider is an object that knows how to ask."""
    if name == "client_options" and isinstance(value, dict):
        headers = value.get("default_headers") or {}
        return any(is_secret(str(header), "") for header in headers)
    return any(word in name.lower() for word in _SECRET_WORDS)
