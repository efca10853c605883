-- What batches have read of files with these inodes, wherever the files are now: every name's newest, parts in order.
select part.name, part.inode,
       jsonb_agg(jsonb_build_array(part.first_byte, part.last_byte, part.digest) order by part.first_byte) as parts
from etl.input_slice as part
where part.pipeline = %(pipeline)s and part.inode = any(%(inodes)s::numeric[]) and part.digest is not null
  and part.batch >= (select max(begun.batch) from etl.input_slice as begun
                     where begun.pipeline = part.pipeline and begun.name = part.name and begun.inode = part.inode
                       and begun.first_byte = 0 and begun.digest is not null)
group by part.name, part.inode;
