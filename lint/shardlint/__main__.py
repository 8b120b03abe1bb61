"""`python -m shardlint`: the same as the command."""

from shardlint.cli import main

main()
