"""A job of NVFlare's simulator, whose server judges cells one after the other over the job's sites.

python benchmarks/settings_cells/nvflare_job.py NAMES.json RESULTS.json
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from nvflare.collab import CollabRecipe, collab
from nvflare.recipe import SimEnv

#: NVFlare copies this file into the job: the other files stay where they are.
HERE = os.environ.setdefault("SETTINGS_CELLS", str(Path(__file__).parents[1]))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from fedhpo.nvflare import Client  # noqa: E402
from settings_cells.contexts import write_files  # noqa: E402
from settings_cells.places import CLIENTS  # noqa: E402


class CellServer:
    """Judges cells; NVFlare's recipes take objects made of plain values."""

    def __init__(self, names: str, results: str) -> None:
        self.names, self.results = names, results

    @collab.main
    def main(self) -> None:
        """The whole job."""
        from settings_cells import nvflare_cells
        from settings_cells.judge import judged

        nvflare_cells.SITES[:] = list(collab.clients)
        wanted, found = set(json.loads(Path(self.names).read_text())), {}
        for cell in nvflare_cells.cells():
            if cell.name in wanted:
                found[cell.name] = judged(cell)
                Path(self.results).write_text(json.dumps(found))


class CellClient:
    """A client of whichever study it is asked about."""

    def __init__(self) -> None:
        self._text, self._client = "", Client()

    @collab.publish
    def cell(self, tables: str, kind: str, text: str, models: dict[str, Any]) -> dict[str, Any]:
        """The reply of a client of this study."""
        if tables != self._text:
            write_files()
            self._text, self._client = tables, Client(json.loads(tables))
        return self._client.reply(str(collab.site_name), kind, text, models)


def main() -> None:
    """The job."""
    with tempfile.TemporaryDirectory() as folder:
        job = CollabRecipe(
            "cells",
            server=CellServer(sys.argv[1], sys.argv[2]),
            client=CellClient(),
            min_clients=CLIENTS,
            sync_task_timeout=300,
        )
        job.execute(SimEnv(num_clients=CLIENTS, workspace_root=folder))


if __name__ == "__main__":
    main()
