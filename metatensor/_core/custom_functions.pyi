from metatensor._core.capture import Capture

def note_custom_function(outputs: list, inputs: list, function: str, written: list) -> None:
    """Note in a trace what a custom function has returned. `written` says which outputs are inputs that it changed in place."""

def drop_marks(capture: Capture) -> None:
    """If a backward pass has run, leave out the calls that `note_custom_function` added: the program contains the gradients."""
