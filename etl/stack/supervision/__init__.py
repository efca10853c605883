"""Supervision: services that are started again when they end, and of which nothing stays behind.

supervisor   starts again what ended, for as long as the stack lives
probe        a service that does not answer is not taken for one that runs
processes    services under guards, the lock that lets one stack live per `var`, sweeping
guard        runs one service and ends its whole family; a program of its own
"""
