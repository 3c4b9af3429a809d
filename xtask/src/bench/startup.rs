//! `cargo xtask bench startup`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Options of `cargo xtask bench startup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: super::Common,
    /// How often each tool is started, in turn
    #[arg(long, value_name = "N", default_value_t = 7)]
    runs: u32,
}

/// What the guest says of a tool.
#[derive(Deserialize)]
struct Figures {
    tool: String,
    attached_ms: Vec<f64>,
    detached_ms: Vec<f64>,
    ended_ms: Vec<f64>,
    rss_kib: Vec<f64>,
    peak_kib: Vec<f64>,
    size_kib: f64,
}

/// A row's name and unit, and a tool's value in it.
type Row = (&'static str, fn(&Figures) -> f64);

const ROWS: [Row; 6] = [
    ("start to attached, ms", |f| median(&f.attached_ms)),
    ("command's end to detached, ms", |f| median(&f.detached_ms)),
    ("command's end to tool's end, ms", |f| median(&f.ended_ms)),
    ("VmRSS when attached, MiB", |f| median(&f.rss_kib) / 1024.0),
    ("VmHWM when attached, MiB", |f| median(&f.peak_kib) / 1024.0),
    ("program and libraries, MiB", |f| f.size_kib / 1024.0),
];

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let suite = format!("startup --runs {}", args.runs);
    let (kernel, said) = args.common.measured(&suite, false)?;
    if args.common.json {
        print!("{said}");
        return Ok(ExitCode::SUCCESS);
    }
    let tools: Vec<Figures> = serde_json::from_str(&said).context("the guest says no figures")?;
    print!("{}", table(&kernel, args.runs, &tools));
    Ok(ExitCode::SUCCESS)
}

/// Medians, and how many times more each other tool takes than the first.
fn table(kernel: &str, runs: u32, tools: &[Figures]) -> String {
    let row =
        |name: &str, cell: &dyn Fn(&Figures) -> String, ratio: &dyn Fn(&Figures) -> String| {
            let cells = tools.iter().enumerate().map(|(i, figures)| {
                let ratio = (i > 0).then(|| format!("{:>8}", ratio(figures)));
                format!("{:>10}{}", cell(figures), ratio.unwrap_or_default())
            });
            format!("{name:32}{}\n", cells.collect::<String>())
        };
    let head = row("", &|f| f.tool.clone(), &|_| "ratio".to_owned());
    let rows = ROWS.map(|(name, value)| {
        let ratio = |f: &Figures| format!("{:.1}", value(f) / value(&tools[0]));
        row(name, &|f| format!("{:.1}", value(f)), &ratio)
    });
    let title = format!("{kernel}, three functions timed, medians of {runs} runs in turn\n\n");
    title + &head + &rows.concat()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, middle) in [
            (&[3.0, 1.0, 2.0][..], 2.0),
            (&[4.0, 1.0, 2.0, 3.0], 2.5),
            (&[7.0], 7.0),
        ] {
            assert!((median(values) - middle).abs() < f64::EPSILON);
        }
        assert!(median(&[]).is_nan());
    }
}
