import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_directory():
    directory = os.environ.get("FEDHPO_DATA")
    if not directory or not Path(directory).is_dir():
        pytest.skip("FEDHPO_DATA does not name the directory of the real data sets")
    return Path(directory)


@pytest.fixture(scope="session")
def decoded(data_directory, tmp_path_factory):
    """A cache of this test session's own, so that decoding is tested too."""
    before = os.environ.get("FEDHPO_CACHE")
    os.environ["FEDHPO_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield Path(os.environ["FEDHPO_CACHE"])
    if before is None:
        del os.environ["FEDHPO_CACHE"]
    else:
        os.environ["FEDHPO_CACHE"] = before
