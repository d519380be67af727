"""Keys of the profiles in ~/.aws, which obstore does not read by itself."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.mirror.addresses import Address

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


def with_profile(address: Address, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the keys of a profile, if one is named and nothing else says who asks.

    A profile is named by the option ``profile`` or by ``$AWS_PROFILE``; without either, the profile
    ``default`` counts if it exists and the environment has no keys.

    Raises:
        RemoteError: The named profile does not exist, or has no keys.
    """
    options = dict(options)
    named = options.pop("profile", None) or os.environ.get("AWS_PROFILE")
    if not address.scheme.startswith("s3"):
        return options
    told = {"credential_provider", "skip_signature", "access_key_id", "aws_access_key_id"}
    if told & {key.lower() for key in options} or ("AWS_ACCESS_KEY_ID" in os.environ and not named):
        return options
    found = _read_profile(named or "default")
    if named and "secret_access_key" not in found:
        raise RemoteError(
            f"The profile {named!r} has no keys in ~/.aws. Roles and single sign-on need a "
            "provider: pass credential_provider= in storage_options."
        )
    return {**(found if "secret_access_key" in found else {}), **options}


def _read_profile(name: str) -> dict[str, str]:
    home = Path.home() / ".aws"
    places = [
        (os.environ.get("AWS_CONFIG_FILE") or home / "config", f"profile {name}"),
        (os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials", name),
    ]
    found: dict[str, str] = {}
    for path, section in places:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError):
            raise RemoteError(f"The profiles cannot be understood: {str(path)!r}.") from None
        for chosen in (section, name):
            if parser.has_section(chosen):
                items = dict(parser.items(chosen))
                found |= {ours: items[theirs] for theirs, ours in _KEYS.items() if theirs in items}
                break
    return found
