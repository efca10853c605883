-- What the reader saw in every slice of a batch.
update etl.input_slice as slice
set digest = seen.digest, lines = seen.lines
from (values %s) as seen (pipeline, batch, ordinal, digest, lines)
where slice.pipeline = seen.pipeline and slice.batch = seen.batch and slice.ordinal = seen.ordinal;
