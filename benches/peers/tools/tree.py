"""The records of a session, as cctree reads them for everything that it shows of one: `tree.py FILE`."""

import sys
from pathlib import Path

from cctree.core.parser import parse_jsonl

print(len(parse_jsonl(Path(sys.argv[1]))), "-")
