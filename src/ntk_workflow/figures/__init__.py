"""How figures are listed: their targets, titles, and places in the report."""
