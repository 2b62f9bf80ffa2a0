"""Run the command line: find the verb, print its results, and return the exit code."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import io
import os
import sys

from .. import __version__
from ..common import streams

TYPE_CHECKING = False  # not imported from the module typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

    from ..errors import Problem
    from .verb_base import Answer

VERBS = {
    "init": "set a project up: add hatch-cubin to its pyproject.toml",
    "plan": "list what a build would compile for each GPU, and what is already in the cache",
    "bake": "compile everything that is missing from the cache",
    "lock": "write cubin.lock, a list of all inputs of a build, to commit to git",
    "explain": "explain a cache miss, the choice of an arch, or the file that a GPU loads",
    "inspect": "show the kernels in wheels, in folders or in installed packages",
    "unpack": "write the compiled code of a wheel as single files, for tools such as cuobjdump",
    "split": "split a finished wheel into smaller wheels, by arch",
    "verify": "check wheels against their manifests, or against a rebuild",
    "check": "check wheels before they are published: kernels for every GPU, size, tags",
    "diff": "compare two wheels, with the most important differences first",
    "cache": "show, check, trim or empty the cache, or print a key for the cache of a CI service",
    "keygen": "make a pair of keys for signing the results of builds in a cache",
    "bundle": "write the compiled kernels into a package's folder, for any build backend",
}
FORMAT = 1  # The version of the format of --json.

_WRONG_USAGE = 2
_BROKEN_PIPE = 141  # The exit code with which shells report SIGPIPE: 128 plus the number of the signal.
_OPTIONS = ("-h", "--help", "--version", "--print-completion")
_OTHER_NAMES = {  # Commands of other tools, and the command of hatch-cubin with the same purpose.
    "build": ("bake",),
    "check": ("fsck",),
    "clean": ("cache clear",),
    "compile": ("bake",),
    "completion": ("--print-completion",),
    "freeze": ("lock",),
    "hash": ("key",),
    "info": ("stats", "inspect"),
    "list": ("stats", "plan"),
    "prune": ("gc",),
    "show": ("stats", "inspect"),
    "size": ("stats",),
    "trim": ("gc",),
}
_DESCRIPTION = "Compile the CUDA kernels of a Python project ahead of time, and inspect the results."
_EPILOG = """\
'hatch-cubin VERB --help' explains a verb. Results go to standard output, everything else to standard error.
Exit codes: 0 done, 1 something is wrong with the project, 2 wrong usage.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb (a subcommand such as `plan`) and return its exit code."""
    # The garbage collector runs less often than usual, because it would find little garbage: imported modules
    # stay in use.
    gc.set_threshold(20_000)
    # At exit, no objects are freed, because this would take as long as a short command.
    atexit.register(gc.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal's encoding does not have is escaped, as Python does on standard error.
        sys.stdout.reconfigure(errors="backslashreplace")
    # If standard error is closed, the next opened file would get descriptor 2, and libraries would write
    # their messages into this file.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open until the process ends
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:  # The program that reads the output has closed the pipe.
        return _BROKEN_PIPE
    except Exception as exc:  # noqa: BLE001 - Python would print names in the traceback without escapes
        from ..errors import crash_report

        with streams.Lossy(sys.stderr):
            _print_error(crash_report(exc))
        return 1
    return 0


def _run(arguments: Sequence[str]) -> None:
    chosen = [each for each in arguments if each in VERBS][:1]
    shown = chosen if arguments and arguments[0] in chosen else VERBS
    parser = make_parser(chosen, shown)
    if {*arguments} in ({"--version", "--verbose"}, {"--version", "-v"}):
        from .versions import versions

        _print(_plain(versions()))
        return
    try:
        if not arguments:
            parser.print_help(sys.stderr)
            raise SystemExit(_WRONG_USAGE)
        if chosen and arguments[0].startswith("-") and not _is_own(arguments[0]):
            from .usage_hints import with_verb_first

            command = with_verb_first(chosen[0], arguments, _options_of_verbs())
            parser.error(f"{arguments[0]} must come after the verb: {command}")
        _answer(parser.parse_args(arguments))
    except _UsageError as wrong:
        wrong.explain(chosen, arguments)
        if "--json" in arguments:
            from ..errors import problem

            _print(_json(chosen[0] if chosen else None, {}, [problem("wrong-usage", wrong.what)]))
        wrong.exit_with_usage()


def _is_own(option: str) -> bool:
    """Return whether *option*, perhaps abbreviated, may be written before the verb (the subcommand)."""
    return any(own.startswith(option.partition("=")[0]) for own in _OPTIONS)


def _answer(args: argparse.Namespace) -> None:
    from ..errors import HatchCubinError, reported

    as_json, folder = getattr(args, "json", False), getattr(args, "project", None)
    verbose = getattr(args, "verbose", True)
    with reported(_print_error, folder=folder, verbose=verbose, lister="--verbose"):
        try:
            _require_folder(args)
            answer = args.run(args)
        except HatchCubinError as exc:
            if as_json:
                _print(_json(args.verb, {}, exc.problems), exc.problems, folder, verbose=verbose)
            raise
        _print_warnings(args.verb, answer, folder)
        text = _json(args.verb, answer.facts, answer.problems) if as_json else _plain(answer.lines)
        _print(text, answer.problems, folder, verbose=verbose)


def _print_warnings(verb: str, answer: Answer, folder: str | None) -> None:
    """Print warnings, which do not change the exit code, and write the summary of a GitHub Actions job."""
    from ..errors import PREFIX, annotate

    for warning in answer.warnings:
        with streams.Lossy(sys.stderr):
            _print_error(f"{PREFIX}warning: {warning.with_code()}")
    annotate("warning", answer.warnings, folder)
    if answer.summary:
        from ..common import github

        title = f"## hatch-cubin {verb}"
        if (fault := github.summarize([title, "", *answer.summary])) is not None:
            with streams.Lossy(sys.stderr):
                _print_error(f"{PREFIX}warning: GITHUB_STEP_SUMMARY cannot be written: {fault.strerror}")


def _require_folder(args: argparse.Namespace) -> None:
    """Raise CheckError if the project's path is relative and the current folder no longer exists."""
    if hasattr(args, "project") and not os.path.isabs(args.project):
        try:
            os.getcwd()
        except OSError as exc:
            from ..errors import CheckError, problem

            what = f"the current folder cannot be used: {exc.strerror}"
            hint = "change to a project's folder, or name the folder: --project DIR"
            raise CheckError(problem("current-folder-unusable", what, hint=hint)) from exc


def make_parser(verbs: Collection[str], shown: Collection[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser of the command line, which accepts the subcommands in *shown*.

    Only the modules of the subcommands in *verbs* are imported to add arguments, because imports take time.
    """
    parser = _Parser(
        prog="hatch-cubin",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_help_formatter,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"hatch-cubin {__version__}",
        help="print the version; with --verbose, all versions that a bug report needs",
    )
    parser.add_argument(
        "--print-completion",
        choices=("bash", "zsh"),
        action=_PrintCompletion,
        help="print a script that lets the shell complete verbs and options",
    )
    choices = parser.add_subparsers(metavar="VERB", required=True)
    for verb in shown:
        own = choices.add_parser(verb, help=VERBS[verb], formatter_class=_help_formatter)
        if verb in verbs:
            module = importlib.import_module(f"{__package__}.verbs.{verb}")
            own.description = module.__doc__
            module.arguments(own)
            own.set_defaults(verb=verb, run=module.run)
    return parser


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    """Return a help formatter with a fixed width, so that argparse does not import the slow module shutil."""
    try:
        width = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns or 80
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=width - 2)


class _UsageError(Exception):
    """Raised if the arguments of a command are wrong.

    *parser* prints the usage, and *what* is the message.
    """

    def __init__(self, parser: argparse.ArgumentParser, what: str) -> None:
        super().__init__(what)
        self._parser, self.what = parser, what

    def explain(self, chosen: Sequence[str], arguments: Sequence[str]) -> None:
        """If the verb (the subcommand) does not know an argument, add a suggestion to the error message."""
        _before, found, unknown = self.what.partition("unrecognized arguments: ")
        if found and chosen:
            from .usage_hints import hint

            left = [each for each in arguments if f" {each} " in f" {unknown} "] or unknown.split(" ")
            if meant := hint(chosen[0], left, arguments, _options_of_verbs()):
                self.what += f"; {meant}"

    def exit_with_usage(self) -> NoReturn:
        """Print the usage and the error, and exit."""
        argparse.ArgumentParser.error(self._parser, self.what)


def _options_of_verbs() -> dict[str, dict[str, argparse.Action]]:
    """Return the arguments of each verb.

    For each verb, the result contains a dict whose keys are the arguments' names in usage messages.
    """
    found = {}
    for verb in VERBS:
        own = argparse.ArgumentParser()
        importlib.import_module(f"{__package__}.verbs.{verb}").arguments(own)
        actions = [action for parser in _with_parts(own) for action in parser._actions]  # noqa: SLF001 - no public list exists
        found[verb] = {
            name: action for action in actions for name in action.option_strings or [str(action.metavar)]
        }
    return found


def _with_parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of a verb, and the parsers of its actions, such as 'gc' in 'cache gc'."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 - no public list exists
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.values()


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the right word if the user misspells a verb or the value of an option.

    If the help text cannot be printed, this parser reports an error. (argparse ignores the error.)
    """

    def error(self, message: str) -> NoReturn:
        """Raise a usage error.

        The caller `_run` may add a suggestion to the message before it prints the error.
        """
        raise _UsageError(self, message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, _guess(value, list(action.choices)))

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stderr:
            with streams.Lossy(file):
                streams.print_message(file, message.removesuffix("\n"))
        else:
            _print(message)


class _PrintCompletion(argparse.Action):
    """Print the completion script for a shell, and exit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        values: Any,
        _option: str | None = None,
    ) -> None:
        from ..errors import reported
        from .completion import completion

        with reported(_print_error):
            _print(completion(make_parser(VERBS), values))
        parser.exit()


def _guess(word: str, known: Sequence[str]) -> str:
    """Return an error message for the unknown word *word*, with a suggestion: a similar word from *known*."""
    import difflib

    possible = {*known, "cache clear", *_OPTIONS} if known == [*VERBS] else {*known}
    others = [name for name in (f"--{word}", *_OTHER_NAMES.get(word, ())) if name in possible]
    meant = others[:1] or difflib.get_close_matches(word, known, 1)
    choices = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
    if meant == ["bake"]:
        return (
            f"{word!r} is not {choices}; did you mean 'bake'? "
            "'bake' fills the cache, and 'python -m build' makes the wheel"
        )
    if meant:
        return f"{word!r} is not {choices}; did you mean {meant[0]!r}?"
    return f"{word!r} is not {choices}"


def _json(verb: str | None, facts: Mapping[str, Any], problems: Iterable[Problem]) -> str:
    import json

    from ..errors import in_order

    errors = [each.facts() for each in in_order(problems)]
    text = json.dumps({"format": FORMAT, "verb": verb, **facts, "errors": errors}, indent=1)
    # Some CI services treat "##[" anywhere in a log as a command.
    return text.replace("##", "\\u0023#") + "\n"


def _plain(lines: Iterable[str]) -> str:
    return "".join(f"{streams.one_line(line)}\n" for line in lines)


def _print(
    text: str, problems: Sequence[Problem] = (), folder: str | None = None, *, verbose: bool = True
) -> None:
    """Write *text* to standard output, then report all problems, also a failure to write *text*.

    Unless *verbose* is true, a message about problems with the same cause lists at most ten locations.
    """
    try:
        if text:
            streams.write(sys.stdout, text)
    except BrokenPipeError:
        raise
    except OSError as exc:
        from ..errors import problem

        what = f"standard output cannot be written: {exc.strerror}"
        problems = [problem("output-not-writable", what), *problems]
    if problems:
        from ..errors import CheckError, reported

        with reported(_print_error, folder=folder, verbose=verbose, lister="--verbose"):
            raise CheckError(*problems)


def _print_error(message: str) -> None:
    streams.print_message(sys.stderr, message)
