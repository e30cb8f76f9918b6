"""What a run consists of, from its checked config: functions that rules call.

`run.load` returns the `Run`, in rules/common.smk; the other modules say what the jobs of the rules
of their name need. A study that has mistakes stops the jobs that belong to it, and nothing else.
"""
