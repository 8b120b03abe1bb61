"""Shapes of models: from the catalogue, from a config.json, from the user's own words."""
