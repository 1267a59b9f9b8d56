"""The messages of a session that the vendor's SDK gives, which are those of the branch that it takes itself.

The session is the file `CLAUDE_CONFIG_DIR/projects/*/ID.jsonl`: `sdk.py ID`."""

import sys

from claude_agent_sdk import get_session_messages

print(len(get_session_messages(sys.argv[1])), "-")
