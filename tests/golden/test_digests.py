"""A sample of `benchmarks/golden.py`: results and records are those of the version that wrote the digests."""

import json
from functools import cache

import pytest
from golden_cells import HERE, run_cells
from golden_digests import probe

KEPT = json.loads((HERE / "digests.json").read_text(encoding="utf-8"))
#: One of each trainee that runs in this process.
SAMPLE = [
    ("torch", "process", "fedpop"),
    ("torch", "process", "sha"),
    ("own function", "process", "fedex"),
    ("trees by bagging", "process", "random"),
    ("learners pooled", "process", "tpe"),
    ("torch", "flower", "fedex"),
    ("torch by default", "flower", "random"),
    ("flower app", "process", "random"),
]


@cache
def here():
    return probe()


@pytest.mark.parametrize("cell", SAMPLE, ids="/".join)
def test_a_cell_gives_the_bits_that_are_kept(cell):
    if here() != KEPT["probe"]:
        pytest.skip("other arithmetic or packages than where the digests were made: see benchmarks/golden.py")
    trainee, place, method = cell
    [(_, found)] = run_cells(trainee, place, [method])
    assert found == KEPT["cells"][trainee][place][method]
