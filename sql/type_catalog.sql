-- What a reader's knowledge of types depends on: server, database, and every type that somebody made there, tables' row
-- types among them. Equal answers mean equal types.
select (select system_identifier from pg_control_system()) as server,
       (select oid from pg_database where datname = current_database()) as database,
       current_setting('server_version_num') as version,
       count(*) as types,
       sum(hashtextextended(concat_ws(' ', t.oid, t.typname, t.typtype, t.typbasetype, t.typelem, c.relnatts), 0)) as hashes
from pg_type as t
left join pg_class as c on c.oid = t.typrelid and c.relkind = 'c'
where t.oid >= 16384
