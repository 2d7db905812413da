"""The interface for coding agents: `fedhpo mcp`."""
