//! Operation ids: the caller's retry keys, unique in a state directory (I9).
//!
//! An id has a claim, `ops/<blake3(id)>`, published whole and never overwritten while it counts, and a lock,
//! `ops/<blake3(id)>.lock`, held from before the lease until the operation is settled and never removed. A claim
//! without a ledger entry counts as never made: a crash between the two leaves nothing behind that binds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    record::Agent,
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    selection::SeedMode,
    store::{
        faults,
        private::{self, Clobber, Lock},
    },
};

/// The longest operation id, in bytes.
pub const LONGEST_ID: usize = 128;

/// Checks that an operation id is 1 to 128 printable ASCII characters (space to tilde).
///
/// # Errors
/// `usage`.
pub fn validate_operation_id(id: &str) -> Result<()> {
    if (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| (0x20..=0x7e).contains(&b)) {
        return Ok(());
    }
    Err(Refusal::new(Code::Usage, "an operation id is 1 to 128 printable ASCII characters").into())
}

/// What an operation id was claimed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The id itself; its file has only a hash of it.
    pub operation_id: String,
    /// See [`request_digest`].
    pub request_digest: String,
    /// Whose session.
    pub agent: Agent,
    /// Which session, and with it which ledger.
    pub session_id: String,
    /// The ledger's file, as it was when the claim was made.
    pub ledger: String,
    /// The transcript's canonical path.
    pub transcript: String,
}

#[derive(Serialize, Deserialize)]
struct ClaimFile {
    schema: String,
    #[serde(flatten)]
    claim: Claim,
}

const SCHEMA: &str = "offshoot.claim/1";

/// What came of claiming an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The id was free.
    New,
    /// The id is claimed for the same request on the same session.
    Same,
    /// The id is claimed for this, which is something else.
    Other(Claim),
}

fn claim_path(root: &Path, id: &str) -> PathBuf {
    root.join("ops").join(blake3::hash(id.as_bytes()).to_hex().as_str())
}

/// The right to work on an operation, given back when dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct OperationLock {
    _lock: Lock,
}

impl OperationLock {
    /// Takes it, waiting at most `wait`.
    ///
    /// # Errors
    /// `operation-in-flight` if somebody else works on it; `io`, `unsafe-path`.
    pub fn acquire(root: &Path, id: &str, wait: Duration) -> Result<OperationLock> {
        private::ensure_dir(&root.join("ops"))?;
        let path = claim_path(root, id).with_extension("lock");
        match Lock::acquire(&path, wait)? {
            Some(lock) => Ok(OperationLock { _lock: lock }),
            None => Err(Refusal::new(
                Code::OperationInFlight,
                format!("operation `{id}` is being worked on by another process"),
            )
            .hint("wait for it to end, or give `--wait`")
            .detail(json!({"operationId": id, "waitedMs": wait.as_millis() as u64}))
            .into()),
        }
    }
}

/// Claims an id, under its lock.
///
/// # Errors
/// `io`, `unsafe-path`; `damaged` if the claim that is there is not one.
pub fn claim(root: &Path, id: &str, claim: &Claim) -> Result<Claimed> {
    let path = claim_path(root, id);
    private::ensure_dir(&root.join("ops"))?;
    loop {
        if private::publish(&path, &bytes_of(claim), Clobber::Keep)? {
            faults::point("claim-made").map_err(Error::io("publish", &path))?;
            return Ok(Claimed::New);
        }
        return match find_claim(root, id)? {
            // Released in between, by somebody who did not hold the lock: try again.
            None => continue,
            Some(there)
                if there.request_digest == claim.request_digest
                    && there.agent == claim.agent
                    && there.session_id == claim.session_id =>
            {
                Ok(Claimed::Same)
            }
            Some(there) => Ok(Claimed::Other(there)),
        };
    }
}

fn bytes_of(claim: &Claim) -> Vec<u8> {
    let file = ClaimFile { schema: SCHEMA.to_owned(), claim: claim.clone() };
    let mut bytes = serde_json::to_vec(&file).expect("BUG: a claim is always JSON");
    bytes.push(b'\n');
    bytes
}

/// The claim on an id, if there is one.
///
/// # Errors
/// `io`, `unsafe-path`; `damaged` if it is not a claim on that id.
pub fn find_claim(root: &Path, id: &str) -> Result<Option<Claim>> {
    let path = claim_path(root, id);
    let Some(bytes) = private::read(&path)? else { return Ok(None) };
    match serde_json::from_slice::<ClaimFile>(&bytes) {
        Ok(file) if file.schema == SCHEMA && file.claim.operation_id == id => Ok(Some(file.claim)),
        _ => Err(Fault::new(
            FaultCode::Damaged,
            format!("`{}` is not the claim on operation `{id}`", path.display()),
        )
        .detail(json!({"path": path.display().to_string(), "operationId": id}))
        .into()),
    }
}

/// Puts another claim in the place of one that counts as never made, or whose operation was abandoned. Under
/// the operation's lock.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn replace_claim(root: &Path, id: &str, claim: &Claim) -> Result<()> {
    private::ensure_dir(&root.join("ops"))?;
    private::publish(&claim_path(root, id), &bytes_of(claim), Clobber::Replace).map(drop)
}

/// Frees an id: after a refusal behind `pending` a retry decides afresh. Under the operation's lock. An id that
/// is not claimed is no error.
///
/// # Errors
/// `io`.
pub fn release_claim(root: &Path, id: &str) -> Result<()> {
    let path = claim_path(root, id);
    match fs::remove_file(&path) {
        Ok(()) => private::sync_parent(&path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("remove", &path)(e)),
    }
}

fn child_path(root: &Path, child: &Path) -> PathBuf {
    let name = blake3::hash(child.as_os_str().as_encoded_bytes()).to_hex();
    root.join("ops").join(name.as_str()).with_extension("child")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChildFile {
    schema: String,
    operation_id: String,
}

const CHILD_SCHEMA: &str = "offshoot.child/1";

/// Notes which operation makes a child, so that a resume of the child finds it. Under the operation's lock.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn note_child(root: &Path, child: &Path, operation_id: &str) -> Result<()> {
    let file = ChildFile { schema: CHILD_SCHEMA.to_owned(), operation_id: operation_id.to_owned() };
    let mut bytes = serde_json::to_vec(&file).expect("BUG: a note is always JSON");
    bytes.push(b'\n');
    private::publish(&child_path(root, child), &bytes, Clobber::Replace).map(drop)
}

/// The operation that made a session, if it was a fork at a turn or a record.
///
/// # Errors
/// `io`, `unsafe-path`. A note that is none counts as absent: it only saves a caller an `--ack`.
pub fn operation_of_child(root: &Path, child: &Path) -> Result<Option<String>> {
    let Some(bytes) = private::read(&child_path(root, child))? else { return Ok(None) };
    let file = serde_json::from_slice::<ChildFile>(&bytes).ok().filter(|f| f.schema == CHILD_SCHEMA);
    Ok(file.map(|f| f.operation_id))
}

/// How the caller asked for a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Selector {
    /// No word about it: the one leaf there is, or the prompt.
    Any,
    /// `--leaf`, as resolved.
    Leaf {
        /// The leaf.
        leaf: String,
    },
    /// `--pick`.
    Pick,
    /// A policy.
    Policy {
        /// `blake3:<hex>` of its text.
        digest: String,
    },
    /// `undo`.
    Undo,
    /// `truncate`.
    Truncate,
    /// `restore`.
    Restore,
}

/// What the caller asked for: all that makes two requests the same, and nothing that is state (the snapshot) or
/// presentation (waiting, output).
// The fields stand in the order of their names, so that the JSON is canonical.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Whose session.
    pub agent: Agent,
    /// Whether a chain that ends at a missing parent is accepted.
    pub allow_gap: bool,
    /// The transcript's canonical path.
    pub path: &'a str,
    /// The record to fork or cut at.
    pub record: Option<&'a str>,
    /// The seed, where the caller named one.
    pub seed: Option<SeedMode>,
    /// How the leaf is chosen.
    pub selector: Selector,
    /// The turn to fork at.
    pub turn: Option<&'a str>,
}

/// BLAKE3 (bare hex) of the request's canonical JSON: no white space, members sorted by name.
pub fn request_digest(request: &Request<'_>) -> String {
    let json = serde_json::to_vec(request).expect("BUG: a request is always JSON");
    blake3::hash(&json).to_hex().to_string()
}
