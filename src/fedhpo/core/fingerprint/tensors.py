"""Torch tensors in fingerprints. Imported only where there are some."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import nn

from fedhpo.core.fingerprint.arrays import array_digest


def weights_digest(module: nn.Module) -> str:
    """A digest of all parameters and buffers."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(f"{name} {tensor_digest(tensor)};".encode())
    return digest.hexdigest()


def tensor_digest(tensor: torch.Tensor) -> str:
    """A digest of a tensor: type, shape and content, wherever and however it is stored."""
    plain = tensor.detach().to("cpu").to_dense().resolve_conj().resolve_neg().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0)
    return hashlib.blake2b(f"{tensor_shape(tensor)} {array_digest(raw)}".encode(), digest_size=16).hexdigest()


def tensor_shape(tensor: torch.Tensor) -> str:
    """Shape and type, as text."""
    shape = f"({', '.join(map(str, tensor.shape))})"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')}"
