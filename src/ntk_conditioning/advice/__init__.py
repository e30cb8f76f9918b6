"""What depth, activation and width do to a user's samples, and what to normalise first."""
