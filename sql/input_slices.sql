-- The bytes of landed files that a batch reads.
insert into etl.input_slice
    (pipeline, batch, ordinal, name, size, modified_ns, inode, first_byte, last_byte)
values %s;
