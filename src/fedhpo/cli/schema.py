"""`fedhpo schema`: the JSON schema of study files."""

from __future__ import annotations

import argparse
import json

from fedhpo.cli import OK


def run(options: argparse.Namespace) -> int:
    """Print the schema."""
    from fedhpo.study.schema import schema

    print(json.dumps(schema(), indent=2))
    return OK
