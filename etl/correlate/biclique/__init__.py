"""The join-biclique: m units store the left stream, n units the right one; no tuple is stored twice.

tuples ──► routing ──► store at one unit of the own side           ┐
                  └──► probe all units of one subgroup opposite    ┘ unit ──► pairs

routing   random, hash, contrand(d, e): choice of subgroup and unit; the join-matrix as a baseline
choose    routing `auto`, from the condition and a sample of keys
unit      one micro-batch at one unit: probe old, probe what the batch stored before, insert, expire
join      all units of one join in one process
scaling   two-phase scaling (2PS) of subgroups at batch boundaries
pipeline  a whole query: two or more streams, DISTINCT, GROUP BY
protocol  the order-consistent protocol message by message, as a model
analysis  the cost model: equations 1 to 7
"""
