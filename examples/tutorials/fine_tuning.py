# %% [markdown]
# # Fine-tuning with adapters
# Every role of Shakespeare's is a client that keeps its lines. A small GPT is trained on some roles, in one
# place; the others fine-tune it together with LoRA. Only the adapter is trained, sent, averaged and charged.
# Which rate and which rank?

# %%
import gzip
import json
import os
from functools import cache
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

import fedhpo as fh

SPEECHES = {
    "HAMLET": "To be, or not to be: that is the question: Whether 'tis nobler in the mind to suffer The "
    "slings and arrows of outrageous fortune, Or to take arms against a sea of troubles, And by "
    "opposing end them?",
    "MACBETH": "To-morrow, and to-morrow, and to-morrow, Creeps in this petty pace from day to day To the "
    "last syllable of recorded time, And all our yesterdays have lighted fools The way to dusty "
    "death.",
    "JULIET": "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name; Or, if thou "
    "wilt not, be but sworn my love, And I'll no longer be a Capulet. 'Tis but thy name that is "
    "my enemy.",
    "PORTIA": "The quality of mercy is not strain'd, It droppeth as the gentle rain from heaven Upon the "
    "place beneath: it is twice blest; It blesseth him that gives and him that takes: 'Tis "
    "mightiest in the mightiest.",
    "ANTONY": "Friends, Romans, countrymen, lend me your ears; I come to bury Caesar, not to praise him. "
    "The evil that men do lives after them; The good is oft interred with their bones; So let "
    "it be with Caesar.",
    "JAQUES": "All the world's a stage, And all the men and women merely players: They have their exits "
    "and their entrances; And one man in his time plays many parts, His acts being seven ages. "
    "At first the infant.",
}

# %% [markdown]
# Where `FEDHPO_DATA` names the directory of data sets, the texts are those of all plays; else a few lines do
# to see how it goes.

# %%
file = Path(os.environ.get("FEDHPO_DATA", "")) / "text" / "shakespeare_by_role.json.gz"
if file.is_file():
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        roles = {name: "\n".join(lines) for name, lines in json.load(opened)["clients"].items()}
    longest = sorted(roles, key=lambda name: -len(roles[name]))[:24]
    roles = {name: roles[name][:2000] for name in longest}
else:
    roles = {f"{name} {part}": text * 2 for name, text in SPEECHES.items() for part in (1, 2)}
names = list(roles)
public, private = names[::2], names[1::2]
letters = sorted(set("\n".join(roles.values())))


class Letters:
    """Characters are tokens."""

    vocab_size = len(letters)

    def encode(self, text):
        return [letters.index(letter) for letter in text]


data = fh.from_text({name: roles[name] for name in private}, tokenizer=Letters(), window=32)
data

# %% [markdown]
# ## The base
# A GPT of two layers, from a config: nothing is downloaded. It is trained on the public roles; the builder
# then loads its weights, so that they are the same in every build, and no part of a trial.

# %%
config = GPT2Config(
    vocab_size=len(letters), n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
torch.manual_seed(0)
gpt = GPT2LMHeadModel(config)
text = torch.tensor(Letters().encode("\n".join(roles[name] for name in public)))
optimiser = torch.optim.AdamW(gpt.parameters(), lr=3e-3)
for _ in range(60):
    starts = torch.randint(len(text) - 33, (16,)).tolist()
    rows = torch.stack([text[start : start + 32] for start in starts])
    loss = gpt(input_ids=rows, labels=rows).loss
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
print(f"loss of the last batch: {loss.item():.2f}")


@cache
def weights():
    """What was trained, as it is now."""
    return {name: tensor.detach().clone() for name, tensor in gpt.state_dict().items()}


def adapted(rank: int = 4):
    """The base with an adapter; its keywords can be tuned as `model`, alpha follows the rank."""
    base = GPT2LMHeadModel(config)
    base.load_state_dict(weights())
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["c_attn"], fan_in_fan_out=True)
    return get_peft_model(base, lora)


# %% [markdown]
# ## What to tune
# The rate over three decades, and the rank. Local training is ten steps of AdamW; over
# the rounds the rate follows a cosine.

# %%
space = fh.Space(
    client={
        "optimiser": "adamw",
        "lr": fh.Float(1e-4, 1e-1, log=True, default=1e-3),
        "lr_schedule": "cosine",
        "max_steps": 5,
        "batch_size": 4,
    },
    model={"rank": fh.Choice([1, 4], default=1)},
)
federation = fh.simulate(adapted, data, workers=0)
result = fh.tune(federation, space, "sha", rounds=6, total=24, cohort=3, objective="loss")
result

# %% [markdown]
# The bytes are those of adapters: the base never travels.

# %%
adapter = sum(one.numel() for one in adapted(**result.best_config.model).parameters() if one.requires_grad)
print(f"best rank {result.best_config.model['rank']}, adapter {4 * adapter} bytes")
print(f"sent by clients in all: {result.cost['bytes_up']} bytes")

# %% [markdown]
# The page on fine-tuning has published settings to begin with, and what tuning is worth on a larger model:
# [fine-tuning](../../docs/finetuning.md). A FlowerTune app is tuned as it is:
# [FlowerTune](../../docs/flowertune.md).
