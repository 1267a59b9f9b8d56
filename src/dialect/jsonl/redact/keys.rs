//! What is kept of a record: the members that the rules of the agents read, and names that tell of structure alone.

/// What becomes of the value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// An id of a record, a session or a file snapshot: kept, also a list of them.
    Id,
    /// An id of a call or a prompt: kept if it looks like one, else a stand-in.
    Call,
    /// A word of the format's own: kept if it is one word, else filled.
    Token,
    /// The name of a tool: kept if the tool is one of the agents' own.
    Tool,
    /// What is named again elsewhere: a stand-in, the same each time.
    Name,
    /// Its members are looked up as well.
    Enter,
    /// Filled, with all that is below.
    Text,
    /// A digest of what is redacted itself: what was given for it, else as a call's id.
    Digest,
    /// Bytes in base64 that hold JSON of the second list.
    Base64,
}

/// What says which members are kept, and how.
pub(super) type Rules = fn(&str) -> Option<Rule>;

/// The rule of a member; none if nobody knows its name, which is then filled too (but in the record itself).
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
        "type" | "subtype" | "version" | "timestamp" | "role" | "level" | "operation" | "userType"
        | "entrypoint" | "provenance" | "externalInputKind" | "stop_reason" | "state" | "trigger"
        | "event.name" | "mimeType" | "media_type" | "status" | "model" | "permissionMode" | "mode" => {
            Rule::Token
        }
        "name" | "toolName" | "function_name" => Rule::Tool,
        "cwd" | "gitBranch" | "customTitle" | "aiTitle" | "agentName" | "slug" => Rule::Name,
        "message" | "content" | "parts" | "systemPayload" | "compactMetadata" | "preservedMessages"
        | "preservedSegment" | "snapshot" | "functionCall" | "functionResponse" | "uiEvent"
        | "attachment" | "forkedFrom" => Rule::Enter,
        "text" | "thought" | "thinking" | "signature" | "data" | "source" | "summary" | "title" | "args"
        | "input" | "response" | "output" | "error" | "is_error" | "inlineData" | "fileData" | "usage"
        | "usageMetadata" | "toolUseResult" | "toolCallResult" | "stop_sequence" | "trackedFileBackups"
        | "snapshots" | "v" | "offshoot" | "explicit" | "isSidechain" | "isMeta" | "isCompactSummary"
        | "lastPrompt" => Rule::Text,
        _ => return None,
    })
}

/// [`rule`] for the records of Reasonix.
pub(super) fn reasonix_record(key: &str) -> Option<Rule> {
    Some(match key {
        "commitId" | "operationId" | "turnId" | "id" => Rule::Id,
        "codec" | "recordType" | "createdAt" | "kind" | "mediaType" => Rule::Token,
        "operationHash" | "sha256" | "digest" | "indexDigest" => Rule::Digest,
        "event" | "payloadRef" => Rule::Enter,
        "payload" => Rule::Base64,
        "name" => Rule::Name,
        "schemaVersion"
        | "firstSeq"
        | "eventCount"
        | "writerGeneration"
        | "seq"
        | "optional"
        | "required"
        | "bytes"
        | "integrityBlockBytes" => Rule::Text,
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
        _ => return None,
    })
}

/// [`rule`] for the integrity indexes of Reasonix.
pub(super) fn reasonix_index(key: &str) -> Option<Rule> {
    Some(match key {
        "version" | "bytes" | "blockBytes" => Rule::Text,
        "object" | "blocks" => Rule::Call,
        _ => return None,
    })
}

/// Whether a text is one word of a format: a name, a version, a time, an id.
pub(super) fn is_token(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/#+<>-".contains(&b))
}

/// Whether a member of the record itself has a name such as the agents give.
pub(super) fn is_identifier(key: &str) -> bool {
    (1..=40).contains(&key.len())
        && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

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
