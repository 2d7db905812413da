"""`fedhpo predict`: what the tuned model of a run says of new rows."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from contextlib import nullcontext
from pathlib import Path

from fedhpo.cli import OK


def run(options: argparse.Namespace) -> int:
    """Bring the run's model back, and write one line for each row."""
    from fedhpo.cli.resume import reopened
    from fedhpo.core.errors import InputError
    from fedhpo.data.frames import read_csv
    from fedhpo.tuning.load import load_run

    rows = read_csv(options.rows, options.rows, options.delimiter)  # before the directory may change
    output = None if options.output is None else Path(options.output).absolute()
    path = Path(options.run)
    if not (path / "result.json").is_file():
        raise InputError(f"RUN = {str(path)!r}: has no result yet; finish it with: fedhpo resume {path}")
    result = load_run(path)
    if result.predictor is None:  # an estimator that is not kept: fit it again, as the record says
        study, path = reopened(path)
        result = study.tune(path, workers=0)
    found = result.predict(rows)
    assert result.predictor is not None
    encoding = result.predictor.encoding
    names = [encoding.label, *(f"p({label})" for label in encoding.labels)]
    lines = [[label] for label in found]
    if encoding.labels:
        lines = [
            [label, *(round(float(p), 6) for p in row)]
            for label, row in zip(found, result.predict_proba(rows), strict=True)
        ]
    if options.json:
        print(json.dumps({"predictions": [dict(zip(names, line, strict=True)) for line in lines]}))
        return OK
    with open(output, "w", encoding="utf-8", newline="") if output else nullcontext(sys.stdout) as file:
        csv.writer(file, lineterminator="\n").writerows([names, *lines])
    return OK
