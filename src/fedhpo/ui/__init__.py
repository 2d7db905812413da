"""The live page: all runs below a directory in the browser, read from their records while they grow."""

from fedhpo.ui.server import serve

__all__ = ["serve"]
