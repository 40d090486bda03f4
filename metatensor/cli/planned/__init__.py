"""Run a script that was written for devices with data on meta.

`session.Plan` prepares the process for ``metatensor run --device meta``. `mode` redirects every device to meta and
allows operations between tensors on meta and on cpu. `values` substitutes values that are not available, and `bounds`
results whose sizes depend on them. `gradients` skips backward passes. `device` imitates the GPU.
"""
