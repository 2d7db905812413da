"""A few hundred cases of `benchmarks/fuzz.py`: no input ends in a traceback."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_benchmark", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mutated_inputs_are_accepted_or_refused(fuzz, tmp_path):
    fuzz.files.make(tmp_path)
    corpus = fuzz.Corpus(tmp_path)
    found = [(number, *fuzz.run_case(11, number, corpus)) for number in range(250)]
    assert [case for case in found if case[2] not in ("accepted", "refused")] == []
    assert {case[1] for case in found} == set(fuzz.KINDS)  # every kind had its turn
    assert sum(case[2] == "accepted" for case in found) > 10  # and not all of it was nonsense


def test_a_traceback_is_counted_and_kept(fuzz, tmp_path, monkeypatch):
    def broken(rng, folder, part):
        raise KeyError("kind")

    monkeypatch.setattr(fuzz, "KINDS", {"broken": (1, broken)})
    kind, outcome, why = fuzz.run_case(0, 7, fuzz.Corpus(tmp_path, [], []))
    assert (kind, outcome) == ("broken", "traceback")
    assert "KeyError: 'kind'" in why
    tally = fuzz.Tally()
    tally.add(7, kind, outcome, why)
    fuzz._write(tally.failures, tmp_path / "failures", seed=0)
    assert "--seed 0 --case 7" in (tmp_path / "failures" / "case-0-7.txt").read_text()
