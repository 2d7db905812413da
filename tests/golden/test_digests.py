"""A sample of `benchmarks/golden.py`: results and records are those of the version that wrote the digests."""

import json
from functools import cache

import pytest
from golden_cells import EVERYWHERE, HERE, TRAINEES, cells, run_cells
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


def test_all_combinations_that_run_are_kept():
    """18 of trainee and place, as the design counts them, each with five methods, and what lies beside."""
    counted = {
        "torch": 5,
        "own function": 5,
        "trees by bagging": 3,
        "estimators by averaging": 2,
        "flower app": 2,
        "nvflare script": 1,
    }
    for trainee, places in counted.items():
        assert len(set(EVERYWHERE) & set(TRAINEES[trainee].places)) >= places
        assert len(TRAINEES[trainee].methods) == 5
    kept = {
        (trainee, place, method)
        for trainee, places in KEPT["cells"].items()
        for place, methods in places.items()
        for method in methods
    }
    assert kept == set(cells())


@pytest.mark.parametrize("trainee", TRAINEES)
@pytest.mark.parametrize("alike", [("process", "workers", "ray"), ("flower", "nvflare")], ids="/".join)
def test_one_trainee_has_one_digest_wherever_that_is_claimed(trainee, alike):
    """Workers change nothing; nor does it matter whether messages travel by Flower or by NVFlare."""
    found = [places for place, places in KEPT["cells"][trainee].items() if place in alike]
    for method in TRAINEES[trainee].methods if found else ():
        assert len({methods[method]["states"] for methods in found}) == 1, method
