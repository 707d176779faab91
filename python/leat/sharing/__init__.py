"""One loader for several processes of a host: ports by name, and the loader of a job."""
