"""Fine-tuning with adapters: state, memory, speed and exactness; and whether tuning matters there.

    python benchmarks/finetune.py --only state          about 4 minutes
    python benchmarks/finetune.py --only gpt --seeds 10  about 4 minutes a seed on one core; needs FEDHPO_DATA

`gpt` keeps what it has done in `--kept`, and goes on from there. Its base is that of `examples/finetuning`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples" / "finetuning"), str(ROOT / "benchmarks")]


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["state", "gpt"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "finetune.json")
    options = parser.parse_args()
    begin = time.time()
    wrong = 0
    if options.only in (None, "state"):
        from finetuning import state

        wrong += state.run()
    if options.only in (None, "gpt"):
        from finetuning import gpt

        gpt.run(os.environ["FEDHPO_DATA"], options.seeds, options.kept)
    print(f"{(time.time() - begin) / 60:.1f} minutes")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
