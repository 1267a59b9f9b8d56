//! Whole processes: how long, and how much memory.

use std::{
    ffi::OsString,
    fs::File,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use wait4::Wait4;

use crate::Result;

/// One run.
#[derive(Clone, Copy)]
pub struct Sample {
    pub ms: f64,
    /// The most memory it had, in bytes; 0 if it is not known.
    pub peak: u64,
}

/// What is run: a program, or anything else that can be timed.
pub struct Job<'a> {
    run: Box<dyn FnMut() -> Result<Sample> + 'a>,
    rounds: usize,
}

/// All runs of a job.
#[derive(Clone, Debug)]
pub struct Stats {
    pub min: f64,
    pub median: f64,
    pub peak: u64,
    pub runs: usize,
}

/// A program with its arguments and what it needs around it.
#[derive(Clone)]
pub struct Program {
    words: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
}

impl Program {
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        Program { words: words.into_iter().map(Into::into).collect(), env: Vec::new(), dir: None }
    }

    /// More arguments.
    pub fn and(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Program {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Program {
        self.dir = Some(dir.into());
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(self.env.iter().cloned()).stdin(Stdio::null());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    /// What it prints.
    pub fn output(&self) -> Result<Vec<u8>> {
        let out = self.command().stderr(Stdio::inherit()).output()?;
        match out.status.success() {
            true => Ok(out.stdout),
            false => Err(format!("{:?}: {}", self.words, out.status).into()),
        }
    }

    /// The same as text.
    pub fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.output()?).trim().to_owned())
    }

    /// Runs it with its output thrown away.
    pub fn sample(&self) -> Result<Sample> {
        let mut command = self.command();
        command.stdout(File::options().write(true).open("/dev/null")?).stderr(Stdio::null());
        let start = Instant::now();
        let ended = command.spawn()?.wait4()?;
        let ms = start.elapsed().as_secs_f64() * 1000.0;
        match ended.status.success() {
            true => Ok(Sample { ms, peak: ended.rusage.maxrss }),
            false => Err(format!("{:?}: {}", self.words, ended.status).into()),
        }
    }

    /// As a job of so many rounds.
    pub fn job<'a>(&self, rounds: usize) -> Job<'a> {
        let program = self.clone();
        Job::new(rounds, move || program.sample())
    }
}

impl<'a> Job<'a> {
    pub fn new(rounds: usize, run: impl FnMut() -> Result<Sample> + 'a) -> Job<'a> {
        Job { run: Box::new(run), rounds }
    }
}

/// Runs all jobs in turns, so that what the machine does meanwhile falls on all of them.
pub fn in_turns<const N: usize>(jobs: [Job<'_>; N]) -> Result<[Stats; N]> {
    let all = in_turns_of(jobs.into())?;
    Ok(all.try_into().expect("BUG: one for each job"))
}

/// The same for any number.
pub fn in_turns_of(mut jobs: Vec<Job<'_>>) -> Result<Vec<Stats>> {
    let mut samples: Vec<Vec<Sample>> = jobs.iter().map(|_| Vec::new()).collect();
    for round in 0..jobs.iter().map(|job| job.rounds).max().unwrap_or(0) {
        for (job, samples) in jobs.iter_mut().zip(&mut samples) {
            if round < job.rounds {
                samples.push((job.run)()?);
            }
        }
    }
    Ok(samples.into_iter().map(Stats::of).collect())
}

impl Stats {
    fn of(samples: Vec<Sample>) -> Stats {
        let mut times: Vec<f64> = samples.iter().map(|s| s.ms).collect();
        times.sort_by(f64::total_cmp);
        Stats {
            min: times.first().copied().unwrap_or(f64::NAN),
            median: times.get(times.len() / 2).copied().unwrap_or(f64::NAN),
            peak: samples.iter().map(|s| s.peak).max().unwrap_or(0),
            runs: times.len(),
        }
    }
}
