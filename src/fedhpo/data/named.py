"""Rows of several named arrays, such as tokens with their mask, as one array with fields.

Rows of different length are padded to the longest: `attention_mask` says where they are, labels of padding
are ignored. So they are dealt, shared and fingerprinted like any other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data.container import IGNORE, Array

MASK, LABELS = "attention_mask", "labels"
#: What a field is padded with; others with 0.
_PADDING = {LABELS: IGNORE}
#: Fields that hold the labels, as data sets of transformers name them.
_LABELS = (LABELS, "label")

#: By name, one array for each row.
Named = dict[str, list[Array]]


def named_rows(rows: Sequence[Mapping[str, Any]], where: str) -> tuple[Named, list[Array] | None]:
    """The fields of rows that are dicts, and their labels, if they have some."""
    keys = list(rows[0])
    found: Named = {key: [] for key in keys}
    for place, row in enumerate(rows):
        if list(row) != keys and set(row) != set(keys):
            raise InputError(
                f"{where}: row {place} has the fields {sorted(row)}, the first one {sorted(keys)}"
            )
        for key in keys:
            found[key].append(_numbers(row[key], key, where))
    own = next((key for key in _LABELS if key in found), None)
    labels = None if own is None else found[own]
    if own == "label":
        del found["label"]
    return found, labels


def named_columns(columns: Mapping[str, Any], where: str) -> Named:
    """Arrays by name, each with one entry a row."""
    found = {str(key): [_numbers(one, key, where) for one in values] for key, values in columns.items()}
    sizes = {key: len(values) for key, values in found.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"{where}: the fields have different numbers of rows: {sizes}")
    return found


def _numbers(value: Any, key: str, where: str) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    found = np.asarray(value)
    if found.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: field {key!r} is {found.dtype}; allowed: numbers, such as a tokenizer's ids"
        )
    return found


def joined(pieces: Sequence[Named]) -> Array:
    """All rows as one array with a field for each name, padded to the longest."""
    keys = list(pieces[0])
    rows = {key: [one for piece in pieces for one in piece[key]] for key in keys}
    padded = {key: pad(key, values) for key, values in rows.items()}
    ragged = {key: values for key, values in rows.items() if len({one.shape for one in values}) > 1}
    if ragged and MASK not in padded:
        lengths = np.array([len(one) for one in next(iter(ragged.values()))])
        padded[MASK] = (np.arange(lengths.max())[None] < lengths[:, None]).astype(np.int8)
    kind = np.dtype([(key, values.dtype, values.shape[1:]) for key, values in padded.items()])
    made = np.zeros(len(next(iter(padded.values()))), kind)
    for key, values in padded.items():
        made[key] = values
    return made


def pad(key: str, rows: Sequence[Array]) -> Array:
    """Rows of one field as an array; those of different length are filled up at their ends.

    >>> pad("labels", [np.array([1, 2, 3]), np.array([4])]).tolist()
    [[1, 2, 3], [4, -100, -100]]
    """
    shapes = {one.shape for one in rows}
    if any(len(shape) > 1 for shape in shapes) and len(shapes) > 1:
        raise InputError(
            f"field {key!r}: rows have different shapes, {sorted(shapes)}; only one axis is padded"
        )
    kind = np.result_type(*{one.dtype for one in rows})
    kind = np.dtype(np.float32) if kind.kind == "f" else np.dtype(np.int64) if kind.kind in "iu" else kind
    if len(shapes) == 1:
        return np.stack(rows).astype(kind)
    longest = max(len(one) for one in rows)
    made = np.full((len(rows), longest), _PADDING.get(key, 0), kind)
    for place, one in enumerate(rows):
        made[place, : len(one)] = one
    return made
