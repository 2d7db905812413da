"""The page: whoever reaches its port reads runs, and a named pipe or an odd name breaks or hangs the list."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import fedhpo as fh
from fedhpo.testing import ToyFederation


def asked(address: str, token: str = "") -> int:
    """The status of an answer; 0 where there is none within five seconds."""
    request = urllib.request.Request(address, headers={"X-Token": token})
    for _ in range(50):
        try:
            return int(urllib.request.urlopen(request, timeout=5).status)
        except urllib.error.HTTPError as error:
            return error.code
        except TimeoutError:
            return 0
        except urllib.error.URLError:  # it is starting
            time.sleep(0.2)
    return 0


with tempfile.TemporaryDirectory() as name:
    runs = Path(name)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    fh.tune(ToyFederation(), space, "random", rounds=2, total=4, cohort=3, run=runs / "private")
    os.chmod(runs / "private", 0o700)
    lock = (runs / "private" / "lock").read_text()
    command = [sys.executable, "-m", "fedhpo", "ui", name, "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        where, _, token = json.loads(server.stdout.readline())["address"].partition("?token=")
        stranger = asked(f"{where}api/run?name=private")
        os.rename(runs / "private", runs / os.fsdecode(b"bad\xff\xfename"))
        odd = asked(f"{where}api/runs", token)
        (runs / "piped").mkdir()
        (runs / "piped" / "record.sqlite").touch()
        os.mkfifo(runs / "piped" / "lock")
        piped = asked(f"{where}api/runs", token)
    finally:
        server.kill()
        server.wait()
print(
    f"without a token: {stranger}; odd name: {odd}; pipe as lock: {piped or 'hangs'}; the lock says {lock!r}"
)
sys.exit(0 if (stranger, odd, piped) == (403, 200, 200) and "host" in lock else 1)
