"""A table's file: a zip of a JSON header and plain NumPy arrays, LZMA inside. Nothing is ever unpickled.

Error rates are stored exactly, as counts. Losses are float16, with as many bits of the mantissa (10, 8, 6
or 4: a relative error of at most 0.05%, 0.2%, 0.8% or 3%) as fit into 4 MB; the header says how many.
Both are kept as differences between scored rounds. Files of format 1 hold the numbers themselves.
"""

from __future__ import annotations

import io
import json
import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.research.tables.coding import coded_losses, decoded_losses, differences, from_differences
from fedhpo.research.tables.curve_table import Again, CurveTable
from fedhpo.space.config import Config
from fedhpo.study.methods import brought

#: Raised when the content changes; older files of a number that is known here are still read.
FORMAT = 2
_KNOWN = (1, 2)
#: Bytes of a file at most, and of what may be inside one that comes from elsewhere.
LIMIT, _INSIDE = 4_000_000, 1_000_000_000
LOSS_BITS = (10, 8, 6, 4)

#: What reading a file can raise that is not a table, or no longer one.
_DAMAGE = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    SyntaxError,
    tokenize.TokenError,
    AttributeError,
    IndexError,
    MemoryError,
    OverflowError,
    RecursionError,
    lzma.LZMAError,
)
#: Arrays of a table, and those of its second trainings: in the file behind `again_`, or not at all.
_AGAIN = ("configs", "trained", "wrong", "loss")
_ARRAYS = ("rounds", "train_sizes", "validation_sizes", "trained", "parameters", "wrong", "counted", "loss")


def write_table(path: Path, table: CurveTable) -> CurveTable:
    """Write aside, then rename: the file is whole or not there."""
    for bits in LOSS_BITS:
        again = table.again
        if again is not None:
            again = replace(again, loss=round_mantissa(again.loss, bits))
        rounded = replace(
            table,
            loss=round_mantissa(table.loss, bits),
            again=again,
            recipe={**table.recipe, "loss_bits": bits},
        )
        content = _pack(rounded)
        if len(content) <= LIMIT:
            break
    else:
        raise InputError(
            f"table {table.name} takes {len(content) / 1e6:.1f} MB at the lowest precision; "
            f"{LIMIT / 1e6:g} MB are allowed: use fewer configs, rounds or validation clients"
        )
    aside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        os.replace(aside, path)
    except OSError as error:
        raise InputError(f"cannot write the table {path}: {error.strerror or error}") from None
    return rounded


def round_mantissa(values: NDArray[np.float16], bits: int) -> NDArray[np.float16]:
    """The nearest float16 that needs only `bits` of the 10 bits of the mantissa.

    >>> round_mantissa(np.array([1.2, 700.0], np.float16), 4).tolist()
    [1.1875, 704.0]
    """
    if bits >= 10:
        return values
    step = 1 << (10 - bits)
    codes = values.view(np.uint16).astype(np.uint32)
    nearest = ((codes + step // 2) // step * step).astype(np.uint16).view(np.float16)
    # Carrying into the exponent is right, but must not make infinity of what is finite.
    kept: NDArray[np.float16] = np.where(np.isfinite(values) & np.isfinite(nearest), nearest, values)
    return kept


def _pack(table: CurveTable) -> bytes:
    header = {
        "format": FORMAT,
        "name": table.name,
        "study": table.study_tables,
        "configs": [config.to_dict() for config in table.configs],
        "heterogeneity": list(table.heterogeneity),
        "recipe": dict(table.recipe),
    }
    arrays = {name: getattr(table, name) for name in _ARRAYS}
    if table.again is not None:
        arrays |= {f"again_{name}": getattr(table.again, name) for name in _AGAIN}
    for name, array in arrays.items():
        if name.endswith("loss"):
            arrays[name] = coded_losses(array, table.recipe["loss_bits"])
            continue
        kept = differences(array) if name.endswith("wrong") else array
        arrays[name] = kept.astype(np.min_scalar_type(int(kept.max(initial=0))))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_LZMA) as file:
        _add(file, "header.json", json.dumps(header, indent=1, sort_keys=True).encode())
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            _add(file, f"{name}.npy", content.getvalue())
    return whole.getvalue()


def _add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    # Without the time of day, the same table is the same file.
    file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_LZMA)


def read_table(path: Path) -> CurveTable:
    """Read a table and check all of it; what is wrong is an `InputError` that names the file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            if sum(entry.file_size for entry in file.infolist()) > _INSIDE:
                raise InputError(f"it holds more than {_INSIDE / 1e9:g} GB")
            header = json.loads(file.read("header.json"))
            _check_format(header)
            arrays = {name: _array(file, name) for name in _ARRAYS}
            again = {}
            if "again_configs.npy" in file.namelist():
                again = {name: _array(file, f"again_{name}") for name in _AGAIN}
        return _checked(_table(header, arrays, again))
    except InputError as error:
        raise InputError(f"{path}: not a table: {error}") from None
    except _DAMAGE as error:
        raise InputError(f"{path}: not a table, or damaged: {error or type(error).__name__}") from None


def _check_format(header: Mapping[str, Any]) -> None:
    if header["format"] not in _KNOWN:
        known = " and ".join(map(str, _KNOWN))
        raise InputError(f"its format is number {header['format']!r}; this fedhpo reads {known}")


def _array(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    found: NDArray[Any] = np.lib.format.read_array(io.BytesIO(file.read(f"{name}.npy")), allow_pickle=False)
    return found


def _losses(planes: NDArray[Any], header: Mapping[str, Any]) -> NDArray[np.float16]:
    if planes.dtype != np.uint8 or planes.ndim != 5 or planes.shape[0] != 2:
        raise InputError(f"loss has type {planes.dtype} and shape {planes.shape}")
    if header["format"] == 1:  # the bytes of the numbers themselves, lower ones first
        found = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view("<f2")[..., 0]
        return found.astype(np.float16, copy=False)
    bits = header["recipe"]["loss_bits"]
    if bits not in LOSS_BITS:
        raise InputError(f"loss_bits is {bits!r}, expected one of {LOSS_BITS}")
    return decoded_losses(planes, bits)


def _counts(stored: NDArray[Any], header: Mapping[str, Any]) -> NDArray[Any]:
    """Wrong targets, in the smallest type that holds them."""
    if header["format"] == 1 or stored.ndim != 4:
        return stored
    found = from_differences(stored)
    if (found < 0).any():
        raise InputError("fewer targets than none are wrong")
    return found.astype(np.min_scalar_type(int(found.max(initial=0))))


def _table(
    header: Mapping[str, Any], arrays: dict[str, NDArray[Any]], again: dict[str, NDArray[Any]]
) -> CurveTable:
    loss = _losses(arrays.pop("loss"), header)
    lost = _losses(again.pop("loss"), header) if again else loss[:, :0]
    whole = {name: array for name, array in arrays.items() if name != "wrong"}
    for name, array in (*arrays.items(), *again.items()):
        if array.dtype.kind not in "iu":
            raise InputError(f"{name} must hold whole numbers, found {array.dtype}")
    second = None
    if again:
        places, trained = (again[name].astype(np.int64) for name in ("configs", "trained"))
        second = Again(places, trained, _counts(again["wrong"], header), lost)
    return CurveTable(
        name=header["name"],
        study_tables=header["study"],
        configs=tuple(Config.from_dict(config) for config in header["configs"]),
        heterogeneity=tuple(float(p) for p in header["heterogeneity"]),
        wrong=_counts(arrays["wrong"], header),
        loss=loss,
        recipe=header["recipe"],
        again=second,
        **{name: array.astype(np.int64) for name, array in whole.items()},
    )


def _checked(table: CurveTable) -> CurveTable:
    """All parts fit each other, and every number is one that can be."""
    levels, configs, rounds = len(table.heterogeneity), len(table.configs), len(table.rounds)
    clients = len(table.validation_clients)
    wanted = {
        "wrong": (levels, configs, rounds, clients),
        "loss": (levels, configs, rounds, clients),
        "counted": (levels, clients),
        "trained": (configs,),
        "parameters": (configs,),
        "train_sizes": (len(table.validation_sizes),),
    }
    for name, shape in wanted.items():
        if getattr(table, name).shape != shape:
            raise InputError(f"{name} has shape {getattr(table, name).shape}, expected {shape}")
    if not math.prod((levels, configs, rounds, clients)) or not len(table.train_clients):
        raise InputError("it is empty")
    if (np.diff(table.rounds) <= 0).any() or table.rounds[0] < 1:
        raise InputError(f"rounds must ascend from at least 1, found {table.rounds.tolist()}")
    if table.heterogeneity[0] != 0 or not all(0 <= p <= 1 for p in table.heterogeneity):
        raise InputError(f"heterogeneity must begin with 0 and be shares, found {table.heterogeneity}")
    if (table.counted < 1).any() or (table.wrong > table.counted[:, None, None]).any():
        raise InputError("more targets are wrong than were counted")
    if not (table.loss >= 0).all():
        raise InputError("a loss is negative or not a number")
    if table.again is not None:
        _check_again(table.again, (levels, configs, rounds, clients), table.counted)
    if len(set(table.configs)) < configs:
        raise InputError("a config comes twice")
    if table.study_tables["model"].get("name") == "estimator":
        raise InputError("its study names an estimator to import: a table is read, never run")
    for key, name in brought(table.study_tables):
        if not key.startswith("method"):  # a table's study needs no method
            raise InputError(f"its study names {name} in {key}, to import: a table is read, never run")
    _ = table.study  # its own checks, which import nothing
    return table


def _check_again(again: Again, shape: tuple[int, int, int, int], counted: NDArray[np.int64]) -> None:
    _, configs, rounds, clients = shape
    count = len(again.configs)
    wanted = {"trained": (count,), "wrong": (1, count, rounds, clients)}
    for name, found in (("trained", again.trained), ("wrong", again.wrong), ("loss", again.loss)):
        if found.shape != wanted.get(name, wanted["wrong"]):
            raise InputError(f"again_{name} has shape {found.shape}")
    if len(set(again.configs.tolist())) < count or (again.configs >= configs).any():
        raise InputError("a config that was trained again comes twice, or is not in the table")
    if (again.wrong > counted[:1, None, None]).any() or not (again.loss >= 0).all():
        raise InputError("a second training has more wrong targets than were counted, or a negative loss")
