"""`fedhpo predict`: predict new rows with the tuned model of a run."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json, standard_output


def run(options: argparse.Namespace) -> int:
    """Bring the run's model back, and write one line for each row."""
    from fedhpo.cli.resume import reopened
    from fedhpo.core.objects import import_object
    from fedhpo.data.frames import read_csv
    from fedhpo.tuning.export import write_csv
    from fedhpo.tuning.load import read_run

    path, model = Path(options.run), None
    if options.model is not None:
        model = import_object(options.model, "--model")
    result = read_run(path, model=model, trust=options.trust)
    rows = read_csv(options.rows, options.rows, options.delimiter)  # before the directory may change
    output = None if options.output is None else Path(options.output).absolute()
    if result.predictor is None:  # no model that can be built from its file: bring it back from the record
        _refuse_elsewhere(path)
        study, path = reopened(path)
        result = study.tune(path, workers=0)
    found = result.predict(rows)
    assert result.predictor is not None
    encoding = result.predictor.encoding
    names, lines = [encoding.label], [[label] for label in found]
    if result.predictor.has_probabilities:
        names += [f"p({label})" for label in encoding.labels]
        for line, row in zip(lines, result.predict_proba(rows), strict=True):
            line += [round(float(p), 6) for p in row]
    if options.json:
        print_json({"predictions": [dict(zip(names, line, strict=True)) for line in lines]})
        return OK
    with (
        open(output, "w", encoding="utf-8", newline="") if output else nullcontext(standard_output()) as file
    ):
        write_csv(file, [names, *lines])
    return OK


def _refuse_elsewhere(path: Path) -> None:
    """A torch model of the user's own is built again where its study is; elsewhere it must be named."""
    from fedhpo.core.errors import InputError
    from fedhpo.study.recorded import recorded_study
    from fedhpo.tuning.model_file import kept_facts

    found, kept = recorded_study(path), kept_facts(path) or {}
    if kept.get("kind") != "torch" or (found and found.directory and found.directory.is_dir()):
        return
    raise InputError(
        f"the model of {path} is your own, of the class {kept.get('class')}: give what builds it, such as "
        "--model module:Name"
    )
