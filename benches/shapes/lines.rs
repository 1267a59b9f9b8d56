//! Records as the clients write them, line by line.

use std::{
    fmt::{self, Write as _},
    io::{self, Write},
};

/// Whose transcript it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Qwen,
    Claude,
}

/// What a record is. Claude Code has neither rewinds nor neutral records: there they are prompts and system records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    User,
    Assistant,
    /// An assistant that calls a tool.
    Call,
    /// What the tool gave back to the record above.
    Result,
    System,
    Rewind,
    Neutral,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    Full,
    Blank,
    None,
}

/// A record; `uuid` and `parent` are numbers that become UUIDs.
pub struct Rec {
    pub uuid: u128,
    pub parent: Option<u128>,
    pub kind: Kind,
    pub text: Text,
}

/// Writes records.
pub struct Lines<'a> {
    out: &'a mut dyn Write,
    form: Form,
    line: usize,
    session: String,
    pool: Vec<Body>,
    state: u64,
    clock: u64,
    buf: String,
}

/// The id of a record.
pub fn id(n: u128) -> uuid::Uuid {
    uuid::Builder::from_custom_bytes((n * 0x9e37_79b9_7f4a_7c15).to_be_bytes()).into_uuid()
}

impl<'a> Lines<'a> {
    /// Records of `line` bytes on average, or as short as they can be if it is 0.
    pub fn new(out: &'a mut dyn Write, form: Form, line: usize, session: &str) -> Self {
        let mut lines = Lines {
            out,
            form,
            line,
            session: session.to_owned(),
            pool: Vec::new(),
            state: 1,
            clock: 0,
            buf: String::new(),
        };
        for _ in 0..if line == 0 { 0 } else { 64 } {
            let body = Body::new(|| lines.random() as usize, line * 5 / 2);
            lines.pool.push(body);
        }
        lines
    }

    /// A record of a conversation: prompt, call, result, reply, and so on.
    pub fn talk(&mut self, uuid: u128, parent: Option<u128>, step: usize) -> io::Result<()> {
        let kind = [Kind::User, Kind::Call, Kind::Result, Kind::Assistant][step % 4];
        self.put(&Rec { uuid, parent, kind, text: Text::Full })
    }

    /// One record.
    pub fn put(&mut self, rec: &Rec) -> io::Result<()> {
        let text = match rec.text {
            Text::None => String::new(),
            Text::Blank => r" \n".to_owned(),
            Text::Full => self.text(rec.kind),
        };
        self.write(rec, &text)
    }

    /// A reply of so many bytes. It is never in memory as a whole: what this process has had at most, the system counts
    /// for the programs that it starts as well.
    pub fn long(&mut self, uuid: u128, parent: Option<u128>, bytes: usize) -> io::Result<()> {
        let words = r#"the \"snapshot\" is read, caf\u00e9 and café, 分支, then the policy\tis applied\n"#;
        let rec = Rec { uuid, parent, kind: Kind::Assistant, text: Text::Full };
        let record = self.record(&rec, words);
        let (before, after) = record.split_once(words).expect("BUG: a record holds its text");
        self.out.write_all(before.as_bytes())?;
        let some = words.repeat(1000);
        for _ in 0..bytes.div_ceil(some.len()) {
            self.out.write_all(some.as_bytes())?;
        }
        self.out.write_all(after.as_bytes())
    }

    /// Text as it stands between quotes: of very unlike lengths, as tools and models give it; prompts are short.
    fn text(&mut self, kind: Kind) -> String {
        if self.line == 0 {
            return "read the snapshot again, then apply the policy".to_owned();
        }
        let share = 10 + self.random() as usize % 161;
        let most = match kind {
            Kind::User => 400,
            // A little more than a line on average: prompts are short, and what is beside the text does not make up for it.
            _ => self.line * share / 85,
        };
        let body = self.random() as usize % self.pool.len();
        self.pool[body].beginning(most.min(self.line * share / 85)).to_owned()
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn write(&mut self, rec: &Rec, text: &str) -> io::Result<()> {
        let buf = self.record(rec, text);
        self.out.write_all(buf.as_bytes())?;
        self.buf = buf;
        Ok(())
    }

    /// A record with its line feed, in the buffer of the last one.
    fn record(&mut self, rec: &Rec, text: &str) -> String {
        self.clock += 1;
        let mut buf = std::mem::take(&mut self.buf);
        buf.clear();
        match self.form {
            Form::Qwen => self.qwen(&mut buf, rec, text),
            Form::Claude => self.claude(&mut buf, rec, text),
        }
        .expect("BUG: a string takes everything");
        buf.push('\n');
        buf
    }

    /// A month of sessions that go on day and night.
    fn time(&self) -> String {
        let s = self.clock * 2 % (28 * 86_400);
        let (d, h, m, ms) = (1 + s / 86_400, s / 3_600 % 24, s / 60 % 60, self.clock * 37 % 1000);
        format!("2026-01-{d:02}T{h:02}:{m:02}:{:02}.{ms:03}Z", s % 60)
    }

    fn qwen(&self, b: &mut String, rec: &Rec, text: &str) -> fmt::Result {
        let kind = match rec.kind {
            Kind::User => r#""user""#,
            Kind::Assistant | Kind::Call => r#""assistant""#,
            Kind::Result => r#""tool_result""#,
            Kind::System => r#""system""#,
            Kind::Rewind => r#""system","subtype":"rewind""#,
            Kind::Neutral => r#""system","subtype":"custom_title""#,
        };
        write!(
            b,
            r#"{{"uuid":"{}","parentUuid":{},"sessionId":"{}","timestamp":"{}","type":{kind},"cwd":"/workspace","version":"0.24.4","gitBranch":"main""#,
            id(rec.uuid),
            Parent(rec.parent),
            self.session,
            self.time()
        )?;
        let (call, result) = (rec.uuid, rec.parent.unwrap_or_default());
        match rec.kind {
            Kind::Rewind => return b.write_str(r#","systemPayload":{"turnIndex":3}}"#),
            Kind::Neutral => {
                return b.write_str(r#","systemPayload":{"customTitle":"title","titleSource":"auto"}}"#);
            }
            Kind::User if text.is_empty() => {}
            Kind::User => write!(b, r#","message":{{"role":"user","parts":[{{"text":"{text}"}}]}}"#)?,
            Kind::Assistant if text.is_empty() => {}
            Kind::Assistant => write!(
                b,
                r#","message":{{"role":"model","parts":[{{"text":"weighs what is known","thought":true}},{{"text":"{text}"}}]}},"usageMetadata":{{"promptTokenCount":{},"totalTokenCount":{}}}"#,
                self.clock % 90_000,
                self.clock % 99_000
            )?,
            Kind::Call => write!(
                b,
                r#","message":{{"role":"model","parts":[{{"text":"{text}"}},{{"functionCall":{{"id":"c{call}","name":"run_shell_command","args":{{"command":"cargo test"}}}}}}]}}"#
            )?,
            Kind::Result => write!(
                b,
                r#","message":{{"role":"user","parts":[{{"functionResponse":{{"id":"c{result}","name":"run_shell_command","response":{{"output":"{text}"}}}}}}]}},"toolCallResult":{{"callId":"c{result}","status":"success"}}"#
            )?,
            Kind::System if text.is_empty() => {}
            Kind::System => write!(b, r#","systemPayload":{{"note":"{text}"}}"#)?,
        }
        b.write_char('}')
    }

    fn claude(&self, b: &mut String, rec: &Rec, text: &str) -> fmt::Result {
        write!(
            b,
            r#"{{"parentUuid":{},"isSidechain":false,"userType":"external","cwd":"/workspace","sessionId":"{}","version":"2.1.197","gitBranch":"main","#,
            Parent(rec.parent),
            self.session
        )?;
        let (call, result) = (rec.uuid, rec.parent.unwrap_or_default());
        match rec.kind {
            Kind::Assistant => write!(
                b,
                r#""message":{{"id":"msg_{call}","type":"message","role":"assistant","model":"model","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":{}}}}},"type":"assistant""#,
                self.clock % 90_000
            )?,
            Kind::Call => write!(
                b,
                r#""message":{{"id":"msg_{call}","type":"message","role":"assistant","model":"model","content":[{{"type":"text","text":"{text}"}},{{"type":"tool_use","id":"toolu_{call}","name":"Bash","input":{{"command":"cargo test"}}}}],"stop_reason":"tool_use"}},"type":"assistant""#
            )?,
            Kind::Result => write!(
                b,
                r#""message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{result}","content":"{text}"}}]}},"toolUseResult":{{"stdout":"","stderr":"","interrupted":false}},"type":"user""#
            )?,
            Kind::User | Kind::Rewind => {
                write!(b, r#""message":{{"role":"user","content":"{text}"}},"type":"user""#)?;
            }
            Kind::System | Kind::Neutral => {
                write!(b, r#""type":"system","subtype":"informational","content":"{text}""#)?;
            }
        }
        write!(b, r#","uuid":"{}","timestamp":"{}"}}"#, id(rec.uuid), self.time())
    }
}

struct Parent(Option<u128>);

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => write!(f, r#""{}""#, id(n)),
            None => f.write_str("null"),
        }
    }
}

/// Words, and where each ends, so that any beginning is whole words (and whole escapes).
struct Body {
    text: String,
    ends: Vec<usize>,
}

const WORDS: &[&str] = &[
    "the",
    "parser",
    "retries",
    "when",
    "a",
    "branch",
    "has",
    "no",
    "parent",
    "and",
    "lock",
    "is",
    "held",
    "by",
    "another",
    "process",
    "so",
    "we",
    "read",
    "snapshot",
    "again",
    "then",
    "apply",
    "policy",
    "write",
    "ledger",
    "分支",
    "恢复",
    "naïve",
    "café",
    r#"\"quoted\""#,
    r"back\\slash",
    r"tab\tnewline\n",
];

impl Body {
    fn new(mut random: impl FnMut() -> usize, bytes: usize) -> Body {
        let mut body = Body { text: String::new(), ends: Vec::new() };
        while body.text.len() < bytes {
            body.text.push_str(WORDS[random() % WORDS.len()]);
            body.ends.push(body.text.len());
            body.text.push(' ');
        }
        body
    }

    fn beginning(&self, most: usize) -> &str {
        let words = self.ends.partition_point(|&end| end <= most).max(1);
        &self.text[..self.ends[words - 1]]
    }
}
