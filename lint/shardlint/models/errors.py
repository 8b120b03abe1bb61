"""What is raised when the facts of a model cannot be read; apart, so that naming it is cheap."""


class ModelError(Exception):
    """A config.json or a table of the configuration that cannot be used, with what is wrong."""
