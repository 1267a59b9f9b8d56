"""The records of a file, by DuckDB on all cores; with `--leaves` also how many no record hangs on."""

import sys

import duckdb

records = f"""read_json('{sys.argv[1]}', format='newline_delimited', maximum_object_size=100000000,
    columns={{uuid: 'VARCHAR', parentUuid: 'VARCHAR'}})"""
db = duckdb.connect()
if "--leaves" in sys.argv:
    db.execute(f"create table r as select uuid, parentUuid from {records}")
    free = "uuid not in (select parentUuid from r where parentUuid is not null)"
    print(*db.execute(f"select count(*), count(distinct uuid) filter (where {free}) from r").fetchall()[0])
else:
    print(db.execute(f"select count(uuid) from {records}").fetchall()[0][0], "-")
