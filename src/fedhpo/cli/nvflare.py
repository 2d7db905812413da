"""`fedhpo nvflare tune JOB STUDY`: the same as `fedhpo tune STUDY` with the job in `[job]`.

`fedhpo nvflare inspect JOB [STUDY]` lists what is tunable in it, and writes a first study file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedhpo.cli.flower import show_inspected
from fedhpo.cli.tune import begin


def run(options: argparse.Namespace) -> int:
    """Look at the job, or put its path into the study and tune."""
    from fedhpo.core.errors import InputError
    from fedhpo.study import Study

    if options.action == "inspect":
        return _inspect(options)
    if options.study is None:
        raise InputError(
            f"STUDY is missing: fedhpo nvflare inspect {options.job} study.toml writes a first one"
        )
    options.workers = options.ray = None  # the job's sites are NVFlare's affair
    return begin(Study.load(options.study, job=Path(options.job).absolute()), options)


def _inspect(options: argparse.Namespace) -> int:
    from fedhpo.federations.jobs.inspection import first_study, inspect_job
    from fedhpo.federations.jobs.job_file import read_job

    job = read_job(options.job, "JOB")
    found = inspect_job(job)
    return show_inspected(options, found, first_study(job, found), f"nvflare tune {options.job}")
