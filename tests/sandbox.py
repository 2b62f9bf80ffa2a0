"""The machine as tests see it: folders of their own, few variables, and the way to the package index.

A user has settings: for pip, for git, for hatch-cubin. None of them may decide whether a test passes. So the tests get
an environment that names every variable it keeps, and a home folder that is new and empty. Installers alone need
something of the user's: the address of the package index, and their cache of downloads. They get both by variables.
"""

from __future__ import annotations

import configparser
import getpass
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from hatch_cubin.table import toml

from .guard import sitecustomize

SHARED = "TESTS_SHARED_HEADERS"
_HEADERS = {"darwin": "Library/Caches/hatch-cubin/headers", "win32": "hatch-cubin/Cache/headers"}.get(
    sys.platform, ".cache/hatch-cubin/headers"
)
_OF_THE_INDEX = (
    "NETRC",
    "PIP_CERT",
    "PIP_FIND_LINKS",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
# The guard does not see whom a cloud's library calls. Without an endpoint of its own, a test reaches nobody by it.
_NOWHERE = dict.fromkeys(("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT"), "http://127.0.0.1:9")
REPOSITORY = Path(__file__).parent.parent
# What pip and uv call the same settings, and the names in their files.
PIP_SETTINGS = {
    *(
        "cert",
        "client-cert",
        "default-timeout",
        "extra-index-url",
        "find-links",
        "index-url",
        "keyring-provider",
    ),
    *("no-index", "proxy", "retries", "timeout", "trusted-host"),
}
UV_SETTINGS = {
    "allow-insecure-host": "UV_INSECURE_HOST",
    "extra-index-url": "UV_EXTRA_INDEX_URL",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_INDEX_URL",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "native-tls": "UV_NATIVE_TLS",
    "system-certs": "UV_SYSTEM_CERTS",
}
# Of the variables that are set, tests and what they start see these and no other.
KEPT = re.compile(
    r"""
    PATH | LANG | LANGUAGE | LC_\w+ | TZ | TERM | USER | LOGNAME | LD_LIBRARY_PATH   # the system
    | SYSTEMROOT | SYSTEMDRIVE | COMSPEC | PATHEXT | WINDIR | NUMBER_OF_PROCESSORS | PROGRAM\w+   # Windows
    | (?:HTTPS?|ALL|NO)_PROXY | SSL_CERT_(?:FILE|DIR) | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE | NETRC   # the network
    | (?:PIP|UV)_CACHE_DIR | UV_(?:DEFAULT_)?INDEX | UV_INDEX_\w+_(?:USERNAME|PASSWORD) | UV_HTTP_\w+
    | PYENV_ROOT | PYENV_VERSION   # its shims may be first on PATH
    | PYTEST_\w+ | COVERAGE_\w+ | TESTS_SHARED_HEADERS
    """
    + "".join(f"| PIP_{key.replace('-', '_').upper()}" for key in sorted(PIP_SETTINGS))
    + "".join(f"| {name}" for name in UV_SETTINGS.values()),
    re.VERBOSE | re.IGNORECASE,
)


def enter(home: Path) -> Path:
    """Give this process an environment of its own, and return the folder that is made for it; *home* is the user's."""
    # pytest's folders stay where they would be: the last three runs can be looked at.
    root = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="tests-", dir=root)).resolve()
    for name in ("headers", "tmp", "virtualenv"):
        (folder / name).mkdir()
    os.environ.setdefault(
        SHARED, str(folder / "headers")
    )  # one process of pytest-xdist's hands it to the others
    environ = {
        **{name: value for name, value in os.environ.items() if KEPT.fullmatch(name)},
        **installers(home, os.environ),
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
    """Report from now on each file that this process opens outside of the tests' folders, to which *folders* belong."""
    caches = [os.environ[name] for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR")]
    tests = [folder, Path(os.environ[SHARED]), REPOSITORY, _pytests_folder(), *map(Path, folders)]
    index = [value for name in _OF_THE_INDEX for value in os.environ.get(name, "").split()]
    made = sitecustomize.Guard(
        str(folder / "report"), [*map(str, tests), *(str(path.resolve()) for path in tests), *caches], index
    )
    made.install()
    return made


def _pytests_folder() -> Path:
    try:
        user = getpass.getuser()
    except (ImportError, OSError, KeyError):
        user = "unknown"  # as pytest calls it
    return Path(os.environ["PYTEST_DEBUG_TEMPROOT"], f"pytest-of-{user}")


def leave(folder: Path) -> None:
    """Remove what `enter` has made."""
    shutil.rmtree(folder, ignore_errors=True)


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


def installers(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which installers find their downloads and the package index, as this user has it.

    The files of pip's and uv's configuration may hold anything, for example where to install. Of them, tests take only
    how the index is reached.
    """
    found = {}
    for path in _pip_files(home, environ):
        found |= {f"PIP_{key.replace('-', '_').upper()}": value for key, value in _pip_settings(path)}
    for path in _uv_files(home, environ):
        found |= dict(_uv_settings(path))
    netrc = home / ".netrc"
    pyenv = home / ".pyenv"
    caches = {"PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}
    return {
        **found,
        **{
            name: environ.get(name) or platformdirs.user_cache_dir(tool, appauthor=False)
            for name, tool in caches.items()
        },
        **({"NETRC": str(netrc)} if netrc.exists() else {}),
        **({"PYENV_ROOT": str(pyenv)} if pyenv.exists() else {}),
        **{
            name: value
            for name, value in environ.items()
            if value and re.match("PIP_|UV_|NETRC|PYENV_ROOT", name) and KEPT.fullmatch(name)
        },
        "PIP_CONFIG_FILE": os.devnull,  # pip then reads no file at all
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _configured(home: Path, environ: Mapping[str, str]) -> Path:
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
    parser.read(path, "utf-8")  # reads nothing if there is no file
    for section in ("global", "download", "install", "wheel"):
        if parser.has_section(section):
            for key, value in parser.items(section):
                if key.replace("_", "-") in PIP_SETTINGS:
                    yield key.replace("_", "-"), " ".join(value.split())


def _uv_files(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    yield Path("/etc/uv/uv.toml")
    yield Path(environ.get("UV_CONFIG_FILE") or _configured(home, environ) / "uv/uv.toml")


def _uv_settings(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        return
    table: Mapping[str, Any] = toml.loads(path.read_text("utf-8"))
    for key, name in UV_SETTINGS.items():
        if key in table:
            value = table[key]
            values = (
                value
                if isinstance(value, list)
                else [str(value).lower() if value in {True, False} else value]
            )
            yield name, ",".join(values) if key == "find-links" else shlex.join(values)
    for index in table.get("index", []):
        if index.get("default"):
            yield "UV_DEFAULT_INDEX", index["url"]
    more = [
        f"{index['name']}={index['url']}" if "name" in index else index["url"]
        for index in table.get("index", [])
        if not index.get("default")
    ]
    if more:
        yield "UV_INDEX", " ".join(more)
