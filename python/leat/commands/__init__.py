"""The parts of the command `leat` that run in Python."""
