"""Rows and tiny models in the place of those that NVFlare's examples download; see `nvflare_jobs.py`.

A job calls one of these functions in each of its processes, with `after(module, hook)`: the hook is called
with the module once it is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

After = Callable[[str, Callable[[Any], None]], None]


def write_rows(home: Path) -> None:
    """The files that jobs read: HIGGS as two sites have it, and texts of two sites."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    table = np.column_stack([labels, rng.normal(size=(300, 28)) + 0.5 * labels[:, None]])
    np.savetxt(home / "higgs.csv", table, delimiter=",", fmt="%.5f")
    place = home / "higgs_horizontal" / "2_uniform"
    place.mkdir(parents=True)
    index = {
        "valid": {"start": 0, "end": 100},
        "site-1": {"start": 100, "end": 200},
        "site-2": {"start": 200, "end": 300},
    }
    for site in ("site-1", "site-2"):
        split = {"data_path": str(home / "higgs.csv"), "data_index": index}
        (place / f"data_{site}.json").write_text(json.dumps(split))
        own = home / "hf" / site
        own.mkdir(parents=True)
        for name in ("train", "valid"):
            lines = [json.dumps({"instruction": f"say {n}", "input": "", "output": str(n)}) for n in range(8)]
            (own / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def vision(after: After) -> None:
    """The compiled half of torchvision belongs to another build of torch; transforms need none of it."""
    sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))


def cifar(after: After) -> None:
    """Images whose brightness is their class."""
    vision(after)

    class Images:
        """As much of `torchvision.datasets.CIFAR10` as jobs use."""

        def __init__(self, root: Any = None, train: bool = True, transform: Any = None, **_: Any) -> None:
            rng = np.random.default_rng(int(train))
            count = 240 if train else 64
            self.targets = (np.arange(count) % 10).tolist()
            bright = 25 * np.array(self.targets)[:, None, None, None]
            self.data = (bright + rng.integers(0, 20, (count, 32, 32, 3))).clip(0, 255).astype(np.uint8)
            self.transform, self.target_transform = transform, None
            self.classes = [str(one) for one in range(10)]

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, place: int) -> Any:
            from PIL import Image

            image: Any = Image.fromarray(self.data[place])
            return self.transform(image) if self.transform else image, self.targets[place]

    def patch(module: Any) -> None:
        module.CIFAR10 = Images

    after("torchvision.datasets", patch)


def huggingface(after: After) -> None:
    """A Qwen of two layers, and a tokenizer of bytes."""
    vision(after)
    from flower_parts.weights import tokenizer

    def patch(module: Any) -> None:
        def model(*_: Any, **__: Any) -> Any:
            config = module.Qwen2Config(
                vocab_size=300,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=2,
                max_position_embeddings=512,
            )
            import torch

            with torch.random.fork_rng():
                torch.manual_seed(0)
                return module.Qwen2ForCausalLM(config)

        module.AutoModelForCausalLM.from_pretrained = model
        module.AutoTokenizer.from_pretrained = lambda *_, **__: tokenizer()

    after("transformers", patch)
