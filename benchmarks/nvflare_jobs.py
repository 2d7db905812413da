"""Six NVFlare jobs as they are: `python benchmarks/nvflare_jobs.py --examples DIR`.

DIR is a checkout of NVIDIA/NVFlare (2.9), with its folders `examples` and `research`; no file of it is
changed (digests are compared). Each job is tuned from a study: two configs, a round or two, in NVFlare's
simulator. Rows that the jobs would download are stand-ins (`nvflare_parts`), or their own synthetic ones.
Packages that are not installed may lie in a directory of their own, named by `--site`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from flower_examples import digest  # noqa: E402


@dataclass(frozen=True)
class Case:
    """A job: where it is, what is tuned, by which metric."""

    path: str
    space: Mapping[str, Any]
    objective: Mapping[str, Any]
    job: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1


def rate(low: float, high: float) -> dict[str, Any]:
    """A range of a learning rate."""
    return {"low": low, "high": high, "log": True}


SMALL = ["--synthetic_data", "--train_size", "64", "--test_size", "32", "--num_workers", "0"]
ACCURACY = {"metric": "accuracy", "direction": "maximize", "from": "training"}
CASES = {
    "hello-numpy": Case(
        "examples/hello-world/hello-numpy",
        {"update_type": {"choices": ["full", "diff"]}},
        {"metric": "weight_mean", "direction": "maximize", "from": "training"},
        {"scored": "trained"},
    ),
    "hello-pt": Case(
        "examples/hello-world/hello-pt",
        {"client:SGD.lr": rate(1e-4, 1e-1), "epochs": {"low": 1, "high": 2}},
        ACCURACY,
        {"arguments": SMALL, "setup": "nvflare_parts:vision"},
    ),
    "hello-lightning": Case(
        "examples/hello-world/hello-lightning",
        {"model:optim.SGD.lr": rate(1e-4, 1e-1)},
        {"metric": "val_loss", "direction": "minimize", "from": "training"},
        {
            "arguments": ["--synthetic_data", "--limit_batches", "2"],
            "setup": "nvflare_parts:vision",
        },
    ),
    "xgboost": Case(
        "examples/advanced/xgboost/fedxgb/job_tree.py",
        {"eta": rate(0.01, 1.0)},
        {"metric": "train_metrics", "direction": "maximize", "from": "training"},
        {
            "arguments": ["--site_num", "2", "--data_root", "{data}/higgs", "--nthread", "1"],
            "scored": "trained",
        },
        rounds=2,  # in the first round the sites of a bagging job score nothing
    ),
    "hello-huggingface": Case(
        "examples/hello-world/hello-huggingface",
        {"peft:LoraConfig.r": {"choices": [2, 4]}},
        {"metric": "eval_loss", "direction": "minimize", "from": "training"},
        {"arguments": ["--data_root", "{data}/hf"], "setup": "nvflare_parts:huggingface", "timeout": 400.0},
    ),
    "auto-fl": Case(
        "research/auto-fl-research/tasks/cifar10",
        {"lr": rate(1e-3, 0.3)},
        {"metric": "accuracy", "direction": "maximize", "from": "clients"},
        {"setup": "nvflare_parts:cifar", "timeout": 400.0},
    ),
}


def tuned(name: str, case: Case, options: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Tune a job, or say why it was refused."""
    from fedhpo.core.errors import FedhpoError
    from fedhpo.study import Study

    place = Path(options.examples) / case.path
    home = place if place.is_dir() else place.parent
    before, begun = digest(home), time.monotonic()
    job = {"timeout": 300.0, **case.job, "path": str(place)}
    job["arguments"] = [one.replace("{data}", str(data)) for one in case.job.get("arguments", [])]
    tables = {
        "job": job,
        "space": {"client": dict(case.space)},
        "objective": dict(case.objective),
        "method": {"name": "random", "trials": 2},
        "budget": {"rounds": case.rounds, "total": 2 * case.rounds},
    }
    try:
        result = Study.from_dict(tables).tune()
        found = {"tuned": result.status == "finished", "score": result.best_score}
        found["config"] = dict(result.best_config.client)
    except FedhpoError as error:
        found = {"tuned": False, "why": " ".join(str(error).split())}
    return {**found, "edited": int(digest(home) != before), "seconds": time.monotonic() - begun}


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", required=True, metavar="DIR")
    parser.add_argument("--site", metavar="SITE", help="a directory of further packages")
    parser.add_argument("--only", metavar="NAMES", help="some of them, with commas between")
    options = parser.parse_args()
    places = (str(HERE), options.site, os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(one for one in places if one)
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory(prefix="fedhpo-jobs-") as folder:
        from nvflare_parts import write_rows

        write_rows(Path(folder))
        os.environ["FEDHPO_JOBS_DATA"] = folder
        for name, case in CASES.items():
            if options.only and name not in options.only.split(","):
                continue
            found = tuned(name, case, options, Path(folder))
            what = (
                f"tuned, {case.objective['metric']} {found['score']:.4g}, {json.dumps(found['config'])}"
                if found["tuned"]
                else f"refused: {found['why'][:300]}"
            )
            rows.append(f"| {name} | {found['edited']} | {what} | {found['seconds']:.0f} s |")
            print(rows[-1], flush=True)
    print("\n| job | edited | what came of it | time |\n| --- | --- | --- | --- |")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
