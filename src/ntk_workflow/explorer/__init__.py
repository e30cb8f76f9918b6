"""The explorer: a run's tables as one page of charts with controls, which needs no network."""
