-- What batches have read of files that are still where they landed: the newest file of a name, and its parts in order.
select newest.name, newest.inode, newest.size, newest.modified_ns,
       (select jsonb_agg(jsonb_build_array(part.first_byte, part.last_byte, part.digest) order by part.first_byte)
        from etl.input_slice as part
        where part.pipeline = newest.pipeline and part.name = newest.name and part.inode = newest.inode
          and not part.put_away and part.digest is not null
          and part.batch >= newest.since) as parts
from (
    select distinct on (name) pipeline, name, inode, size, modified_ns,
           -- the batch that began this file at its first byte: parts before belong to another file of the same name
           (select max(begun.batch) from etl.input_slice as begun
            where begun.pipeline = input_slice.pipeline and begun.name = input_slice.name
              and begun.inode = input_slice.inode and begun.first_byte = 0 and not begun.put_away
              and begun.digest is not null) as since
    from etl.input_slice
    where pipeline = %(pipeline)s and name = any(%(names)s::bytea[]) and not put_away and digest is not null
    order by name, batch desc, ordinal desc
) as newest
where newest.since is not null;
