"""Shapes of models: from the user's words, the catalogue, a config.json, the Hub, or a name."""
