"""Counter-based random numbers in host memory."""

from typing import Any

def __getattr__(name: str) -> Any: ...
