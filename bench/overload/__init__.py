"""What becomes of a pipeline when events come faster than their master rows can be read.

w            events that one batch serves in time, as its own costs say after a warm-up
arrivals     1, 2, 4 and 10 times w, ten waves a deadline apart; then quiet, until the backlog is empty or time is up
stores       `postgres`: rows looked up where they are; `pages`: published pages on a cold disk
shedding     consider (best first, and by the paper's position), keep, none

site     one Postgres, masters, a warm pipeline; every cell is a copy of it under a name of its own
slow     the same stores, answering no faster than a shared database or a cold disk does
cell     waves and batches on a virtual clock: batches take as long as they take, nobody waits for the next wave
results  rows and aims      page, plots   what people see
"""
