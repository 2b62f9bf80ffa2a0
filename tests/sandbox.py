"""The machine as tests see it: folders of their own, few variables, and the way to the package index.

A user has settings: for pip, for git, for hatch-cubin. None of them may decide whether a test passes. So the
tests get an environment that names every variable it keeps, and a home folder that is new and empty. Only
installers need something of the user's: the address of the package index, and their cache of downloads. They
get both by variables.
"""

from __future__ import annotations

import configparser
import getpass
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from hatch_cubin.config import toml_positions

from .guard import sitecustomize

SHARED = "TESTS_SHARED_HEADERS"
_HEADERS = {"darwin": "Library/Caches/hatch-cubin/headers", "win32": "hatch-cubin/Cache/headers"}.get(
    sys.platform, ".cache/hatch-cubin/headers"
)
# Files that installers may read because a variable names them.
_NAMED = ("NETRC", "PIP_CERT", "PIP_FIND_LINKS", "PYENV_ROOT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
# The guard does not see which host the library of a cloud calls, so that one calls where nobody answers.
_NOWHERE = dict.fromkeys(("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT"), "http://127.0.0.1:9")
REPOSITORY = Path(__file__).parent.parent
# How installers reach the package index: variables, and what the files of pip and uv call the same.
PIP_SETTINGS = {
    f"PIP_{name.upper()}": name.replace("_", "-")
    for name in (
        *("cert", "client_cert", "default_timeout", "extra_index_url", "find_links", "index_url"),
        *("keyring_provider", "no_index", "proxy", "retries", "timeout", "trusted_host"),
    )
}
UV_SETTINGS = {
    "UV_EXTRA_INDEX_URL": "extra-index-url",
    "UV_FIND_LINKS": "find-links",
    "UV_INDEX_URL": "index-url",
    "UV_INSECURE_HOST": "allow-insecure-host",
    "UV_KEYRING_PROVIDER": "keyring-provider",
    "UV_NATIVE_TLS": "native-tls",
    "UV_SYSTEM_CERTS": "system-certs",
}
# Of the variables that are set, tests and what they start see these and no other.
KEPT = re.compile(
    r"""
    PATH | LANG | LANGUAGE | LC_\w+ | TZ | TERM | USER | LOGNAME | LD_LIBRARY_PATH   # the system
    | SYSTEMROOT | SYSTEMDRIVE | COMSPEC | PATHEXT | WINDIR | NUMBER_OF_PROCESSORS | PROGRAM\w+   # Windows
    | (?:HTTPS?|ALL|NO)_PROXY | NETRC   # the network
    | SSL_CERT_(?:FILE|DIR) | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE
    | UV_(?:DEFAULT_)?INDEX | UV_INDEX_\w+_(?:USERNAME|PASSWORD) | UV_HTTP_\w+
    | PYENV_ROOT | PYENV_VERSION   # its shims may be first on PATH
    | PYTEST_\w+ | COVERAGE_\w+ | TESTS_SHARED_HEADERS
    """
    + "".join(f"| {name}" for name in (*PIP_SETTINGS, *UV_SETTINGS)),
    re.VERBOSE | re.IGNORECASE,
)


def enter(home: Path) -> Path:
    """Give this process an environment of its own and return the folder made for it; *home* is the user's."""
    # pytest's folders stay where they would be: the last three runs can be looked at.
    root = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="tests-", dir=root)).resolve()
    for name in ("headers", "tmp", "virtualenv"):
        (folder / name).mkdir()
    # The first process of pytest-xdist's hands this on to the others.
    os.environ.setdefault(SHARED, str(folder / "headers"))
    environ = {
        **installers(home, os.environ),
        **{name: value for name, value in os.environ.items() if value and KEPT.fullmatch(name)},
        **caches(folder),
        **own(folder),
        **_NOWHERE,
        "TMPDIR": str(folder / "tmp"),
        "VIRTUALENV_OVERRIDE_APP_DATA": str(folder / "virtualenv"),
    }
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None
    return folder


def guard(folder: Path, *folders: Path | str) -> sitecustomize.Guard:
    """Report each file outside the tests' folders that this process opens; *folders* are more of these."""
    downloads = [Path(os.environ[name]) for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR")]
    tests = [folder, Path(os.environ[SHARED]), REPOSITORY, _pytests_folder(), *downloads, *map(Path, folders)]
    named = [value for name in _NAMED for value in os.environ.get(name, "").split()]
    tests += [Path(sys.prefix), Path(sys.base_prefix)]  # where other Pythons find what the tests give them
    places = [*map(str, tests), *(str(path.resolve()) for path in tests)]
    made = sitecustomize.Guard(str(folder / "report"), places, named)
    made.install()
    return made


def _pytests_folder() -> Path:
    try:
        user = getpass.getuser()
    except (ImportError, OSError, KeyError):
        user = "unknown"  # as pytest calls it
    return Path(os.environ["PYTEST_DEBUG_TEMPROOT"], f"pytest-of-{user}")


def own(folder: Path) -> dict[str, str]:
    """Make a home and an empty cache below *folder*, and return the variables that name them.

    The home has only the headers that NVRTC takes seconds to unpack. All tests of a run share these.
    """
    home, cache = folder / "home", folder / "cache"
    headers = home / _HEADERS
    headers.parent.mkdir(parents=True)
    cache.mkdir()
    headers.symlink_to(os.environ[SHARED], target_is_directory=True)
    variables = {"HOME": str(home), "HATCH_CUBIN_CACHE_DIR": str(cache)}
    if sys.platform == "win32":
        variables |= dict.fromkeys(("USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return variables


def caches(folder: Path) -> dict[str, str]:
    """Return variables for installers' downloads: the user's folders, or below *folder* if he has none."""
    found = {}
    for name, tool in {"PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}.items():
        try:
            place = Path(os.environ.get(name) or platformdirs.user_cache_dir(tool, appauthor=False))
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            place = folder / tool
        found[name] = str(place)
    return found


def installers(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which installers reach the package index, as the user's files say.

    These files may hold anything, for example where to install. Tests take nothing else of them.
    """
    found = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for path in _pip_files(home, environ):
        found |= dict(_pip_settings(path))
    for path in _uv_files(home, environ):
        found |= dict(_uv_settings(path))
    for name, place in {"NETRC": home / ".netrc", "PYENV_ROOT": home / ".pyenv"}.items():
        if place.exists():
            found[name] = str(place)
    return {**found, "PIP_CONFIG_FILE": os.devnull}  # with which pip reads no file at all


def _configured(home: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's configuration files."""
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _pip_files(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of pip's configuration, the strongest last."""
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(folder, "pip/pip.conf")
    yield Path("/etc/pip.conf")
    yield home / ".pip/pip.conf"
    yield _configured(home, environ) / "pip/pip.conf"
    yield Path(sys.prefix, "pip.conf")
    if named := environ.get("PIP_CONFIG_FILE"):
        yield Path(named)


def _pip_settings(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read(path, "utf-8")  # nothing if there is no file
    for section in ("global", "download", "install", "wheel"):
        for variable, name in PIP_SETTINGS.items():
            for written in {name, name.replace("-", "_")}:
                if value := parser.get(section, written, fallback=""):
                    yield variable, " ".join(value.split())


def _uv_files(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    yield Path("/etc/uv/uv.toml")
    yield Path(environ.get("UV_CONFIG_FILE") or _configured(home, environ) / "uv/uv.toml")


def _uv_settings(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        return
    table: Mapping[str, Any] = toml_positions.loads(path.read_text("utf-8"))
    for variable, name in UV_SETTINGS.items():
        if isinstance(value := table.get(name), list):
            yield variable, ("," if name == "find-links" else " ").join(value)
        elif value is not None:
            yield variable, str(value).lower() if isinstance(value, bool) else value
    indexes = table.get("index", [])
    written = [(f"{each['name']}=" if "name" in each else "") + each["url"] for each in indexes]
    others = list[str]()
    for each, text in zip(indexes, written, strict=True):
        if each.get("default"):
            yield "UV_DEFAULT_INDEX", text
        else:
            others.append(text)
    if others:
        yield "UV_INDEX", " ".join(others)
