//! `policy check` and `policy test`: whether a policy is valid, and whether it keeps its promises.

use std::path::Path;

use serde_json::{Value, json};

use super::{Report, Stdout, outcome, summary};
use crate::{
    cli::text::clean,
    policy::{self, Expected, examples::ExampleRun},
    refusal::{Code, Error, Fault, Result},
    store::policy_file,
};

/// `policy check FILE`.
///
/// # Errors
/// `policy-invalid`; what [`policy_file::read`] reports. A failing example is exit status 2, no error.
pub fn check(file: &Path, json: bool) -> Result<Report> {
    let checked = check_file(file)?;
    Ok(report(&[(file, Ok(checked))], json, "offshoot.policy-check/1"))
}

/// `policy test FILES..`: all of them, also where some are not valid.
///
/// # Errors
/// Only faults; an invalid policy is part of the report.
pub fn test(files: &[impl AsRef<Path>], json: bool) -> Result<Report> {
    let mut checked = Vec::with_capacity(files.len());
    for file in files {
        let file = file.as_ref();
        checked.push((
            file,
            match check_file(file) {
                Err(Error::Fault(f)) => return Err(Error::Fault(f)),
                other => other,
            },
        ));
    }
    Ok(report(&checked, json, "offshoot.policy-test/1"))
}

/// A valid policy and its examples.
struct Checked {
    name: String,
    digest: String,
    rules: usize,
    runs: Vec<ExampleRun>,
}

fn check_file(file: &Path) -> Result<Checked> {
    let (text, digest) = policy_file::read(file)?;
    let policy = policy::parse(&text, &file.display().to_string())?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let runs = policy::examples::run(&policy, |path| read_example(&folder.join(path)));
    Ok(Checked { name: policy.name, digest, rules: policy.rules.len(), runs })
}

fn read_example(path: &Path) -> Result<Vec<u8>> {
    // A pipe or a folder gives an error or nothing useful; neither may hang a check.
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => std::fs::read(path).map_err(Error::io("read", path)),
        Ok(_) => Err(Fault::io("read", path, std::io::Error::other("not a regular file")).into()),
        Err(e) => Err(Fault::io("read", path, e).into()),
    }
}

fn report(files: &[(&Path, Result<Checked>)], json: bool, schema: &str) -> Report {
    let failed =
        files.iter().any(|(_, c)| c.as_ref().map_or(true, |c| !c.runs.iter().all(ExampleRun::passed)));
    let stdout = if json {
        let policies: Vec<Value> = files.iter().map(|(file, checked)| as_json(file, checked)).collect();
        Stdout::Json(json!({"schema": schema, "passed": !failed, "policies": policies}))
    } else {
        Stdout::Text(files.iter().map(|(file, checked)| as_text(file, checked)).collect())
    };
    Report { stdout, code: if failed { Code::PolicyInvalid.exit_code() } else { 0 } }
}

fn as_text(file: &Path, checked: &Result<Checked>) -> String {
    let path = clean(&file.display().to_string());
    let checked = match checked {
        Ok(checked) => checked,
        Err(e) => {
            // The parser's rendering begins with the path itself and is clean.
            let mut text: String = e.to_string().lines().map(|l| format!("{}\n", clean(l))).collect();
            text.push_str(&format!("{path}: not valid\n"));
            return text;
        }
    };
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{path}: `{}` is valid, {}, {}\n",
        clean(&checked.name),
        count(checked.rules, "rule"),
        count(checked.runs.len(), "example"),
    );
    for run in &checked.runs {
        let expected = outcome(&run.expected);
        let place = format!("  {path}:{}", run.line);
        match &run.found {
            Some(_) if run.passed() => text.push_str(&format!("{place}: ok, {expected}\n")),
            Some(found) => {
                text.push_str(&format!("{place}: FAILED, expected {expected}, found {}\n", outcome(found)));
            }
            None => text.push_str(&format!("{place}: FAILED, expected {expected}\n")),
        }
        if run.passed() {
            continue;
        }
        for note in run.problem.iter().chain(&run.notes) {
            text.push_str(&format!("    {}\n", clean(note)));
        }
        for rule in run.verdict.iter().flat_map(|v| &v.trace) {
            text.push_str(&format!("    rule `{}`: {}\n", clean(&rule.name), summary(rule)));
        }
    }
    text
}

fn as_json(file: &Path, checked: &Result<Checked>) -> Value {
    let path = file.display().to_string();
    match checked {
        Err(e) => {
            let error = e.to_json();
            json!({"path": path, "valid": false, "refusal": error["refusal"]})
        }
        Ok(checked) => {
            let outcome = |e: &Expected| match e {
                Expected::Leaf(leaf) => json!({"leafUuid": leaf}),
                Expected::Refusal(code) => json!({"refusal": code}),
            };
            let examples: Vec<Value> = checked
                .runs
                .iter()
                .map(|run| {
                    json!({"line": run.line, "passed": run.passed(), "expected": outcome(&run.expected),
                        "found": run.found.as_ref().map(outcome), "problem": run.problem, "notes": run.notes,
                        "trace": run.verdict.as_ref().map(|v| &v.trace)})
                })
                .collect();
            json!({"path": path, "valid": true, "name": checked.name, "digest": checked.digest,
                "rules": checked.rules, "examples": examples})
        }
    }
}
