"""What made a result: digests of code, versions of software, records of jobs."""
