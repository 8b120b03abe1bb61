"""Engines: one module each, with its options as data. They own ranks and constraints."""
