"""The distribution "torch" that `importlib.metadata` finds while metatensor takes PyTorch's place."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from metatensor.torch_api.torch.torch_version import TORCH_VERSION

__all__ = ["TorchDistribution"]


class TorchDistribution(importlib.metadata.Distribution):
    """A distribution with the name, version and top-level package of torch, but no files."""

    FILES = {
        "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\nSummary: metatensor in the place of PyTorch\n",
        "top_level.txt": "torch\n",
        "RECORD": "",
        "INSTALLER": "metatensor.torch_api\n",
    }

    def read_text(self, filename: Any) -> str | None:
        return self.FILES.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError("torch: metatensor takes PyTorch's place, so there are no files of PyTorch")
