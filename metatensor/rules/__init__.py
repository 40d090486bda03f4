"""Tables of facts about operators other than their shapes, keyed by operator name, with one module per subject."""
