"""Data set objects of Hugging Face, flwr_datasets, torchvision and torch to a federation.

None of these packages is imported: an object is known by what it can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown, whole_number
from fedhpo.data.build import about, to_numpy, typed_samples
from fedhpo.data.container import Array, FederatedData
from fedhpo.data.load import partitioner_of, split_of
from fedhpo.data.named import LABELS, MASK, joined, named_columns, pad
from fedhpo.data.partition import IID, Natural, Partitioner, check_clients
from fedhpo.data.samples import assemble
from fedhpo.data.split import SplitRule

#: Rows by column: what every kind of object is read into.
Columns = dict[str, list[Any]]

#: Columns that hold labels, in order of preference, and those that a tokenizer makes.
_LABELS = (LABELS, "label", "target", "y")
_TOKENS = ("input_ids", MASK, "token_type_ids", "pixel_values")
_BATCH = 1000


def from_dataset(
    dataset: Any,
    *,
    clients: int | None = None,
    by: str | None = None,
    partition: Partitioner | Mapping[str, Any] | None = None,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    part: str | None = None,
    transform: Callable[[Any], Any] | None = None,
    tokenizer: Any = None,
    max_length: int = 128,
    task: str | None = None,
    classes: int | None = None,
    split: SplitRule | Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "custom",
) -> FederatedData:
    """A data set object of Hugging Face, flwr_datasets, torchvision or torch as a federation.

    It is read once, at the start: a random transform is drawn once for each row.

    Parameters
    ----------
    dataset
        A `datasets.Dataset` (or a `DatasetDict`, with `part`); a `flwr_datasets.FederatedDataset` or one of
        its partitioners, whose partitions become the clients; or any object with `len` and `[i]` that gives
        pairs of a sample and its label, as those of torchvision are. Images may be PIL's own: they become
        uint8 of (channels, rows, columns), and mean and std those of the training pixels.
    clients, by, partition
        Who holds what, unless the object's partitions say it: so many clients with rows at random; a column,
        each of whose values is a client; or a partition, as in `fedhpo.load`.
    x, y
        The columns of the samples and of the label. Left out, the label is "label" or "labels", and the
        samples are a tokenizer's columns, the columns of images, or all that are left.
    part
        Which split of a `DatasetDict` or of a `FederatedDataset` with several partitioners, such as "train".
    transform
        Called with each sample, such as `torchvision.transforms.Resize(32)`.
    tokenizer, max_length
        For a column of texts: a tokenizer of transformers, and the most tokens of a text.

    Examples
    --------
    >>> import fedhpo as fh
    >>> rows = [(np.full((2, 3), i, np.float32), i % 2) for i in range(40)]
    >>> fh.from_dataset(rows, clients=4)
    <custom: 4 clients, train 32 rows of 4, validation 4 rows of 4, test 4 rows of 4; x (2, 3) float32; \
classification, 2 classes>
    """
    if clients is not None:
        check_clients(clients)
    whole_number("max_length", max_length, least=2)
    sets, names = _sets(dataset, part)
    if names is None and by is None and clients is None and partition is None:
        raise InputError(
            "who holds what? give clients=10 for rows at random, by= for a column that names a row's "
            'client, or partition={"kind": "dirichlet", "clients": 10, "alpha": 0.5}'
        )
    dealt = names is not None
    if dealt and not (clients is None and by is None and partition is None):
        raise InputError("clients, by and partition: leave them out; the object's partitions are the clients")
    wanted = [] if x is None else [*([x] if isinstance(x, str) else x), *([by] if by else [])]
    pieces = [_rows(one, wanted, y) for one in sets]
    columns = {key: [one for piece in pieces for one in piece[key]] for key in pieces[0]}
    label = _label(columns, y)
    groups, group_names = _groups(columns, pieces, names, by)
    samples_of = _Reader(transform, tokenizer, max_length)
    values = samples_of(columns, x, [label, by])
    labels, known = _labels_of(columns[label], label, sets[0])
    samples = replace(
        typed_samples(values, labels, task, classes if classes is not None or known is None else known),
        groups=groups,
        group_names=group_names,
        partition=Natural() if groups is not None else IID(clients or 1),
    )
    chosen = partition if partition is not None else Natural(clients) if by is not None else None
    dealt_to = None if isinstance(chosen, Natural) or dealt else clients
    data = assemble(samples, partitioner_of(samples, chosen, dealt_to), split_of(split), seed, name)
    return _scaled(data) if samples_of.pictures else data


class _Reader:
    """Columns to samples; `pictures` says afterwards whether they were images in whole numbers."""

    def __init__(self, transform: Callable[[Any], Any] | None, tokenizer: Any, max_length: int) -> None:
        self.transform, self.tokenizer, self.max_length = transform, tokenizer, max_length
        self.pictures = False

    def __call__(
        self, columns: Columns, x: str | Sequence[str] | None, others: Sequence[str | None]
    ) -> Array:
        keys = [x] if isinstance(x, str) else list(x) if x is not None else self._guess(columns, others)
        for key in keys:
            if key not in columns:
                raise unknown_name("column", key, columns)
        first = {key: columns[key][0] for key in keys}
        texts = [key for key, value in first.items() if isinstance(value, str)]
        if self.tokenizer is not None:
            if len(texts) != 1:
                raise InputError(f"tokenizer: x must be one column of texts, found {keys}; give x=")
            return self._tokens(columns[texts[0]], texts[0])
        if texts:
            raise InputError(
                f"column {texts[0]!r} holds texts: give tokenizer=, or x= without it; for tables of "
                "numbers and texts there is fedhpo.from_frames"
            )
        if any(key in _TOKENS for key in keys):
            return joined([named_columns({key: columns[key] for key in keys}, "x")])
        arrays = [self._stacked(columns[key], key) for key in keys]
        if len(arrays) == 1:
            return arrays[0]
        return np.concatenate([one.reshape(len(one), -1).astype(np.float32) for one in arrays], axis=1)

    def _guess(self, columns: Columns, others: Sequence[str | None]) -> list[str]:
        rest = [key for key in columns if key not in others]
        if self.tokenizer is not None:
            return [key for key in rest if isinstance(columns[key][0], str)]
        tokens = [key for key in rest if key in _TOKENS]
        pictures = [key for key in rest if _is_picture(columns[key][0])]
        if tokens or pictures:
            return tokens or pictures
        if not rest:
            raise InputError(f"there is no column of samples beside {[one for one in others if one]}")
        return rest

    def _stacked(self, values: list[Any], key: str) -> Array:
        rows = [_sample(self.transform(one) if self.transform else one, key) for one in values]
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            raise InputError(
                f"{key}: samples have different shapes, such as {sorted(shapes)[:2]}; bring them to one with "
                "transform=, such as torchvision.transforms.Resize((32, 32))"
            )
        made = np.stack(rows)
        if made.dtype.kind not in "fiub":
            raise InputError(f"column {key!r} is {made.dtype}; allowed: numbers; choose columns with x=")
        self.pictures |= made.dtype == np.uint8 and made.ndim == 4
        if made.ndim == 1:
            return made[:, None].astype(np.float32)
        return made.astype(np.float32) if made.dtype.kind in "fb" else made

    def _tokens(self, texts: list[Any], key: str) -> Array:
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"column {key!r}, row {place}: found {shown(text)}; allowed: a text")
        if self.transform is not None:
            texts = [self.transform(text) for text in texts]
        found = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        return joined([named_columns({key: found[key] for key in found if key in _TOKENS}, key)])


def _sets(dataset: Any, part: str | None) -> tuple[list[Any], list[str] | None]:
    """The object itself, or the split asked for; or its partitions, with their names."""
    if hasattr(dataset, "load_partition"):
        load, partitioner = _partitioned(dataset, part)
        count = int(partitioner.num_partitions)
        natural = getattr(partitioner, "partition_id_to_natural_id", None) or {}
        return [load(i) for i in range(count)], [str(natural.get(i, i)) for i in range(count)]
    if isinstance(dataset, Mapping):
        if part not in dataset:
            raise InputError(
                f"part={part!r}: which split is it? Allowed: {', '.join(repr(str(key)) for key in dataset)}"
            )
        return [dataset[part]], None
    if part is not None:
        raise InputError(f"part={part!r}: the object has no splits; leave it out")
    return [dataset], None


def _partitioned(dataset: Any, part: str | None) -> tuple[Callable[[int], Any], Any]:
    """What loads a partition, and the partitioner: of a FederatedDataset, or the object itself."""
    partitioners = getattr(dataset, "partitioners", None)
    if partitioners is None:
        return dataset.load_partition, dataset
    if part is None and len(partitioners) == 1:
        part = next(iter(partitioners))
    if part not in partitioners:
        raise InputError(
            f"part={part!r}: which split is it? The object has partitioners for "
            f"{', '.join(map(repr, partitioners)) or 'none'}"
        )
    dataset.load_partition(0, part)  # before that the partitioner has no data to count partitions of
    return (lambda number: dataset.load_partition(number, part)), partitioners[part]


def _rows(dataset: Any, wanted: list[str], y: str | None) -> Columns:
    array = hasattr(dataset, "shape") and not hasattr(dataset, "column_names")
    sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if array or not sized or isinstance(dataset, str | bytes):
        raise InputError(
            f"dataset: found {about(dataset)}; allowed: a data set of datasets, flwr_datasets, torchvision "
            "or torch"
        )
    if not len(dataset):
        raise InputError("dataset: there is no row in it, or in one of its partitions")
    if not hasattr(dataset, "column_names"):
        return _pairs(dataset)
    found = dataset
    plain = (getattr(dataset, "format", None) or {}).get("type") != "custom"
    label = y if y is not None else next((key for key in _LABELS if key in dataset.column_names), None)
    if wanted and label is not None and plain and {*wanted, label} <= set(dataset.column_names):
        found = dataset.select_columns(list(dict.fromkeys([*wanted, label])))
    batches = [found[start : start + _BATCH] for start in range(0, len(found), _BATCH)]
    return {str(key): [one for batch in batches for one in batch[key]] for key in batches[0]}


def _pairs(dataset: Any) -> Columns:
    """A data set of torch or torchvision, or a list, item by item."""
    xs, ys = [], []
    for place in range(len(dataset)):
        try:
            row = dataset[place]
        except Exception as error:  # somebody else's code
            raise InputError(
                f"dataset: item {place} cannot be read: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise InputError(f"dataset: item {place} is {about(row)}; allowed: a pair of sample and label")
        xs.append(row[0])
        ys.append(row[1])
    return {"x": xs, "y": ys}


def _label(columns: Columns, y: str | None) -> str:
    if y is not None:
        if y not in columns:
            raise unknown_name("column", y, columns)
        return y
    found = next((key for key in _LABELS if key in columns), None)
    if found is None:
        raise InputError(f"y is missing: which column is the label? There are {', '.join(columns)}")
    return found


def _labels_of(values: list[Any], key: str, dataset: Any) -> tuple[Array, int | None]:
    """Labels as numbers, and the number of classes where the object says it; texts count by alphabet."""
    if isinstance(values[0], str):
        classes, numbers = np.unique(np.array(values, dtype=str), return_inverse=True)
        return numbers, len(classes)
    rows = [to_numpy(one, f"column {key!r}") for one in values]
    kind = (getattr(dataset, "features", None) or {}).get(key)
    return pad(LABELS, rows), getattr(kind, "num_classes", None)


def _groups(
    columns: Columns, pieces: list[Columns], names: list[str] | None, by: str | None
) -> tuple[Array | None, list[str] | None]:
    """The client of each row, and the clients' names, where the data says them."""
    if names is not None:
        return np.repeat(np.arange(len(pieces)), [len(next(iter(one.values()))) for one in pieces]), names
    if by is None:
        return None, None
    if by not in columns:
        raise unknown_name("column", by, columns)
    own = [str(one) for one in columns[by]]
    places = {who: place for place, who in enumerate(dict.fromkeys(own))}
    return np.array([places[who] for who in own]), list(places)


def _is_picture(value: Any) -> bool:
    return hasattr(value, "getbands") and hasattr(value, "convert")  # PIL's


def _sample(value: Any, key: str) -> Array:
    """One sample; an image of PIL as (channels, rows, columns)."""
    if not _is_picture(value):
        return to_numpy(value, f"column {key!r}")
    if value.mode not in ("L", "RGB"):
        value = value.convert("L" if value.mode in ("1", "I;16", "LA") else "RGB")
    pixels = np.asarray(value)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _scaled(data: FederatedData) -> FederatedData:
    """The data with the mean and the standard deviation of its training pixels, by channel."""
    pixels = data.x[data.train.indices]
    mean = pixels.mean(axis=(0, 2, 3), dtype=np.float64).astype(np.float32)
    std = pixels.std(axis=(0, 2, 3), dtype=np.float64).astype(np.float32)
    std = np.where(std > 0, std, np.float32(1))
    return replace(data, mean=mean.reshape(-1, 1, 1), std=std.reshape(-1, 1, 1))
