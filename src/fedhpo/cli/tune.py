"""`fedhpo tune`: tune a study, show how it goes, say what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpo.cli import INTERRUPTED, OK, TERMINATED

if TYPE_CHECKING:
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Find the run's place, and tune there."""
    from fedhpo.study import Study

    study = Study.load(options.study)
    return begin(study if options.device is None else study.with_device(options.device), options)


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
    with progress(path, quiet=options.quiet) as callback:
        result = study.tune(
            path, workers=options.workers, ray=options.ray, timeout=options.timeout, callbacks=[callback]
        )
    outcome = finite(dict(result.facts))
    report = write_report([path], path / "report.html")
    if options.json:
        print(json.dumps({"run": str(path), "report": str(report), **outcome}))
    else:
        print(summary(outcome, path, report))
        block = path / "flower-config.toml"
        if block.is_file():
            print(f"\n{block.read_text(encoding='utf-8')}", end="")
    if outcome["status"] == "finished":
        return OK
    note(f"{outcome['reason']}; resume with: fedhpo resume {path}")
    return {"interrupted": INTERRUPTED, "terminated": TERMINATED}.get(outcome["reason"], OK)


def note(text: str) -> None:
    """A word to the user, beside the output proper."""
    print(f"fedhpo: {text}", file=sys.stderr)
