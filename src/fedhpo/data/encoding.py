"""Columns to features: one rule for all parties, so that a feature means the same at each of them.

A column of numbers is one feature. A column of texts is one feature for each text that occurs (1 where the
row has it, else 0); a missing text is 0 in all of them. The vocabulary is given, or is that of all parties.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown
from fedhpo.data.container import Array
from fedhpo.data.frames import Frame, frame_of

#: Whole-number labels of at most so many values are classes.
_CLASSES = 20
#: Texts of a column beyond which it is taken for a name or a number of the row.
_TEXTS = 1000


@dataclass(frozen=True)
class Column:
    """A column's name, and its texts in order; None for numbers."""

    name: str
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Encoding:
    """Which columns there are, in which order, and what the labels are called.

    >>> frame = frame_of({"age": [41, 52], "sex": ["f", None], "sick": ["no", "yes"]}, "a")
    >>> encoding = Encoding.learn([frame], label="sick")
    >>> encoding.features, encoding.labels
    (('age', 'sex=f'), ('no', 'yes'))
    >>> encoding.encode({"sex": "f", "age": 60}).tolist()
    [[60.0, 1.0]]
    """

    columns: tuple[Column, ...]
    label: str
    task: str
    #: What the classes are called, in their order; empty for regression.
    labels: tuple[Any, ...] = ()

    @classmethod
    def learn(
        cls,
        frames: Sequence[Frame],
        label: str,
        *,
        drop: Sequence[str] = (),
        categories: Mapping[str, Sequence[Any]] | None = None,
        task: str | None = None,
    ) -> Encoding:
        """The encoding of all parties' columns; columns may stand in any order."""
        given = {key: tuple(str(text) for text in texts) for key, texts in (categories or {}).items()}
        for key in (label, *drop, *given):
            if not any(key in frame.columns for frame in frames):
                raise unknown_name("column", key, {name for frame in frames for name in frame.columns})
        names = [name for name in frames[0].columns if name not in (label, *drop)]
        _check_same(frames, [*names, label], drop)
        if not names:
            raise InputError(f"there is no column beside the label {label!r}")
        for frame in frames:
            frame.check([*names, label])
        columns = [Column(name, given.get(name) or _texts(name, frames)) for name in names]
        return cls(tuple(columns), label, *_labels(label, frames, task))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features: a column's own, or `column=text`."""
        return tuple(
            name
            for column in self.columns
            for name in (
                (column.name,) if column.texts is None else (f"{column.name}={text}" for text in column.texts)
            )
        )

    @property
    def numbers(self) -> Array:
        """Which features are numbers, rather than texts."""
        return np.array([column.texts is None for column in self.columns for _ in column.texts or ("",)])

    def encode(self, rows: Any, *, strict: bool = False) -> Array:
        """Features of rows, float32, NaN where a number is missing; `rows` as `frame_of` takes them.

        A text that is not in the vocabulary is an error where `strict`, else a missing one, with a warning.
        """
        frame = frame_of(rows, "the rows")
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise InputError(
                f"{frame.name}: the column {missing[0]!r} is missing; needed: "
                f"{', '.join(column.name for column in self.columns)}"
            )
        frame.check(column.name for column in self.columns)
        parts = [self._encode(column, frame, strict) for column in self.columns]
        return np.concatenate(parts, axis=1).astype(np.float32)

    @staticmethod
    def _encode(column: Column, frame: Frame, strict: bool) -> Array:
        values = frame.columns[column.name]
        if column.texts is None:
            if values.dtype == object:
                wrong = _first_text(values)
                raise InputError(f"column {column.name!r} of {frame.name} must hold numbers, found {wrong!r}")
            return values[:, None]
        texts = as_texts(values)
        known = {text: place for place, text in enumerate(column.texts)}
        unknown = next((text for text in texts if text is not None and text not in known), None)
        if unknown is not None:
            known_texts = shown(column.texts)
            what = f"column {column.name!r} of {frame.name}: {unknown!r} is not one of {known_texts}"
            if strict:
                raise InputError(f"{what}: add it to categories")
            warnings.warn(f"{what}: taken as missing", stacklevel=4)
        found = np.zeros((len(texts), len(column.texts)))
        hits = [(row, known[text]) for row, text in enumerate(texts) if text in known]
        if hits:
            found[tuple(np.array(hits).T)] = 1.0
        return found

    def targets(self, frame: Frame) -> Array:
        """The labels of a frame: class numbers, or float32 for regression."""
        values = frame.columns[self.label]
        if self.task == "regression":
            if values.dtype == object:
                raise InputError(
                    f"label {self.label!r} of {frame.name}: {_first_text(values)!r} is no number"
                )
            return values.astype(np.float32)
        known = {label: place for place, label in enumerate(self.labels)}
        return np.array([known[_plain(value)] for value in values], dtype=np.int64)

    def describe(self) -> str:
        """In a sentence, for the result."""
        texts = [column for column in self.columns if column.texts is not None]
        known = f", {len(texts)} of text (their texts are those of all parties)" if texts else ""
        return f"{len(self.columns)} columns{known}, {len(self.features)} features; label {self.label!r}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        columns = {
            column.name: None if column.texts is None else list(column.texts) for column in self.columns
        }
        return {"columns": columns, "label": self.label, "task": self.task, "labels": list(self.labels)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Encoding:
        """The opposite of `to_dict`."""
        columns = (
            Column(name, None if texts is None else tuple(texts)) for name, texts in given["columns"].items()
        )
        return cls(tuple(columns), given["label"], given["task"], tuple(given["labels"]))


def _check_same(frames: Sequence[Frame], wanted: Sequence[str], drop: Sequence[str]) -> None:
    """Every party has the columns of the first, and no others."""
    first = frames[0]
    for frame in frames:
        lacks = [name for name in wanted if name not in frame.columns]
        more = [name for name in frame.columns if name not in (*wanted, *drop)]
        if lacks or more:
            parts = [f"{frame.name} lacks {', '.join(map(repr, lacks))}"] if lacks else []
            parts += (
                [f"{frame.name} has {', '.join(map(repr, more))}, which {first.name} has not"] if more else []
            )
            raise InputError(
                f"columns differ between parties: {'; '.join(parts)}. Give them the same names, or "
                f"leave them out with drop = {[*lacks, *more]}"
            )


def _texts(name: str, frames: Sequence[Frame]) -> tuple[str, ...] | None:
    """The texts of a column over all parties; None where it holds numbers at each of them."""
    texts = [frame for frame in frames if frame.columns[name].dtype == object]
    numbers = [
        frame
        for frame in frames
        if frame.columns[name].dtype != object and not np.isnan(frame.columns[name]).all()
    ]
    if not texts:
        return None
    if numbers:
        raise InputError(
            f"column {name!r} holds numbers at {numbers[0].name} and text at {texts[0].name}, such as "
            f"{_first_text(texts[0].columns[name])!r}: write a missing value as an empty cell; if the "
            f"numbers are names, give categories = {{{name} = [...]}}"
        )
    found = {text for frame in texts for text in frame.columns[name] if text is not None}
    rows = sum(frame.rows for frame in frames)
    if len(found) > _TEXTS or (len(found) > 50 and 2 * len(found) > rows):
        raise InputError(
            f"column {name!r} has {len(found)} different texts in {rows} rows, as a name of the row would: "
            f"leave it out with drop = [{name!r}], or give the texts that matter in categories"
        )
    return tuple(sorted(found))


def _labels(label: str, frames: Sequence[Frame], task: str | None) -> tuple[str, tuple[Any, ...]]:
    """The task, and what the classes are called."""
    columns = [frame.columns[label] for frame in frames]
    for frame, column in zip(frames, columns, strict=True):
        if gone := sum(text is None for text in as_texts(column)):
            raise InputError(f"{frame.name}: {gone} rows have no {label!r}, the label: leave them out")
    if len({column.dtype == object for column in columns}) > 1:
        wrong = next(frame for frame in frames if frame.columns[label].dtype == object)
        raise InputError(
            f"label {label!r}: {wrong.name} has text, such as {_first_text(wrong.columns[label])!r}, others "
            "have numbers: write it in the same way at every party"
        )
    values = np.concatenate(columns)
    if values.dtype == object:
        found: list[Any] = sorted(set(values))
        if task == "regression":
            raise InputError(
                f"label {label!r} is text, such as {found[0]!r}: task = 'regression' needs numbers"
            )
    else:
        found = sorted({_plain(value) for value in values})
        whole = all(isinstance(value, int) for value in found)
        if task == "regression" or (task is None and not (whole and len(found) <= _CLASSES)):
            return "regression", ()
    if task not in (None, "classification"):
        raise unknown_name("task", task, ("classification", "regression"))
    if len(found) < 2:
        raise InputError(
            f"label {label!r} has only the value {shown(found[0]) if found else 'none'}: nothing to learn"
        )
    return "classification", tuple(found)


def as_texts(values: Array) -> list[str | None]:
    """A column as texts, numbers too; None where a value is missing."""
    if values.dtype == object:
        return list(values)
    return [None if np.isnan(value) else str(_plain(value)) for value in values]


def _plain(value: Any) -> Any:
    """A label as Python's: whole numbers without a point."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)


def _first_text(values: Array) -> str | None:
    """The first text that is no number."""
    for text in values:
        try:
            float("nan" if text is None else text)
        except ValueError:
            return str(text)
    return None
