"""FlowerTune's LLM app, tuned as it is: against its defaults, and against Optuna around whole runs.

    FEDHPO_DATA=... python benchmarks/flowertune.py --examples DIR [--site SITE] [--seeds 10] [--kept FILE]

DIR is a checkout of adap/flower (see `flower_examples.py`). The model is a tiny random Llama, the rows are
lines of Shakespeare (`flower_parts.shakespeare`). SHA has the loss on the server's rows, or that of training;
Optuna's TPE has the server's at the end of whole runs, as many rounds in all as SHA, and three times as many.
Each method's config is then trained once more, and judged on rows that no method scored on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
CLIENTS, COHORT, ROUNDS, RUNS = 10, 2, 9, 4
RATE, RANK, ALPHA = "train.learning-rate-max", "model.lora.peft-lora-r", "model.lora.peft-lora-alpha"
FIXED = {"train.training-arguments.per-device-train-batch-size": 4}
RATES, RANKS, ALPHAS = (1e-5, 1e-1), [2, 8, 32], [8, 64]


class Bench:
    """The app, opened once; every result is kept in a file."""

    def __init__(self, app: Path, kept: Path) -> None:
        from fedhpo.federations.apps.in_process import app_in_process
        from fedhpo.protocol.objective import Objective

        self.app, self.file = app, kept
        self.kept: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {}
        server = Objective("val_loss", direction="minimize", from_="server")
        setup = "flower_parts.shakespeare:install"
        self.federation = app_in_process(app, CLIENTS, server, setup, rounds=ROUNDS, learning_curve=False)

    def done(self, name: str, do: Any) -> Any:
        """What is kept under a name; done if it is not."""
        if name not in self.kept:
            begun = time.time()
            self.kept[name] = do()
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.kept, indent=1))
            print(f"{name}: {json.dumps(self.kept[name])}, {time.time() - begun:.0f} s", flush=True)
        return self.kept[name]

    def trained(self, config: dict[str, Any], seed: int, part: str) -> float:
        """The loss on a part after a whole training."""
        import numpy as np
        import torch
        from flowertune_llm.dataset import replace_keys
        from flwr.common.config import unflatten_dict
        from omegaconf import DictConfig

        from fedhpo.federations.apps.app_file import read_app
        from fedhpo.protocol.federation import Work
        from flower_parts.shakespeare import loss

        shape = {RANK: config[RANK], ALPHA: config[ALPHA]}
        self.federation.start(0, shape, seed)
        cohorts = np.random.default_rng(seed)
        for _ in range(ROUNDS):
            cohort = sorted(cohorts.choice(CLIENTS, COHORT, replace=False).tolist())
            [report] = self.federation.round([Work(0, cohort, {RATE: config[RATE], **FIXED}, scores=())])
            if not report.applied:
                self.federation.stop(0)
                return float("inf")
        arrays = {name: torch.from_numpy(one) for name, one in self.federation.model(0).items()}
        self.federation.stop(0)
        cfg = DictConfig(replace_keys(unflatten_dict({**read_app(self.app).config, **shape})))
        return loss(cfg.model, arrays, part)

    def sha(self, source: str, seed: int) -> dict[str, Any]:
        """The config that SHA chooses by scores from there."""
        from fedhpo.study import Study

        metric = "val_loss" if source == "server" else "train_loss"
        tables = {
            "app": {"path": str(self.app), "clients": CLIENTS, "setup": "flower_parts.shakespeare:install"},
            "seed": seed,
            "space": {
                "client": {RATE: {"low": RATES[0], "high": RATES[1], "log": True}, **FIXED},
                "model": {RANK: {"choices": RANKS}, ALPHA: {"choices": ALPHAS}},
            },
            "objective": {"metric": metric, "direction": "minimize", "from": source},
            "method": {"name": "sha", "finalists": 1},
            "budget": {"rounds": ROUNDS, "total": RUNS * ROUNDS, "cohort": COHORT},
        }
        result = Study.from_dict(tables).tune(workers=0)
        assert result.cost["rounds"] <= RUNS * ROUNDS
        return {**result.best_config.client, **result.best_config.model}

    def optuna(self, seed: int, runs: int) -> dict[str, Any]:
        """The config that Optuna's TPE chooses after so many whole runs."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        for number in range(runs):
            trial = study.ask()
            config = {
                RATE: trial.suggest_float(RATE, *RATES, log=True),
                RANK: trial.suggest_categorical(RANK, RANKS),
                ALPHA: trial.suggest_categorical(ALPHA, ALPHAS),
            }

            def run(config: dict[str, Any] = config, number: int = number) -> float:
                return self.trained(config, 1000 * seed + number, "server")

            study.tell(trial, min(self.done(f"optuna {seed} run {number}", run), 1e9))
        return dict(study.best_params)


def main() -> None:
    """Do what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", required=True, metavar="DIR")
    parser.add_argument("--site", metavar="SITE")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", type=Path, default=HERE.parent / "build" / "flowertune.json")
    options = parser.parse_args()
    if options.site:
        sys.path.append(options.site)
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    begun = time.time()
    bench = Bench(Path(options.examples) / "examples" / "flowertune-llm", options.kept)
    default = {RATE: 5e-5, RANK: 32, ALPHA: 64}
    ways: dict[str, Any] = {
        "its defaults": lambda seed: default,
        "SHA, server": lambda seed: bench.sha("server", seed),
        "SHA, training": lambda seed: bench.sha("training", seed),
        "Optuna, equal rounds": lambda seed: bench.optuna(seed, RUNS),
        "Optuna, three times": lambda seed: bench.optuna(seed, 3 * RUNS),
    }
    judged: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(options.seeds):
        for way, choose in ways.items():
            config = bench.done(f"{way} {seed}", lambda choose=choose, seed=seed: choose(seed))
            name = f"judged {json.dumps(config, sort_keys=True)} {seed}"
            judged[way].append(
                bench.done(name, lambda config=config, seed=seed: bench.trained(config, 10**6 + seed, "test"))
            )
    print("| way | rounds | loss on rows nobody scored on |\n| --- | --- | --- |")
    spent = (0, RUNS, RUNS, RUNS, 3 * RUNS)
    for (way, losses), runs in zip(judged.items(), spent, strict=True):
        error = statistics.stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else float("nan")
        print(f"| {way} | {runs * ROUNDS} | {statistics.mean(losses):.4f} ± {error:.4f} |")
    print(f"{(time.time() - begun) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
