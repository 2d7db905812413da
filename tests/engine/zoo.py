"""Many small architectures, each with the inputs it takes, for tests of the engine against PyTorch's own SGD.

Written as users write models: what matters is how their gradients lie in memory, what they share, keep
and skip.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

CLASSES = 3


@dataclass(frozen=True)
class Animal:
    """A model, the shape of one input ("tokens": whole numbers below 10), and whether runs of it stack."""

    factory: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: bool = False
    stacks: bool = True


ZOO: dict[str, Animal] = {}


def model(name, *shape, tokens=False, stacks=True):
    def add(factory):
        ZOO[name] = Animal(factory, shape, tokens, stacks)
        return factory

    return add


class Weights(nn.Module):
    """A module with parameters a, b, ... of the given shapes, and a forward pass given as a function."""

    def __init__(self, forward, *shapes, **layers):
        super().__init__()
        self.call = forward
        for name, shape in zip("abcdef", shapes, strict=False):
            self.register_parameter(name, nn.Parameter(0.5 * torch.randn(shape)))
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.call(self, x)


def weights(name, shape, forward, *shapes, tokens=False, stacks=True, **layers):
    """Declare a model of a few parameters and layers; `layers` are functions that build one."""
    factory = lambda: Weights(forward, *shapes, **{key: build() for key, build in layers.items()})  # noqa: E731
    model(name, *shape, tokens=tokens, stacks=stacks)(factory)


V = (6,)  # a vector
I = (2, 8, 8)  # an image
S = (5, 4)  # a sequence of vectors
T = (7,)  # tokens

# Products whose gradients come out transposed, permuted or expanded.
weights("matmul", V, lambda m, x: x @ m.a.T, (3, 6))
weights("einsum", V, lambda m, x: torch.einsum("bi,oi->bo", x, m.a), (3, 6))
weights(
    "einsum_deep",
    V,
    lambda m, x: torch.einsum("bi,oi->bo", torch.tanh(torch.einsum("bi,io->bo", x, m.a)), m.b),
    (6, 5),
    (3, 5),
)
weights("einsum_3d", S, lambda m, x: torch.einsum("bst,otsk->bo", x, m.a), (3, 4, 5, 2))
weights("permuted_linear", V, lambda m, x: F.linear(x, m.a.permute(1, 0)), (6, 3))
weights("permuted_conv", I, lambda m, x: F.conv2d(x, m.a.permute(3, 2, 0, 1)).mean((2, 3)), (3, 3, 2, 3))
weights("permuted_conv_odd", I, lambda m, x: F.conv2d(x, m.a.permute(1, 3, 0, 2)).amax((2, 3)), (3, 3, 2, 2))
weights("conv_by_einsum", I, lambda m, x: torch.einsum("bchw,hwco->bo", x, m.a), (8, 8, 2, 3))
weights("tensordot", S, lambda m, x: torch.tensordot(x, m.a, ([1, 2], [1, 2])), (3, 5, 4))
weights("bmm", S, lambda m, x: (x @ m.a.transpose(0, 1)).mean(1), (3, 4))
weights("expanded", V, lambda m, x: F.linear(x, m.a) + m.b.sum() * x.mean(1, keepdim=True), (3, 6), (2, 4))
weights("broadcast", V, lambda m, x: F.linear(x, m.a * m.b + m.c), (3, 6), (3, 1), (1, 6))
weights("added", V, lambda m, x: F.linear(x, m.a + m.b), (3, 6), (3, 6))  # one gradient for both
weights("viewed", V, lambda m, x: F.linear(x, (m.a.view(-1) + m.b).view(3, 6)), (3, 6), (18,))
weights("stacked_on_dim_1", V, lambda m, x: x @ torch.stack([m.a, m.b, m.c], 1), (6,), (6,), (6,))
weights("concatenated", V, lambda m, x: F.linear(x, torch.cat([m.a, m.b], 1)), (3, 2), (3, 4))
weights("scalar", V, lambda m, x: m.a * F.linear(x, m.b) + m.c, (), (3, 6), ())
weights("low_rank", V, lambda m, x: x @ (m.a @ m.b).T, (3, 2), (2, 6))
weights("diagonal", V, lambda m, x: F.linear(x * m.a.diagonal(), m.b), (6, 6), (3, 6))
weights("indexed", V, lambda m, x: F.linear(x, m.a[[2, 0, 2]][:, ::2].repeat(1, 2)), (4, 6))
weights("flipped", V, lambda m, x: F.linear(x, m.a.flip(0).roll(1, 1)), (3, 6))
weights("triangular", V, lambda m, x: F.linear(x @ m.a.tril(), m.b), (6, 6), (3, 6))
weights("empty_parameter", V, lambda m, x: F.linear(x, m.a) + m.b.sum(), (3, 6), (0, 4))


@model("non_contiguous", *V)
def non_contiguous():
    module = Weights(lambda m, x: F.linear(x, m.a))
    module.a = nn.Parameter(torch.randn(6, 3).t())
    return module


@model("sliced_parameter", *V)
def sliced_parameter():
    """A parameter with gaps: every second column of a larger tensor."""
    module = Weights(lambda m, x: F.linear(x, m.a))
    module.a = nn.Parameter(torch.randn(3, 12)[:, ::2])
    return module


# Layers of PyTorch.
@model("mlp", *V)
def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


@model("residual", *V)
def residual():
    one, two = nn.Linear(6, 6), nn.Linear(6, 3)
    return Weights(lambda m, x: m.two(x + torch.tanh(m.one(x))), one=one, two=two)


weights("bilinear", V, lambda m, x: m.pair(x[:, :2], x[:, 2:]), pair=lambda: nn.Bilinear(2, 4, 3))
weights(
    "parameter_list",
    V,
    lambda m, x: sum(x @ p for p in m.many),
    many=lambda: nn.ParameterList([nn.Parameter(torch.randn(6, 3)) for _ in range(3)]),
)
weights(
    "mixture_of_experts",
    V,
    lambda m, x: torch.einsum("be,beo->bo", m.gate(x).softmax(1), torch.einsum("bi,eio->beo", x, m.a)),
    (4, 6, 3),
    gate=lambda: nn.Linear(6, 4),
)
weights("prelu", V, lambda m, x: m.out(m.act(x)), act=lambda: nn.PReLU(6), out=lambda: nn.Linear(6, 3))


def convolutional(*layers, features):
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 3))


model("conv", *I)(lambda: convolutional(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), features=36))
model("conv_1x1", *I)(lambda: convolutional(nn.Conv2d(2, 4, 1), nn.Tanh(), nn.AvgPool2d(4), features=16))
model("depthwise", *I)(
    lambda: convolutional(nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(4, 3, 1), nn.AvgPool2d(3), features=12)
)
model("dilated", *I)(lambda: convolutional(nn.Conv2d(2, 3, 3, dilation=2, stride=2, padding=1), features=27))
model("transposed_conv", *I)(
    lambda: convolutional(
        nn.Conv2d(2, 3, 3, stride=2),
        nn.ConvTranspose2d(3, 2, 3, stride=2),
        nn.AdaptiveAvgPool2d(2),
        features=8,
    )
)
model("conv_1d", 3, 10)(lambda: convolutional(nn.Conv1d(3, 4, 3), nn.ReLU(), features=32))
model("conv_3d", 1, 4, 4, 4)(lambda: convolutional(nn.Conv3d(1, 3, 2), nn.ReLU(), features=81))
weights(
    "channels_last_inside",
    I,
    lambda m, x: m.out(m.conv(x.contiguous(memory_format=torch.channels_last)).relu().flatten(1)),
    stacks=False,
    conv=lambda: nn.Conv2d(2, 3, 3),
    out=lambda: nn.Linear(108, 3),
)
weights(
    "view_after_conv",
    I,
    lambda m, x: m.out(m.conv(x).view(len(x), -1)),
    conv=lambda: nn.Conv2d(2, 3, 3),
    out=lambda: nn.Linear(108, 3),
)
weights(
    "patches",
    I,
    lambda m, x: m.out(x.unfold(2, 4, 4).unfold(3, 4, 4).flatten(1)),
    out=lambda: nn.Linear(128, 3),
)
weights(
    "pixel_shuffle",
    I,
    lambda m, x: m.out(F.interpolate(F.pixel_shuffle(m.conv(x), 2), (4, 4)).flatten(1)),
    conv=lambda: nn.Conv2d(2, 4, 3),
    out=lambda: nn.Linear(16, 3),
)

# Norms.
model("layer_norm", *V)(lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)))
model("group_norm", *I)(
    lambda: convolutional(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool2d(3), features=16)
)
model("instance_norm", *I)(
    lambda: convolutional(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), features=144)
)
model("batch_norm", *V, stacks=False)(
    lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
)
model("batch_norm_2d", *I, stacks=False)(
    lambda: convolutional(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.AvgPool2d(3), features=16)
)
model("batch_norm_without_statistics", *V, stacks=False)(
    lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3))
)
model("weight_norm", *V)(
    lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
)
model("spectral_norm", *V, stacks=False)(
    lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
)
model("orthogonal", *V, stacks=False)(
    lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 3))
)


# Sequences.
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Parameter(0.3 * torch.randn(3, 2, 4, 2)), nn.Linear(4, 3)

    def forward(self, x):
        q, k, v = torch.einsum("bsd,thde->tbhse", x, self.qkv)
        return self.out((torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).flatten(2).mean(1))


model("attention_by_hand", *S)(Attention)
weights(
    "multihead_attention",
    S,
    lambda m, x: m.out(m.attention(x, x, x, need_weights=False)[0].mean(1)),
    stacks=False,
    attention=lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    out=lambda: nn.Linear(4, 3),
)
weights(
    "transformer_encoder",
    S,
    lambda m, x: m.out(m.layer(x).mean(1)),
    stacks=False,
    layer=lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    out=lambda: nn.Linear(4, 3),
)
for kind in (nn.GRU, nn.LSTM, nn.RNN):
    weights(
        kind.__name__.lower(),
        S,
        lambda m, x: m.out(m.core(x)[0][:, -1]),
        stacks=False,
        core=lambda kind=kind: kind(4, 5, num_layers=2, batch_first=True),
        out=lambda: nn.Linear(5, 3),
    )
weights(
    "recurrent_by_hand",
    S,
    lambda m, x: m.out(_unroll(m, x)),
    step=lambda: nn.Linear(4 + 5, 5),
    out=lambda: nn.Linear(5, 3),
)


def _unroll(module, x):
    h = x.new_zeros(len(x), 5)
    for moment in x.unbind(1):
        h = torch.tanh(module.step(torch.cat([moment, h], 1)))
    return h


weights(
    "embedding",
    T,
    lambda m, x: m.out(m.table(x).mean(1)),
    tokens=True,
    stacks=False,  # `vmap` lets the row of `padding_idx` learn
    table=lambda: nn.Embedding(10, 4, padding_idx=0),
    out=lambda: nn.Linear(4, 3),
)
weights(
    "embedding_bag",
    T,
    lambda m, x: m.out(m.table(x)),
    tokens=True,
    table=lambda: nn.EmbeddingBag(10, 4),
    out=lambda: nn.Linear(4, 3),
)
weights(
    "one_hot", T, lambda m, x: torch.einsum("bti,to->bo", F.one_hot(x, 10).float(), m.a), (7, 3), tokens=True
)


# Sharing, freezing, skipping.
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(self.two(torch.tanh(self.one(x))))


model("tied", *V)(Tied)
weights("tied_transposed", V, lambda m, x: torch.tanh(x @ m.a.T) @ m.a @ m.b, (4, 6), (6, 3))
weights("tied_einsum", V, lambda m, x: torch.einsum("bi,oi,ok->bk", x, m.a, m.a)[:, :3], (4, 6))


@model("tied_embedding", *T, tokens=True)
def tied_embedding():
    """As in language models: the table of inputs is also that of outputs."""
    table, out = nn.Embedding(3, 4), nn.Linear(4, 3, bias=False)
    out.weight = table.weight
    return Weights(lambda m, x: m.out(m.table(x % 3).mean(1)), table=table, out=out)


@model("shared_layer", *V, stacks=False)
def shared_layer():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


@model("frozen", *V, stacks=False)
def frozen():
    module = mlp()
    module[0].requires_grad_(False)
    return module


@model("frozen_bias", *V, stacks=False)
def frozen_bias():
    module = mlp()
    module[0].bias.requires_grad_(False)
    return module


weights("unused", V, lambda m, x: F.linear(x, m.a), (3, 6), (4, 4), stacks=False)


class Sometimes(nn.Module):
    """`later` is used in some batches only."""

    def __init__(self):
        super().__init__()
        self.body, self.later = nn.Linear(6, 3), nn.Parameter(torch.randn(6, 3))

    def forward(self, x):
        out = self.body(x)
        return out + x @ self.later if x[:, 0].sum() < 0 else out


model("sometimes_unused", *V, stacks=False)(Sometimes)


# Numbers of other kinds inside.
weights(
    "fourier",
    V,
    lambda m, x: F.linear(torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(m.a), n=6), m.b),
    (4, 2),
    (3, 6),
)


@model("complex_buffer", *V, stacks=False)
def complex_buffer():
    """A constant of complex numbers, as in rotary embeddings."""
    module = Weights(lambda m, x: F.linear((torch.complex(x, x) * m.turn).real, m.a), (3, 6))
    module.register_buffer("turn", torch.polar(torch.ones(6), torch.arange(6.0)), persistent=False)
    return module


weights("float64_inside", V, lambda m, x: F.linear(x.double(), m.a.double()).float(), (3, 6))
weights("float64_output", V, lambda m, x: F.linear(x.double(), m.a.double()), (3, 6))


@model("bfloat16_inside", *V, stacks=False)
def bfloat16_inside():
    def forward(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            return m.out(torch.tanh(m.body(x))).float()

    return Weights(forward, body=nn.Linear(6, 8), out=nn.Linear(8, 3))


# Autograd of one's own, hooks, checkpoints.
class Transposing(torch.autograd.Function):
    """A product whose backward pass gives the weight's gradient transposed in memory."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, (x.T @ gradient).T


class Lending(torch.autograd.Function):
    """The sum of a * b, whose backward pass hands out the saved parameters themselves as gradients."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return (a * b).sum()

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        return b, a


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


weights("custom_autograd", V, lambda m, x: Transposing.apply(x, m.a), (3, 6), stacks=False)
weights(
    "lent_gradients",
    V,
    lambda m, x: F.linear(x, m.a) + Lending.apply(m.b, m.c) * x[:, :3],
    (3, 6),
    (4, 2),
    (4, 2),
    stacks=False,
)
weights("binarised", V, lambda m, x: F.linear(x, StraightThrough.apply(m.a)), (3, 6), stacks=False)


@model("hooked", *V, stacks=False)
def hooked():
    module = mlp()
    module[0].weight.register_hook(lambda gradient: 2 * gradient.flip(0))
    module[2].weight.register_post_accumulate_grad_hook(halve_gradient)
    return module


def halve_gradient(parameter):
    parameter.grad.mul_(0.5)


for reentrant in (True, False):
    weights(
        f"checkpoint_{'' if reentrant else 'non_'}reentrant",
        V,
        lambda m, x, reentrant=reentrant: m.out(
            checkpoint(lambda h: torch.tanh(F.linear(h, m.b)), F.linear(x, m.a), use_reentrant=reentrant)
        ),
        (5, 6),
        (4, 5),
        stacks=False,
        out=lambda: nn.Linear(4, 3),
    )


# Code that changes its own tensors in the forward pass.
class MaxNorm(nn.Linear):
    """As in EEGNet: the weight is replaced by one of limited norm before it is used."""

    def forward(self, x):
        self.weight.data = torch.renorm(self.weight.data, p=2, dim=0, maxnorm=0.7)
        return super().forward(x)


model("max_norm", *V, stacks=False)(lambda: nn.Sequential(MaxNorm(6, 8), nn.Tanh(), MaxNorm(8, 3)))


class MaxNormConv(nn.Conv2d):
    def forward(self, x):
        self.weight.data = torch.renorm(self.weight.data.contiguous(), p=2, dim=0, maxnorm=0.5)
        return super().forward(x)


model("max_norm_conv", *I, stacks=False)(
    lambda: convolutional(MaxNormConv(2, 4, 3), nn.Tanh(), nn.AvgPool2d(3), features=16)
)


class Clipped(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-0.2, 0.2)
        return super().forward(x)


model("clipped", *V)(lambda: Clipped(6, 3))


class Averaging(nn.Module):
    """A buffer that the forward pass replaces."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.out(x - self.mean)


model("own_statistics", *V, stacks=False)(Averaging)

# Outputs that depend on the rest of the batch.
weights("batch_mean", V, lambda m, x: F.linear(x - x.mean(0), m.a), (3, 6), stacks=False)
weights("batch_max", V, lambda m, x: F.linear(x / x.abs().amax(0), m.a), (3, 6), stacks=False)
weights("batch_size", V, lambda m, x: F.linear(x, m.a) / len(x), (3, 6), stacks=False)
weights("batch_attention", V, lambda m, x: F.linear(torch.softmax(x @ x.T, 1) @ x, m.a), (3, 6), stacks=False)
