-- Segments of the stream log that a decision names.
insert into etl.segment (stream, number, rows, bytes, earliest, latest, batch) values %s;
