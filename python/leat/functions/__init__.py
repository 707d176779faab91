"""Functions of users in a program: Python functions in worker processes, compiled ones on the engine's threads,
`leat.rng`."""
