"""What tools/check.py is made of: builds, steps, shards, the choice by changed files, and the table of times."""
