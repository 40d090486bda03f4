"""What `importlib.metadata` says of torch while metatensor stands in its place."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from metatensor.torch_api.torch.torch_version import TORCH_VERSION

__all__ = ["TorchDistribution"]


class TorchDistribution(importlib.metadata.Distribution):
    """What libraries ask of the distribution that gives them torch: its name, its version, its one package."""

    FILES = {
        "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\nSummary: metatensor in the place of PyTorch\n",
        "top_level.txt": "torch\n",
        "RECORD": "",
        "INSTALLER": "metatensor.torch_api\n",
    }

    def read_text(self, filename: Any) -> str | None:
        return self.FILES.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError("torch: metatensor stands in its place, and has no files of it")
