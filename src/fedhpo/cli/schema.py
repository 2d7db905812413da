"""`fedhpo schema`: the JSON schema of study files."""

from __future__ import annotations

import argparse

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Print the schema."""
    from fedhpo.study.schema import schema

    print_json(schema(), indent=2)
    return OK
