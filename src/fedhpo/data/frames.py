"""Rows with named columns, as people have them: CSV files, pandas frames, dicts.

A `Frame` holds one array a column: numbers with NaN, or texts with None, where a value is missing.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.data.container import Array, Floats

#: What a cell says where its value is missing, in any case of letters.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "#n/a"})
#: Dates as people write them: 2024-05-01, 1.5.2024, 05/01/24, each with or without a time.
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([ T]\d{1,2}:.*)?")
_DATES = "turn it into a number, such as days since a day that all parties know, or leave it out with drop"


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of one party, each either float64 (NaN is missing) or texts (None is missing).

    `unusable` says of columns why they cannot be used; they may still be left out.

    >>> frame_of({"age": [41, None], "sex": ["f", "m"]}, "a").columns["age"]
    array([41., nan])
    """

    name: str
    columns: Mapping[str, Array]
    unusable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Mapping[str, Iterable[Any]], name: str) -> Frame:
        """Columns of cells, each as text, or with its own type."""
        made = {key: _column(cells, key, name) for key, cells in columns.items()}
        unusable = {key: why for key, (_, why) in made.items() if why}
        return cls(name, {key: column for key, (column, _) in made.items()}, unusable)

    def check(self, names: Iterable[str]) -> None:
        """Refuse columns that cannot be used."""
        for name in names:
            if name in self.unusable:
                raise InputError(self.unusable[name])

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(next(iter(self.columns.values()), ()))

    def only(self, mask: Array, name: str) -> Frame:
        """The rows where `mask` is true, under another name."""
        return replace(self, name=name, columns={key: column[mask] for key, column in self.columns.items()})


def read_csv(path: str | os.PathLike[str], name: str, delimiter: str = ",") -> Frame:
    """A file with one line of column names, then one line a row."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, delimiter=delimiter)
            header = [cell.strip() for cell in next(reader, [])]
            _check_header(header, path, delimiter)
            rows = []
            for row in reader:
                if not row:
                    continue  # an empty line
                if len(row) != len(header):
                    raise InputError(
                        f"{path}, line {reader.line_num}: {len(row)} values, but the file names "
                        f"{len(header)} columns"
                    )
                rows.append(row)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; paths count from {os.getcwd()}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file in UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from None
    if not rows:
        raise InputError(f"{path}: has no rows")
    return Frame.of(dict(zip(header, zip(*rows, strict=True), strict=True)), name)


def _check_header(header: list[str], path: Any, delimiter: str) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header or "" in header or twice:
        found = (
            f"the column {twice[0]!r} twice" if twice else "a column without a name" if header else "no line"
        )
        raise InputError(f"{path}: its first line must name the columns, each once; found {found}")
    other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0] != delimiter), None)
    if other is not None:
        raise InputError(f"{path}: its columns seem to be parted by {other!r}: write delimiter = {other!r}")


def frame_of(rows: Any, name: str) -> Frame:
    """The frame meant: a pandas frame, a dict of columns, a dict that is one row, a list of such dicts.

    >>> frame_of([{"age": 41}, {"age": 52}], "new rows").rows, frame_of({"age": 41}, "new row").rows
    (2, 1)
    """
    if isinstance(rows, Frame):
        return rows
    if isinstance(rows, str | os.PathLike):
        return read_csv(rows, name)
    if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):  # a frame of pandas, or one like it
        frame = Frame.of({str(key): _values(rows[key]) for key in rows.columns}, name)
        timed = [str(key) for key in rows.columns if getattr(rows[key].dtype, "kind", "") in "mM"]
        dates = {key: f"column {key!r} of {name} holds dates: {_DATES} = [{key!r}]" for key in timed}
        return replace(frame, unusable={**frame.unusable, **dates})
    if isinstance(rows, Mapping):
        if not rows or all(_is_cell(value) for value in rows.values()):
            rows = [rows]
        else:
            return _of_columns(rows, name)
    if not isinstance(rows, Iterable):
        raise InputError(
            f"{name}: {shown(rows)} is no table: give a pandas frame, or a dict with the columns"
        )
    listed = list(rows)
    if not listed or not all(isinstance(row, Mapping) for row in listed):
        raise InputError(f"{name}: rows must be dicts from column to value, found {shown(rows)}")
    keys = list(dict.fromkeys(str(key) for row in listed for key in row))
    return Frame.of({key: [row.get(key) for row in listed] for key in keys}, name)


def _of_columns(columns: Mapping[Any, Any], name: str) -> Frame:
    made = {str(key): list(values) for key, values in columns.items()}
    sizes = {key: len(column) for key, column in made.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"{name}: columns must be of one length, found {sizes}")
    return Frame.of(made, name)


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes) or not hasattr(value, "__len__")


def _values(series: Any) -> list[Any]:
    found: list[Any] = series.astype(object).where(series.notna(), None).tolist()
    return found


def _column(cells: Iterable[Any], key: str, name: str) -> tuple[Array, str]:
    """Numbers where every value is one, else texts; and why the column cannot be used, if it cannot."""
    told = [_said(cell) for cell in cells]
    texts = np.array([np.nan if text is None else text for text in told], dtype=object)
    try:
        numbers: Floats = texts.astype(np.float64)
    except ValueError:
        why = ""
        if all(text is None or _DATE.fullmatch(text) for text in told):
            first = next(text for text in told if text)
            why = f"column {key!r} of {name} holds dates, such as {first!r}: {_DATES} = [{key!r}]"
        found = np.empty(len(told), dtype=object)
        found[:] = told
        return found, why
    infinite = f"column {key!r} of {name} holds an infinite value: write an empty cell if it is missing"
    return numbers, infinite if np.isinf(numbers).any() else ""


def _said(cell: Any) -> str | None:
    """A cell as text; None where its value is missing."""
    if cell is None or cell is np.ma.masked or cell != cell:
        return None
    text = str(int(cell) if isinstance(cell, bool | np.bool_) else cell).strip()
    return None if text.lower() in MISSING else text


def stems(files: Iterable[str | os.PathLike[str]]) -> dict[str, Path]:
    """Files by the names of their parties: the files' own without the ending."""
    named: dict[str, Path] = {}
    for file in map(Path, files):
        if file.stem in named:
            raise InputError(
                f"files: {str(named[file.stem])!r} and {str(file)!r} both give the party {file.stem!r}: name "
                "the parties, as in {north = 'a/data.csv', south = 'b/data.csv'}"
            )
        named[file.stem] = file
    return named
