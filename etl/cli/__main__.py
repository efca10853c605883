"""`python -m etl.cli` is the `frontstage` command."""

from etl.cli import main

main()
