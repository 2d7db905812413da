"""Convolutional networks of the papers and of the engine's benchmark.

`width` is the number of channels of the first convolution; later ones have twice as many. Pooling comes
before ReLU: the same numbers and gradients, with a quarter of the work.
"""

from __future__ import annotations

import torch
from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.models._checks import image, rate
from fedhpo.models.input import Input


def cnn_small(
    shape: tuple[int, ...], classes: int, *, width: int = 16, hidden: int = 128, dropout: float = 0.0
) -> nn.Module:
    """Two padded 3x3 convolutions (16, 32), each with 2x2 pooling, and one hidden layer of 128."""
    channels = image("cnn_small", shape)[0]
    width = whole_number("width", width)
    features = nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
    )  # fmt: skip
    return _with_head("cnn_small", features, shape, classes, hidden, dropout)


def cnn_cifar(
    shape: tuple[int, ...], classes: int, *, width: int = 32, hidden: int = 64, dropout: float = 0.0
) -> nn.Module:
    """3x3 convolutions (32, 64, 64) with 2x2 pooling between, one hidden layer of 64.

    The CIFAR-10 network of FedEx and FedPop, which is that of TensorFlow's CNN tutorial.
    """
    channels = image("cnn_cifar", shape)[0]
    width = whole_number("width", width)
    features = nn.Sequential(
        nn.Conv2d(channels, width, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(2 * width, 2 * width, 3), nn.ReLU(),
    )  # fmt: skip
    return _with_head("cnn_cifar", features, shape, classes, hidden, dropout)


def cnn_femnist(
    shape: tuple[int, ...], classes: int, *, width: int = 32, hidden: int = 1024, dropout: float = 0.0
) -> nn.Module:
    """3x3 convolutions (32, 64), one 2x2 pooling, dropout, one hidden layer of 1024.

    The FEMNIST network of FedEx and FedPop: dropout comes before the hidden layer.
    """
    channels = image("cnn_femnist", shape)[0]
    width, hidden = whole_number("width", width), whole_number("hidden", hidden)
    features = nn.Sequential(
        nn.Conv2d(channels, width, 3), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3), nn.MaxPool2d(2), nn.ReLU(),
    )  # fmt: skip
    return nn.Sequential(
        Input(shape), features, nn.Dropout(rate("dropout", dropout)), nn.Flatten(),
        nn.Linear(_outputs("cnn_femnist", features, shape), hidden), nn.ReLU(),
        nn.Linear(hidden, classes),
    )  # fmt: skip


def cnn_leaf(
    shape: tuple[int, ...], classes: int, *, width: int = 32, hidden: int = 512, dropout: float = 0.0
) -> nn.Module:
    """Two padded 5x5 convolutions (32, 64), each with 2x2 pooling, and one hidden layer of 512.

    The FEMNIST network of FedAvg's first paper, much used with LEAF; larger than `cnn_small`.
    """
    channels = image("cnn_leaf", shape)[0]
    width = whole_number("width", width)
    features = nn.Sequential(
        nn.Conv2d(channels, width, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
    )  # fmt: skip
    return _with_head("cnn_leaf", features, shape, classes, hidden, dropout)


def _with_head(
    name: str, features: nn.Module, shape: tuple[int, ...], classes: int, hidden: int, dropout: float
) -> nn.Module:
    hidden = whole_number("hidden", hidden)
    return nn.Sequential(
        Input(shape), features, nn.Flatten(),
        nn.Linear(_outputs(name, features, shape), hidden), nn.ReLU(), nn.Dropout(rate("dropout", dropout)),
        nn.Linear(hidden, classes),
    )  # fmt: skip


def _outputs(name: str, features: nn.Module, shape: tuple[int, ...]) -> int:
    """How many numbers the convolutions leave of one sample."""
    try:
        with torch.no_grad():
            return int(features(torch.zeros(1, *shape)).numel())
    except RuntimeError:
        raise InputError(f"images of shape {shape} are too small for {name}") from None
