"""Parsing of numbers with suffixes."""

from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count

__all__ = ["SizeError", "parse_bytes", "parse_count"]
