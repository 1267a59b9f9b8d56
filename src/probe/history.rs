//! What a request tells the model, and what it should.

use serde_json::Value;

use super::{
    Outcome, Seen,
    model::Request,
    session::{NEXT, ROOT, WORDS},
};

/// What is expected of one turn.
pub(super) struct Wanted {
    /// Our words in the order in which they should be sent, each as `role: WORD`, the prompt last.
    pub marks: Vec<String>,
    /// The record that the next one should hang on.
    pub below: Option<String>,
}

impl Wanted {
    /// The history of a branch that says `words` after the root.
    pub fn branch(words: [&str; 2], below: &str) -> Wanted {
        let said = [ROOT, words].concat().into_iter().zip(["user", "assistant"].into_iter().cycle());
        let mut marks: Vec<String> = said.map(|(word, role)| format!("{role}: {word}")).collect();
        marks.push(format!("user: {NEXT}"));
        Wanted { marks, below: Some(below.to_owned()) }
    }

    /// Compares what was sent, and on what the client's first new record hangs.
    pub fn compare(&self, sent: &[String], below: Option<&str>, trouble: Option<String>) -> Seen {
        if sent != self.marks {
            let wrong = format!("it sent [{}] instead of [{}]", sent.join(", "), self.marks.join(", "));
            return (Outcome::DoesNotHold, wrong);
        }
        if let Some(why) = trouble {
            return (Outcome::Unchecked, format!("it sent the right history, but then: {why}"));
        }
        match below {
            None => (
                Outcome::DoesNotHold,
                "it sent the right history, but its reply is not in the session".to_owned(),
            ),
            Some(at) if Some(at) != self.below.as_deref() => {
                let wanted = self.below.as_deref().unwrap_or("none");
                (Outcome::DoesNotHold, format!("its next record hangs on `{at}` instead of `{wanted}`"))
            }
            Some(at) => {
                (Outcome::Holds, format!("it sent its {} messages and went on below `{at}`", sent.len() - 1))
            }
        }
    }
}

/// Our words in the messages of the last request that has the prompt; none if no request has it.
pub(super) fn of_prompt(requests: &[Request], prompt: &str) -> Option<Vec<String>> {
    requests.iter().rev().map(|r| marks(&r.body)).find(|m| m.last().is_some_and(|m| m.ends_with(prompt)))
}

/// Only our words count: clients add dates, folders and tools to messages, more with each version.
fn marks(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" {
            continue;
        }
        let text = message["content"].to_string();
        let mut here: Vec<(usize, &str)> = WORDS.iter().flat_map(|word| text.match_indices(word)).collect();
        here.sort_unstable();
        found.extend(here.into_iter().map(|(_, word)| format!("{role}: {word}")));
    }
    found
}
