"""The cores, threads and GPUs that a job was given."""
