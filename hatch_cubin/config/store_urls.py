"""Check and parse the URL of a remote store of results, and show the URL without its password. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

PLAIN = frozenset({"http", "https"})
OBJECTS = frozenset({"s3", "gs", "az"})
_SOME = "'https://cache.example.org/cubins' or 's3://bucket/cubins'"
_TEXT = re.compile(r"[!-~]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


class Url(NamedTuple):
    """The address of a remote store of results, and the credentials, which are sent only to this store."""

    scheme: str
    host: str  # for a bucket, the name of the bucket
    port: int | None
    path: str  # without a slash at its end
    user: str | None = None
    password: str = ""

    @property
    def shown(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}"


def parse(value: object) -> Url:
    """Return the parts of a URL.

    The message of a ValueError does not show the URL, because a URL may contain a password.
    """
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        raise ValueError(f"must be a URL such as {_SOME}")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError(f"is not a valid URL: write a URL such as {_SOME}") from None
    host = parts.netloc.rpartition("@")[2]
    host = host if port is None else host.removesuffix(f":{port}")
    if parts.scheme not in PLAIN | OBJECTS or not _HOST.fullmatch(host):
        raise ValueError(f"must begin with https://, http://, s3://, gs:// or az://, as in {_SOME}")
    if parts.query or parts.fragment or value.endswith(("?", "#")):
        raise ValueError("must not contain '?' or '#': the URL ends with its path")
    user = None if parts.username is None else unquote(parts.username)
    return Url(parts.scheme, host, port, parts.path.rstrip("/"), user, unquote(parts.password or ""))


def is_here(url: Url) -> bool:
    """Return whether a remote store is on this machine.

    Requests to a store on this machine do not pass through a network, so they need neither encryption nor a
    proxy.
    """
    return url.host in {"localhost", "127.0.0.1", "[::1]"}
