"""A remote store in a bucket of S3, Google Cloud Storage or Azure, with the file layout of an HTTP store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

from .location import StoreTarget
from .store import StoreError, TrafficCounter, too_large_error

# The time-out for connecting and for each read. The build itself may stop waiting before this time-out.
_READ_TIMEOUT = timedelta(seconds=5)
_TOTAL_TIMEOUT = timedelta(minutes=10)
_CHUNK_SIZE = 1 << 13  # small chunks, so that even a slow download shows progress to the code that waits
_NOT_INSTALLED = "obstore is not installed: pip install 'hatch-cubin[remote]'"

# Environment variables with credentials. If none of these variables is set, requests are not signed. To sign
# requests, the library would ask the cloud's metadata server, which machines outside the cloud cannot reach.
_CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_METADATA_ENDPOINT",
    ),
    "gs": (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_MSI_ENDPOINT",
    ),
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


class BucketStore:
    """A remote store in a cloud bucket. Any number of threads may use a BucketStore at the same time."""

    def __init__(self, target: StoreTarget, environ: Mapping[str, str]) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise StoreError(_NOT_INSTALLED) from None
        self.url = target.url.shown
        self.traffic = TrafficCounter()
        self._obstore: Any = obstore
        self._from_url: Any = from_url
        self._settings = _settings(target, environ)
        self._store = self._open(_READ_TIMEOUT)

    def get(self, name: str, max_size: int) -> bytes | None:
        return self.read(name, max_size)[0]

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        self.traffic.count_request()
        try:
            found = self._obstore.get(self._store, name)
            if found.meta["size"] > max_size:
                raise too_large_error(max_size)
            pieces = list[bytes]()
            for piece in found.stream(min_chunk_size=_CHUNK_SIZE):
                self.traffic.count_bytes(len(piece))
                pieces.append(bytes(piece))
        except FileNotFoundError:
            return None, None
        except self._obstore.exceptions.BaseError as exc:
            raise self._store_error(exc) from None
        return b"".join(pieces), found.meta["e_tag"]

    def has(self, name: str) -> bool:
        self.traffic.count_request()
        try:
            self._obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        except self._obstore.exceptions.BaseError:
            return True
        return True

    def put(self, name: str, data: bytes) -> None:
        self._put(name, data, "overwrite")

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        return self._put(name, data, "create" if tag is None else {"e_tag": tag})

    def close_idle(self) -> None:
        """Do nothing, because the library obstore manages its connections itself."""

    def close(self) -> None:
        """Do nothing, because the library obstore manages its connections itself."""

    def _open(self, patience: timedelta) -> Any:
        own = {"client_options": {**self._settings["client_options"], "read_timeout": patience}}
        try:
            return self._from_url(self.url, **{**self._settings, **own})
        except Exception:  # noqa: BLE001 - each cloud raises other classes of errors
            raise StoreError("the environment variables with settings for this store are not valid") from None

    @cached_property
    def _upload_store(self) -> Any:
        """The client for uploads, with a longer time-out: a bucket answers only after a complete upload."""
        return self._open(_TOTAL_TIMEOUT)

    def _put(self, name: str, data: bytes, mode: object) -> bool:
        self.traffic.count_request()
        errors = self._obstore.exceptions
        self.traffic.begin_sending(len(data))
        try:
            self._obstore.put(self._upload_store, name, data, mode=mode, use_multipart=False)
        except (errors.AlreadyExistsError, errors.PreconditionError):
            return False
        except FileNotFoundError:
            raise StoreError("the bucket does not exist") from None
        except errors.BaseError as exc:
            raise self._store_error(exc) from None
        finally:
            self.traffic.end_sending(len(data))
        self.traffic.count_bytes(len(data))
        return True

    def _store_error(self, exc: Exception) -> StoreError:
        errors = self._obstore.exceptions
        if isinstance(exc, (errors.PermissionDeniedError, errors.UnauthenticatedError)):
            return StoreError("the store denies access")
        return StoreError("the store fails, or cannot be reached")


def _settings(target: StoreTarget, environ: Mapping[str, str]) -> dict[str, Any]:
    scheme = target.url.scheme
    plain = any(environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    known = target.is_from_environment and any(environ.get(name) for name in _CREDENTIALS[scheme])
    return {
        "client_options": {
            "allow_http": plain,
            "connect_timeout": _READ_TIMEOUT,
            "timeout": _TOTAL_TIMEOUT,
            "user_agent": "hatch-cubin",
        },
        "retry_config": {"max_retries": 1, "retry_timeout": _READ_TIMEOUT},
        "skip_signature": not known,
    }
