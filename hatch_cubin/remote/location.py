"""Which store a build uses, and with which credentials. Pure.

The project's table is changed by everybody who changes the project. So credentials of the environment are
sent only to a store that the environment itself names.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

from ..common.environment import REMOTE, REMOTE_TOKEN
from ..config import store_urls
from ..config.config import Config
from ..config.store_urls import Url


class StoreTarget(NamedTuple):
    """A store's URL, and the credentials for it."""

    url: Url
    authorization: str | None  # the value of the header
    is_from_environment: bool  # only then may credentials of the environment be sent


def store_target(config: Config, environ: Mapping[str, str]) -> StoreTarget | None:
    """Return the store that a build uses; None if it uses none."""
    if config.remote_cache is None:
        return None
    if "remote_cache" not in config.replaced:
        return StoreTarget(store_urls.parse(config.remote_cache), None, is_from_environment=False)
    url = store_urls.parse(environ[REMOTE])
    authorization = _authorization(url, environ.get(REMOTE_TOKEN))
    return StoreTarget(url._replace(user=None, password=""), authorization, is_from_environment=True)


def _authorization(url: Url, token: str | None) -> str | None:
    if url.user is not None:
        return basic_authorization(url.user, url.password)
    sent_in_the_open = url.scheme == "http" and not store_urls.is_here(url)
    return f"Bearer {token.strip()}" if token and not sent_in_the_open else None


def basic_authorization(user: str, password: str) -> str:
    """Return the value of an Authorization header with a user and password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
