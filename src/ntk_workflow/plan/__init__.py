"""What a run consists of, from its checked config: functions that rules call."""
