"""What is a study's own, a module for each, by the study's key in the config without ``_study``.

``checks(run)`` yields a line for every mistake of its section, which is there. A function of the
name of a rule returns what its jobs take, see `resources`.
"""
