"""Speech: from LibriSpeech's FLAC files to stacked filterbank frames with labels."""
