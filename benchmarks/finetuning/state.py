"""What is trained is the state: bytes, memory, time, exactness, and a run that is killed and resumed."""

from __future__ import annotations

import copy
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from char_gpt import TOKENIZER, WINDOW, base
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.engine.executor import Job, generators
from fedhpo.protocol.federation import Work

ROOT = Path(__file__).parents[2]
CLIENTS, COHORT, TRIALS = 20, 5, 27
CONFIG = {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 0.01, "max_steps": 10, "batch_size": 8}
SPACE = fh.Space(
    client={**CONFIG, "lr": fh.Float(1e-4, 1e-1, log=True), "lr_schedule": "cosine"},
    model={"rank": fh.Choice([2, 4, 8])},
)


def texts(clients: int = CLIENTS, windows: int = 50) -> fh.data.FederatedData:
    """Made-up texts: no data set is needed."""
    rng = np.random.default_rng(0)
    words = ["".join(chr(97 + i) for i in rng.integers(0, 26, rng.integers(2, 8))) for _ in range(300)]
    own = {
        f"client {i}": " ".join(words[w] for w in rng.zipf(1.3, windows * WINDOW) % 300)[
            : windows * WINDOW + 1
        ]
        for i in range(clients)
    }
    return fh.from_text(own, tokenizer=TOKENIZER, window=WINDOW)


def run() -> int:
    """All parts; how many of them are not as they should be."""
    torch.set_num_threads(1)
    parts = (sent_bytes, memory, exact, speed, killed, bits)
    wrong = 0
    for part in parts:
        fine, text = part()
        wrong += not fine
        print(f"{'ok   ' if fine else 'WRONG'} {part.__name__}: {text}", flush=True)
    return wrong


def sent_bytes() -> tuple[bool, str]:
    """The ledger against what peft would send, for a Llama from a config with a bfloat16 base."""
    import peft
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=TOKENIZER.vocab_size,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        bos_token_id=0,
        eos_token_id=1,
    )

    class Logits(torch.nn.Module):
        def __init__(self, rank: int) -> None:
            super().__init__()
            with torch.random.fork_rng():
                torch.manual_seed(0)
                made = LlamaForCausalLM(config).to(torch.bfloat16)
            self.inner = peft.get_peft_model(made, peft.LoraConfig(r=rank, lora_alpha=2 * rank))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(input_ids=x).logits.float()

    with fh.simulate(Logits, texts(), workers=0) as federation:
        federation.expect(1)
        federation.start(0, {"rank": 4}, 0)
        [report] = federation.round([Work(0, list(range(COHORT)), CONFIG)])
        module = federation.model(0)
    adapter = sum(t.nbytes for t in peft.get_peft_model_state_dict(module.inner).values())
    whole = sum(p.numel() * p.element_size() for p in module.parameters())
    charged = report.cost.bytes_up / COHORT
    return (
        charged == adapter,
        f"{charged:,.0f} bytes a reply, peft's adapter has {adapter:,}, the model {whole:,}",
    )


_MEMORY = """
import ctypes, gc, os, sys
sys.path[:0] = {paths!r}
import psutil
import fedhpo as fh
from fedhpo.protocol.federation import Work
from finetuning.state import CONFIG, base, texts
from finetuning.wide import Wide

def resident():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return psutil.Process(os.getpid()).memory_info().rss / 1e6

def trained(federation, trials):
    for trial in trials:
        federation.start(trial, {{"rank": (2, 4, 8)[trial % 3]}}, trial)
        federation.round([Work(trial, [0, 1], CONFIG | {{"max_steps": 1}})])

data = texts(8, 12)
with fh.simulate(fh.LoRA(base), data, workers=0) as small:  # what torch and the engine take by themselves
    small.expect(1)
    trained(small, range(3))
before = resident()
with fh.simulate(fh.LoRA(Wide), data, workers=0) as federation:
    federation.expect(1)
    trained(federation, range(3))
    three = resident()
    trained(federation, range(3, {trials}))
    many = resident()
    held = sum(federation.state(trial).arrays["weights"].nbytes for trial in range({trials})) / 1e6
print(before, three, many, held)
"""


def memory() -> tuple[bool, str]:
    """Resident memory of a process with 27 trials of three ranks against that with the first three."""
    from finetuning.wide import Wide

    size = sum(p.numel() * p.element_size() for p in Wide().parameters()) / 1e6
    script = _MEMORY.format(paths=sys.path[:2], trials=TRIALS)
    out = subprocess.run([sys.executable, "-c", script], check=True, text=True, stdout=subprocess.PIPE)
    before, three, many, held = map(float, out.stdout.split()[-4:])
    fine = many - three < held + 0.5 * size and many - before < 2 * size + held
    return fine, (
        f"base {size:.0f} MB, {TRIALS} adapters {held:.1f} MB together; resident before any model "
        f"{before:.0f} MB, with 3 trials {three:.0f} MB, with {TRIALS} trials {many:.0f} MB"
    )


def _hand_written(
    module: Any, data: Any, cohort: list[int], seed: tuple[int, int]
) -> dict[str, torch.Tensor]:
    """FedAvg of adapters as one would write it: a copy a client, `torch.optim.AdamW`, a weighted mean."""
    mean: dict[str, torch.Tensor] = {}
    total = sum(len(data.train.rows(client)) for client in cohort)
    for client in cohort:
        own = copy.deepcopy(module).train()
        rows = data.train.rows(client)
        x, y = (torch.from_numpy(part[rows]).long() for part in (data.x, data.y))
        trained = [p for p in own.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(trained, lr=CONFIG["lr"], weight_decay=CONFIG["weight_decay"])
        order, _ = generators(Job(client, 0, CONFIG, seed, 0))
        taken = 0
        while taken < CONFIG["max_steps"]:
            for batch in torch.from_numpy(order.permutation(len(x))).split(CONFIG["batch_size"]):
                if taken == CONFIG["max_steps"]:
                    break
                optimiser.zero_grad()
                F.cross_entropy(own(x[batch]).flatten(0, 1), y[batch].flatten()).backward()
                optimiser.step()
                taken += 1
        for name, p in own.named_parameters():
            if p.requires_grad:
                mean[name] = mean.get(name, 0) + p.detach() * (len(rows) / total)
    return mean


def exact() -> tuple[bool, str]:
    """One round of LoRA by AdamW against the loop with `torch.optim.AdamW`, from the same adapters."""
    data, cohort = texts(), list(range(COHORT))
    with fh.simulate(fh.LoRA(base), data, workers=0) as federation:
        federation.expect(1)
        federation.start(0, {"rank": 4}, 0)
        first = federation.model(0)
        federation.round([Work(0, cohort, CONFIG)])
        ours = dict(federation.model(0).named_parameters())
    theirs = _hand_written(first, data, cohort, (0, 0))
    start = dict(first.named_parameters())
    moved = max(float((theirs[name] - start[name]).abs().max()) for name in theirs)
    apart = max(float((ours[name] - theirs[name]).detach().abs().max()) for name in theirs)
    return (
        apart < 1e-3 * moved,
        f"weights move by up to {moved:.1e} and end {apart:.1e} from torch.optim.AdamW",
    )


def speed(repeats: int = 7) -> tuple[bool, str]:
    """CPU time of a round, ours and by hand in turns."""
    data, cohort = texts(), list(range(COHORT))
    ours, theirs = [], []
    with fh.simulate(fh.LoRA(base), data, workers=0) as federation:
        federation.expect(repeats + 1)
        federation.start(0, {"rank": 4}, 0)
        module = federation.model(0)
        for repeat in range(repeats + 1):
            begin = time.process_time()
            federation.round([Work(0, cohort, CONFIG)])
            middle = time.process_time()
            _hand_written(module, data, cohort, (0, repeat))
            if repeat:
                ours.append(middle - begin)
                theirs.append(time.process_time() - middle)
    ratio = float(np.median(np.array(ours) / np.array(theirs)))
    return (
        ratio <= 1.1,
        f"{ratio:.2f} of a hand-written loop ({np.median(ours):.2f} s and {np.median(theirs):.2f} s)",
    )


_RUN = """
import sys
sys.path[:0] = {paths!r}
import fedhpo as fh
from finetuning.state import SPACE, base, texts
federation = fh.simulate(fh.LoRA(base), texts(8, 20), workers=0)
print("ready", flush=True)
budget = {{"rounds": 6, "total": 24, "cohort": 2}}
fh.tune(federation, SPACE, "sha", objective="loss", run=sys.argv[1], progress=False, **budget)
"""


def killed(kills: int = 4) -> tuple[bool, str]:
    """A run that is killed again and again against one that is not."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "run.py"
        script.write_text(_RUN.format(paths=sys.path[:2]))
        subprocess.run([sys.executable, script, f"{directory}/whole"], check=True, stdout=subprocess.DEVNULL)
        hit = 0
        while True:
            process = subprocess.Popen(
                [sys.executable, script, f"{directory}/broken"], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(chance.uniform(2.0, 8.0) if hit < kills else None)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                hit += 1
            finally:
                process.stdout.close()
        whole, broken = (fh.load_run(f"{directory}/{name}") for name in ("whole", "broken"))
        same = list(whole.trials) == list(broken.trials)
        files = [(Path(directory) / name / "model.safetensors").read_bytes() for name in ("whole", "broken")]
        kept = max(
            p.stat().st_size for p in (Path(directory) / "broken" / "checkpoints").rglob("*.safetensors")
        )
    same = same and files[0] == files[1]
    return (
        same,
        f"killed {hit} times; scores and model are the same bits: {same}; largest checkpoint {kept:,} bytes",
    )


def bits() -> tuple[bool, str]:
    """Models without frozen weights: the golden digests."""
    command = [sys.executable, str(ROOT / "benchmarks" / "golden.py"), "--group", "quick", "--only", "torch"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return done.returncode == 0, done.stdout.strip().splitlines()[-1]
