"""What a killed job leaves behind, so that the next one goes on from there."""
