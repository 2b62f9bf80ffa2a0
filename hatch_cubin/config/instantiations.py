"""Read the tables in `instantiate`: each table describes one instantiation per combination of its values.

Pure.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..errors import problem
from . import toml_lines, value_checks
from .value_checks import MAX_VARIANTS, RefusedValueError

# A function that reports a mistake: the error, the path of the wrong value in the TOML table, and a hint.
Report = Callable[[ValueError, "tuple[str | int, ...]", "str | None"], None]

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})", re.ASCII)
_LIKE_RANGE = re.compile(r"(-?[0-9]{1,9}) *(?:\.{2,3}[=<]?|-|:|,|to) *(-?[0-9]{1,9})", re.ASCII)
_KERNEL = "kernel"


def written_out(product: Mapping[str, object], most: int, report: Report) -> Iterator[str]:
    """Yield the instantiations of a table in `instantiate`; the values of the last placeholder vary fastest.

    Yield nothing if the table has a mistake, or describes more than *most* instantiations.
    """
    correct = True

    def refuse(error: ValueError, path: tuple[str | int, ...], hint: str | None = None) -> None:
        nonlocal correct
        correct = False
        report(error, path, hint)

    if _KERNEL not in product:
        refuse(
            RefusedValueError(problem("missing-key", f"has a table without the key {_KERNEL!r}")),
            (),
            _add_kernel(product),
        )
        return
    values = {key: _values(key, value, refuse) for key, value in product.items() if key != _KERNEL}
    kernel = _kernel(product[_KERNEL], values, refuse)
    names = [*dict.fromkeys(_PLACEHOLDER.findall(kernel))]
    if kernel:
        _compare(kernel, names, values, refuse)
    if not correct:
        return
    chosen = [values[name] for name in names]
    if (count := math.prod(map(len, chosen))) > most:
        what = f"asks for {count} instantiations, but all entries together may ask for {MAX_VARIANTS}"
        refuse(RefusedValueError(problem("too-many-instantiations", what)), ())
        return
    for combination in itertools.product(*chosen):
        yield kernel.format_map(dict(zip(names, combination, strict=True)))


def _add_kernel(product: Mapping[str, object]) -> str:
    """Return a hint for a table in `instantiate` that has no `kernel`."""
    if misspelled := next((key for key in product if value_checks.guess(key, [_KERNEL])), None):
        return f"did you mean {_KERNEL!r} by {misspelled!r}?"
    for key, value in product.items():
        if isinstance(value, str) and "<" in value:
            return f"write 'kernel' in place of {key!r}: {toml_lines.setting(_KERNEL, value)}"
    arguments = ", ".join(f"{{{key}}}" for key in product) or "{T}"
    return f"add the name of the template: {toml_lines.setting(_KERNEL, f'scale<{arguments}>')}"


def _kernel(value: object, names: Iterable[str], refuse: Callable[..., None]) -> str:
    """Return the value of `kernel`, a template name with placeholders such as `{N}`.

    Return an empty text if the name is wrong.
    """
    hint = None
    try:
        text = value_checks.kernel(value_checks.string(value))
        rest = _PLACEHOLDER.sub("", text)
        if "{" in rest or "}" in rest:
            hint = (
                "braces in 'kernel' mark placeholders: if C++ needs braces, write them in the value of a "
                'placeholder, as in S = ["Shape{1}"]'
            )
            raise ValueError(f"has braces that are not around a placeholder's name, as in {{N}}: {text!r}")
        if rest == text:
            hint = _with_braces(text, names)
            raise ValueError(f"has no placeholder, such as {{N}}: {text!r}")
    except ValueError as exc:
        refuse(exc, (_KERNEL,), hint)
        return ""
    return text


def _with_braces(text: str, names: Iterable[str]) -> str:
    """Return a hint for a `kernel` without placeholders: add braces, or replace the table by a string."""
    meant = text
    for name in names:
        meant = re.sub(rf"\$?\b{re.escape(name)}\b", f"{{{name}}}", meant)
    if meant == text and "<" not in text and (listed := ", ".join(f"{{{name}}}" for name in names)):
        meant = f"{text}<{listed}>"
    if meant == text:
        return f"an entry without placeholders is a string: {toml_lines.literal(text)}"
    return f"write placeholders in braces: {toml_lines.setting(_KERNEL, meant)}"


def _compare(
    kernel: str, names: Sequence[str], values: Mapping[str, object], refuse: Callable[..., None]
) -> None:
    """Report each placeholder that has no values, and each list of values that has no placeholder."""
    for name in names:
        if name == _KERNEL:
            what = (
                f"cannot have the placeholder {{{_KERNEL}}}, because the key {_KERNEL!r} is the kernel's name"
            )
            refuse(ValueError(what), (_KERNEL,), None)
        elif name not in values:
            what = f"has the placeholder {{{name}}}, but the table has no values for this placeholder"
            hint = f'{name} = ["float", "double"], or {name} = "0..31"'
            refuse(RefusedValueError(problem("missing-key", what)), (_KERNEL,), hint)
    for key in values:
        if key not in names:
            what = f"is not a placeholder of {kernel!r}"
            guess = value_checks.guess(key, [name for name in names if name not in values])
            name, bracket, listed = kernel.partition("<")
            braced = re.sub(rf"(?<![{{\w]){re.escape(key)}\b", f"{{{key}}}", listed)
            if braced != listed:  # the braces around the placeholder are missing
                guess = f'{_KERNEL} = "{name}{bracket}{braced}"'
            refuse(RefusedValueError(problem("unknown-key", what)), (key,), guess)


def _values(name: str, value: object, refuse: Callable[..., None]) -> Sequence[object]:
    """Return the values of a placeholder.

    For a text such as "0..31", return a `range`, because a list of the numbers may be too long.
    """
    if isinstance(value, list) and value:
        return _listed(name, value, refuse)
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is not None and int(match[1]) <= int(match[2]):
        return range(int(match[1]), int(match[2]) + 1)
    what = f'must be an array of at least one value, or a range such as "0..31", not {value!r}'
    refuse(ValueError(what), (name,), _meant(name, value))
    return ()


def _meant(name: str, value: object) -> str | None:
    """Return the line that the user probably meant, for values that are neither an array nor a range."""
    if isinstance(value, (bool, int)):
        return toml_lines.setting(name, [value])
    if not isinstance(value, str) or not value.strip():
        return None
    if match := _LIKE_RANGE.fullmatch(value.strip()):
        first, last = sorted(map(int, match.groups()))
        return toml_lines.setting(name, f"{first}..{last}")
    return toml_lines.setting(name, [each.strip() for each in value.split(",")])


def _listed(name: str, items: Sequence[object], refuse: Callable[..., None]) -> Sequence[str]:
    texts: list[str] = []
    for index, item in enumerate(items):
        hint = None
        try:
            text = _text(item)
            if _RANGE.fullmatch(text):
                hint = f"write a range as a string, not as an array: {toml_lines.setting(name, text)}"
                raise ValueError(f"has the range {text!r} inside an array")
            if text in texts:
                raise RefusedValueError(problem("repeated-value", f"has {text!r} twice"))
            texts.append(text)
        except ValueError as exc:
            refuse(exc, (name, index), hint)
    return texts


def _text(value: object) -> str:
    """Return a value as C++ code."""
    if isinstance(value, bool):
        return str(value).lower()
    is_whole = isinstance(value, int) and value in value_checks.WHOLE
    text = str(value).strip() if is_whole or isinstance(value, str) else ""
    if not text or not text.isprintable():
        raise ValueError(f"must be types or values, as strings, whole numbers or booleans, not {value!r}")
    return text
