"""Supervision: restarts services that end, and leaves no process behind.

supervisor   restarts services while the stack runs
probe        detects services that hang
processes    services under guards, the lock that lets one stack live per `var`, sweeping
guard        runs one service and ends its whole family; a program of its own
"""
