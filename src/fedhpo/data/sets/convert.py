"""The published files of a data set to the one file that `load` reads.

What is made holds the published samples; its bytes, and so its digest, differ from those of `FILES`.
Nothing is unpickled: CIFAR-10 is read from its binary version.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.data.container import Array
from fedhpo.data.sets.files import FILES
from fedhpo.data.sets.tabular import TABLES

Arrays = dict[str, Array]


def convert(name: str, source: Path, directory: Path) -> Path:
    """Write the file of the set `name` below `directory` from its published files in (or at) `source`."""
    make = _CONVERTERS.get(name, _table if name in TABLES else None)
    if make is None:
        known = ", ".join(sorted([*_CONVERTERS, *TABLES]))
        raise InputError(f"{name!r} cannot be converted; allowed: {known}")
    if not source.exists():
        raise InputError(f"{source} does not exist")
    target = directory / FILES[name].path
    made = make(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(target.name + ".part")
    with aside.open("wb") as stream:
        if isinstance(made, bytes):
            stream.write(made)
        else:
            np.savez_compressed(stream, allow_pickle=False, **made)
    aside.replace(target)
    return target


def _idx(source: Path, name: str) -> Array:
    """An array in the idx format of MNIST, compressed or not, under any of its usual names."""
    names = [name, name.replace("-idx", ".idx")]
    found = [source / f"{one}{ending}" for one in names for ending in ("", ".gz")]
    file = next((one for one in found if one.is_file()), None)
    if file is None:
        raise InputError(f"{source / name} is missing, also with .gz")
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    kind, axes = data[2], data[3]
    if data[:2] != b"\0\0" or kind not in (8, 12):
        raise InputError(f"{file} is no idx file of bytes or integers")
    shape = np.frombuffer(data, ">i4", axes, 4)
    values = np.frombuffer(data, np.uint8 if kind == 8 else ">i4", offset=4 + 4 * axes)
    return values.reshape(shape)


def _fashion_mnist(source: Path) -> Arrays:
    return {
        f"{key}_{part}": _idx(source, f"{stem}-{kind}-ubyte")
        for part, stem in (("train", "train"), ("test", "t10k"))
        for key, kind in (("x", "images-idx3"), ("y", "labels-idx1"))
    }


def _mnist(source: Path) -> Arrays:
    """MNIST's own files, with QMNIST's extended labels, whose third number is the writer."""
    arrays = _fashion_mnist(source)
    for part in ("train", "test"):
        extended = _idx(source, f"qmnist-{part}-labels-idx2-int")[: len(arrays[f"y_{part}"])]
        if not np.array_equal(extended[:, 0], arrays[f"y_{part}"]):
            raise InputError(f"{source}: QMNIST's {part} labels are not those of MNIST, row by row")
        arrays[f"writer_{part}"] = extended[:, 2].astype(np.int32)
        arrays[f"hsf_{part}"] = extended[:, 1].astype(np.int8)
    return arrays


def _cifar10(source: Path) -> Arrays:
    """The binary version, `cifar-10-batches-bin`; images are kept as PNG, without loss."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("pillow", "images") from None
    arrays: Arrays = {}
    for part, pattern in (("train", "data_batch_*.bin"), ("test", "test_batch.bin")):
        files = sorted(source.glob(pattern))
        if not files:
            raise InputError(f"{source / pattern} is missing: is it the binary version of CIFAR-10?")
        rows = np.concatenate([np.frombuffer(file.read_bytes(), np.uint8) for file in files])
        if len(rows) % 3073:
            raise InputError(f"{source}: {pattern} is not made of rows of 3,073 bytes")
        rows = rows.reshape(-1, 3073)
        images, ends = io.BytesIO(), [0]
        for pixels in rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1):
            Image.fromarray(pixels).save(images, "PNG")
            ends.append(images.tell())
        arrays |= {
            f"jpeg_{part}": np.frombuffer(images.getvalue(), np.uint8),
            f"off_{part}": np.array(ends),
            f"y_{part}": rows[:, 0],
        }
    return arrays


def _femnist(source: Path) -> Arrays:
    """LEAF's `data/train/*.json` and `data/test/*.json`."""
    x: list[Array] = []
    y: list[int] = []
    writers: list[str] = []
    trained: set[str] = set()
    for part in ("train", "test"):
        for file in sorted((source / part).glob("*.json")):
            for writer, rows in json.loads(file.read_text(encoding="utf-8"))["user_data"].items():
                x += [np.rint(255 * np.array(one)).astype(np.uint8).reshape(28, 28) for one in rows["x"]]
                y += rows["y"]
                writers += [writer] * len(rows["y"])
                trained |= {writer} if part == "train" else set()
    if not trained:
        raise InputError(f"{source / 'train'}/*.json is missing: LEAF writes it into data/femnist/data")
    names, numbers = np.unique(writers, return_inverse=True)
    return {
        "x": np.stack(x),
        "y": np.array(y, np.uint8),
        "writer": numbers.astype(np.int32),
        "writer_names": names,
        "writer_has_train": np.array([name in trained for name in names]),
    }


def _shakespeare(source: Path) -> bytes:
    """The plays as XML (Moby, Jon Bosak): a client for each speaker of a play, its speeches in order."""
    clients: dict[str, list[str]] = {}
    titles = {}
    for file in sorted(source.glob("*.xml")):
        play = ElementTree.parse(file).getroot()
        name = file.stem.removesuffix("_moby")
        titles[name] = (play.findtext("TITLE") or play.findtext("title") or name).strip()
        for speech in play.iter():
            if speech.tag.lower() != "speech":
                continue
            parts = {tag: [one for one in speech if one.tag.lower() == tag] for tag in ("speaker", "line")}
            who = " ".join("".join(parts["speaker"][0].itertext()).split()) if parts["speaker"] else ""
            lines = [" ".join("".join(line.itertext()).split()) for line in parts["line"]]
            if who and any(lines):
                clients.setdefault(f"{name}__{who}", []).append("\n".join(line for line in lines if line))
    if not clients:
        raise InputError(f"{source}/*.xml holds no speech: it must be plays with <SPEECH>, <SPEAKER>, <LINE>")
    return gzip.compress(json.dumps({"titles": titles, "clients": clients}).encode(), mtime=0)


def _table(source: Path) -> bytes:
    """An ARFF file: numbers as they are, the last column the class, 0 for the commoner of its two values."""
    names, rows, data = [], [], False
    for line in source.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if data:
            rows.append([cell.strip().strip("'\"") for cell in text.split(",")])
        elif found := re.match(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", text, re.IGNORECASE):
            names.append(found[1].strip("'\""))
        elif text.lower().startswith("@data"):
            data = True
    classes = sorted({row[-1] for row in rows}, key=lambda one: (-sum(r[-1] == one for r in rows), one))
    if len(classes) != 2 or any(len(row) != len(names) for row in rows):
        raise InputError(
            f"{source}: must be an ARFF file whose last column has two classes, found {classes[:4]}"
        )
    for row in rows:
        if not all(math.isfinite(_number(cell, source)) for cell in row[:-1]):
            raise InputError(f"{source}: holds a value that is not finite")
    text_file = io.StringIO(newline="")
    writer = csv.writer(text_file)
    writer.writerow([*names[:-1], "y"])
    writer.writerows([*row[:-1], classes.index(row[-1])] for row in rows)
    return gzip.compress(text_file.getvalue().encode(), mtime=0)


def _number(cell: str, source: Path) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{source}: found {cell!r}; allowed: numbers") from None


_CONVERTERS: dict[str, Callable[[Path], Arrays | bytes]] = {
    "cifar10": _cifar10,
    "fashion_mnist": _fashion_mnist,
    "femnist": _femnist,
    "mnist": _mnist,
    "shakespeare": _shakespeare,
}
