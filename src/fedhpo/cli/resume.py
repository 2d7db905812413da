"""`fedhpo resume`: go on with a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedhpo.cli.tune import tune


def run(options: argparse.Namespace) -> int:
    """Build the study again from the run's record, and go on."""
    from fedhpo.cli.place import recorded_study
    from fedhpo.errors import InputError
    from fedhpo.study import Study

    path = Path(options.run)
    asked = recorded_study(path)
    if asked is None:
        found = "no such directory" if not path.exists() else "no run was begun there"
        raise InputError(f"RUN = {str(path)!r}: {found}; `fedhpo runs` lists runs")
    if asked["study"] is None:
        raise InputError(
            f"RUN = {str(path)!r}: was begun from Python; call fedhpo.tune(..., run={str(path)!r}) again"
        )
    study = dict(asked["study"])
    if options.total is not None:
        study["budget"] = {**study["budget"], "total": options.total}
    return tune(Study.from_dict(study, path=path / "study.toml"), path, options)
