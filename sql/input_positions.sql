-- Where the last batch ends in every partition of a topic. A topic that was made anew begins with low offsets again.
select distinct on (name) name, inode, last_byte
from etl.input_slice
where pipeline = %(pipeline)s and not put_away
  and name >= %(prefix)s::bytea and substring(name from 1 for length(%(prefix)s::bytea)) = %(prefix)s::bytea
order by name, batch desc, last_byte desc;
