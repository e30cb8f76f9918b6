"""Speech: from LibriSpeech's FLAC files to stacked filterbank frames with labels.

`corpus` finds and decodes utterances, `features` computes frames, `alignments` says which phone a
frame belongs to, and `draw` chooses the frames of a dataset.
"""
