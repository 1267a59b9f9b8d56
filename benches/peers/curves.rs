//! How the time of `inspect` grows, in a picture.

use std::{fmt::Write as _, fs};

use crate::{
    Result,
    inputs::{Input, Inputs},
    measure::in_turns,
    shapes::{self, BARE, Form, Tree},
};

/// How often each point is measured; the least counts.
const RUNS: usize = 5;

/// One curve.
pub struct Curve {
    title: &'static str,
    axis: &'static str,
    /// What grows, and milliseconds.
    points: Vec<(f64, f64)>,
}

/// Measures all curves.
pub fn measure(inputs: &Inputs) -> Result<Vec<Curve>> {
    let bare = |tree: Tree| inputs.file("curve.jsonl", Form::Qwen, BARE, |l| shapes::tree(l, &tree));
    let many = inputs.scaled(100_000);
    let shares = [0.05, 0.25, 0.5, 0.75, 1.0];
    let part = |all: usize, share: f64| (inputs.scaled(all) as f64 * share) as usize;
    Ok(vec![
        curve("Size", "MB, lines of 2.3 KB", shares, |share| {
            let file = inputs.session("curve.jsonl", Form::Qwen, (1e9 * share) as usize)?;
            Ok((file.mb(), file))
        })?,
        curve("Records", "records, 50 leaves, bare lines", shares, |share| {
            let records = part(1_000_000, share);
            Ok((records as f64, bare(Tree { records, leaves: 50.min(records / 20).max(2), rewinds: 5 })?))
        })?,
        curve("Leaves", "leaves of 100,000 records, bare lines", shares, |share| {
            let leaves = part(50_000, share);
            Ok((leaves as f64, bare(Tree { records: many, leaves, rewinds: 5 })?))
        })?,
        curve("Depth", "records of one chain, bare lines", shares, |share| {
            let depth = part(1_000_000, share);
            let file = inputs.file("curve.jsonl", Form::Qwen, BARE, |l| shapes::chain(l, depth))?;
            Ok((depth as f64, file))
        })?,
        curve("Rewinds", "rewinds of 100,000 records, 50,000 leaves", shares, |share| {
            let (rewinds, leaves) = (part(50_000, share), many / 2);
            Ok((rewinds as f64, bare(Tree { records: many, leaves, rewinds })?))
        })?,
    ])
}

fn curve<const N: usize>(
    title: &'static str,
    axis: &'static str,
    shares: [f64; N],
    make: impl Fn(f64) -> Result<(f64, Input)>,
) -> Result<Curve> {
    let mut points = Vec::new();
    for share in shares {
        let (x, file) = make(share)?;
        file.counted()?;
        let [stats] = in_turns([file.inspect().job(RUNS)])?;
        points.push((x, stats.min));
        fs::remove_file(&file.path)?;
    }
    Ok(Curve { title, axis, points })
}

const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 150.0;

/// The picture: a panel a curve, and in each a line through the origin and the last point, which is what linear is.
pub fn svg(curves: &[Curve], told: &str) -> std::result::Result<String, std::fmt::Error> {
    let mut out = String::new();
    let (columns, rows) = (3, curves.len().div_ceil(3));
    let (w, h) = (columns as f64 * (WIDTH + 70.0) + 20.0, rows as f64 * (HEIGHT + 80.0) + 50.0);
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" font-family="sans-serif" font-size="12" role="img">
<title>Time of inspect over size, records, leaves, depth and rewinds</title>
<rect width="{w}" height="{h}" fill="#fff"/>
<text x="20" y="24" fill="#333">Milliseconds of `inspect --json`, least of {RUNS}. Dashed: in proportion to the last point. {told}</text>"##
    )?;
    for (n, curve) in curves.iter().enumerate() {
        let (x, y) =
            ((n % columns) as f64 * (WIDTH + 70.0) + 60.0, (n / columns) as f64 * (HEIGHT + 80.0) + 60.0);
        writeln!(out, r#"<g transform="translate({x} {y})">"#)?;
        panel(&mut out, curve)?;
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn panel(out: &mut String, curve: &Curve) -> std::fmt::Result {
    let most = |of: fn(&(f64, f64)) -> f64| curve.points.iter().map(of).fold(1.0, f64::max);
    let (right, top) = (most(|p| p.0), most(|p| p.1) * 1.1);
    let at = |(x, y): (f64, f64)| (x / right * WIDTH, HEIGHT - y / top * HEIGHT);
    writeln!(
        out,
        r##"<text x="0" y="-8" font-weight="bold" fill="#111">{}</text>
<path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="#888"/>
<text x="0" y="{}" fill="#555">{}</text>"##,
        curve.title,
        HEIGHT + 34.0,
        curve.axis
    )?;
    for share in [0.0, 0.5, 1.0] {
        let (x, y) = (WIDTH * share, HEIGHT - HEIGHT * share / 1.1);
        writeln!(
            out,
            r##"<text x="{x}" y="{}" text-anchor="middle" fill="#555">{}</text><text x="-6" y="{}" text-anchor="end" fill="#555">{:.0}</text>"##,
            HEIGHT + 16.0,
            short(right * share),
            y + 4.0,
            top / 1.1 * share
        )?;
    }
    let last = curve.points.last().map_or((0.0, HEIGHT), |&p| at(p));
    writeln!(
        out,
        r##"<path d="M0 {HEIGHT}L{:.1} {:.1}" stroke="#aaa" stroke-dasharray="4 3" fill="none"/>"##,
        last.0, last.1
    )?;
    let line: Vec<String> =
        curve.points.iter().map(|&p| at(p)).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    writeln!(out, r##"<path d="M{}" stroke="#0b62a4" stroke-width="2" fill="none"/>"##, line.join("L"))?;
    for (x, y) in curve.points.iter().map(|&p| at(p)) {
        writeln!(out, r##"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="#0b62a4"/>"##)?;
    }
    Ok(())
}

/// Thousands as k, millions as M.
fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}
