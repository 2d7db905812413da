"""A new study of CSV files, one a party: what `fedhpo new csv` writes after it looked at the files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.data.frames import Frame, read_csv, stems
from fedhpo.learners.learner import Learner
from fedhpo.learners.named import LEARNERS

#: Names that people give to what is to be predicted.
_LABELS = ("label", "target", "outcome", "class", "diagnosis", "y", "response", "result")
#: Delimiters that are tried.
_DELIMITERS = ",;\t|"
#: A text column names its rows, or is free text, where more than this share of its cells differ.
_OWN = 0.5
#: A column of whole numbers that differ in every row, and is named so, numbers the rows.
_NUMBERS = ("id", "index", "nr", "no", "number", "row", "key", "patient", "subject")
#: A numeric label of at most so many values is a class.
_CLASSES = 20

_STUDY = Template("""\
# fedhpo check study.toml                        is it right, and what will it cost?
# fedhpo tune study.toml                         tune it
# fedhpo predict runs/$name new.csv      predict new rows
name = "$name"
[data]
files = { $files }
$label
$delimiter$drop[model]
name = "$model"               # or hgb, svm, mlp_sklearn, xgboost, ..., or a PyTorch model
[space.client]
$space
[method]
name = "random"
trials = 20
[budget]
rounds = 1                 # a learner is trained whole in one round
total = 20
cohort = $parties
baseline = true
""")


@dataclass(frozen=True)
class Survey:
    """What was found in the files: the columns to drop with the reason of each, and the label."""

    files: Mapping[str, Path]
    delimiter: str
    label: str
    drop: Mapping[str, str]
    kinds: Mapping[str, str]


def survey(files: Sequence[str], label: str | None = None) -> Survey:
    """Look at every party's file."""
    named = stems(files)
    delimiter = _delimiter(next(iter(named.values())))
    frames = [read_csv(path, name, delimiter) for name, path in named.items()]
    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    shared = [column for column in columns if all(column in frame.columns for frame in frames)]
    found = _label(frames, shared, label)
    kinds = {
        column: _kind(column, [frame for frame in frames if column in frame.columns]) for column in columns
    }
    drop = {column: "not in every file" for column in columns if column not in shared}
    drop |= {column: kind for column, kind in kinds.items() if kind not in _USED and column != found}
    drop.update({column: "not in every file" for column in columns if column not in shared})
    if not set(columns) - set(drop) - {found}:
        raise InputError(
            "files: no column is left to learn from: every one is in some files only, or unusable"
        )
    return Survey(named, delimiter, found, drop, kinds)


_USED = ("numbers", "texts")


def _delimiter(path: Path) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            header = file.readline()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; paths count from {os.getcwd()}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file in UTF-8 ({error.reason})") from None
    return max(_DELIMITERS, key=header.count)


def _label(frames: Sequence[Frame], shared: Sequence[str], given: str | None) -> str:
    if given is not None:
        if given not in shared:
            raise unknown_name("column, or not one of every file:", given, shared)
        return given
    for name in _LABELS:
        for column in shared:
            if column.casefold() == name:
                return column
    for column in reversed(shared):
        cells = np.concatenate([frame.columns[column] for frame in frames])
        known = [cell for cell in cells.tolist() if cell is not None and cell == cell]
        if len(known) == len(cells) and 2 <= len(set(known)) <= _CLASSES:
            return column
    raise InputError(f"--label is missing: which column is to be predicted? There are: {', '.join(shared)}")


def _kind(column: str, frames: Sequence[Frame]) -> str:
    """What a column holds: numbers, texts, or why it is dropped."""
    cells = [frame.columns[column] for frame in frames]
    if any(column in frame.unusable for frame in frames):
        return "dates" if all(one.dtype == object for one in cells) else "infinite values"
    numeric = {one.dtype != object for one in cells if any(cell is not None for cell in one.tolist())}
    if len(numeric) > 1:
        return "numbers at some parties, texts at others"
    by_party = [[cell for cell in one.tolist() if cell is not None and cell == cell] for one in cells]
    known = [cell for one in by_party for cell in one]
    if not known:
        return "no values"
    different = max(len(set(one)) / len(one) for one in by_party if one)  # two parties may number alike
    if numeric == {True}:
        names = column.casefold().replace("_", " ").split()
        numbers = different == 1 and any(word in _NUMBERS for word in names)
        return "numbers the rows" if numbers else "numbers"
    return "free text, or names of rows" if different > _OWN and len(known) > 10 else "texts"


def study_text(name: str, found: Survey, directory: Path, model: str = "hgb") -> str:
    """The study file."""
    learner = LEARNERS.get(model)
    if not isinstance(learner, Learner) or learner.space is None:
        known = [one for one, found in LEARNERS.items() if isinstance(found, Learner)]
        raise InputError(f"--model = {unknown_name('learner', model, known)}")
    files = {
        party: os.path.relpath(path, directory) if not path.is_absolute() else str(path)
        for party, path in found.files.items()
    }
    quoted = ", ".join(f"{json.dumps(party)} = {json.dumps(path)}" for party, path in files.items())
    drop = ""
    if found.drop:
        lines = [f"    {json.dumps(column)},  # {why}" for column, why in found.drop.items()]
        drop = "drop = [\n" + "\n".join(lines) + "\n]\n"
    return _STUDY.substitute(
        name=name,
        files=quoted,
        label=f"label = {json.dumps(found.label)}  # what is predicted",
        delimiter="" if found.delimiter == "," else f"delimiter = {json.dumps(found.delimiter)}\n",
        drop=drop,
        parties=len(found.files),
        model=model,
        space="\n".join(_line(key, table) for key, table in learner.space.to_dict()["client"].items()),
    )


def _line(key: str, table: Mapping[str, Any]) -> str:
    """A hyperparameter as a line of TOML, without what follows from its numbers."""
    told = {name: value for name, value in table.items() if name != "type" and value is not False}
    return f"{key} = {{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in told.items())} }}"
