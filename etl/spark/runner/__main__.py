"""`python -m etl.spark.runner`: the resident driver as a program of its own."""

from etl.spark.runner.service import main

main()
