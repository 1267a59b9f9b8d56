"""The records of a file, by the `json` module: `loop.py FILE`; with `--leaves` also how many no record hangs on."""

import json
import sys

leaves = "--leaves" in sys.argv
records, ids, parents = 0, set(), set()
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        record = json.loads(line)
        records += 1
        if leaves:
            ids.add(record["uuid"])
            parents.add(record["parentUuid"])
print(records, len(ids - parents) if leaves else "-")
