"""A store in a bucket of S3, Google Cloud Storage or Azure, laid out as one that speaks HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

from .location import Place
from .store import FaultError, Traffic, too_large

_PATIENCE = timedelta(seconds=5)  # with a connection, and with each read; a build's own ends before
_WHOLE = timedelta(minutes=10)
_PIECE = 1 << 13  # however slow it is, each shall be seen to come
_MISSING = "obstore is not installed: pip install 'hatch-cubin[remote]'"

# Variables that say who asks. Without any of them, a cloud's library would ask the cloud that the machine may
# be in, at an address where elsewhere nobody answers.
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


class ObjectStore:
    """A store in a bucket. Any number of threads may use it."""

    def __init__(self, place: Place, environ: Mapping[str, str]) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise FaultError(_MISSING) from None
        self.url = place.url.shown
        self.traffic = Traffic()
        self._obstore: Any = obstore
        self._from_url: Any = from_url
        self._settings = _settings(place, environ)
        self._store = self._open(_PATIENCE)

    def get(self, name: str, most: int) -> bytes | None:
        return self.read(name, most)[0]

    def read(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        self.traffic.asked()
        try:
            found = self._obstore.get(self._store, name)
            if found.meta["size"] > most:
                raise too_large(most)
            pieces = list[bytes]()
            for piece in found.stream(min_chunk_size=_PIECE):
                self.traffic.moved(len(piece))
                pieces.append(bytes(piece))
        except FileNotFoundError:
            return None, None
        except self._obstore.exceptions.BaseError as exc:
            raise self._told(exc) from None
        return b"".join(pieces), found.meta["e_tag"]

    def has(self, name: str) -> bool:
        self.traffic.asked()
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

    def rest(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        """Nor is there anything to end."""

    def _open(self, patience: timedelta) -> Any:
        own = {"client_options": {**self._settings["client_options"], "read_timeout": patience}}
        try:
            return self._from_url(self.url, **{**self._settings, **own})
        except Exception:  # noqa: BLE001 - each cloud's has errors of its own
            raise FaultError("the variables of the environment that are for it are not right") from None

    @cached_property
    def _taker(self) -> Any:
        """The same bucket, for what is put there: it answers only when it has all of it."""
        return self._open(_WHOLE)

    def _put(self, name: str, data: bytes, mode: object) -> bool:
        self.traffic.asked()
        errors = self._obstore.exceptions
        self.traffic.sending(len(data))
        try:
            self._obstore.put(self._taker, name, data, mode=mode, use_multipart=False)
        except (errors.AlreadyExistsError, errors.PreconditionError):
            return False
        except FileNotFoundError:
            raise FaultError("there is no such bucket") from None
        except errors.BaseError as exc:
            raise self._told(exc) from None
        finally:
            self.traffic.sent(len(data))
        self.traffic.moved(len(data))
        return True

    def _told(self, exc: Exception) -> FaultError:
        errors = self._obstore.exceptions
        if isinstance(exc, (errors.PermissionDeniedError, errors.UnauthenticatedError)):
            return FaultError("it refuses whoever asks")
        return FaultError("it fails, or cannot be reached")


def _settings(place: Place, environ: Mapping[str, str]) -> dict[str, Any]:
    scheme = place.url.scheme
    plain = any(environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    known = place.own and any(environ.get(name) for name in _CREDENTIALS[scheme])
    return {
        "client_options": {
            "allow_http": plain,
            "connect_timeout": _PATIENCE,
            "timeout": _WHOLE,
            "user_agent": "hatch-cubin",
        },
        "retry_config": {"max_retries": 1, "retry_timeout": _PATIENCE},
        "skip_signature": not known,
    }
