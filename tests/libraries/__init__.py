"""Whole models of libraries that are written for PyTorch, held to facts recorded with PyTorch.

`facts.json` says of each model: the numbers of parameters, buffers and state entries, the SHA-1 of the sorted lines
``name:[shape]:dtype`` of its state, the inputs of a forward, the output's tree, and the FLOPs of PyTorch's own counter, all
on PyTorch's meta device (torch 2.13.0).
"""
