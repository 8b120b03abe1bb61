"""How many parameters a model has, from the shape that its config states.

The formulas follow the classes of the model types: `traits` says what sets a type apart, `text`
counts a stack of layers by it, `state` the layers without attention, `own` the types with a stack
of their own, `towers` what is beside the text, `drafts` what drafts tokens.
"""
