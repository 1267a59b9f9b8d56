//! What is kept of a record: the members that the rules of the agents read, and names that tell of structure alone.

use crate::dialect::jsonl::version::Version;

/// What becomes of the value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// An id of a record, a session or a file snapshot: kept, also a list of them.
    Id,
    /// An id of a call or a prompt: kept if it looks like one, else a stand-in.
    Call,
    /// A word of the format's own: kept if it is one word, else filled; a path has a stand-in.
    Token,
    /// A state, a mode and the like: kept if it is made of words of the agents' own, else filled. People and extensions
    /// give such names too.
    State,
    /// The name of a tool: kept if the tool is one of the agents' own.
    Tool,
    /// What is named again elsewhere: a stand-in, the same each time.
    Name,
    /// Its members are looked up as well.
    Enter,
    /// A number that the rules compare: kept if it is one, else filled.
    Number,
    /// Filled, with all that is below.
    Text,
    /// The same of a member that this version does not know, of an outermost object of which the client refuses any member
    /// that it does not know itself: there its name tells nothing but the format.
    Strict,
    /// A digest: what was given for it, else a stand-in. Whoever guesses what it was made of could tell by it.
    Digest,
    /// Bytes in base64 that hold JSON of the second list.
    Base64,
}

/// What says which members are kept, and how.
pub(super) type Rules = fn(&str) -> Option<Rule>;

/// The rule of a member; none if nobody knows its name, which is then filled too.
pub(super) fn rule(key: &str) -> Option<Rule> {
    Some(match key {
        "uuid"
        | "parentUuid"
        | "sessionId"
        | "leafUuid"
        | "logicalParentUuid"
        | "messageId"
        | "messageUuid"
        | "sourceToolAssistantUUID"
        | "anchorUuid"
        | "headUuid"
        | "tailUuid"
        | "uuids"
        | "allUuids"
        | "assistantRecordUuid"
        | "startExclusiveRecordUuid"
        | "endInclusiveRecordUuid" => Rule::Id,
        "id" | "tool_use_id" | "toolUseID" | "parentToolUseID" | "sourceToolUseID" | "callId"
        | "requestId" | "promptId" | "prompt_id" | "agentId" | "operationId" => Rule::Call,
        "type" | "subtype" | "version" | "timestamp" | "role" | "mimeType" | "media_type" | "model" => {
            Rule::Token
        }
        "level" | "operation" | "userType" | "entrypoint" | "provenance" | "externalInputKind"
        | "stop_reason" | "state" | "trigger" | "event.name" | "status" | "permissionMode" | "mode" => {
            Rule::State
        }
        // The version of a checkpoint: another one proves nothing of a turn.
        "v" => Rule::Number,
        "name" | "toolName" | "function_name" => Rule::Tool,
        "cwd" | "gitBranch" | "customTitle" | "aiTitle" | "agentName" | "slug" => Rule::Name,
        "message" | "content" | "parts" | "systemPayload" | "compactMetadata" | "preservedMessages"
        | "preservedSegment" | "snapshot" | "functionCall" | "functionResponse" | "uiEvent"
        | "attachment" | "forkedFrom" => Rule::Enter,
        "text"
        | "thought"
        | "thinking"
        | "signature"
        | "data"
        | "source"
        | "summary"
        | "title"
        | "args"
        | "input"
        | "response"
        | "output"
        | "error"
        | "is_error"
        | "inlineData"
        | "fileData"
        | "usage"
        | "usageMetadata"
        | "toolUseResult"
        | "toolCallResult"
        | "stop_sequence"
        | "trackedFileBackups"
        | "snapshots"
        | "offshoot"
        | "explicit"
        | "isSidechain"
        | "isMeta"
        | "isCompactSummary"
        | "lastPrompt"
        | "isVisibleInTranscriptOnly"
        | "isApiErrorMessage"
        | "isSnapshotUpdate"
        | "durationMs"
        | "contextWindowSize"
        | "agentColor"
        | "promptSource"
        | "backgroundTurn"
        | "deliveredTurn"
        | "daemonPromptId"
        | "agentRunId"
        | "agentRound"
        | "apiBlockIndex"
        | "apiError"
        | "thinkingMetadata"
        | "todos"
        | "tag" => Rule::Text,
        _ => return None,
    })
}

/// [`rule`] for the records of Reasonix.
pub(super) fn reasonix_record(key: &str) -> Option<Rule> {
    Some(match key {
        "commitId" | "operationId" | "turnId" | "id" => Rule::Id,
        "codec"
        | "recordType"
        | "createdAt"
        | "kind"
        | "mediaType"
        | "schemaVersion"
        | "firstSeq"
        | "eventCount"
        | "writerGeneration"
        | "seq"
        | "bytes"
        | "integrityBlockBytes" => Rule::Token,
        "operationHash" | "sha256" | "digest" | "indexDigest" => Rule::Digest,
        "event" | "payloadRef" => Rule::Enter,
        "payload" => Rule::Base64,
        "name" => Rule::Name,
        "optional" | "required" => Rule::Text,
        _ => return None,
    })
}

/// [`rule`] for the payloads of Reasonix.
pub(super) fn reasonix_payload(key: &str) -> Option<Rule> {
    Some(match key {
        "id" | "messageId" | "messageIds" | "turnId" | "tool_call_id" | "toolCallId" | "callId"
        | "attemptId" | "sourceSequences" => Rule::Id,
        "role" | "origin" | "status" | "state" | "type" | "createdAt" | "action" | "phase" | "kind"
        | "mode" | "preset" | "level" | "modelRef" | "modelIdentity" => Rule::Token,
        "attempt" | "max" => Rule::Number,
        "name" => Rule::Tool,
        "message" | "messages" | "tool_calls" | "function" => Rule::Enter,
        "content"
        | "raw_content"
        | "reasoning"
        | "reasoning_content"
        | "reasoning_signature"
        | "responses_items"
        | "server_search"
        | "memoryCitations"
        | "images"
        | "edited"
        | "original"
        | "arguments"
        | "reason"
        | "title"
        | "local_only"
        | "decision_receipt"
        | "workDurationMs"
        | "source"
        | "goal" => Rule::Text,
        // `formats/reasonix.md` 1.7: a payload is strict.
        _ if is_identifier(key) => Rule::Strict,
        _ => return None,
    })
}

/// Whether a text may be the name of a member in a format.
fn is_identifier(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// [`rule`] for the integrity indexes of Reasonix.
pub(super) fn reasonix_index(key: &str) -> Option<Rule> {
    Some(match key {
        "version" | "bytes" | "blockBytes" => Rule::Token,
        "object" | "blocks" => Rule::Digest,
        _ => return None,
    })
}

/// Whether a text is one word of a format: a name, a version, a time, an id. A path is none.
pub(super) fn is_token(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/#+<>-".contains(&b))
        && !is_path(text)
}

/// Whether a text may say where something lies. One slash within is that of a kind, a media type or a model.
pub(super) fn is_path(text: &str) -> bool {
    let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let begins = ["/", "~", "./", "../"].iter().any(|root| text.starts_with(root));
    drive || begins || text.contains('\\') || text.matches('/').count() > 1
}

/// Whether a text is the type of a record. Which one of these it is decides what a reader says of an object that it
/// passes over.
pub(super) fn is_kind(text: &str) -> bool {
    matches!(text, "user" | "assistant" | "system" | "tool_result" | "attachment" | "progress")
}

/// Whether a token is one that the agents themselves write, where it may be half of something else: a time, a version, or
/// made of words of theirs.
pub(super) fn is_own_word(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
        || Version::parse(text).is_some()
        || text
            .split(|c: char| !c.is_alphabetic())
            .all(|word| word.len() < 4 || WORDS.binary_search(&word).is_ok())
}

/// What types, subtypes, roles, states, modes and the like are made of, in order.
const WORDS: &[&str] = &[
    "acceptEdits",
    "artifact",
    "assistant",
    "atis",
    "attachment",
    "auto",
    "blob",
    "blocks",
    "boundary",
    "branch",
    "bypassPermissions",
    "cancelled",
    "chat",
    "checkpoint",
    "code",
    "command",
    "commit",
    "compact",
    "completed",
    "compression",
    "content",
    "cost",
    "cron",
    "custom",
    "default",
    "delta",
    "dequeue",
    "document",
    "dontAsk",
    "duration",
    "edits",
    "enqueue",
    "error",
    "event",
    "external",
    "failed",
    "file",
    "generated",
    "goal",
    "header",
    "history",
    "image",
    "info",
    "input",
    "internal",
    "interrupted",
    "last",
    "latch",
    "link",
    "local",
    "managed",
    "manual",
    "message",
    "mode",
    "model",
    "name",
    "notification",
    "observed",
    "operation",
    "output",
    "pause",
    "pending",
    "permission",
    "plan",
    "popAll",
    "progress",
    "prompt",
    "queue",
    "qwen",
    "real",
    "record",
    "redacted",
    "refusal",
    "relocated",
    "remove",
    "replacement",
    "request",
    "response",
    "result",
    "rewind",
    "role",
    "running",
    "sequence",
    "session",
    "shape",
    "slash",
    "snapshot",
    "sources",
    "state",
    "stop",
    "success",
    "suggestion",
    "summary",
    "synthetic",
    "system",
    "telemetry",
    "text",
    "thinking",
    "title",
    "tokens",
    "tool",
    "tools",
    "turn",
    "used",
    "user",
    "warning",
    "worktree",
    "yolo",
];

/// Tools that come with the agents: their names say nothing of who used them. Names of other tools often do.
const TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "LSP",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskOutput",
    "TodoRead",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
    "agent",
    "ask_user_question",
    "edit",
    "exit_plan_mode",
    "glob",
    "grep_search",
    "list_directory",
    "lsp",
    "notebook_edit",
    "read_file",
    "read_many_files",
    "replace",
    "run_shell_command",
    "save_memory",
    "search_file_content",
    "skill",
    "task",
    "todo_write",
    "web_fetch",
    "web_search",
    "write_file",
];

pub(super) fn is_known_tool(name: &str) -> bool {
    TOOLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_agents() {
        assert!(WORDS.is_sorted());
        for own in ["tool_use", "<synthetic>", "2.1.332", "0.25.0-preview.1", "2026-01-01T10:00:00.000Z"] {
            assert!(is_own_word(own), "{own}");
        }
        let states =
            ["completed", "cancelled", "error", "qwen-code.api_response", "turn_result", "turn_duration"];
        for own in states {
            assert!(is_own_word(own), "{own}");
        }
        for own in ["end_turn", "in_progress", "sdk-cli", "bypassPermissions", "max_tokens", "real_user"] {
            assert!(is_own_word(own), "{own}");
        }
        for other in
            ["Fix-the-Acme-login-bug", "2.1.secret", "user secret", "usersecret", "2026-01-01T10:secret"]
        {
            assert!(!is_own_word(other), "{other}");
        }
    }

    #[test]
    fn a_path_is_no_word() {
        for path in ["/", "/home/ada/weights.gguf", "~", "~/x", "./x", "../x", "C:", "c:/x", r"a\b", "a/b/c"]
        {
            assert!(is_path(path) && !is_token(path), "{path}");
        }
        for word in [
            "anthropic/claude-x",
            "qwen3-coder-plus",
            "image/svg+xml",
            "turn/end",
            "2026-01-01T10:00:00.000Z",
            ".content-v1",
            "<synthetic>",
            "call:1",
        ] {
            assert!(!is_path(word) && is_token(word), "{word}");
        }
    }

    /// What the rules compare a value with has to be known as a word of the agents: where records are glued nothing else
    /// is kept, and the rules would find another one.
    #[test]
    fn every_word_that_the_rules_compare_with_is_one_of_the_agents() {
        let mut found = Vec::new();
        for agent in ["qwen", "claude"] {
            let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dialect").join(agent);
            for file in std::fs::read_dir(dir).unwrap() {
                let Ok(text) = std::fs::read_to_string(file.unwrap().path()) else { continue };
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                found.extend(compared(code).into_iter().map(str::to_owned));
            }
        }
        for word in
            ["turn_result", "error", "qwen-code.api_response", "turn_duration", "compact_boundary", "cron"]
        {
            assert!(
                found.iter().any(|found| found == word),
                "{word} is not found, though it is compared with"
            );
        }
        // No strings; what is said of artifacts, which are filled.
        let elsewhere = ["true", "false", "null", "pinned"];
        let known = |word: &str| is_own_word(word) || rule(word).is_some() || elsewhere.contains(&word);
        found.retain(|word| !known(word));
        assert!(found.is_empty(), "{found:?}");
    }

    /// The literals in comparisons and patterns.
    fn compared(code: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for line in code.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            let parts: Vec<&str> = line.split('"').collect();
            for part in parts.windows(3).step_by(2) {
                let [before, literal, after] = part else { continue };
                let before = before.trim_end();
                let compares =
                    ["is(", "==", "!=", "Some(", "|", "matches!("].iter().any(|end| before.ends_with(end))
                        || ["=>", "|", "=="].iter().any(|start| after.trim_start().starts_with(start));
                let word = literal.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.<>-".contains(&b));
                if compares && word && !literal.is_empty() {
                    found.push(*literal);
                }
            }
        }
        found
    }
}
