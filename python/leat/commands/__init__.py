"""What `leat` on the command line runs in Python."""
