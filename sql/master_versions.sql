-- The version of every master table, as seen by this transaction's snapshot.
select table_name, version from master.version;
