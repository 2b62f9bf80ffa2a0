"""Explain why a producer failed. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..config.toml_lines import setting
from ..errors import Location, Problem, problem
from .producer_inputs import Producer

_FRAMES, _LINES = 8, 12  # how many stack frames of an error, and how many lines of output, a message shows
_NAMES = 3  # how many undeclared files a message names
_EXAMPLE = 'return {"axpy.cu": text}'
_STACK = re.compile(r'File "([^"/<][^"]*[.]py)", line ([0-9]+) in (.*)')
# The errors of str.format for braces that do not enclose the name of a value.
_FORMAT_ERROR = re.compile(
    r"KeyError: ['\"]( |\\[nrt]|.*[;=(,])|IndexError: Replacement|ValueError: (.*'[{}]'|Invalid format)"
)
_ENVIRON_KEY = re.compile(r"KeyError: ['\"]([A-Za-z_][A-Za-z0-9_]*)['\"]")


class ProducerResult(NamedTuple):
    """The result of a producer's process.

    *status* is the exit status of the process, or None after a time-out. *output* is the text that the
    process printed. *content* is the data that the process returned, and is empty if the process ended
    without returning data.

    After a time-out, *stacks* contains the frames of all threads, as `faulthandler` writes them.
    """

    status: int | None
    output: str
    content: Mapping[str, Any]
    stacks: str = ""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the output."""
        return tuple(line for line in self.output.splitlines() if line.strip())[-_LINES:]


def problems_of(producer: Producer, result: ProducerResult, table: Location) -> Iterator[Problem]:
    """Yield a problem for each reason why the result of a producer's process cannot be used.

    *table* is the location of the [[producer]] table.
    """
    rule, content = producer.rule, result.content
    where = Location(rule.path)
    if result.status is None:
        what = f"{rule.path} took longer than {rule.seconds} seconds"
        longer = f"write in the producer table: {setting('seconds', rule.seconds * 5)}"
        stack = [f"{file}:{line}: in {function}" for file, line, function in _STACK.findall(result.stacks)]
        details = (*stack[:_FRAMES][::-1], *result.last_lines)
        yield problem("producer-timed-out", what, table, longer, details)
        return
    yield from _undeclared(producer, content, table)
    if "error" in content:
        yield _failure(producer, result)
    elif "absent" in content:
        hint = (
            f"write in the producer table: {setting('call', content['absent'][0])}"
            if len(content["absent"]) == 1
            else f"define a function that returns the texts: def {rule.call}(): {_EXAMPLE}"
        )
        for name in content["classes"]:
            hint = f"define a function: def {rule.call}(): return {name}().{rule.call}()"
        what = f"has no function {rule.call!r}"
        if content["value"] is not None:
            what = f"{rule.call!r} is a value of type {content['value']}, and not a function"
        yield problem("no-such-function", what, where, hint)
    elif "other" in content:
        what = (
            f"{rule.call}() returns a value of type {content['other']}, and not a mapping of names to texts"
        )
        hint = f"write {_EXAMPLE!r}: a build does not use texts that the function writes or prints"
        yield problem("producer-returns-no-mapping", what, where, hint)
    elif "sources" not in content:
        what = f"the function's process ended with {_shown(result.status)} before the function returned"
        yield problem("producer-crashed", what, where, details=result.last_lines)
    elif not content["sources"]:
        yield problem("producer-returns-nothing", f"{rule.call}() returns no source", where)


def _undeclared(producer: Producer, content: Mapping[str, Any], table: Location) -> Iterator[Problem]:
    """Yield a problem for undeclared files that the producer read, and undeclared folders that it listed."""
    rule, read, listed = producer.rule, content.get("read", ()), dict(content.get("listed", {}))
    if absent := [name for name in content.get("variables", ()) if name not in rule.environment]:
        what = f"{rule.path} asks for variables that 'environment' does not list: {', '.join(absent)}"
        hint = f"write in the producer table: {setting('environment', [*rule.environment, *absent])}"
        yield problem("undeclared-input", what, table, hint)
    if "." in listed:
        del listed["."]
        what = f"{rule.path} lists the project's top folder, but 'inputs' cannot contain this folder"
        hint = "list a folder inside the project instead, and add the files of that folder to 'inputs'"
        yield problem("undeclared-input", what, table, hint)
    if empty := [folder for folder, inside in listed.items() if inside is None]:
        what = f"{rule.path} lists {', '.join(empty)}, which does not exist or has no files"
        globs = [*rule.inputs, *(f"{folder}/*" for folder in empty)]
        listed_too = setting("inputs", globs)
        hint = (
            "correct the path of the folder; "
            f"or put a file into the folder, and write in the producer table: {listed_too}"
        )
        yield problem("undeclared-input", what, table, hint)
    globs = _globs(read, [folder for folder in listed if folder not in empty])
    alone = [path for path in read if not any(path.startswith(glob.rstrip("*")) for glob in globs)]
    inside = [path for paths in listed.values() for path in paths or ()]
    seen = [*(_names_in(glob.rstrip("*"), inside) for glob in globs), *alone]
    if not seen:
        return
    left = len(seen) - _NAMES
    named = f"{', '.join(seen[:_NAMES])}{f' and {left} more' if left > 0 else ''}"
    inputs = dict.fromkeys((*rule.inputs, *alone, *globs))
    what = f"{rule.path} reads {named}, which 'inputs' does not list"
    yield problem(
        "undeclared-input", what, table, f"write in the producer table: {setting('inputs', [*inputs])}"
    )


def _names_in(folder: str, paths: Sequence[str]) -> str:
    undeclared = [path.removeprefix(folder) for path in paths if path.startswith(folder)]
    if undeclared:
        return f"the file names in {folder} (such as {undeclared[0]})"
    return f"the file names in {folder}"


def _globs(read: Sequence[str], listed: Sequence[str]) -> list[str]:
    """Return a glob for each listed folder, except for folders that are inside another listed folder."""
    globs = []
    for folder in listed:
        if any(folder.startswith(f"{other}/") for other in listed):
            continue
        inside = [path[len(folder) + 1 :] for path in read if path.startswith(f"{folder}/")]
        is_deep = any("/" in path for path in inside) or any(
            other.startswith(f"{folder}/") for other in listed
        )
        globs.append(f"{folder}/**" if is_deep else f"{folder}/*")
    return globs


def _failure(producer: Producer, result: ProducerResult) -> Problem:
    """Return the problem for an exception of a producer, with the stack frames in the project's own files."""
    content = result.content
    frames = content["frames"][-_FRAMES:]
    shown = tuple(f"{file}:{line}: {text}".rstrip(": ") for file, line, _function, text in frames)
    where = Location(*frames[-1][:2]) if frames else Location(producer.rule.path)
    causes = (f"caused by {text}{_in_brackets(place)}" for text, place in content["causes"])
    what, *more = content["error"].splitlines()
    details = (*more, *shown, *causes, *result.last_lines)
    return problem("producer-failed", f"raises {what}", where, _hint(producer, content), details)


def _in_brackets(frames: Sequence[Sequence[Any]]) -> str:
    return "".join(f" ({file}:{line})" for file, line, *_more in frames)


def _shown(status: int) -> str:
    return f"status {status}" if status >= 0 else f"the signal {signal.Signals(-status).name}"


def _hint(producer: Producer, content: Mapping[str, Any]) -> str | None:
    return content["hint"] or next(_hints(producer, content), None)


def _hints(producer: Producer, content: Mapping[str, Any]) -> Iterator[str]:
    error, rule = content["error"], producer.rule
    top = str(content["missing"] or "").partition(".")[0]
    if top and all(name.partition(".")[0] != top for name, _folder in producer.packages):
        requires = setting("requires", [*rule.requires, "…"])
        yield (
            "an isolated build installs only the packages in 'requires': write this line in the producer "
            f"table, with the name of the distribution that contains {top} instead of …: {requires}"
        )
    if error.startswith("FileNotFoundError"):
        if any(re.search("subprocess|Popen", text) for *_place, text in content["frames"]):
            path = setting("environment", [*rule.environment, "PATH"])
            yield f"to find programs by name, write in the producer table: {path}"
        yield "the working folder is the project's folder: relative paths begin there"
    if content["frames"] and ".format(" in content["frames"][-1][3] and _FORMAT_ERROR.match(error):
        yield "str.format reads the braces of C++ code too: write {{ and }} for them, or use str.replace"
    key = _ENVIRON_KEY.match(error)
    uses_variable = any(re.search("environ|getenv", text) for *_place, text in content["frames"])
    if key and uses_variable:
        if key[1] in rule.environment:
            yield f"set the variable {key[1]} for the build"
        yield f"write in the producer table: {setting('environment', [*rule.environment, key[1]])}"
    if uses_variable:
        yield "the function sees only variables that 'environment' in the [[producer]] table lists"
