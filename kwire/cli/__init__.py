"""The command ``kwire``: each sub-command is a module with ``add_arguments(parser)`` and ``run(args) -> int``."""
