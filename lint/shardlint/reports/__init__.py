"""Output formats: one module each, with a `name` and a `write` from a result to text."""
