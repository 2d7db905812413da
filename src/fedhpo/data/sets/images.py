"""Image sets: CIFAR-10, FEMNIST, MNIST by writer, Fashion-MNIST, PACS.

Pixels stay uint8, channels first; mean and std are those of the training pixels, in 0..255. By default
the published training images are the pool that clients are made of; `pool="all"` adds the published
test images to it (the 60,000 of some papers). Test rows come from each client's own rows either way.
`shrink` takes the means of squares of so many pixels a side, for models that must be small.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.core.settings import whole_number
from fedhpo.data.cache import cached
from fedhpo.data.container import Array, Integers
from fedhpo.data.partition import IID, Natural
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request, check_choice


def cifar10(request: Request, *, pool: str = "train", shrink: int = 1) -> Samples:
    """CIFAR-10, 10 classes, (3, 32, 32); iid over 500 clients by default."""
    check_choice("pool", pool, ("train", "all"))
    arrays = _decoded(request, "cifar10", "images/cifar10_jpeg.npz", _cifar10, shrink)
    return _images(
        arrays,
        10,
        (125.3, 123.0, 113.9),
        (63.0, 62.1, 66.7),
        rows=_pool(arrays, pool),
        partition=IID(request.clients or 500),
    )


def fashion_mnist(request: Request, *, pool: str = "train", shrink: int = 1) -> Samples:
    """Fashion-MNIST, 10 classes, (1, 28, 28); iid over 100 clients by default."""
    check_choice("pool", pool, ("train", "all"))
    arrays = _decoded(request, "fashion_mnist", "images/fashion_mnist.npz", _train_and_test, shrink)
    return _images(
        arrays, 10, (72.94,), (90.02,), rows=_pool(arrays, pool), partition=IID(request.clients or 100)
    )


def mnist(request: Request, *, pool: str = "train", shrink: int = 1) -> Samples:
    """MNIST, 10 classes, (1, 28, 28); its 539 writers are the clients (836 with `pool="all"`)."""
    check_choice("pool", pool, ("train", "all"))
    arrays = _decoded(request, "mnist", "images/mnist_by_writer.npz", _train_and_test, shrink)
    return _images(
        arrays,
        10,
        (33.32,),
        (78.57,),
        rows=_pool(arrays, pool),
        groups=arrays["groups"],
        names=arrays["names"],
        partition=Natural(request.clients),
    )


def femnist(request: Request, *, pool: str = "complete", shrink: int = 1) -> Samples:
    """LEAF's FEMNIST, 62 classes, (1, 28, 28); its writers are the clients.

    "complete" takes the 105 writers whose samples are all there (LEAF's training and test part together);
    "all" adds 79 of whom only LEAF's test tenth is there: with the split "given" the complete ones train and
    these validate. 106 images occur twice within a writer.
    """
    check_choice("pool", pool, ("complete", "all"))
    arrays = _decoded(request, "femnist", "images/femnist_leaf_sf05.npz", _femnist, shrink)
    rows = np.flatnonzero(arrays["complete"]) if pool == "complete" else None
    return _images(
        arrays,
        62,
        (245.1,),
        (42.2,),
        rows=rows,
        groups=arrays["groups"],
        names=arrays["names"],
        partition=Natural(request.clients),
        parts=np.where(arrays["complete"], 0, 1) if pool == "all" else None,
    )


def pacs(request: Request, *, shrink: int = 1) -> Samples:
    """PACS, 7 classes, (3, 32, 32); its 4 domains are the clients."""
    arrays = _decoded(request, "pacs", "images/pacs_32.npz", _pacs, shrink)
    return _images(
        arrays,
        7,
        (194.4, 189.4, 182.0),
        (72.6, 75.2, 82.9),
        groups=arrays["groups"],
        names=arrays["names"],
        partition=Natural(request.clients),
    )


def _images(
    arrays: dict[str, Array],
    classes: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    partition: IID | Natural,
    rows: Integers | None = None,
    groups: Array | None = None,
    names: Array | None = None,
    parts: Integers | None = None,
) -> Samples:
    return Samples(
        x=arrays["x"],
        y=arrays["y"].astype(np.int64),
        task="classification",
        classes=classes,
        mean=np.array(mean, dtype=np.float32).reshape(-1, 1, 1),
        std=np.array(std, dtype=np.float32).reshape(-1, 1, 1),
        rows=rows,
        groups=None if groups is None else groups.astype(np.int64),
        group_names=None if names is None else names.tolist(),
        parts=parts,
        partition=partition,
    )


def _pool(arrays: dict[str, Array], pool: str) -> Integers | None:
    return None if pool == "all" else np.flatnonzero(~arrays["official_test"])


def _decoded(
    request: Request, name: str, relative: str, decode: Callable[[Path], dict[str, Array]], shrink: int
) -> dict[str, Array]:
    whole_number("shrink", shrink)
    file = request.file(relative)
    arrays = cached(name, file, {}, lambda: decode(file))
    if shrink == 1:
        return arrays
    return cached(
        name, file, {"shrink": shrink}, lambda: {**arrays, "x": shrunk(np.asarray(arrays["x"]), shrink)}
    )


def shrunk(images: Array, times: int) -> Array:
    """Images of (channels, rows, columns) with sides so many times shorter: means of squares of pixels.

    >>> shrunk(np.array([[[[0, 4], [8, 9]]]], np.uint8), 2).tolist()
    [[[[5]]]]
    """
    count, channels, rows, columns = images.shape
    if rows % times or columns % times:
        raise InputError(f"shrink={times}; allowed: a divisor of {rows}, the images' side")
    squares = images.reshape(count, channels, rows // times, times, columns // times, times)
    means: Array = (squares.mean(axis=(3, 5)) + 0.5).astype(np.uint8)
    return means


def _train_and_test(file: Path) -> dict[str, Array]:
    """One pool of both parts, training images first; writers numbered anew where there are any."""
    with np.load(file, allow_pickle=False) as parts:
        both = {key: np.concatenate([parts[f"{key}_train"], parts[f"{key}_test"]]) for key in ("x", "y")}
        arrays = {
            "x": both["x"][:, None],
            "y": both["y"],
            "official_test": np.arange(len(both["y"])) >= len(parts["y_train"]),
        }
        if "writer_train" in parts.files:
            writers = np.concatenate([parts["writer_train"], parts["writer_test"]])
            names, arrays["groups"] = np.unique(writers, return_inverse=True)
            arrays["names"] = names.astype(str)
    return arrays


def _cifar10(file: Path) -> dict[str, Array]:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("pillow", "images") from None
    with np.load(file, allow_pickle=False) as parts:
        sizes = [len(parts["y_train"]), len(parts["y_test"])]
        x = np.empty((sum(sizes), 3, 32, 32), dtype=np.uint8)
        row = 0
        for part in ("train", "test"):
            data, ends = parts[f"jpeg_{part}"].tobytes(), parts[f"off_{part}"].tolist()
            for start, stop in itertools.pairwise(ends):
                with Image.open(io.BytesIO(data[start:stop])) as image:
                    x[row] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
                row += 1
        y = np.concatenate([parts["y_train"], parts["y_test"]])
    return {"x": x, "y": y, "official_test": np.arange(len(y)) >= sizes[0]}


def _femnist(file: Path) -> dict[str, Array]:
    with np.load(file, allow_pickle=False) as parts:
        return {
            "x": parts["x"][:, None],
            "y": parts["y"],
            "groups": parts["writer"],
            "names": parts["writer_names"],
            "complete": parts["writer_has_train"][parts["writer"]],
        }


def _pacs(file: Path) -> dict[str, Array]:
    with np.load(file, allow_pickle=False) as parts:
        return {
            "x": np.ascontiguousarray(parts["x"].transpose(0, 3, 1, 2)),
            "y": parts["y"],
            "groups": parts["domain"],
            "names": parts["domains"],
        }
