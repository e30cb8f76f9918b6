"""Jobs that train networks."""
