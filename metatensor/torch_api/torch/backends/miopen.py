"""Settings of MIOpen, which metatensor does not call."""

immediate = False
