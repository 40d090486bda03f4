"""What is known of operators besides their shapes: one table to a concern, each from an operator's name."""
