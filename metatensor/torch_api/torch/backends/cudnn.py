"""Settings of cuDNN, which metatensor does not call."""
