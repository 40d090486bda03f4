"""Datasets, samplers, and the data loader that forms batches."""

from metatensor._core.lazy import attributes
from metatensor.data._utils.collate import default_collate, default_convert
from metatensor.data._utils.worker import get_worker_info
from metatensor.data.dataloader import DataLoader, _DatasetKind
from metatensor.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from metatensor.data.distributed import DistributedSampler
from metatensor.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "_DatasetKind", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("_utils", "dataloader", "dataset", "distributed", "sampler"))
