"""Run a script that was written for devices with data on meta.

`session.Plan` sets up the process for ``metatensor run --device meta``. `mode` redirects every device to meta and
allows operations between tensors on meta and on cpu. `values` answers requests for values. `gradients`
leaves out backward passes. `device` is a stand-in for the GPU.
"""
