"""Models of libraries written for PyTorch, compared with facts recorded with PyTorch.

`facts.json` has for each model: the numbers of parameters, buffers and state entries, the SHA-1 of the sorted lines
``name:[shape]:dtype`` of its state, the inputs of a forward, the structure of the output, and the FLOPs by PyTorch's
counter. They were recorded on PyTorch's meta device (torch 2.13.0).
"""
