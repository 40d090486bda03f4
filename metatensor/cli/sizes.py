"""Parsing of numbers with suffixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count, parse_seconds, parse_share

__all__ = ["Size", "SizeError", "parse_bytes", "parse_count", "parse_seconds", "parse_share"]


class Size(click.ParamType):
    """A number with an optional suffix."""

    name = "size"

    def __init__(self, parse: Callable[[str], int | float]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text. Fail with a usage error if it is invalid."""
        if isinstance(value, (int, float)):
            return value
        try:
            return self.parse(value)
        except SizeError as error:
            self.fail(str(error), param, ctx)
