-- End the sessions of a writer that has given no sign of life: its lock and its open transactions go with them. A
-- session younger than that may belong to somebody who has just got the lock and not said so yet.
select pg_terminate_backend(session.pid)
from etl.pipeline as written, pg_stat_activity as session
where written.name = %(pipeline)s
  and written.beat_at < clock_timestamp() - make_interval(secs => %(silent_s)s)
  and session.datname = current_database() and session.pid <> pg_backend_pid()
  and session.backend_start < clock_timestamp() - make_interval(secs => %(silent_s)s)
  and (session.application_name = left(%(prefix)s || written.epoch || ' ' || written.name, 63)
       or session.pid in (select pid from pg_locks
                          where locktype = 'advisory' and granted and classid = %(lock)s
                            and objid::bigint = hashtext(%(pipeline)s)::bigint & 4294967295
                            and database = (select oid from pg_database where datname = current_database())));
