"""The command line: `fedhpo tune study.toml`, and what belongs to it.

Only the standard library is imported here, so that `fedhpo --help` answers at once; each command
imports what it needs.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import os
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Collection, Sequence
from typing import Any

from fedhpo.cli.arguments import add_output, clients, epsilon, natural, positive, seconds
from fedhpo.cli.completion import SHELLS, complete
from fedhpo.cli.elsewhere import brought, elsewhere
from fedhpo.cli.guess import Parser
from fedhpo.cli.output import print_json, reserved
from fedhpo.cli.signals import at_once, exit_code
from fedhpo.core.errors import FedhpoError
from fedhpo.core.version import VERSION

VERIFY = "Judge candidates against a base by paired trainings: keep (0), drop (3) or undecided (4)."
OK, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def parser(chosen: Collection[str] = ()) -> argparse.ArgumentParser:
    """All commands and their options.

    A command that another package brings has its options where it is among those `chosen`: only then is it
    imported.
    """
    main = Parser(
        prog="fedhpo", description="Tune the hyperparameters of federated learning.", allow_abbrev=False
    )
    main.add_argument("--version", action="version", version=f"fedhpo {VERSION}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        one.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
        one.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
        return one

    tune = command("tune", "Tune a study; called again, go on with its run.")
    flower = command("flower", "Tune a Flower app as it is.")
    flower.add_argument(
        "action",
        metavar="ACTION",
        choices=["inspect", "tune", "wrap"],
        help="list what is tunable and write a first study, tune it here, or wrap a copy for flwr run",
    )
    flower.add_argument("app", metavar="APP", help="the app's directory, in place of the study's app.path")
    nvflare = command("nvflare", "Tune an NVFlare job as it is.")
    nvflare.add_argument(
        "action",
        metavar="ACTION",
        choices=["inspect", "tune"],
        help="list what is tunable and write a first study, or tune it in NVFlare's simulator",
    )
    nvflare.add_argument("job", metavar="JOB", help="the job's directory or script, in place of job.path")
    tune.add_argument("study", metavar="STUDY", help="the study file (TOML)")
    for one in (flower, nvflare):
        one.add_argument(
            "study",
            metavar="STUDY",
            nargs="?",
            help="the study file (TOML); inspect writes it, if it is named",
        )
    for one in (tune, flower, nvflare):
        one.add_argument("--name", help="name of the run (default: the study's)")
        one.add_argument("--runs", metavar="DIR", default="runs", help="where runs are kept (default: runs)")
        one.add_argument("--seed", type=natural, metavar="S", help="take this seed instead of the study's")
    tune.add_argument("--checked", metavar="DIGEST", help=argparse.SUPPRESS)
    tune.add_argument("--device", help="cpu, cuda, mps or auto: train there instead of where the study says")
    resume = command("resume", "Go on with a run that was stopped or killed, or with a larger total.")
    resume.add_argument("run", metavar="RUN", help="the run's directory")
    resume.add_argument(
        "--total", type=positive, metavar="N", help="raise the total, of a finished run too, and go on"
    )
    flower.add_argument(
        "directory", metavar="DIRECTORY", nargs="?", help="of wrap: where the app around APP is written"
    )
    nvflare.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="stop after so long; can be resumed"
    )
    nvflare.add_argument("--quiet", action="store_true", help="no progress")
    for one in (tune, flower, resume):
        one.add_argument(
            "--workers", type=natural, metavar="N", help="worker processes (default: one per core)"
        )
        one.add_argument(
            "--ray", metavar="ADDRESS", help="train on a Ray cluster; auto for one started on this machine"
        )
        one.add_argument(
            "--timeout", type=seconds, metavar="SECONDS", help="stop after so long; can be resumed"
        )
        one.add_argument("--quiet", action="store_true", help="no progress")

    predict = command("predict", "Predict new rows with a run's tuned model, for data with columns.")
    predict.add_argument("run", metavar="RUN", help="the run's directory")
    predict.add_argument(
        "rows", metavar="ROWS", help="a CSV file with the columns that the model was trained on"
    )
    predict.add_argument("--delimiter", default=",", help="what parts its columns (default: a comma)")
    predict.add_argument("--model", metavar="MODULE:NAME", help="what builds a torch model of your own")
    predict.add_argument(
        "--trust",
        metavar="TYPE",
        action="append",
        default=[],
        help="a type of your own in an estimator, such as my_steps.Clip; repeatable",
    )
    add_output(predict, "FILE", help="a CSV file (default: the terminal)")

    export = command("export", "Write a finished run's trials for another tool.")
    export.add_argument("run", metavar="RUN", help="the run's directory")
    export.add_argument("--to", required=True, metavar="KIND", help="csv, parquet or optuna")
    export.add_argument("target", metavar="TARGET", help="a file, or Optuna's storage: sqlite:///study.db")

    runs = command("runs", "List runs.")
    runs.add_argument("directory", metavar="DIR", nargs="?", help="the same as --runs")
    runs.add_argument("--runs", metavar="DIR", default="runs", help="where runs are kept (default: runs)")

    report = command("report", "Write a run's report, or a comparison of several runs, as one HTML page.")
    report.add_argument("runs", metavar="RUN", nargs="+", help="the directories of runs")
    add_output(report, "FILE", help="(default: RUN/report.html, or comparison.html)")

    ui = command("ui", "Show all runs below a directory in the browser, live.")
    ui.add_argument("directory", metavar="DIR", nargs="?", default="runs", help="(default: runs)")
    ui.add_argument(
        "--port", type=natural, metavar="N", default=8265, help="0 for a free one (default: 8265)"
    )
    ui.add_argument("--control", action="store_true", help="let the page stop and resume runs")
    ui.add_argument("--open", action="store_true", help="open the page in the browser")

    _add_table(command("table", "Tables of recorded learning curves, to be replayed in seconds."))
    _add_compare(
        command("compare", "Compare methods over several seeds, live or on a table, on one HTML page.")
    )
    advise = command("advise", "How noisy scores will be, what that does to selection, and what to use.")
    _add_noise(advise)

    from fedhpo.cli.verify import add as add_verify

    add_verify(command("verify", VERIFY))
    from fedhpo.cli.mcp import add as add_mcp

    add_mcp(command("mcp", "Tools for coding agents, on standard input and output, within limits."))

    plan = command("plan", "How long a study will take by its clients' clock, before it is run.")
    plan.add_argument("study", metavar="STUDY", help="the study file (TOML), with [federation]")
    plan.add_argument(
        "--draws",
        type=positive,
        metavar="N",
        default=5,
        help="simulated passes through the study (default: 5)",
    )

    check = command("check", "Is a study right, and what will it cost? Nothing is tuned.")
    check.add_argument("study", metavar="STUDY", help="the study file (TOML)")
    check.add_argument(
        "--workers", type=natural, metavar="N", help="worker processes (default: one per core)"
    )

    data = command("data", "The files that FEDHPO_DATA names: which are there, and how to make one.")
    data.add_argument(
        "action",
        metavar="ACTION",
        choices=["check", "convert"],
        help="say which files are there, or make one from its published files",
    )
    data.add_argument("set", metavar="SET", nargs="?", help="of convert: the data set, such as cifar10")
    data.add_argument("source", metavar="SOURCE", nargs="?", help="of convert: where its published files are")
    data.add_argument(
        "--directory", metavar="DIR", help="the data directory (default: what FEDHPO_DATA names)"
    )

    completion = command("completion", "Print what makes your shell complete commands and options.")
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))

    new = command("new", "Write a working study, app or job to begin with.")
    new.add_argument("kind", metavar="KIND", help="torch, csv, flower or nvflare")
    new.add_argument("directory", metavar="DIRECTORY", help="where to; its last part is the name")
    new.add_argument("files", metavar="FILE", nargs="*", help="of csv: the parties' CSV files, one each")
    new.add_argument("--label", metavar="COLUMN", help="of csv: what is predicted (default: guessed)")
    new.add_argument(
        "--model", metavar="NAME", default="hgb", help="of csv: hgb, svm, mlp_sklearn, xgboost (default: hgb)"
    )
    new.add_argument("--finetune", action="store_true", help="of flower: an app that trains adapters")

    command("schema", "Print the JSON schema of study files.")
    for name, about in elsewhere(chosen).items():
        one = command(name, about)
        if name in chosen:
            module = brought(name)
            module.add(one)
            one.set_defaults(run_elsewhere=module.run)
    return main


def _add_table(table: argparse.ArgumentParser) -> None:
    actions = table.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> argparse.ArgumentParser:
        one = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        for option, what in (
            ("--json", "print one JSON object, nothing else"),
            ("--debug", "show tracebacks"),
        ):
            # Given before the action it must not be undone by its absence behind it.
            one.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=what)
        return one

    build = action("build", "Train many configs, score them at every validation client, write a table.")
    build.add_argument("study", metavar="STUDY", help="the study file (TOML)")
    build.add_argument("--configs", type=positive, metavar="N", default=128, help="(default: 128)")
    build.add_argument(
        "--again", type=natural, metavar="N", default=0, help="train the N best configs a second time"
    )
    build.add_argument(
        "--unit", type=positive, metavar="N", help="first round that is scored, as Hyperband's"
    )
    build.add_argument(
        "--every",
        type=positive,
        metavar="N",
        help="rounds between scores after that (default: its second rung)",
    )
    add_output(build, "FILE", help="(default: the study's name, with .table)")
    build.add_argument(
        "--runs", metavar="DIR", default="runs", help="where the build is kept (default: runs)"
    )
    fedtune = action(
        "fedtune", "Fill FedTune's reference table on the study's proxy data, without a training."
    )
    fedtune.add_argument("study", metavar="STUDY", help="the study file (TOML), with [proxy.data]")
    add_output(fedtune, "FILE", help="(default: table.json); the heat map is written beside it")
    fedtune.add_argument(
        "--runs", metavar="DIR", default="runs", help="where its steps are kept (default: runs)"
    )
    for one in (build, fedtune):
        one.add_argument(
            "--workers", type=natural, metavar="N", help="worker processes (default: one per core)"
        )
        one.add_argument("--quiet", action="store_true", help="no progress")
    ls = action("ls", "List the tables that come with fedhpo, and those in a directory.")
    ls.add_argument("directory", metavar="DIR", nargs="?", default=".", help="(default: here)")
    info = action("info", "What a table holds, how it was built, how precise it is.")
    info.add_argument("table", metavar="TABLE", help="a table's name or file")
    info.add_argument(
        "--surrogate", action="store_true", help="also how well its surrogate predicts unseen configs"
    )


def _add_noise(one: argparse.ArgumentParser) -> None:
    """What `compare` and `advise` share: on what, and how scores are observed."""
    one.add_argument("study", metavar="STUDY", nargs="?", help="the study file (TOML)")
    one.add_argument("--table", metavar="TABLE", help="a table's name or file, in place of training")
    one.add_argument("--total", type=positive, metavar="N", help="rounds over all trials")
    one.add_argument("--clients", type=clients, metavar="N", help="validation clients asked, number or share")
    one.add_argument("--epsilon", type=epsilon, metavar="E", help="privacy budget of all scores together")
    one.add_argument("--mechanism", metavar="NAME", help="how scores or choices are made private")
    one.add_argument("--accounting", metavar="NAME", help="how private releases are added up")
    one.add_argument("--delta", type=epsilon, metavar="D", help="for accounting pld")
    one.add_argument(
        "--evaluations", type=positive, metavar="M", help="private releases to plan for (default: counted)"
    )
    one.add_argument(
        "--minimum", type=clients, metavar="N", help="replies without which nothing private is released"
    )
    one.add_argument(
        "--paired",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="ask the same clients about all trials of an evaluation",
    )
    one.add_argument("--average", metavar="NAME", help="compare trials by their last or by recent scores")
    one.add_argument("--bias", type=float, metavar="B", help="how much better clients reply more often")
    one.add_argument("--workers", type=natural, metavar="N", help="worker processes (default: one per core)")


def _add_compare(compare: argparse.ArgumentParser) -> None:
    _add_noise(compare)
    compare.add_argument(
        "-m", "--method", action="append", metavar="NAME", help="(default: random, tpe, hyperband, bohb)"
    )
    compare.add_argument("--seeds", type=positive, metavar="N", default=8, help="seeds 0..N-1 (default: 8)")
    compare.add_argument(
        "--heterogeneity", type=float, metavar="P", default=0.0, help="of the table (default: 0, as it is)"
    )
    compare.add_argument(
        "--surrogate", action="store_true", help="any config of the space, answered by the table's surrogate"
    )
    add_output(compare, "FILE", help="the page (default: compare-NAME.html)")
    compare.add_argument("--runs", metavar="DIR", default="runs", help="where runs are kept (default: runs)")
    compare.add_argument("--quiet", action="store_true", help="no progress")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    The exit code is 0, 2 for bad input, 130 if interrupted, 143 if terminated, 1 for other failures; `verify`
    has 3 and 4 besides. Without `arguments` the process is this command's, and so are its signals.
    """
    try:
        with at_once() if arguments is None else contextlib.nullcontext():
            code = _run(arguments)
        if arguments is None:
            _leave(code)
        return code
    except KeyboardInterrupt as stop:  # before there was a command, or on its way out
        return exit_code(stop)
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        sys.stderr.close()
        return FAILURE


def _leave(code: int) -> None:
    """End this process at once, all said and closed: to take torch apart would take most of a second.

    Returns where that is not safe: a thread is at work, or output cannot be written.
    """
    if "torch" not in sys.modules or any(not one.daemon for one in threading.enumerate()[1:]):
        return
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    whole = arguments is None  # the process is this command's
    arguments = sys.argv[1:] if arguments is None else arguments
    first = next((one for one in arguments if not one.startswith("-")), "")
    if whole:
        complete(parser)
    try:
        options = parser([first]).parse_args(arguments)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    except FedhpoError as error:  # a command that is not installed
        return _failed(argparse.Namespace(json="--json" in arguments), str(error), BAD_INPUT)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    if options.json or options.command == "predict":  # read by another program: nothing else is printed there
        with reserved(process=whole):
            return _do(options)
    return _do(options)


def _do(options: argparse.Namespace) -> int:
    run = getattr(options, "run_elsewhere", None)
    run = run or importlib.import_module(f"fedhpo.cli.{options.command}").run
    try:
        code: int = run(options)
        return code
    except (KeyboardInterrupt, SystemExit) as stop:
        code = exit_code(stop)
        return _failed(options, "interrupted" if code == INTERRUPTED else "terminated", code)
    except BrokenPipeError:
        raise
    except FedhpoError as error:
        return _failed(options, str(error), BAD_INPUT if _is_users(error) else FAILURE)
    except Exception as error:
        if options.debug:
            raise
        return _failed(options, f"unexpected {_short(error)}; see {_write_traceback()}", FAILURE)


def _is_users(error: FedhpoError) -> bool:
    """Whether the user can put it right: what was given, what is installed, or the run's directory."""
    from fedhpo.core.errors import InputError, MissingExtraError
    from fedhpo.core.run_errors import RunError
    from fedhpo.search.events import TuningError

    return isinstance(error, InputError | MissingExtraError | RunError | TuningError)


def _failed(options: Any, message: str, code: int) -> int:
    print("\n".join(f"fedhpo: {line}" for line in message.splitlines()), file=sys.stderr)
    if options.json:
        print_json({"error": message})
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
