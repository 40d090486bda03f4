"""Settings of PyTorch's CUDA libraries."""
