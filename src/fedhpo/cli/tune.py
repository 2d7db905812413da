"""`fedhpo tune`: tune a study, show how it goes, say what came of it."""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.cli.signals import exit_code

if TYPE_CHECKING:
    from fedhpo.protocol.outcome import Outcome
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Find the run's place, and tune there."""
    from fedhpo.workers.spawn import end_early

    try:
        _begin_early(options)
        from fedhpo.study import Study
        from fedhpo.study.unchanged import load_unchanged

        again = options.checked is not None
        study = load_unchanged(options.study, options.checked) if again else Study.load(options.study)
        return begin(study if options.device is None else study.with_device(options.device), options)
    finally:
        end_early()


def _begin_early(options: argparse.Namespace) -> None:
    """Let workers import torch while this process reads the study: half of what a first run waits for."""
    from fedhpo.models import MODELS
    from fedhpo.workers.spawn import begin_early, cores

    try:
        study = tomllib.loads(Path(options.study).read_text(encoding="utf-8"))
        torch = study["model"]["name"] in MODELS
    except (OSError, ValueError, LookupError, TypeError):
        return  # said in the user's words by whoever reads it properly
    device = options.device or study.get("device", "cpu")
    if torch and device == "cpu" and options.ray is None and "app" not in study:
        begin_early(
            cores() if options.workers is None else options.workers, "torch", "fedhpo.engine.executor"
        )


def begin(study: Study, options: argparse.Namespace) -> int:
    """Tune a study in its place; used by `flower` too."""
    from fedhpo.cli.place import RAISED, place

    if options.seed is not None:
        study = study.with_seed(options.seed)
    path, status = place(study, Path(options.runs), options.name or study.name)
    if status:
        known = {"finished": "finished: its result", RAISED: "with a smaller total: going on from there"}
        what = known.get(status, "begun: going on with it")
        note(f"{path} holds this study, {what}")
    return tune(study, path, options)


def tune(study: Study, path: Path, options: argparse.Namespace) -> int:
    """Tune in the run at `path`; used by `resume` too."""
    from fedhpo.cli.summary import summary
    from fedhpo.pages.numbers import finite
    from fedhpo.report import write_report
    from fedhpo.tuning.progress import progress

    for line in study.said():
        note(line)
    code = OK
    try:
        with progress(path, quiet=options.quiet) as callback:
            found = study.tune(
                path, workers=options.workers, ray=options.ray, timeout=options.timeout, callbacks=[callback]
            ).facts
    except (KeyboardInterrupt, SystemExit) as stop:
        code = exit_code(stop)
        kept = stopped(path)
        if kept is None:  # at once: there is nothing to show
            raise
        found = kept
    outcome = finite(dict(found))
    report = write_report([path], path / "report.html")
    if options.json:
        print_json({"run": str(path), "report": str(report), **outcome})
    else:
        print(summary(outcome, path, report))
        block = path / "flower-config.toml"
        if block.is_file():
            print(f"\n{block.read_text(encoding='utf-8')}", end="")
    if outcome["status"] == "finished":
        return OK
    note(f"{outcome['reason']}; resume with: fedhpo resume {path}")
    return code


def stopped(path: Path) -> Outcome | None:
    """What a run that a signal stopped came to; None where it was cut off."""
    from fedhpo.core.errors import InputError
    from fedhpo.core.run_errors import RunError
    from fedhpo.run import open_read

    try:
        with open_read(path) as run:
            return run.result() or run.so_far()
    except (InputError, RunError):
        return None


def note(text: str) -> None:
    """A word to the user, beside the output proper."""
    print(f"fedhpo: {text}", file=sys.stderr)
