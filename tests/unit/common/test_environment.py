"""What the environment says: switches, and values in place of the table's."""

from __future__ import annotations

import pytest

from hatch_cubin.common import ed25519_keys
from hatch_cubin.common.environment import is_on, without_secrets
from hatch_cubin.config import value_checks
from hatch_cubin.errors import ConfigError
from tests.helpers import read_config, refusal

ON = ["1", "true", "True", "TRUE"]
OFF = ["", "0", "false", "False"]
NEITHER = ["2", "yes", "no", "on", "off", " 1"]
SWITCHES = [
    "HATCH_CUBIN_SKIP",
    "HATCH_CUBIN_REQUIRE_HITS",
    "HATCH_CUBIN_REQUIRE_SIGNED",
    "HATCH_CUBIN_TRACEBACK",
]
KEY = ed25519_keys.write(ed25519_keys.PUBLIC, bytes(range(32)))
TABLE = f'trusted-keys = ["{KEY}"]'  # without which one of them is an error


@pytest.mark.parametrize("value", ON)
def test_a_switch_is_on_when_1_or_true(value: str) -> None:
    assert is_on({"X": value}, "X")


@pytest.mark.parametrize("value", [*OFF, *NEITHER])
def test_a_switch_is_off_otherwise(value: str) -> None:
    assert not is_on({"X": value}, "X")
    assert not is_on({}, "X")


@pytest.mark.parametrize("value", NEITHER)
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_is_neither_on_nor_off_is_an_error(switch: str, value: str) -> None:
    (found,) = refusal(ConfigError, read_config, TABLE, {switch: value}).problems
    assert found.what == f"{switch}: must be 1 or true, 0 or false, not {value!r}"


@pytest.mark.parametrize("value", [*ON, *OFF])
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_is_on_or_off_changes_nothing_of_the_table(switch: str, value: str) -> None:
    assert read_config(TABLE, {switch: value}) == read_config(TABLE)


def test_what_is_secret_is_for_nobody_else() -> None:
    environ = {"PATH": "/bin", "HATCH_CUBIN_SIGNING_KEY": "secret"}
    assert without_secrets(environ) == {"PATH": "/bin"}


@pytest.mark.parametrize(("text", "seconds"), [("", 1800.0), ("5", 5.0), ("0.25", 0.25), ("1e3", 1000.0)])
def test_a_timeout_is_read_with_the_configuration(text: str, seconds: float) -> None:
    assert read_config("", {"HATCH_CUBIN_TIMEOUT": text}).timeout_s == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_is_a_positive_number_of_seconds(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config("", {"HATCH_CUBIN_TIMEOUT": text})
    what = f"HATCH_CUBIN_TIMEOUT: must be a number of seconds above 0, not {text!r}"
    assert [problem.what for problem in caught.value.problems] == [what]


EXECUTORS = [
    "dask://head:8786",
    "dask://[::1]:8786,local",
    "tls://10.0.0.1:1",
    "ray://head",
    "a.b:make,local",
]


@pytest.mark.parametrize("text", EXECUTORS)
def test_where_to_compile_is_read_with_the_configuration(text: str) -> None:
    assert read_config("", {"HATCH_CUBIN_EXECUTOR": text}).executor == text
    assert read_config("", {"HATCH_CUBIN_EXECUTOR": ""}).executor is None


@pytest.mark.parametrize(
    "text", ["head", "dask://head", "tls://head:port", "dask://a:1/x", "a:b:c", ",local", "dask://a:1,here"]
)
def test_it_is_a_clusters_url_or_a_function(text: str) -> None:
    error = refusal(ConfigError, read_config, "", {"HATCH_CUBIN_EXECUTOR": text})
    some = "'dask://host:8786', 'tls://host:8786' or 'module:function'"
    said = f"HATCH_CUBIN_EXECUTOR: must be one of {some}, optionally followed by ',local', not {text!r}"
    assert str(error) == said


@pytest.mark.parametrize(("text", "part"), [("1%", 0.01), ("100%", 1.0), ("0.5%", 0.005)])
def test_a_part_is_written_with_a_percent_sign(text: str, part: float) -> None:
    assert value_checks.share(text) == part


@pytest.mark.parametrize("text", ["1", "0%", "101%", "-1%", "nan%", "some%", "%"])
def test_a_part_is_more_than_nothing_and_no_more_than_all(text: str) -> None:
    with pytest.raises(ValueError, match=f"^must be a percentage such as 1%, not {text!r}$"):
        value_checks.share(text)
