"""What `fedhpo new flower --finetune` writes besides: a model with adapters, texts, and a study."""

from __future__ import annotations

from string import Template

_MODEL = Template('''\
"""What is fine-tuned: a language model with a frozen base, and adapters that clients train and send."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import fedhpo as fh

#: Your own: a tokenizer of transformers, with the vocabulary of the model below.
TOKENIZER = fh.Characters("\\n !',-.:;?abcdefghijklmnopqrstuvwxyz")


def base():
    """The pretrained model, the same at the server and at every client: it never travels.

    Yours: AutoModelForCausalLM.from_pretrained("/models/NAME", dtype=torch.bfloat16). This one is tiny and
    knows nothing; its weights are drawn with a fixed seed.
    """
    config = LlamaConfig(
        vocab_size=TOKENIZER.vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(config)


def adapted(**hyperparameters):
    """The base with fresh adapters; the hyperparameters are those of [space.model]."""
    return fh.LoRA(base)(**hyperparameters)


def texts(clients=10):
    """Texts by client, for a first run. Real clients bring their own: see client_app.py."""
    lines = ["to be, or not to be: that is the question", "all the world is a stage", "the rest is silence"]
    return fh.from_text(
        {f"client {i}": "\\n".join(lines[(i + j) % 3] for j in range(60)) for i in range(clients)},
        tokenizer=TOKENIZER,
        window=32,
    )
''')

_STUDY = Template("""\
[data]
name = "$package.model:texts"
clients = 10
[model]
name = "$package.model:adapted"
[client]                   # local training: ten steps a round
optimiser = "adamw"
max_steps = 10
batch_size = 8
max_grad_norm = 1.0
lr_schedule = "cosine"     # over the rounds of a full training
[space.client]
lr = { low = 1e-4, high = 3e-2, log = true, default = 1e-3 }
[space.model]
rank = { choices = [4, 8, 16], default = 8 }
alpha = { choices = ["rank", "2 * rank"], default = "2 * rank" }
targets = "q_proj,v_proj"
[objective]
metric = "loss"
[budget]                   # what tunes is chosen by rule, since there is no [method]
rounds = 10                # of one final training
total = 20                 # over all trials
cohort = 2                 # clients in a round
[flower]
clients = 2                # the run begins when so many are there
deadline = 600.0           # seconds that a client has for a task
most_rows = 100000         # the most rows that a client may claim
""")


def finetune_files(package: str) -> dict[str, str]:
    """The files that differ from those of an app that trains a small model from scratch."""
    return {
        f"{package}/model.py": _MODEL.substitute(),
        f"{package}/study.toml": _STUDY.substitute(package=package),
    }
