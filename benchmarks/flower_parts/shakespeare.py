"""FlowerTune's LLM app on lines of Shakespeare: the rows of its clients, of its server, and of the judge.

The app's own `evaluate_fn` saves checkpoints and scores nothing; `install` puts one in its place that returns
the loss on the server's rows. Nothing else of the app changes.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flower_parts import data, weights

ROWS, HELD, LENGTH = 400, 48, 96
_MODULE = "flowertune_llm.server_app"


@cache
def texts() -> list[str]:
    """Pieces of what roles say, in a fixed order that mixes roles."""
    file = Path(os.environ["FEDHPO_DATA"]) / "text" / "shakespeare_by_role.json.gz"
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        roles = json.load(opened)["clients"]
    said = ["\n".join(lines) for lines in roles.values()]
    pieces = [text[at : at + LENGTH] for text in said for at in range(0, min(len(text), 2000), LENGTH)]
    order = np.random.default_rng(0).permutation(len(pieces))
    return [pieces[place] for place in order[: ROWS + 2 * HELD]]


def rows(part: str) -> dict[str, list[str]]:
    """The clients' rows, the server's, or the judge's: no piece is in two of them."""
    begin = {"train": 0, "server": ROWS, "test": ROWS + HELD}[part]
    chosen = texts()[begin : begin + (ROWS if part == "train" else HELD)]
    half = LENGTH // 2
    return {
        "instruction": [text[:half] for text in chosen],
        "input": [""] * len(chosen),
        "output": [text[half:] for text in chosen],
    }


def install() -> None:
    """Rows and tiny Llama in the place of those from the hub; scores in the place of checkpoints."""
    weights.llm()
    import datasets
    import transformers

    def load(*_: Any, **options: Any) -> Any:
        made = datasets.Dataset.from_dict(rows("train"))
        return made if options.get("split") else datasets.DatasetDict({"train": made})

    for module in (data, datasets, datasets.load):
        module.load_dataset = load
    transformers.AutoTokenizer.from_pretrained = lambda *arguments, **options: tokenizer()
    sys.meta_path.insert(0, _AfterImport())


def tokenizer() -> Any:
    """Of bytes; what is too long loses its beginning, which is the same in all prompts."""
    made = weights.tokenizer()
    made.truncation_side = "left"
    return made


class _AfterImport:
    """Gives the app's server its `evaluate_fn` once it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def run(module: Any) -> None:
            execute(module)
            module.get_evaluate_fn = evaluate_fn

        loader.exec_module = run
        return spec


def evaluate_fn(model_cfg: Any, *_: Any) -> Any:
    """The loss on the server's rows, after every round."""
    from flwr.app import MetricRecord

    def evaluate(server_round: int, arrays: Any) -> Any:
        return MetricRecord({"val_loss": loss(model_cfg, arrays.to_torch_state_dict(), "server")})

    return evaluate


def loss(model_cfg: Any, adapters: Any, part: str) -> float:
    """The mean loss of the model with these adapters on one of the parts."""
    import torch
    from flowertune_llm.dataset import formatting_prompts_func
    from flowertune_llm.models import get_model
    from peft import set_peft_model_state_dict

    model = get_model(model_cfg)
    set_peft_model_state_dict(model, adapters)
    model.eval()
    texts = rows(part)
    prompts = formatting_prompts_func({**texts, "response": texts["output"]})
    options = {"return_tensors": "pt", "padding": True, "truncation": True, "max_length": LENGTH}
    batch = tokenizer()(prompts, **options)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    with torch.no_grad():
        found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels)
    return float(found.loss)
