"""The lab of Andiron: questions to a run, experiments on experiments, views of a model.

It imports andiron, never the reverse, and can be removed: training does not need it.
"""
