"""Settings of MIOpen, which metatensor does not use."""

immediate = False
