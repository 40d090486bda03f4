"""Random numbers on the host."""

from typing import Any

def __getattr__(name: str) -> Any: ...
