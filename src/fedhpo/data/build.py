"""Users' own data to a federation: from one array a client, or from one array for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown, whole_number
from fedhpo.core.streams import stream
from fedhpo.data.container import IGNORE, Array, FederatedData, Split
from fedhpo.data.named import LABELS, Named, joined, named_columns, named_rows, pad
from fedhpo.data.partition import Partitioner
from fedhpo.data.samples import Samples, assemble
from fedhpo.data.split import InsideClients, SplitRule
from fedhpo.data.validate import TASKS

PARTS = ("train", "validation", "test")


def from_arrays(
    x: Any,
    y: Any,
    partition: Partitioner,
    *,
    groups: Any = None,
    split: SplitRule | None = None,
    task: str | None = None,
    classes: int | None = None,
    seed: int = 0,
    mean: Any = None,
    std: Any = None,
    name: str = "custom",
) -> FederatedData:
    """One array for all samples, dealt to clients by a partitioner.

    `groups` (whole numbers from 0, one a row) serve `Natural`; `split` is `InsideClients()` unless given.

    >>> from fedhpo.data import Dirichlet
    >>> from_arrays(np.zeros((40, 3)), np.arange(40) % 4, Dirichlet(clients=2, alpha=100.0))
    <custom: 2 clients, train 32 rows of 2, validation 4 rows of 2, test 4 rows of 2; x (3,) float32; \
classification, 4 classes>
    """
    xs, ys = _features(x, "x"), _labels(y, "y")
    if not callable(partition):
        raise InputError(
            f"partition must be a partition, such as fedhpo.data.IID(10), not {shown(partition)}"
        )
    if len(xs) != len(ys):
        raise InputError(f"x has {len(xs)} rows, y {len(ys)}; allowed: the same number")
    samples = typed_samples(xs, ys, task, classes)
    if groups is not None:
        groups = to_numpy(groups)
        whole = groups.dtype.kind in "iu" and groups.shape == (len(xs),)
        groups = groups.astype(np.int64) if whole else groups
        if not whole or (groups < 0).any():
            raise InputError(f"groups must be whole numbers from 0, one for each of the {len(xs)} rows of x")
    samples = replace(samples, groups=groups, mean=_scaling(mean), std=_scaling(std))
    if split is not None and not callable(split):
        raise InputError(f"split must be a split, such as fedhpo.data.InsideClients(), not {shown(split)}")
    return assemble(samples, partition, split or InsideClients(), seed, name)


def from_clients(
    clients: Sequence[Any] | Mapping[Any, Any],
    *,
    validation: float = 0.1,
    test: float = 0.1,
    task: str | None = None,
    classes: int | None = None,
    seed: int = 0,
    mean: Any = None,
    std: Any = None,
    name: str = "custom",
) -> FederatedData:
    """One entry a client: a list, or a dict whose keys become the clients' names.

    An entry is a pair `(x, y)` of arrays or tensors, or a data set with `len` and `[i]` that gives such
    pairs (`torch.utils.data.Dataset`), read once; its rows are split as `InsideClients(validation, test)`.
    Or it is a dict of such entries under "train", "validation" and "test", taken as they are; a client
    without "train" then only serves to validate or test. Rows may also be dicts of arrays with "labels", as
    data sets of transformers have them, or a pair of a dict of arrays and labels: they reach the model by
    name, and those of different length are padded, with an `attention_mask`. Whole-number `y` means
    classification (language if there is one label a position), other `y` regression, unless `task` says
    otherwise. Give features as floats: whole numbers along one axis are taken for tokens.

    >>> two = {"a": (np.zeros((10, 3)), np.zeros(10, int)), "b": (np.ones((20, 3)), np.ones(20, int))}
    >>> from_clients(two)
    <custom: 2 clients, train 24 rows of 2, validation 3 rows of 2, test 3 rows of 2; x (3,) float32; \
classification, 2 classes>
    """
    if hasattr(clients, "column_names") or hasattr(clients, "load_partition"):
        raise InputError(
            f"clients must be a list with one entry a client, not a {type(clients).__name__}: give "
            "fedhpo.from_dataset(it, clients=10), or by=, a column that names a row's client"
        )
    if hasattr(clients, "shape") or isinstance(clients, str | bytes) or not isinstance(clients, Iterable):
        raise InputError(
            f"clients must be a list with one pair (x, y) a client, not {about(clients)}; for one array of "
            "all rows use fedhpo.from_arrays(x, y, partition)"
        )
    names = tuple(str(key) for key in clients) if isinstance(clients, Mapping) else None
    entries = list(clients.values()) if isinstance(clients, Mapping) else list(clients)
    if not entries:
        raise InputError("clients is empty; at least one client is needed")
    labels = [repr(n) for n in names] if names else [str(i) for i in range(len(entries))]

    given = [isinstance(entry, Mapping) for entry in entries]
    if any(given) and not all(given):
        raise InputError(
            f"client {labels[given.index(True)]} has given splits, client {labels[given.index(False)]} has "
            "not; allowed: all clients or none"
        )
    parts = [
        piece
        for label, entry in zip(labels, entries, strict=True)
        for piece in _pieces(label, entry, all(given))
    ]
    some = [piece for piece in parts if piece is not None]
    if any(isinstance(piece, _NamedPiece) for piece in some):
        samples = _named_samples(some, task, classes)
    else:
        _check_alike([piece for piece in some if isinstance(piece, _Piece)])
        xs, ys = (np.concatenate([getattr(piece, part) for piece in some]) for part in "xy")
        samples = typed_samples(xs, ys, task, classes)

    sizes = np.array([0 if piece is None else len(piece.y) for piece in parts], dtype=np.int64)
    if all(given):
        part = np.repeat(np.arange(len(parts)), sizes)
        train, held_out, tested = (
            Split.from_owners(np.where(part % 3 == k, part // 3, -1), len(entries)) for k in range(3)
        )
    else:
        rule = InsideClients(validation=validation, test=test)
        whole = Split.from_sizes(np.arange(len(samples.x)), sizes)
        train, held_out, tested = rule(whole, stream(seed, "split"))
    return FederatedData(
        x=samples.x,
        y=samples.y,
        train=train,
        validation=held_out,
        test=tested,
        task=samples.task,
        classes=samples.classes,
        mean=_scaling(mean),
        std=_scaling(std),
        name=name,
        client_names=names,
    ).validate()


@dataclass(frozen=True, eq=False)
class _Piece:
    """The samples of one client, or of one of its given splits."""

    client: str
    x: Array
    y: Array


@dataclass(frozen=True, eq=False)
class _NamedPiece:
    """The samples of one client whose rows are several named arrays, of whatever length."""

    client: str
    x: Named
    y: list[Array]


def _named_samples(pieces: Sequence[_Piece | _NamedPiece], task: str | None, classes: int | None) -> Samples:
    named = [piece for piece in pieces if isinstance(piece, _NamedPiece)]
    first = named[0]
    for piece in pieces:
        keys = sorted(piece.x) if isinstance(piece, _NamedPiece) else "one array"
        if keys != sorted(first.x):
            raise InputError(
                f"samples of different fields: client {first.client} has {sorted(first.x)}, client "
                f"{piece.client} {keys}"
            )
    x = joined([piece.x for piece in named])
    return typed_samples(x, pad(LABELS, [one for piece in named for one in piece.y]), task, classes)


def _named_piece(label: str, where: str, entry: Any) -> _NamedPiece | None:
    """Rows that are dicts, or a pair of a dict of arrays and labels; None for any other entry."""
    labels: list[Array] | None
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Mapping):
        x, y = named_columns(entry[0], where), _to_rows(entry[1], where)
    else:
        if isinstance(entry, tuple | str | bytes) or hasattr(entry, "shape") or not hasattr(entry, "__len__"):
            return None
        if not len(entry) or not hasattr(entry, "__getitem__") or hasattr(entry, "tensors"):
            return None
        try:
            if not isinstance(entry[0], Mapping):
                return None
            rows = [entry[i] for i in range(len(entry))]
        except Exception:  # what is wrong with it is said where rows are read
            return None
        x, labels = named_rows(rows, where)
        if labels is None:
            raise InputError(
                f"{where}: the rows have no 'labels'; their fields are {sorted(x)}; for a language model "
                "that shifts them by itself, labels are the input_ids"
            )
        y = labels
    if len(y) != len(next(iter(x.values()))):
        raise InputError(
            f"{where}: {len(next(iter(x.values())))} rows, {len(y)} labels; allowed: the same number"
        )
    return _NamedPiece(label, x, y)


def _to_rows(value: Any, where: str) -> list[Array]:
    found = value if isinstance(value, list) else _labels(value, where)
    return [to_numpy(one, where) for one in found]


def _pieces(label: str, entry: Any, given: bool) -> list[_Piece | _NamedPiece | None]:
    """One piece for a client, or three, None for those it does not have."""
    if not given:
        return [_piece(label, entry)]
    for key in entry:
        if key not in PARTS:
            raise unknown_name(f"split of client {label}", key, PARTS)
    return [_piece(label, entry[part], part) if part in entry else None for part in PARTS]


def _piece(label: str, entry: Any, part: str | None = None) -> _Piece | _NamedPiece:
    where = f"client {label}" if part is None else f"client {label}, {part}"
    named = _named_piece(label, where, entry)
    if named is not None:
        return named
    x, y = _pair(where, entry)
    if len(x) != len(y):
        raise InputError(f"{where}: x has {len(x)} rows, y {len(y)}; allowed: the same number")
    if len(x) == 0:
        raise InputError(f"{where}: no rows; allowed: at least 1")
    return _Piece(label, x, y)


def _pair(where: str, entry: Any) -> tuple[Array, Array]:
    if isinstance(entry, tuple | list) and len(entry) == 2 and all(hasattr(part, "shape") for part in entry):
        return _features(entry[0], where), _labels(entry[1], where)
    if isinstance(entry, tuple) and len(entry) == 2:
        return _features(entry[0], where), _labels(entry[1], where)
    tensors = getattr(entry, "tensors", None)
    if isinstance(tensors, tuple) and len(tensors) == 2:  # a TensorDataset: no need to go row by row
        return _features(tensors[0], where), _labels(tensors[1], where)
    if hasattr(entry, "shape") or isinstance(entry, tuple):
        raise InputError(
            f"{where}: found {about(entry)}; allowed: a pair (x, y), the features and the labels of its rows"
        )
    if not (hasattr(entry, "__len__") and hasattr(entry, "__getitem__")) or isinstance(
        entry, str | bytes | type
    ):
        raise InputError(
            f"{where}: found {about(entry)}; allowed: a pair (x, y) of arrays, or a data set with "
            "len() and [i]"
        )
    return _read_rows(where, entry)


def _read_rows(where: str, entry: Any) -> tuple[Array, Array]:
    """A data set, item by item."""
    try:
        rows = [entry[i] for i in range(len(entry))]
    except Exception as error:  # the user's own code, or not a sequence
        raise InputError(f"{where}: the data set cannot be read: {type(error).__name__}: {error}") from error
    if not rows:
        raise InputError(f"{where}: no rows; allowed: at least 1")
    items = []
    for place, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise InputError(f"{where}: item {place} of the data set is {about(row)}; allowed: a pair (x, y)")
        items.append((to_numpy(row[0], where), to_numpy(row[1], where)))
    for what, shapes in (("x", {x.shape for x, _ in items}), ("y", {y.shape for _, y in items})):
        if len(shapes) > 1:
            raise InputError(f"{where}: samples have different shapes, {what} {sorted(shapes)}")
    return _features(np.stack([x for x, _ in items]), where), np.stack([y for _, y in items])


def about(value: Any) -> str:
    """What was found, in a few words."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if hasattr(value, "shape"):
        return f"one {type(value).__name__} of shape {tuple(value.shape)}"
    return shown(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def to_numpy(value: Any, where: str = "") -> Array:
    """An array of a tensor on any device, or of anything that numpy takes."""
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{where + ': ' if where else ''}found {about(value)}, not an array: {error}"
        ) from None


def _labels(value: Any, where: str) -> Array:
    """Labels: an array with one row a sample."""
    y = to_numpy(value, where)
    if y.ndim == 0:
        raise InputError(f"{where}: y is a single value; allowed: an array with one label a row")
    return y


def _features(value: Any, where: str) -> Array:
    """Samples as the engine wants them: floats in float32, integers as they are."""
    x = to_numpy(value, where)
    if x.ndim == 0:
        raise InputError(f"{where}: x is a single value; allowed: an array with one row a sample")
    if x.dtype.kind in "fb":
        with np.errstate(over="ignore"):  # becomes infinite, which validation reports with the client
            return x.astype(np.float32, copy=False)
    if x.dtype.kind not in "iu":
        raise InputError(f"{where}: x is {x.dtype}; allowed: numbers")
    return x


def _check_alike(pieces: Sequence[_Piece]) -> None:
    if not pieces:
        raise InputError("no client has any rows")
    first = pieces[0]
    for piece in pieces:
        for what, a, b in (("x", first.x, piece.x), ("y", first.y, piece.y)):
            if a.shape[1:] != b.shape[1:]:
                raise InputError(
                    f"samples of different shape: {what} of client {first.client} has {a.shape[1:]}, "
                    f"of client {piece.client} {b.shape[1:]}"
                )
            same = a.dtype == b.dtype if what == "x" else (a.dtype.kind == "f") == (b.dtype.kind == "f")
            if not same:
                raise InputError(
                    f"samples of different type: {what} of client {first.client} is {a.dtype}, "
                    f"of client {piece.client} {b.dtype}"
                )


def typed_samples(x: Array, y: Array, task: str | None, classes: int | None) -> Samples:
    """Find the task and the number of classes, and bring labels to their type."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind not in "fiub":
        raise InputError(f"y is {y.dtype}; allowed: numbers")
    if task is None:
        task = "regression" if y.dtype.kind == "f" else "language" if y.ndim == 2 else "classification"
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    if classes is not None:
        classes = whole_number("classes", classes)
    if task == "regression":
        if classes is not None:
            raise InputError(f"classes={classes!r}, but regression has none")
        return Samples(x, y.astype(np.float32, copy=False), task)
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.rint(y)).all()):
        raise InputError(f"y has fractions; {task} needs whole numbers")
    y = y.astype(np.int64, copy=False)
    if classes is None:
        classes = int(y[y != IGNORE].max(initial=0)) + 1
        if task == "language" and x.dtype.kind in "iu":
            classes = max(classes, int(x.max(initial=0)) + 1)
    return Samples(x, y, task, classes)


def _scaling(value: Any) -> Array | None:
    if value is None:
        return None
    found = to_numpy(value, "mean or std")
    if found.dtype.kind not in "fiub":
        raise InputError(f"mean and std must be numbers, found {found.dtype}")
    return np.asarray(found, dtype=np.float32)
