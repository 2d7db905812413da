"""The same studies by `flwr run`: a SuperLink in simulation mode on this machine, nodes in Ray's actors."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

#: So that nothing is sent, asked or installed.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_worker_niceness": "0",
}


class SuperLink:
    """A SuperLink that lives as long as the `with` block; `environment` is for it and its runs."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        (home / "flwr").mkdir(parents=True, exist_ok=True)
        (home / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "sim"\n[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        self.home = home
        self.environment = {**environment, **QUIET, "FLWR_HOME": str(home / "flwr")}
        self._log = (home / "superlink.log").open("w")
        self._process = subprocess.Popen(
            [
                "flower-superlink",
                "--insecure",
                "--simulation",
                *("--host", "127.0.0.1", "--port", str(port)),
                "--disable-runtime-dependency-installation",
            ],
            env=self.environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> SuperLink:
        for _ in range(120):
            if "Uvicorn running" in (self.home / "superlink.log").read_text():
                return self
            time.sleep(1)
        raise RuntimeError(f"the SuperLink is not up: see {self.home / 'superlink.log'}")

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, 15)
        self._process.wait(30)
        self._log.close()

    def tune(self, around: Path, run: Path, clients: int, seconds: float) -> dict[str, Any]:
        """Tune an app that was wrapped; its result, or why there is none."""
        begun = time.monotonic()
        how = f"num-supernodes={clients} client-resources-num-cpus=1"
        log = self.home / f"{around.name}.log"
        with log.open("w") as told, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["flwr", "run", str(around), "sim", "--stream", "--federation-config", how],
                env=self.environment,
                stdout=told,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        result = run / "result.json"
        took = time.monotonic() - begun
        if not result.exists():
            return {"tuned": False, "why": f"no result: see {log}", "seconds": took}
        facts = json.loads(result.read_text())
        best = facts["best"]
        return {
            "tuned": facts["status"] == "finished",
            "score": best["validation"]["value"],
            "config": best["config"],
            "seconds": took,
        }
