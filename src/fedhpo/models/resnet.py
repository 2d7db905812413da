"""ResNet-18 with group normalisation, for small images.

He et al., "Deep residual learning for image recognition", with a 3x3 stem and no pooling before the
blocks, as is usual at 32 pixels. Group normalisation has no running statistics: batch statistics of
clients with different data cannot be averaged meaningfully.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.models._checks import image, rate
from fedhpo.models.input import Input


def resnet18_gn(
    shape: tuple[int, ...], classes: int, *, width: int = 64, groups: int = 2, dropout: float = 0.0
) -> nn.Module:
    """Four stages of two blocks with width, 2, 4 and 8 x width channels; `groups` divides `width`."""
    channels = image("resnet18_gn", shape)[0]
    width, groups = whole_number("width", width), whole_number("groups", groups)
    if width % groups:
        raise InputError(f"width must be a multiple of groups, found width={width}, groups={groups}")
    blocks: list[nn.Module] = []
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        blocks += [Block(inputs, outputs, 1 if stage == 0 else 2, groups), Block(outputs, outputs, 1, groups)]
        inputs = outputs
    return nn.Sequential(
        Input(shape), _convolution(channels, width, 1), nn.GroupNorm(groups, width), nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(rate("dropout", dropout)), nn.Linear(inputs, classes),
    )  # fmt: skip


class Block(nn.Module):
    """Two 3x3 convolutions and the shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            _convolution(inputs, outputs, stride), nn.GroupNorm(groups, outputs), nn.ReLU(),
            _convolution(outputs, outputs, 1), nn.GroupNorm(groups, outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.GroupNorm(groups, outputs))

    def forward(self, batch: Tensor) -> Tensor:
        return nn.functional.relu(self.residual(batch) + self.shortcut(batch))


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
