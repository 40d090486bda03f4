"""Running a script on meta that was written for devices with data.

`session.planned` is the context manager that `metatensor run --device meta` runs a script in. `mode` sends every device to
meta and lets tensors with and without data meet, `values` answers requests for values, `device` stands for the GPU.
"""
