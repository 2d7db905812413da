"""A character GPT of 0.35 million parameters, pretrained on Shakespeare: a base to fine-tune in seconds.

`python examples/finetuning/char_gpt.py` trains the base anew (below three minutes of one core; FEDHPO_DATA
names the directory of the plays) and writes `base.safetensors` beside this file, in float16.
"""

from __future__ import annotations

import gzip
import json
import os
import string
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fedhpo as fh

#: The characters of ASCII that texts are made of; others are one token, "unknown".
TOKENIZER = fh.Characters("\n" + "".join(sorted(set(string.printable) - set(string.whitespace) | {" "})))
WINDOW, WIDTH, LAYERS, HEADS = 64, 96, 3, 4
FILE = Path(__file__).parent / "base.safetensors"
STEPS, BATCH, RATE = 900, 32, 3e-3


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        rows, length, _ = x.shape
        parts = self.attention(self.before(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class CharGPT(nn.Module):
    """Says after every character which one comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENIZER.vocab_size, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENIZER.vocab_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next character, for each position."""
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(places))))


def base() -> CharGPT:
    """The pretrained model."""
    from safetensors.torch import load_file

    model = CharGPT()
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(FILE).items()})
    return model


def _read(path: Path) -> dict:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)["clients"]


def plays(directory: str) -> np.ndarray:
    """All roles' speeches as one row of tokens."""
    roles = _read(Path(directory) / "text" / "shakespeare_by_role.json.gz")
    return np.array(TOKENIZER.encode("\n".join(line for role in roles.values() for line in role)), np.uint8)


def posts(directory: str, least: int = 5, windows: int = 100) -> fh.data.FederatedData:
    """Users of Stack Exchange with at least five posts: each one's first windows, to fine-tune on."""
    users = _read(Path(directory) / "text" / "stackexchange_by_user.json.gz")
    texts = {name: "\n".join(post[-1] for post in own) for name, own in users.items() if len(own) >= least}
    kept = {name: text[: windows * WINDOW + 1] for name, text in texts.items() if len(text) > 20 * WINDOW}
    return fh.from_text(kept, tokenizer=TOKENIZER, window=WINDOW, split=last_windows, name="posts")


def last_windows(users: fh.data.Split, _: np.random.Generator, held: int = 4) -> tuple[fh.data.Split, ...]:
    """A user's last windows test, those before them validate, all others train."""
    rows = [users.rows(user) for user in range(users.clients)]
    cuts = (slice(None, -2 * held), slice(-2 * held, -held), slice(-held, None))
    return tuple(fh.data.Split.from_lists(own[cut] for own in rows) for cut in cuts)


def pretrain(directory: str, steps: int = STEPS) -> CharGPT:
    """Train the base on the plays."""
    torch.manual_seed(0)
    model, text = CharGPT(), torch.from_numpy(plays(directory))
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        begin = torch.randint(len(text) - WINDOW, (BATCH, 1), generator=generator)
        piece = text[begin + torch.arange(WINDOW + 1)].long()
        optimiser.zero_grad()
        loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(step, f"{loss.item():.3f}", flush=True)
    return model


def main() -> None:
    """Train and keep the base."""
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    begin = time.process_time()
    model = pretrain(os.environ["FEDHPO_DATA"])
    save_file({name: tensor.half() for name, tensor in model.state_dict().items()}, FILE)
    size = sum(p.numel() for p in model.parameters())
    print(
        f"{size:,} parameters, {FILE.stat().st_size:,} bytes, {time.process_time() - begin:.0f} s of CPU time"
    )


if __name__ == "__main__":
    main()
