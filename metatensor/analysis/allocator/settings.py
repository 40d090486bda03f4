"""Settings of the caching allocator, with the options of ``PYTORCH_CUDA_ALLOC_CONF``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["EMPTY_CACHE", "LARGE_SEGMENT", "MIN_BLOCK", "MIN_LARGE", "ROUND_LARGE", "SMALL", "SMALL_SEGMENT", "AllocatorSettings"]

EMPTY_CACHE = "empty_cache"
"""The event that returns cached memory to the driver, like `torch.cuda.empty_cache`."""
MIB = 1 << 20
MIN_BLOCK = 512
"""The size of every block is a multiple of this many bytes."""
SMALL = MIB
"""Largest block of the small pool, in bytes."""
SMALL_SEGMENT = 2 * MIB
"""Size of a segment of the small pool, in bytes."""
LARGE_SEGMENT = 20 * MIB
"""Size of a segment for blocks between `SMALL` and `MIN_LARGE`, in bytes."""
MIN_LARGE = 10 * MIB
"""A block of at least this many bytes gets a segment of its own size."""
ROUND_LARGE = 2 * MIB
"""Segments for large blocks are multiples of this many bytes."""
INTERVALS = 16
"""Powers of two, from 1 MiB on, for which ``roundup_power2_divisions`` can be set."""
NO_EFFECT = {"backend", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "pinned_num_register_threads",
             "pinned_reserve_segment_size_mb", "pinned_use_background_threads", "graph_capture_record_stream_reuse",
             "use_cuda_host_register", "per_process_memory_fraction", "throw_on_cudamalloc_oom"}  # fmt: skip
"""Options that do not affect the layout of device memory in the native allocator."""


@dataclass(frozen=True)
class AllocatorSettings:
    """Settings of the caching allocator. The defaults are PyTorch's. Sizes are in bytes.

    Parameters
    ----------
    max_split_size : int, optional
        Blocks of at least this size are not split, and smaller requests do not use them. None: all blocks may be split.
    max_non_split_rounding : int, default 20 MiB
        A block that is not split may exceed the request by less than this.
    roundup_power2_divisions : int or tuple of 16 int, default 0
        Number of equal steps into which the range between two powers of two is divided. The size of a block is rounded
        up to the next step if that is coarser than multiples of 512 bytes. 0 and 1 have no effect. A tuple holds the
        number for each power of two from 1 MiB on.
    garbage_collection_threshold : float, default 0
        If more than this fraction of the capacity is reserved, unused cached segments are returned before a new
        segment is requested. 0 means never.
    expandable_segments : bool, default False
        Whether each stream and pool has a single segment, to which pages are added.
    """

    max_split_size: int | None = None
    max_non_split_rounding: int = 20 * MIB
    roundup_power2_divisions: int | tuple[int, ...] = 0
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    _divisions: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        if self.max_split_size is not None and self.max_split_size <= LARGE_SEGMENT:
            raise ValueError(f"max_split_size must be more than {LARGE_SEGMENT // MIB} MiB, got {self.max_split_size:,} bytes")
        if self.max_non_split_rounding < LARGE_SEGMENT:
            given = self.max_non_split_rounding
            raise ValueError(f"max_non_split_rounding must be at least {LARGE_SEGMENT // MIB} MiB, got {given:,} bytes")
        if not 0 <= self.garbage_collection_threshold < 1:
            raise ValueError(f"garbage_collection_threshold must be at least 0 and less than 1, got {self.garbage_collection_threshold}")
        steps = self.roundup_power2_divisions
        divisions = (steps,) * INTERVALS if isinstance(steps, int) else tuple(steps)
        if len(divisions) != INTERVALS or any(n < 0 or n & (n - 1) for n in divisions):
            raise ValueError(f"roundup_power2_divisions must be a power of two, or {INTERVALS} of them, got {steps!r}")
        object.__setattr__(self, "_divisions", divisions if any(n > 1 for n in divisions) else ())

    @classmethod
    def parse(cls, text: str) -> AllocatorSettings:
        """Return the settings described by the text of ``PYTORCH_CUDA_ALLOC_CONF`` (or ``PYTORCH_ALLOC_CONF``).

        >>> from metatensor.analysis.allocator import AllocatorSettings
        >>> AllocatorSettings.parse("max_split_size_mb:128,expandable_segments:True").max_split_size
        134217728
        """
        found: dict[str, Any] = {}
        for option in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?", text.replace(" ", "")):
            key, _, value = option.partition(":")
            try:
                if key in ("max_split_size_mb", "max_non_split_rounding_mb"):
                    found[key[:-3]] = int(value) * MIB
                elif key == "garbage_collection_threshold":
                    found[key] = float(value)
                elif key == "expandable_segments":
                    found[key] = {"True": True, "False": False}[value]
                elif key == "roundup_power2_divisions":
                    found[key] = _intervals(value[1:-1]) if value.startswith("[") else int(value)
                elif key == "backend" and value != "native":
                    raise ValueError(f"only PyTorch's native allocator is modelled, not {value!r}")
                elif key not in NO_EFFECT:
                    raise ValueError(f"unknown option {key!r}")
            except KeyError:
                raise ValueError(f"{key} must be True or False, got {value!r}") from None
            except ValueError as error:
                if "invalid literal" in str(error) or "could not convert" in str(error):
                    raise ValueError(f"{key} must be a number, got {value!r}") from None
                raise
        return cls(**found)

    @classmethod
    def of_snapshot(cls, settings: Mapping[str, Any]) -> AllocatorSettings:
        """Return the settings that a snapshot of PyTorch's allocator records."""
        split = settings.get("max_split_size", -1)
        divisions = settings.get("roundup_power2_divisions") or {}
        table: Any = divisions
        if isinstance(divisions, Mapping):
            table = tuple(divisions.get(str(1 << i), 0) for i in range(INTERVALS))
            table = table[0] if len(set(table)) == 1 else table
        return cls(
            max_split_size=split if isinstance(split, int) and LARGE_SEGMENT < split < 1 << 60 else None,
            roundup_power2_divisions=table,
            garbage_collection_threshold=float(settings.get("garbage_collection_threshold", 0.0)),
            expandable_segments=bool(settings.get("expandable_segments", False)),
        )

    def block_size(self, nbytes: int) -> int:
        """Return the size of the block for a request of ``nbytes`` bytes."""
        if self._divisions and nbytes > MIN_BLOCK:
            divisions = self._divisions[min(max(nbytes.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)]
            if divisions > 1 and nbytes > MIN_BLOCK * divisions:
                step = (1 << nbytes.bit_length() - 1) // divisions
                return -(-nbytes // step) * step
        return max(-(-nbytes // MIN_BLOCK) * MIN_BLOCK, MIN_BLOCK)

    @staticmethod
    def segment_size(size: int) -> int:
        """Return the size of the segment that is requested for a block of this size."""
        if size <= SMALL:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < MIN_LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE


def _intervals(text: str) -> tuple[int, ...]:
    """Return the divisions for each power of two. ``256:1,512:2,>:8`` means 1 below 256 MB, 2 below 512 MB, and 8 above."""
    table = [0] * INTERVALS
    start = 0
    for part in filter(None, text.split(",")):
        key, _, value = part.partition(":")
        if key == ">":
            end = INTERVALS
        elif (limit := int(key)) > 0 and not limit & (limit - 1):
            end = min(limit.bit_length() - 1, INTERVALS)
        else:
            raise ValueError(f"roundup_power2_divisions: {key} is not a power of two in MB")
        for i in range(start, end):
            table[i] = int(value)
        start = max(start, end)
    return tuple(table)
