"""What a run consists of, from its config."""
