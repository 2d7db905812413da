"""Samples on their way to clients: read or given, then dealt, split and checked."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.core.streams import stream
from fedhpo.data.container import Array, FederatedData, Integers, Split
from fedhpo.data.encoding import Encoding
from fedhpo.data.partition import Natural, Partitioner
from fedhpo.data.scaling import moments
from fedhpo.data.split import GivenParts, SplitRule


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples not yet dealt to clients."""

    x: Array
    y: Array
    task: str
    classes: int | None = None
    mean: Array | None = None
    std: Array | None = None
    groups: Integers | None = None
    """The natural group of each row: an index into `group_names`."""
    group_names: Sequence[str] | None = None
    rows: Integers | None = None
    """The rows that may be dealt; None for all."""
    parts: Integers | None = None
    """The part that each row comes in: 0 to train, 1 to validate, 2 to test; None if the set has none."""
    scale: str | None = None
    """How to set mean and std from the training rows: "standard", "minmax" or not at all."""
    partition: Partitioner = field(default_factory=Natural)
    """Who holds what, where the user does not say."""
    encoding: Encoding | None = None
    """How columns became features; numbers may then be missing."""


def assemble(
    samples: Samples, partition: Partitioner, split: SplitRule, seed: int, name: str
) -> FederatedData:
    """Deal samples to clients, split them, and check the result."""
    # Streams of their own: another split rule does not change who holds what.
    deal_rng, split_rng = stream(seed, "partition"), stream(seed, "split")
    rows = np.arange(len(samples.x)) if samples.rows is None else samples.rows
    groups = None if samples.groups is None else samples.groups[rows]
    dealt = _dealt(partition, samples.y[rows], deal_rng, groups)
    names = None
    if isinstance(partition, Natural) and groups is not None and samples.group_names is not None:
        first = groups[dealt.indices[dealt.offsets[:-1]]]
        names = tuple(str(samples.group_names[group]) for group in first)
    rule = split.bound(name, samples.parts) if isinstance(split, GivenParts) else split
    train, validation, test = _parted(rule, Split(rows[dealt.indices], dealt.offsets), split_rng)
    mean, std, fill = samples.mean, samples.std, None
    if samples.scale is not None or samples.encoding is not None:
        known = moments(samples.x, train)
        if samples.scale is not None:
            mean, std = known.scaling(samples.scale)
        if samples.encoding is not None:
            fill = known.mean.astype(np.float32)
            if mean is not None and std is not None:  # texts stay 0 and 1
                numbers = samples.encoding.numbers
                mean, std = np.where(numbers, mean, np.float32(0)), np.where(numbers, std, np.float32(1))
    return FederatedData(
        x=samples.x,
        y=samples.y,
        train=train,
        validation=validation,
        test=test,
        task=samples.task,
        classes=samples.classes,
        mean=mean,
        std=std,
        name=name,
        client_names=names,
        encoding=samples.encoding,
        fill=fill,
    ).validate()


def _dealt(partition: Any, labels: Array, rng: np.random.Generator, groups: Integers | None) -> Split:
    """What the partition deals; a user's own may be anything."""
    _check_takes("partition", partition, 3, "fedhpo.data.IID(10)")
    found = partition(labels, rng, groups)
    if not isinstance(found, Split):
        raise InputError(f"partition must give a fedhpo.data.Split, not {shown(found)}")
    return found


def _parted(split: Any, whole: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]:
    _check_takes("split", split, 2, "fedhpo.data.InsideClients()")
    found = split(whole, rng)
    if not isinstance(found, tuple | list) or [type(part) for part in found] != [Split] * 3:
        raise InputError(f"split must give three fedhpo.data.Split objects, not {shown(found)}")
    train, validation, test = found
    return train, validation, test


def _check_takes(name: str, function: Any, arguments: int, example: str) -> None:
    """Refuse what cannot be called with so many arguments, as far as that can be known."""
    fits = callable(function) and not isinstance(function, type)
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        fits = False
    except ValueError:  # it does not say
        pass
    if not fits:
        raise InputError(f"{name} must be a {name}, such as {example}, not {shown(function)}")
