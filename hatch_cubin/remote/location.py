"""Choose the remote store of a build, and the credentials that are sent to the store.

Credentials in environment variables are sent only if the store's URL is also in an environment variable,
because everyone who can change the project can change a URL in the project's configuration.
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
    """The URL of a remote store, and the credentials for the store."""

    url: Url
    authorization: str | None  # the value of the HTTP header Authorization.
    # Whether the store's URL comes from an environment variable. Credentials are sent only to a store whose
    # URL comes from an environment variable.
    is_from_environment: bool


def store_target(config: Config, environ: Mapping[str, str]) -> StoreTarget | None:
    """Return the remote store of a build; None if the build does not use a remote store."""
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
    """Return the value of the HTTP header Authorization for a user and a password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
