"""`fedhpo completion`: the shell completes commands, options and files, by argcomplete."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from fedhpo.core.errors import MissingExtraError

SHELLS = ("bash", "zsh", "fish")


def run(options: argparse.Namespace) -> int:
    """Print the script; `eval "$(fedhpo completion bash)"` switches it on."""
    from fedhpo.cli.output import print_json

    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise MissingExtraError("argcomplete", "completion") from None
    script: str = shellcode(["fedhpo"], shell=options.shell)
    if options.json:
        print_json({"shell": options.shell, "script": script})
    else:
        print(script)
    return 0


def complete(parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Answer the shell, and end the process, where it was the shell that asked."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser())
