"""`fedhpo new flower`: the app that it writes is one that Flower takes, and it runs."""

import importlib
import json
import sys
import tomllib

import pytest
from flwr.cli.config_utils import load_and_validate

from fedhpo.cli import main
from fedhpo.flower import run_in_process


@pytest.fixture
def app(tmp_path, monkeypatch, capsys):
    """A new app, importable as `my_first_app`."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "flower", "my-first-app", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert "my-first-app/my_first_app/study.toml" in files
    monkeypatch.syspath_prepend(str(tmp_path / "my-first-app"))
    yield tmp_path / "my-first-app"
    for name in [name for name in sys.modules if name.startswith("my_first_app")]:
        del sys.modules[name]


def test_flower_takes_it(app):
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["components"] == {
        "serverapp": "my_first_app.server_app:app",
        "clientapp": "my_first_app.client_app:app",
    }
    assert warnings == []


def test_it_runs_in_process_and_goes_on_where_it_was(app, capsys):
    study = app / "my_first_app" / "study.toml"
    text = study.read_text()
    assert "rounds = 10 " in text
    study.write_text(text.replace("rounds = 10 ", "rounds = 2 ").replace("total = 20 ", "total = 6 "))
    project = tomllib.loads((app / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert config == {"run-dir": str(app / "runs" / "first")}
    server = importlib.import_module("my_first_app.server_app")
    client = importlib.import_module("my_first_app.client_app")
    run_in_process(server.app, client.app, nodes=3, run_config=config)
    first = capsys.readouterr().out
    assert "best config: client(lr=" in first
    assert (app / "runs" / "first" / "report.html").is_file()
    assert json.loads((app / "runs" / "first" / "result.json").read_text())["status"] == "finished"
    run_in_process(server.app, client.app, nodes=3, run_config=config)
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["flour", "app"], "flower"),
        (["flower", "My App"], "My App"),
        (["flower", "taken"], "taken"),
    ],
)
def test_mistakes_are_named(arguments, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    assert main(["new", *arguments]) == 2
    assert named in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_app_that_fine_tunes_runs_and_sends_adapters(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    assert main(["new", "flower", "my-tuned-app", "--finetune"]) == 0
    app = tmp_path / "my-tuned-app"
    monkeypatch.syspath_prepend(str(app))
    study = app / "my_tuned_app" / "study.toml"
    text = study.read_text().replace("rounds = 10 ", "rounds = 2 ").replace("total = 20 ", "total = 4 ")
    study.write_text(text.replace("max_steps = 10", "max_steps = 2").replace("clients = 10", "clients = 3"))
    assert "fedhpo[flower,finetune]" in (app / "pyproject.toml").read_text()
    try:
        server = importlib.import_module("my_tuned_app.server_app")
        client = importlib.import_module("my_tuned_app.client_app")
        run_in_process(server.app, client.app, nodes=3, run_config={"run-dir": str(app / "runs" / "first")})
    finally:
        for name in [name for name in sys.modules if name.startswith("my_tuned_app")]:
            del sys.modules[name]
    assert "best config: client(" in capsys.readouterr().out
    kept = [path.stat().st_size for path in (app / "runs" / "first" / "checkpoints").rglob("*.safetensors")]
    # Rank 16 at q_proj and v_proj of two layers of width 64: 32,768 bytes.
    assert kept
    assert max(kept) < 36_000


def test_there_is_no_such_template_for_nvflare(tmp_path, capsys):
    assert main(["new", "nvflare", str(tmp_path / "job"), "--finetune"]) == 2
    assert "--finetune: has no effect with 'nvflare'" in capsys.readouterr().err
