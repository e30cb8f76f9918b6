"""Published statements (papers/{paper}.yaml) as comparisons of a run's tables, and verdicts."""
