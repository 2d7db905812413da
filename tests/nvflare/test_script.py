"""Scripts of NVFlare's Client API run as they are: what reaches them, what comes back, what goes wrong."""

import re
import sys
from pathlib import Path

import numpy as np
import nvflare.client as flare
import pytest
from nvflare_cases import LocalSite

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.federations.nvflare.federation import NVFlareFederation
from fedhpo.nvflare import Arrays, ScriptClient
from fedhpo.protocol.federation import Status, Work
from fedhpo.study import Study

HELLO = Path(__file__).parent / "hello"


@pytest.fixture
def script(tmp_path):
    """Writes a script that moves one number; its lines stand in a loop over the models that it receives."""

    def write(lines):
        path = tmp_path / "client.py"
        path.write_text(
            "import argparse\nimport nvflare.client as flare\nimport torch\n"
            "parser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int, default=2)\n"
            "parser.add_argument('--double', action='store_true')\n"
            "flare.init()\nwhile flare.is_running():\n"
            "    model = flare.receive()\n    w = model.params['w']\n"
            + "".join(f"    {line}\n" for line in lines)
        )
        return str(path)

    return write


def federation_of(path, count=2, patience=60.0, **options):
    sites = [LocalSite(f"site-{i + 1}", ScriptClient(path, **options)) for i in range(count)]
    model = Arrays(lambda seed: {"w": np.zeros(3)})
    return NVFlareFederation(sites, model, clients=count, patience=patience, aggregation=Aggregation())


def one_round(path, config, cohort=(0, 1), **options):
    with federation_of(path, **options) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, cohort, config, scores=("before",))])
        return report, federation.model(0)["w"]


SEND = "flare.send(flare.FLModel(params={'w': w}, metrics={'accuracy': 0.5}))"


def test_options_of_the_parser_the_optimiser_and_meta_reach_the_script(script):
    """epochs by its parser, lr by the optimiser, gain by the model's meta: 3 steps of 0.25 times 2."""
    path = script(
        [
            "args = parser.parse_args()",
            "p = torch.nn.Parameter(w)",
            "optimizer = torch.optim.SGD([p], lr=0.001)",
            "for _ in range(args.epochs):",
            "    p.grad = -torch.ones(3) * model.meta['gain']",
            "    optimizer.step()",
            "w = p.detach()",
            SEND,
        ]
    )
    report, weights = one_round(path, {"epochs": 3, "lr": 0.25, "gain": 2.0})
    assert not report.reasons
    assert weights.tolist() == [1.5] * 3
    assert report.loss_before.tolist() == report.accuracy_before.tolist() == [0.5, 0.5]


def test_flags_and_arguments_of_its_own(script):
    path = script(["a = parser.parse_args()", "w = w + a.epochs * (2 if a.double else 1)", SEND])
    assert one_round(path, {"double": True}, arguments=["--epochs", "5"])[1].tolist() == [10.0] * 3
    assert one_round(path, {"double": False})[1].tolist() == [2.0] * 3


def test_a_difference_is_added(script):
    path = script(
        [
            "d = flare.FLModel(params_type='DIFF', params={'w': w + 1}, metrics={'accuracy': 0})",
            "flare.send(d)",
        ]
    )
    with federation_of(path) as federation:
        federation.start(0, {}, 0)
        for _ in range(2):
            [report] = federation.round([Work(0, [0, 1], {})])
            assert not report.reasons
        assert federation.model(0)["w"].tolist() == [3.0] * 3  # 0 + 1, then 1 + 2


def test_scores_come_from_a_run_that_only_evaluates(script):
    path = script(
        [
            "assert flare.is_evaluate() != flare.is_train()",
            "if flare.is_evaluate():",
            "    flare.send(flare.FLModel(metrics={'accuracy': 25.0 + float(w[0])}))",
            "    continue",
            "w = w + 1",
            SEND.replace("0.5", "50"),
        ]
    )
    with federation_of(path, scale=0.01) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1], {}, scores=("before", "after"))])
        [scores] = federation.evaluate([0], [1, 0])
    assert report.accuracy_before.tolist() == [0.5, 0.5]
    assert report.accuracy_after == pytest.approx([0.26, 0.26])
    assert scores.accuracy == pytest.approx([0.26, 0.26])
    assert scores.loss == pytest.approx([0.74, 0.74])


@pytest.mark.parametrize(
    ("lines", "config", "why"),
    [
        (["raise ValueError('no data')"], {}, r"ValueError: no data \(client.py:12, in <module>\)"),
        (["import sys", "sys.exit(3)"], {}, "client.py ended with 3"),
        (["parser.parse_args(['--nonsense'])", SEND], {}, "client.py ended with 2"),
        (["pass"], {}, "client.py ended without flare.send"),
        ([SEND, SEND], {}, "flare.send was called twice"),
        ([SEND], {"depth": 3}, "client.py has no 'depth': its parser has no such option"),
        ([SEND.replace("0.5", "50")], {}, "accuracy = 50 is no share of 1: set scale"),
        (["w = torch.zeros(4)", SEND], {}, r"array 'w' has shape \(4,\), expected \(3,\)"),
        (["w = w * float('nan')", SEND], {}, "update is not finite"),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_task_is_done(script, lines, config, why):
    path = script(
        ["if flare.get_site_name() == 'site-1':", *(f"    {line}" for line in lines), f"else: {SEND}"]
    )
    report, weights = one_round(path, config if "depth" not in config else [config, {}])
    assert report.status.tolist() == [Status.FAILED, Status.OK]
    assert re.search(why, report.reasons[0].text), report.reasons[0]
    assert weights.tolist() == [0.0] * 3


def test_everything_is_put_back(script):
    import argparse

    import torch

    kept = argparse.ArgumentParser.parse_known_args, torch.optim.Optimizer.__init__, sys.argv, sys.path
    one_round(script([SEND]), {})
    assert kept == (
        argparse.ArgumentParser.parse_known_args,
        torch.optim.Optimizer.__init__,
        sys.argv,
        sys.path,
    )
    with pytest.raises(RuntimeError, match="init"):
        flare.is_running()


def test_a_script_that_is_not_there_is_named():
    with (
        pytest.warns(UserWarning, match=r"recipe.add_client_file\('away.py'\)"),
        pytest.raises(InputError, match="none of 2 clients can take part"),
    ):
        federation_of("away.py")


HELLO_STUDY = {
    "seed": 3,
    "data": {"name": "digits"},  # not looked at: the script brings its own
    "model": {"name": "hello_model:Network"},
    "client": {"open": True},
    "space": {
        "client": {
            "lr": {"low": 1e-3, "high": 1.0, "log": True, "default": 0.001},
            "epochs": {"choices": [1, 2], "default": 1},
        }
    },
    "method": {"name": "sha", "trials": 4},
    "objective": {"metric": "accuracy"},
    "budget": {"rounds": 4, "total": 12, "cohort": 2},
    "nvflare": {"clients": 2},
}


def test_lr_and_epochs_of_a_hello_script_are_tuned_without_a_changed_line(monkeypatch):
    from fedhpo.nvflare.server import federation_of as over

    monkeypatch.syspath_prepend(str(HELLO))
    client = str(HELLO / "client.py")
    assert "fedhpo" not in "".join(Path(client).read_text().splitlines()[1:])
    study = Study.from_dict(HELLO_STUDY)
    results = []
    for _ in range(2):
        sites = [LocalSite(f"site-{i + 1}", ScriptClient(client, scale=0.01)) for i in range(2)]
        results.append(study.tune(federation=over(sites, study)))
    first, second = ({**result.facts, "times": None} for result in results)
    assert first == second  # each task has its seed
    assert set(results[0].best_config.client) == {"lr", "epochs"}
    assert results[0].best_config.client["lr"] > 0.001  # the script's own barely learns in four rounds
