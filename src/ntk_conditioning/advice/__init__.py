"""What depth, activation and width do to one's own samples, and what to normalise first."""
