"""Memory formats and layouts: the tags that PyTorch's functions take."""

from typing import final

@final
class MemoryFormatTag:
    """In which order the dimensions of a dense tensor lie in memory."""

    @property
    def name(self) -> str: ...

@final
class LayoutTag:
    """How a tensor is laid out in memory. Only `strided` has operators."""

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
