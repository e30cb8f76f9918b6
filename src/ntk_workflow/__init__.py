"""The pipeline's library: what the rules and programs of the workflow share."""
