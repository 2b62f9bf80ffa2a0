"""Which store a build uses, and which credentials are sent to it."""

from __future__ import annotations

import pytest

from hatch_cubin.config import store_urls
from hatch_cubin.errors import ConfigError
from hatch_cubin.remote.location import StoreTarget, store_target
from tests.helpers import read_config, refusal

TABLE = 'remote-cache = "https://cache.example/cubins/"\n'
SECRETS = {"HATCH_CUBIN_REMOTE_TOKEN": "hunter2"}


def target(options: str = "", **environ: str) -> StoreTarget | None:
    return store_target(read_config(options, environ), environ)


def test_without_a_setting_there_is_no_store() -> None:
    assert target() is None
    assert target(TABLE, HATCH_CUBIN_REMOTE="off") is None


def test_a_store_from_the_table_gets_no_credentials() -> None:
    found = target(TABLE, **SECRETS)
    assert found == StoreTarget(
        store_urls.Url("https", "cache.example", None, "/cubins"), None, is_from_environment=False
    )
    assert found.url.shown == "https://cache.example/cubins"


@pytest.mark.parametrize(
    ("url", "authorization"),
    [
        ("https://mine.example", "Bearer hunter2"),
        ("https://ada:pass%20word@mine.example:8443/x", "Basic YWRhOnBhc3Mgd29yZA=="),
        ("https://ada@mine.example", "Basic YWRhOg=="),
        ("http://localhost:8080", "Bearer hunter2"),
        ("http://ada:b@127.0.0.1:8080", "Basic YWRhOmI="),
        ("http://[::1]:8080", "Bearer hunter2"),
        ("http://mine.example", None),  # not encrypted
        ("s3://bucket/x", "Bearer hunter2"),  # a bucket ignores the token
    ],
)
def test_a_store_from_the_environment_replaces_the_tables_and_gets_credentials(
    url: str, authorization: str | None
) -> None:
    found = target(TABLE, HATCH_CUBIN_REMOTE=url, **SECRETS)
    assert found is not None
    assert (found.authorization, found.is_from_environment) == (authorization, True)
    assert "ada" not in found.url.shown
    assert found.url.user is None


def test_without_a_token_there_is_no_authorization() -> None:
    found = target(HATCH_CUBIN_REMOTE="https://mine.example")
    assert found is not None
    assert found.authorization is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://cache.example", "must begin with https://, http://, s3://, gs:// or az://, as in"),
        ("cache.example/cubins", "must begin with"),
        ("https://", "must begin with"),
        ("https://cache.example/a?b=c", "must not contain '?' or '#': the URL ends with its path"),
        ("https://cache.example/a#b", "must not contain '?' or '#'"),
        ("https://cache.example/a?", "must not contain '?' or '#'"),
        ("https://cache.example/a b", "must be a URL such as 'https://cache.example.org/cubins' or"),
        ("https://cache.example:port", "is not a valid URL"),
        ("https://[::1", "is not a valid URL"),
        (
            "https://ada:hunter2@cache.example",
            "must not contain a user or a password: set HATCH_CUBIN_REMOTE",
        ),
        ("s3://ada:hunter2@bucket", "must not contain a user or a password"),
    ],
)
def test_an_invalid_url_in_the_table_is_an_error_without_its_password(url: str, why: str) -> None:
    (problem,) = refusal(ConfigError, target, f'remote-cache = "{url}"\n').problems
    assert str(problem).startswith(f"pyproject.toml:10: remote-cache {why}")
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "http://ada:hunter2@cache.example",
            "would send its password unencrypted: write https://",
        ),
        (
            "s3://ada:hunter2@bucket",
            "must not contain a user or a password: set the environment variables of the bucket's provider",
        ),
        ("hunter2", "must begin with"),
    ],
)
def test_an_invalid_url_in_the_environment_is_an_error_without_its_password(url: str, why: str) -> None:
    (problem,) = refusal(ConfigError, target, HATCH_CUBIN_REMOTE=url).problems
    assert str(problem).startswith(f"HATCH_CUBIN_REMOTE: {why}")
    assert "hunter2" not in str(problem)


def test_a_url_must_be_a_string() -> None:
    with pytest.raises(ConfigError, match="remote-cache must be a URL"):
        target("remote-cache = 1\n")
