"""The command line: `fedhpo tune study.toml`, and what belongs to it.

Only the standard library is imported here, so that `fedhpo --help` answers at once; each command
imports what it needs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from fedhpo import __version__
from fedhpo.errors import FedhpoError

OK, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    main = argparse.ArgumentParser(
        prog="fedhpo", description="Tune the hyperparameters of federated learning.", allow_abbrev=False
    )
    main.add_argument("--version", action="version", version=f"fedhpo {__version__}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        one.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
        one.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
        return one

    tune = command("tune", "Tune a study; called again, go on with its run.")
    tune.add_argument("study", metavar="STUDY", help="the study file (TOML)")
    tune.add_argument("--name", help="name of the run (default: the study's)")
    tune.add_argument("--runs", metavar="DIR", default="runs", help="where runs are kept (default: runs)")
    tune.add_argument("--seed", type=_natural, metavar="S", help="take this seed instead of the study's")
    resume = command("resume", "Go on with a run that was stopped or killed.")
    resume.add_argument("run", metavar="RUN", help="the run's directory")
    for one in (tune, resume):
        one.add_argument(
            "--workers", type=_natural, metavar="N", help="worker processes (default: one per core)"
        )
        one.add_argument(
            "--timeout", type=_seconds, metavar="SECONDS", help="stop after so long; can be resumed"
        )
        one.add_argument("--quiet", action="store_true", help="no progress")

    runs = command("runs", "List runs.")
    runs.add_argument("directory", metavar="DIR", nargs="?", default="runs", help="(default: runs)")

    report = command("report", "Write a run's report, or a comparison of several runs, as one HTML page.")
    report.add_argument("runs", metavar="RUN", nargs="+", help="the directories of runs")
    report.add_argument("--output", metavar="FILE", help="(default: RUN/report.html, or comparison.html)")

    command("schema", "Print the JSON schema of study files.")
    return main


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 2 for bad input, 130 if interrupted, 1 for other failures."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    command = importlib.import_module(f"fedhpo.cli.{options.command}")
    try:
        code: int = command.run(options)
        return code
    except KeyboardInterrupt:
        return _failed(options, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        sys.stderr.close()
        return FAILURE
    except FedhpoError as error:
        return _failed(options, str(error), BAD_INPUT if _is_users(error) else FAILURE)
    except Exception as error:
        if options.debug:
            raise
        return _failed(options, f"unexpected {_short(error)}; see {_write_traceback()}", FAILURE)


def _is_users(error: FedhpoError) -> bool:
    """Whether the user can put it right: what was given, what is installed, or the run's directory."""
    from fedhpo.errors import InputError, MissingExtraError
    from fedhpo.run import RunError

    return isinstance(error, InputError | MissingExtraError | RunError)


def _failed(options: Any, message: str, code: int) -> int:
    print("\n".join(f"fedhpo: {line}" for line in message.splitlines()), file=sys.stderr)
    if options.json:
        print(json.dumps({"error": message}))
    return code


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _write_traceback() -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="fedhpo-error-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(traceback.format_exc())
    return file.name


def _show_warning(message: Warning | str, *_: Any) -> None:
    print(f"fedhpo: warning: {message}", file=sys.stderr)


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, not {text!r}")
    return value
