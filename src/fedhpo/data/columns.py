"""Users' own tables of data: one CSV file or frame a party, or one with a column that names the party."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown
from fedhpo.data.container import Array, FederatedData
from fedhpo.data.encoding import Encoding, as_texts
from fedhpo.data.frames import Frame, frame_of, read_csv, stems
from fedhpo.data.partition import Natural
from fedhpo.data.samples import Samples, assemble
from fedhpo.data.scaling import SCALES
from fedhpo.data.sets.request import Request
from fedhpo.data.split import InsideClients, SplitRule, split_from_dict

File = str | os.PathLike[str]
#: How a missing value is filled in where a learner does not take it, as the result says it.
FILLED = "a missing number is the mean over all parties' training rows, a missing text is none of the texts"
KEPT = "missing numbers are left to the learner, a missing text is none of the texts"


def from_csv(
    files: Mapping[str, File] | Sequence[File] | File,
    label: str,
    *,
    client: str | None = None,
    drop: Sequence[str] = (),
    categories: Mapping[str, Sequence[Any]] | None = None,
    task: str | None = None,
    scale: str | None = "standard",
    delimiter: str = ",",
    split: SplitRule | Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "csv",
) -> FederatedData:
    """Tables in CSV files, with a line of column names, as a federation.

    Parameters
    ----------
    files
        One file a party, with the parties' names, or a list of files, whose names then are the parties'. Or
        one file for all, and `client`, the column that names a row's party. Columns may stand in any order.
    label
        The column to predict. Texts, and whole numbers of at most 20 values (0 and 1, or -1 and 1), are
        classes, in sorted order; other numbers are regression, unless `task` says otherwise.
    drop
        Columns to leave out: names, numbers of rows, dates.
    categories
        The texts of columns, where they shall not be those that occur at the parties. A column of numbers
        that is named here (a postcode) is taken as text.
    scale
        How a torch model sees numbers: "standard" (mean 0, variance 1), "minmax" (0 to 1), or None; from
        sums over the parties' training rows. Learners have a `scaling` of their own.
    split
        `InsideClients()` unless given, as an object or as in a study file.

    Notes
    -----
    Missing values are empty cells, `NA`, `NaN`, `null`, `None` or `?`. Learners that take missing numbers
    (HGB, XGBoost) get them; for others they are the mean over all parties' training rows. In a simulation
    the texts of a column, and its mean, are computed from all parties.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> north, south = place / "north.csv", place / "south.csv"
    >>> _ = north.write_text("age,sex,sick\\n" + "41,f,yes\\n,m,no\\n" * 10)
    >>> _ = south.write_text("sick,sex,age\\n" + "no,f,50\\nyes,,61\\n" * 10)
    >>> data = from_csv([north, south], label="sick")
    >>> data.client_names, data.encoding.features, data.encoding.labels
    (('north', 'south'), ('age', 'sex=f', 'sex=m'), ('no', 'yes'))
    """
    frames = read_files(files, client=client, delimiter=delimiter)
    return _assembled(frames, label, drop, categories, task, scale, split, seed, name)


def from_frames(
    frames: Mapping[str, Any] | Any,
    label: str,
    *,
    client: str | None = None,
    drop: Sequence[str] = (),
    categories: Mapping[str, Sequence[Any]] | None = None,
    task: str | None = None,
    scale: str | None = "standard",
    split: SplitRule | Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "frames",
) -> FederatedData:
    """The same from one pandas frame a party, or one for all and the column `client`; see `from_csv`.

    A dict of columns does in place of a frame.

    >>> rows = {"age": [30, 40] * 10, "sick": [0, 1] * 10}
    >>> from_frames({"north": rows, "south": rows}, label="sick").client_names
    ('north', 'south')
    """
    if client is not None:
        found = _by_client(frame_of(frames, "the frame"), client)
    elif isinstance(frames, Mapping):
        found = [frame_of(frame, repr(str(party))) for party, frame in frames.items()]
        found = [replace(frame, name=str(party)) for party, frame in zip(frames, found, strict=True)]
    else:
        raise InputError(
            f"frames must be a dict from party to frame, or client given, not {shown(type(frames))}"
        )
    return _assembled(found, label, drop, categories, task, scale, split, seed, name)


def read(
    request: Request,
    *,
    files: Any = None,
    label: str = "",
    client: str | None = None,
    drop: Sequence[str] = (),
    categories: Mapping[str, Sequence[Any]] | None = None,
    task: str | None = None,
    scale: str | None = "standard",
    delimiter: str = ",",
) -> Samples:
    """What `load("csv", files=..., label=...)` and `[data] files = ...` read."""
    if request.clients is not None:
        raise InputError("clients: leave it out; the files say who the parties are")
    frames = read_files(files, client=client, delimiter=delimiter, directory=request.path)
    return samples_of(frames, label, drop, categories, task, scale)


def read_files(
    files: Any, *, client: str | None = None, delimiter: str = ",", directory: File | None = None
) -> list[Frame]:
    """One frame a party."""
    if files is None:
        raise InputError(
            "files is missing: a list of CSV files, one a party, or one file and client, the column that "
            "names a row's party; path is the directory in which they lie"
        )
    if isinstance(files, str | os.PathLike):
        if client is None:
            raise InputError(
                f"files = {str(files)!r}: one file for all parties needs client, the column that names "
                "a row's party; for one file a party give a list, or names and files"
            )
        return _by_client(read_csv(_in(directory, files), str(files), delimiter), client)
    if client is not None:
        raise InputError(
            f"client = {client!r} is for one file with all parties: leave it out, or give one file"
        )
    if not isinstance(files, Mapping | list | tuple) or not files:
        raise InputError(
            "files must be a list of CSV files, or names with files, such as {'north': 'a.csv'}, not "
            f"{shown(files)}"
        )
    named = files if isinstance(files, Mapping) else stems(files)
    for party, file in named.items():
        if not isinstance(file, str | os.PathLike):
            raise InputError(f"files[{party!r}] must be the path of a CSV file, not {shown(file)}")
    return [read_csv(_in(directory, file), str(party), delimiter) for party, file in named.items()]


def _in(directory: File | None, file: File) -> Path:
    return Path(file) if directory is None else Path(directory) / file


def _by_client(frame: Frame, client: str) -> list[Frame]:
    """One frame for each value of the column `client`, in order of appearance."""
    if client not in frame.columns:
        raise unknown_name("column", client, frame.columns)
    column = frame.columns[client]
    names = np.array(as_texts(column), dtype=object)
    if any(one is None for one in names):
        raise InputError(f"column {client!r}: {sum(one is None for one in names)} rows name no party")
    frame.check([client])
    rest = replace(frame, columns={key: values for key, values in frame.columns.items() if key != client})
    return [rest.only(names == party, party) for party in dict.fromkeys(names.tolist())]


def samples_of(
    frames: Sequence[Frame],
    label: str,
    drop: Sequence[str],
    categories: Mapping[str, Sequence[Any]] | None,
    task: str | None,
    scale: str | None,
) -> Samples:
    """The parties' rows, encoded alike."""
    if not isinstance(label, str) or not label:
        raise InputError("label is missing: which column is to be predicted?")
    if isinstance(drop, str):
        raise InputError(f"drop must be a list of columns, such as [{drop!r}]")
    if scale is not None and scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    if not frames:
        raise InputError("there are no parties; at least one is needed")
    encoding = Encoding.learn(frames, label, drop=drop, categories=categories, task=task)
    x = np.concatenate([encoding.encode(frame, strict=True) for frame in frames])
    y = np.concatenate([encoding.targets(frame) for frame in frames])
    return Samples(
        x,
        y,
        encoding.task,
        len(encoding.labels) or None,
        groups=np.repeat(np.arange(len(frames)), [frame.rows for frame in frames]),
        group_names=[frame.name for frame in frames],
        scale=scale,
        encoding=encoding,
    )


def _assembled(
    frames: Sequence[Frame],
    label: str,
    drop: Sequence[str],
    categories: Mapping[str, Sequence[Any]] | None,
    task: str | None,
    scale: str | None,
    split: SplitRule | Mapping[str, Any] | None,
    seed: int,
    name: str,
) -> FederatedData:
    rule = split_from_dict(split) if isinstance(split, Mapping) else split or InsideClients()
    samples = samples_of(frames, label, drop, categories, task, scale)
    return assemble(samples, Natural(), rule, seed, name)


def described(data: FederatedData, *, fills: bool = True) -> dict[str, str]:
    """For the result: how columns became features, and what became of missing values."""
    found = {} if data.encoding is None else {"columns": data.encoding.describe()}
    return found if data.fill is None else found | {"missing_values": FILLED if fills else KEPT}


@dataclass(frozen=True, eq=False)
class Preparation:
    """What encoded rows go through before a model sees them: missing numbers filled in, then one scale.

    >>> prepare = Preparation(fill=np.float32([5.0]), shift=np.float32([1.0]), scale=np.float32([2.0]))
    >>> prepare(np.float32([[3.0], [np.nan]])).tolist()
    [[1.0], [2.0]]
    """

    fill: Array | None = None
    shift: Array | None = None
    scale: Array | None = None

    def __call__(self, x: Array) -> Array:
        """The rows as the model sees them; themselves where nothing is to be done."""
        if self.fill is not None and x.dtype.kind == "f":
            missing = np.isnan(x)
            x = np.where(missing, self.fill, x).astype(x.dtype) if missing.any() else x
        if self.shift is not None and self.scale is not None:
            x = ((x - self.shift) / self.scale).astype(np.float32)
        return x

    def to_dict(self) -> dict[str, list[float] | None]:
        """JSON-able."""
        return {name: None if one is None else one.tolist() for name, one in vars(self).items()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Preparation:
        """The opposite of `to_dict`."""
        return cls(
            **{name: None if one is None else np.array(one, np.float32) for name, one in given.items()}
        )


def without_missing(data: FederatedData) -> FederatedData:
    """The same data with missing numbers filled in; itself where there are none."""
    x = Preparation(data.fill)(data.x)
    return data if x is data.x else replace(data, x=x)
