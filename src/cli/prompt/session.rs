//! One line of the session prompt.

use super::choice::fit_id;
use crate::cli::text::{fit, fit_title, pad, width as columns_of};

/// A session that can be asked for.
#[derive(Clone, Debug)]
pub struct SessionChoice {
    /// Its id.
    pub session_id: String,
    /// How long ago it was last written.
    pub age: String,
    /// How many leaves it has, where that is known.
    pub leaves: Option<u64>,
    /// Its title or first prompt.
    pub text: String,
}

impl SessionChoice {
    /// The line in at most `width` columns.
    pub(super) fn line(&self, width: usize, redact: bool) -> String {
        let text = if redact { "" } else { &self.text };
        let leaves = match self.leaves {
            Some(1) => "1 branch".to_owned(),
            Some(n) => format!("{n} branches"),
            None => String::new(),
        };
        let id = fit_id(&self.session_id);
        let before = match width {
            ..40 => format!("{id}  "),
            _ => format!("{id}  {}  {}  ", pad(&self.age, 8), pad(&leaves, 12)),
        };
        let text = fit_title(text, width.saturating_sub(columns_of(&before)));
        fit(&(before + &text), width)
    }
}
