"""Memory formats and layouts, as arguments of functions."""

from typing import final

@final
class MemoryFormatTag:
    """The order of the dimensions of a dense tensor in memory."""

    @property
    def name(self) -> str: ...

@final
class LayoutTag:
    """The layout of a tensor in memory. Operators support only `strided`."""

    @property
    def name(self) -> str: ...

contiguous_format: MemoryFormatTag
preserve_format: MemoryFormatTag
channels_last: MemoryFormatTag
channels_last_3d: MemoryFormatTag
strided: LayoutTag
sparse_coo: LayoutTag
sparse_csr: LayoutTag
sparse_csc: LayoutTag
sparse_bsr: LayoutTag
sparse_bsc: LayoutTag
jagged: LayoutTag
