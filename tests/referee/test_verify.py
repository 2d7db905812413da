"""`fedhpo.verify` and the command, on toys and on small studies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import RunError
from fedhpo.referee.campaign import read_lines
from fedhpo.referee.sides.federated import FederatedSide
from fedhpo.referee.sides.ran import asked_clients
from fedhpo.study import Study


def toy(mean: float, spread: float = 0.01, **more: Any) -> Callable[..., dict[str, Any]]:
    """A function whose scores are normal."""

    def train(seed: int) -> dict[str, Any]:
        # Not the seed alone: two toys would then have the same noise, and a difference without any.
        rng = np.random.default_rng([seed, round(1e6 * mean)])
        return {"score": mean + spread * rng.normal(), "rounds": 5, "cohort": 4, **more}

    return train


def command(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["verify", *arguments, "--workers", "0", "--json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


def test_keep_drop_and_undecided_have_their_codes() -> None:
    assert fh.verify(toy(0.8), toy(0.9)).code == 0
    assert fh.verify(toy(0.8), toy(0.7)).code == 3
    found = fh.verify(toy(0.8, 0.1), toy(0.85, 0.1), pairs=6, least=0.0)
    assert (found.code, found.verdicts[0].verdict) == (4, "undecided")


def test_the_difference_of_a_keep_comes_from_pairs_after_the_decision(tmp_path: Path) -> None:
    file = tmp_path / "c"
    found = fh.verify(toy(0.8), toy(0.83), campaign=file, after=5)
    lines = [line for line in read_lines(file) if line.get("event") == "pair"]
    after = [one["candidate"]["score"] - one["base"]["score"] for one in lines if one["after"]]
    assert len(after) == 5
    assert found.verdicts[0].difference == pytest.approx(np.mean(after))
    assert len({one["seed"] for one in lines}) == len(lines)
    low, high = found.verdicts[0].interval
    assert low < 0.03 < high


def test_a_campaign_remembers_its_comparisons(tmp_path: Path) -> None:
    file, trained = tmp_path / "c", []
    base, better, worse = toy(0.8), toy(0.9), toy(0.6)

    def watched(seed: int) -> dict[str, Any]:
        trained.append(seed)
        return worse(seed)

    first = fh.verify(base, watched, better, campaign=file, proposals=3)
    assert [one.verdict for one in first.verdicts] == ["drop", "keep"]
    count = len(trained)
    again = fh.verify(base, watched, better, campaign=file)
    assert len(trained) == count
    assert again.to_dict() == first.to_dict()
    with pytest.raises(InputError, match="is not the base"):
        fh.verify(base, toy(0.7), campaign=file)
    fh.verify(better, toy(0.5), campaign=file)
    with pytest.raises(InputError, match="declared 3 proposals"):
        fh.verify(better, toy(0.4), campaign=file)
    with pytest.raises(InputError, match=r"alpha = 0\.1: the campaign"):
        fh.verify(better, toy(0.4), campaign=file, alpha=0.1)


def test_a_killed_comparison_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    base, better = toy(0.8, 0.02), toy(0.83, 0.02)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    fh.verify(base, better, campaign=whole)
    calls = 0

    def stops(seed: int) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return better(seed)

    # A function is known by its code: the one that stops is another one, so the file is cut instead.
    lines = whole.read_bytes().splitlines(keepends=True)
    for keep in (1, 3, 4, len(lines) - 2):
        cut.write_bytes(b"".join(lines[:keep]) + b"[torn")
        fh.verify(base, better, campaign=cut)
        assert cut.read_bytes() == whole.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        fh.verify(base, stops)


def test_an_undecided_proposal_goes_on_with_more_pairs(tmp_path: Path) -> None:
    base, better, file = toy(0.8, 0.02), toy(0.82, 0.02), tmp_path / "c"
    first = fh.verify(base, better, campaign=file, pairs=6, least=0.0).verdicts[0]
    again = fh.verify(base, better, campaign=file, pairs=60).verdicts[0]
    assert (first.verdict, again.verdict) == ("undecided", "keep")
    assert again.facts["pairs"] > 6
    assert again.facts["proposal"] == 1


def test_a_damaged_campaign_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c"
    fh.verify(toy(0.8), toy(0.7), campaign=file)
    file.write_bytes(file.read_bytes().replace(b'"drop"', b'"keep"'))
    with pytest.raises(RunError, match="is damaged"):
        fh.verify(toy(0.8), toy(0.7), campaign=file)


def test_unequal_rounds_cohorts_and_bytes_are_refused() -> None:
    with pytest.raises(InputError, match=r"rounds is 5 in .* and 6 in"):
        fh.verify(toy(0.8), toy(0.9, rounds=6))
    with pytest.raises(InputError, match=r"cohort is 4 in .* and 5 in"):
        fh.verify(toy(0.8), toy(0.9, cohort=5))
    with pytest.raises(InputError, match=r"moves 1\.030 times"):
        fh.verify(toy(0.8, bytes=100), toy(0.9, bytes=103), equal="bytes")
    with pytest.raises(InputError, match="does not tell the bytes"):
        fh.verify(toy(0.8), toy(0.9), equal="bytes")
    found = fh.verify(toy(0.8, bytes=100), toy(0.9, bytes=50), equal="bytes")
    assert "cheaper" in str(found)
    with pytest.raises(InputError, match="told no rounds"):
        fh.verify(
            lambda seed: {"score": 1.0, "cohort": 1}, lambda seed: {"score": 2.0, "cohort": 1, "rounds": 1}
        )


def test_bytes_are_bounded_over_all_pairs_and_in_the_record_too(tmp_path: Path) -> None:
    calls = [0]

    def grows(seed: int) -> dict[str, Any]:
        calls[0] += 1
        return toy(0.9)(seed) | {"bytes": 100 if calls[0] == 1 else 110}

    base, file = toy(0.8, bytes=100), tmp_path / "c"
    with pytest.raises(InputError, match=r"moves 1\.050 times"):
        fh.verify(base, grows, equal="bytes", campaign=file)
    assert fh.verify(base, grows, campaign=file).kept
    with pytest.raises(InputError, match=r"moves 1\.\d+ times"):
        fh.verify(base, grows, equal="bytes", campaign=file)


def test_an_option_that_no_side_takes_is_refused(study: Callable[..., str]) -> None:
    base, other = study("base"), study("other", 0.3)
    for name, value in (("metric", "loss"), ("rounds", 2), ("source", "server"), ("trained", True)):
        shown = {"source": "from"}.get(name, name)
        with pytest.raises(InputError, match=f"^{shown} = .*: is for a "):
            fh.verify(base, other, **{name: value})
    with pytest.raises(InputError, match=r"^rounds = 2: is for a flower app and a nvflare job"):
        fh.verify(toy(0.8), toy(0.9), rounds=2)


def test_another_direction_is_another_base(tmp_path: Path) -> None:
    base, file = toy(0.8), tmp_path / "c"
    fh.verify(base, toy(0.9), metric="x", direction="maximize", campaign=file)
    with pytest.raises(InputError, match="is not the base"):
        fh.verify(base, toy(0.7), metric="x", direction="minimize", campaign=file)


def test_the_last_base_is_judged_where_it_was_not_tuned(study: Callable[..., str], tmp_path: Path) -> None:
    base, file = study("base"), tmp_path / "c"
    for name, count in (("some", 20), ("all", 40)):
        text = study(
            name, 0.3, more=f"[evaluation]\nclients = {count}\n[method]\nname = 'random'\ntrials = 1"
        )
        Study.load(text).tune(tmp_path / f"run-{name}", workers=0)
    fh.verify(base, study("worse", 0.002), workers=0, campaign=file)
    head = read_lines(file)[0]
    asked = set(asked_clients(tmp_path / "run-some")) & set(head["kept_back"])
    assert 0 < len(asked) < 8
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    final = fh.verify(base, workers=0, campaign=copy, final=True, tuned=[tmp_path / "run-some"]).final
    assert final is not None
    assert final["where"].startswith(f"judged at {8 - len(asked)} clients that no comparison saw and that")
    final = fh.verify(base, workers=0, campaign=file, final=True, tuned=[tmp_path / "run-all"]).final
    assert final is not None
    assert final["where"].endswith("8 clients that no comparison saw, but the base was tuned on them")


def test_a_refused_comparison_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "c"
    with pytest.raises(InputError, match="cohort is 4"):
        fh.verify(toy(0.8), toy(0.9, cohort=5), campaign=file)
    assert file.read_bytes() == b""
    assert fh.verify(toy(0.7, rounds=6), toy(0.9, rounds=6), campaign=file).kept


def test_an_undecided_proposal_is_not_pursued_once_the_base_has_moved_on(tmp_path: Path) -> None:
    base, open_, better, file = toy(0.8), toy(0.803), toy(0.9), tmp_path / "c"
    said = [one.verdict for one in fh.verify(base, open_, better, campaign=file, least=0.0).verdicts]
    assert said == ["undecided", "keep"]
    before = file.read_bytes()
    assert fh.verify(base, open_, campaign=file, pairs=500).verdicts[0].verdict == "undecided"
    assert file.read_bytes() == before


def test_less_is_better_where_the_direction_says_so() -> None:
    assert fh.verify(toy(0.8), toy(0.7), metric="loss", direction="minimize").kept


def test_the_worst_tenth_is_told() -> None:
    def by_client(worst: float) -> Callable[..., dict[str, Any]]:
        def train(seed: int) -> dict[str, Any]:
            noise = np.random.default_rng([seed, int(worst * 1e6)]).normal(0, 0.001, 20)
            scores = np.array([worst, worst, *[0.9] * 18]) + noise
            return {"scores": scores.tolist(), "rounds": 1, "cohort": 1}

        return train

    found = fh.verify(by_client(0.2), by_client(0.5)).verdicts[0]
    assert found.facts["tail"]["mean"] == pytest.approx(0.3, abs=0.01)
    assert found.difference == pytest.approx(0.03, abs=0.002)


def test_a_candidate_that_fails_is_dropped_and_a_base_that_fails_is_an_error() -> None:
    def fails(seed: int) -> dict[str, Any]:
        raise RuntimeError("no memory")

    found = fh.verify(toy(0.8), fails).verdicts[0]
    assert found.verdict == "drop"
    assert "no memory" in str(found)
    with pytest.raises(fh.FedhpoError, match=r"base .* cannot be trained"):
        fh.verify(fails, toy(0.8))


def test_studies_are_compared_with_equal_seeds_cohorts_and_fresh_clients(
    study: Callable[..., str], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    base, better = study("base"), study("better", lr=0.3)
    code, said = command(capsys, base, better, "--proposals", "20")
    [found] = said["verdicts"]
    assert (code, found["verdict"]) == (0, "keep")
    assert found["pairs"] >= 9
    assert found["cost"]["bytes"]["ratio"] == 1.0
    assert Path(said["report"]).is_file()
    lines = read_lines(Path(said["campaign"]))
    head = lines[0]
    assert len(head["judges"]) == 32
    assert len(head["kept_back"]) == 8
    assert not set(head["judges"]) & set(head["kept_back"])
    code, said = command(capsys, better, "--campaign", said["campaign"], "--final")
    assert code == 0
    assert "8 clients that no comparison saw" in said["final"]["where"]
    assert main(["verify", better, base, "--campaign", said["campaign"], "--workers", "0"]) == 2
    assert "has ended" in capsys.readouterr().err


def test_a_study_trained_twice_with_a_seed_has_the_same_score_and_its_cohorts_are_the_pairs(
    study: Callable[..., str],
) -> None:
    sides = [
        FederatedSide(Study.load(study(name, lr)), name, "study", workers=0)
        for name, lr in (("a", 0.1), ("b", 0.2))
    ]
    seen: list[list[Any]] = [[], []]
    for side, cohorts in zip(sides, seen, strict=True):
        inner = side._federation.round
        side._federation.round = lambda work, inner=inner, cohorts=cohorts: (
            cohorts.append(work[0].cohort),
            inner(work),
        )[1]
    first = [side.train(7, [0, 1, 2]) for side in sides]
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 3
    assert sides[0].train(7, [0, 1, 2]) == first[0]
    assert sides[0].train(8, [0, 1, 2]) != first[0]
    assert first[0].clients == 3
    for side in sides:
        side.close()


def test_other_data_rounds_and_metrics_are_refused_with_the_difference(study: Callable[..., str]) -> None:
    base = study("base")
    for name, more, words in (
        ("longer", {"rounds": 4}, "rounds is 3 in base and 4 in longer"),
        ("metric", {"more": "[objective]\nmetric = 'loss'"}, "metric is accuracy in base and loss in metric"),
    ):
        with pytest.raises(InputError, match=words):
            fh.verify(base, study(name, **more), workers=0)
    other = study("other")
    Path(other).write_text(Path(other).read_text().replace("clients = 40", "clients = 40\nseed = 3"))
    with pytest.raises(InputError, match="hold other rows"):
        fh.verify(base, other, workers=0)
    private = study("private", more="[evaluation.privacy]\nepsilon = 1.0")
    with pytest.raises(InputError, match="privacy is set"):
        fh.verify(base, private, workers=0)
    with pytest.raises(InputError, match="is the base itself"):
        fh.verify(base, study("same"), workers=0)


def test_a_run_is_judged_at_clients_that_its_search_did_not_ask(
    study: Callable[..., str], tmp_path: Path
) -> None:
    text = study("tuned", more="[evaluation]\nclients = 3\n[method]\nname = 'random'\ntrials = 3")
    Study.load(text).tune(tmp_path / "run", workers=0)
    found = fh.verify(study("base"), tmp_path / "run", workers=0, campaign=tmp_path / "c", pairs=6).verdicts[
        0
    ]
    proposal = next(one for one in read_lines(tmp_path / "c") if one.get("event") == "proposal")
    head = read_lines(tmp_path / "c")[0]
    assert 0 < len(proposal["clients"]) < len(head["judges"])
    assert any("neither side was tuned on" in note for note in found.facts["notes"])
    assert found.facts["candidate"]["kind"] == "run"


def test_a_scalar_control_must_be_beaten_too(study: Callable[..., str], tmp_path: Path) -> None:
    """The candidate only has a better learning rate: tuning the base finds as much, so nothing is kept."""
    base, better = study("base", 0.002), study("better", 0.1)
    assert fh.verify(base, better, workers=0).kept
    file = tmp_path / "c"
    found = fh.verify(base, better, workers=0, control=60, campaign=file, pairs=8).verdicts[0]
    assert not found.kept
    assert found.facts["control"]["rounds"] == 60
    [control] = [one for one in read_lines(file) if one.get("event") == "control"]
    assert control["config"]["client"]["lr"] > 0.002
    with pytest.raises(InputError, match="is no run"):
        fh.verify(base, better, workers=0, control="spent")


def test_two_versions_of_one_module_are_compared(tmp_path: Path, monkeypatch: Any) -> None:
    """Each side runs in its own process, so that both find their own `net`."""
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    for name, width in (("old", 1), ("new", 64)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(
            "from torch import nn\n\ndef Net():\n"
            f"    layers = nn.Linear(64, {width}), nn.ReLU(), nn.Linear({width}, 10)\n"
            "    return nn.Sequential(nn.Flatten(), *layers)\n"
        )
        (tmp_path / name / "study.toml").write_text(
            '[data]\nname = "digits"\nclients = 20\n[model]\nname = "net:Net"\n[space.client]\nlr = 0.3\n'
            "[budget]\nrounds = 3\ncohort = 5\n"
        )
    found = fh.verify(tmp_path / "old" / "study.toml", tmp_path / "new" / "study.toml", workers=0).verdicts[0]
    assert found.verdict == "keep"
    assert found.facts["cost"]["bytes"]["ratio"] > 10


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_side_at_once_and_quietly(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """As a terminal does it: all processes of the group get the signal."""
    (tmp_path / "slow.py").write_text(
        "import time\n\ndef train(seed):\n    print('training', flush=True)\n    time.sleep(600)\n"
        "\ndef other(seed):\n    return train(seed)\n"
    )
    path = ":".join([str(tmp_path), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-m", "fedhpo", "verify", "slow:train", "slow:other", "--campaign", "c"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "training" in line:  # what a side prints goes to standard error
            os.killpg(process.pid, sent)
            break
    said += process.stderr.readlines()
    assert process.wait(timeout=60) == code
    assert ("fedhpo: interrupted\n" in said) == (sent == signal.SIGINT)
    assert "Traceback" not in "".join(said)


def test_what_is_named_wrongly_is_told(tmp_path: Path, capsys: Any) -> None:
    assert main(["verify", "nowhere.toml", "also.toml"]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path / "empty"), "x.toml", "--campaign", str(tmp_path / "c")]) == 2
    assert "holds no run" in capsys.readouterr().err
