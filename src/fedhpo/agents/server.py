"""The MCP server: tools on standard input and output, and nothing else."""

from __future__ import annotations

import functools
import inspect
import json
import time
from pathlib import Path
from typing import Any

from fedhpo.agents.calls import Calls
from fedhpo.agents.limits import LONGEST, Limits
from fedhpo.agents.tools import Tools
from fedhpo.core.errors import FedhpoError, InputError, MissingExtraError
from fedhpo.core.version import VERSION
from fedhpo.pages.numbers import finite

INSTRUCTIONS = (
    "Tune and judge federated learning with fedhpo. Write a study (check), tune it (tune, status, results), "
    "judge a change with verify, which trains base and candidate in pairs and says keep, drop or undecided. "
    "Never conclude from one score. Limits were set by a person; an error says what to change."
)
#: The tools, and whether each only reads.
READ = ("limits", "schema", "methods", "advice", "plan", "runs", "results", "curves", "comparison", "status")
ACT = ("check", "tune", "propose", "verify")


def serve(limits: Limits) -> None:
    """Answer calls until standard input ends."""
    server, tools, calls = make_server(limits)
    try:
        server.run("stdio")
    finally:
        tools.close()
        calls.close()


def make_server(limits: Limits) -> tuple[Any, Tools, Calls]:
    """The server, its tools and its journal."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError:
        raise MissingExtraError("mcp", "agents") from None
    tools = Tools(limits)
    calls = Calls(limits.root, tools.limits())

    class Server(MCPServer):  # type: ignore[misc,unused-ignore]
        """Writes every call into the journal, refused ones too."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            began = time.monotonic()
            try:
                _check_arguments(tools, name, arguments, ToolError)
                answer = await super().call_tool(name, arguments, context)
            except Exception as error:
                outcome = "refused" if isinstance(error, ToolError) else "failed"
                calls.note(name, arguments, outcome, str(error), time.monotonic() - began)
                raise
            said = json.dumps(getattr(answer, "structured_content", None), default=str)
            calls.note(name, arguments, "done", said, time.monotonic() - began)
            return answer

    server = Server("fedhpo", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING")
    for name in (*READ, *ACT):
        hints = ToolAnnotations(
            read_only_hint=name in READ,
            destructive_hint=False,
            idempotent_hint=name in READ,
            open_world_hint=False,
        )
        server.tool(name, annotations=hints, structured_output=True)(
            _guarded(getattr(tools, name), ToolError)
        )
    return server, tools, calls


def _check_arguments(tools: Tools, name: str, arguments: dict[str, Any], refusal: type[Exception]) -> None:
    """Refuse arguments that a tool does not have, which would otherwise be ignored, and giant ones."""
    if name not in (*READ, *ACT):
        return  # the SDK says that there is no such tool
    known = inspect.signature(getattr(tools, name)).parameters
    if unknown := [str(key)[:40] for key in arguments if key not in known]:
        raise refusal(f"{name} has no argument {', '.join(unknown[:5])}; it has {', '.join(known) or 'none'}")
    if len(json.dumps(arguments, default=str)) > 4 * LONGEST:
        raise refusal(f"the arguments of a call may have {4 * LONGEST} characters in all")


def _guarded(function: Any, refusal: type[Exception]) -> Any:
    """The tool with what it refuses as an error that the agent reads, and numbers that JSON can hold."""

    @functools.wraps(function)
    def tool(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = finite(function(*arguments, **named))
            return found
        except FedhpoError as error:
            raise refusal(str(error)[:1_000]) from None
        except OSError as error:
            raise refusal(f"{error.strerror or error}") from None

    return tool


def checked_root(path: str | Path) -> Path:
    """The root, an existing directory."""
    found = Path(path).expanduser().resolve()
    if not found.is_dir():
        raise InputError(f"--root {str(path)!r}: must be a directory that is there")
    if found == Path(found.anchor) or found == Path.home().resolve():
        raise InputError(f"--root {str(path)!r}: must not be the whole disk or a home directory")
    return found
