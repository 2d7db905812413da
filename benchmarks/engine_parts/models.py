"""Models of `benchmarks/engine.py` that fedhpo does not ship; workers import them from here."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _Block(nn.Module):
    """Two convolutions with GroupNorm, and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.GroupNorm(4, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.GroupNorm(4, outputs),
        )
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet_gn() -> nn.Module:
    """A small ResNet with GroupNorm for 32 x 32 images, 78,000 parameters."""
    blocks = [_Block(16, 16, 1), _Block(16, 32, 2), _Block(32, 64, 2)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(4, 16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mobilenet_like() -> nn.Module:
    """Depthwise convolutions, each followed by a pointwise one."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.GroupNorm(8, 32), nn.ReLU6()]
    for inputs, outputs, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)):
        layers += [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)]
        layers += [nn.GroupNorm(8, inputs), nn.ReLU6(), nn.Conv2d(inputs, outputs, 1, bias=False)]
        layers += [nn.GroupNorm(8, outputs), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))


class Texts(nn.Module):
    """Tokens to a class: an embedding, layers of a transformer or none, and the mean over the text."""

    def __init__(self, tokens: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        one = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = (
            nn.TransformerEncoder(one, layers, enable_nested_tensor=False) if layers else nn.Identity()
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.body(self.embedding(x)).mean(1))
        return found


class LowRank(nn.Module):
    """A frozen linear layer, and the product of two small ones that are trained beside it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.base(x) + (x @ self.down.t()) @ self.up.t()
        return found


class Adapted(nn.Module):
    """A frozen trunk of wide layers, 0.7% trained."""

    def __init__(self, width: int = 1024, layers: int = 10, rank: int = 4) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)  # all trials share what is frozen
            trunk = [nn.Linear(width, width) for _ in range(layers)]
        parts = [part for layer in trunk for part in (LowRank(layer, rank), nn.ReLU())]
        self.body, self.head = nn.Sequential(*parts), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.body(x))
        return found
