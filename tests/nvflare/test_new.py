"""`fedhpo new nvflare`: the job that it writes is one that NVFlare takes; `make test-nvflare` runs it."""

import importlib
import json
import sys

import pytest
from nvflare_cases import LocalSite

import fedhpo.nvflare
from fedhpo.cli import main
from fedhpo.study import Study


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A new job's directory, importable."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "nvflare", "my-job", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {"my-job/job.py", "my-job/client.py", "my-job/study.toml"} <= set(files)
    monkeypatch.syspath_prepend(str(tmp_path / "my-job"))
    yield tmp_path / "my-job"
    sys.modules.pop("client", None)


def test_its_job_names_our_server_its_client_and_the_study(project, tmp_path):
    own = importlib.import_module("client").OwnClient
    study = Study.load(project / "study.toml")
    job = fedhpo.nvflare.recipe("my-job", study, tmp_path / "run", client=own(dict(study.given)))
    job.export(str(tmp_path / "jobs"))
    [server] = (tmp_path / "jobs").rglob("config_fed_server.*")
    [client] = (tmp_path / "jobs").rglob("config_fed_client.*")
    parts = {one["id"]: one for one in json.loads(server.read_text())["components"]}
    assert parts["_server"]["path"] == "fedhpo.nvflare.server.Server"
    assert parts["_server"]["args"] == {"study": dict(study.given), "run": str(tmp_path / "run")}
    parts = {one["id"]: one for one in json.loads(client.read_text())["components"]}
    assert parts["_client"] == {
        "id": "_client",
        "path": "client.OwnClient",
        "args": {"study": dict(study.given)},
    }


def test_its_clients_train(project, tmp_path):
    own = importlib.import_module("client").OwnClient
    text = (project / "study.toml").read_text()
    assert "rounds = 10 " in text
    (project / "study.toml").write_text(
        text.replace("rounds = 10 ", "rounds = 2 ").replace("total = 20 ", "total = 6 ")
    )
    study = Study.load(project / "study.toml")
    sites = [LocalSite(f"site-{i + 1}", own(dict(study.given))) for i in range(4)]
    result = fedhpo.nvflare.tune(sites, study, tmp_path / "run")
    assert result.facts["status"] == "finished"
    assert len(json.loads((tmp_path / "run" / "clients.json").read_text())["clients"]) == 4
