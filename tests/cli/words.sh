#!/bin/sh
# In the place of Python, where a command hands over to it: prints the words that it was given, each ended by a zero.
printf '%s\0' "$@"
