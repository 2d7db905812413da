"""Data on this machine in the place of what Flower's example apps download: `setup` functions for `[app]`.

Each is called before its app is imported. No line of an app is changed: packages that are not installed here
get an empty stand-in, and the app's `load_data` another function of the same arguments. The rows are those of
scikit-learn's digits, iris and breast cancer, dealt to the nodes at random; 80% of a node's are for training.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from unittest.mock import MagicMock

import numpy as np

#: What the examples load and prepare their data with.
_DATA = ("datasets", "flwr_datasets", "flwr_datasets.partitioner", "torchvision", "torchvision.transforms")


def pytorch() -> None:
    """quickstart-pytorch, on digits as colour images of 32 x 32."""
    _without(*_DATA)
    from pytorchexample import task

    task.load_data = lambda partition, partitions, batch: _loaders("img", 3, 32, partition, partitions, batch)


def advanced_pytorch() -> None:
    """advanced-pytorch, on digits as grey images of 28 x 28."""
    _without(*_DATA)
    _without("wandb")
    import flwr.common.typing

    flwr.common.typing.UserConfig = dict  # flwr 1.41 has it no more
    from pytorch_example import task

    task.load_data = lambda partition, partitions: _loaders("image", 1, 28, partition, partitions, 32)


def custom_mods() -> None:
    """custom-mods, on digits as colour images of 32 x 32; what its mod logs goes nowhere."""
    _without(*_DATA)
    _without("wandb", "torch.utils.tensorboard", "torch.utils.tensorboard.writer")
    _without("flwr.client.typing")  # flwr 1.41 has it no more
    from custom_mods import task

    task.load_data = lambda partition, partitions, batch: _loaders("img", 3, 32, partition, partitions, batch)


def vae() -> None:
    """federated-vae, on digits as colour images of 32 x 32."""
    _without(*_DATA)
    from fedvaeexample import task

    task.load_data = lambda partition, partitions: _loaders("img", 3, 32, partition, partitions, 32)


def sklearn() -> None:
    """quickstart-sklearn, on iris."""
    _without(*_DATA)
    from sklearn.datasets import load_iris
    from sklearnexample import task

    x, y = load_iris(return_X_y=True)

    def load_data(partition: int, partitions: int) -> tuple[np.ndarray, ...]:
        train, held = _dealt(len(y), partition, partitions)
        return x[train], y[train], x[held], y[held]

    task.load_data = load_data


def xgboost() -> None:
    """quickstart-xgboost, on breast cancer."""
    _without(*_DATA)
    from quickstart_xgboost import task
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)

    def load_data(partition: int, partitions: int) -> tuple[object, object, int, int]:
        import xgboost

        train, held = _dealt(len(y), partition, partitions)
        matrices = [xgboost.DMatrix(x[rows], label=y[rows]) for rows in (train, held)]
        return *matrices, len(train), len(held)

    task.load_data = load_data


def _without(*names: str) -> None:
    """Something that can be imported for each module that is not installed."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        sys.modules.setdefault(name, MagicMock())


def _dealt(rows: int, partition: int, partitions: int) -> tuple[np.ndarray, np.ndarray]:
    """A node's rows, for training and for its evaluation."""
    own = np.array_split(np.random.default_rng(42).permutation(rows), partitions)[partition]
    cut = int(0.8 * len(own))
    return own[:cut], own[cut:]


def _loaders(
    key: str, channels: int, side: int, partition: int, partitions: int, batch: int
) -> Iterator[object]:
    """A node's digits as loaders of dicts, as Flower's example apps take them."""
    import torch
    from sklearn.datasets import load_digits
    from torch.utils.data import DataLoader

    x, y = load_digits(return_X_y=True)
    small = torch.tensor(x, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    images = torch.nn.functional.interpolate(small, size=(side, side), mode="bilinear").repeat(
        1, channels, 1, 1
    )
    for place, rows in enumerate(_dealt(len(y), partition, partitions)):
        found = [{key: images[row], "label": int(y[row])} for row in rows]
        yield DataLoader(found, batch_size=batch, shuffle=place == 0)
