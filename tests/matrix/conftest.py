"""Lets the tests here, and the processes they start, import their helpers: `import matrix_cells`."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent / "golden")]
sys.path += PATHS


@pytest.fixture(scope="module")
def cluster(request):
    """A cluster of Ray's whose workers import them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]))
        yield request.getfixturevalue("ray_cluster")
