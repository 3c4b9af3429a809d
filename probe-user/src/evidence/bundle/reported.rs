//! A report, from a record or from the tables of a bundle.

use std::path::Path;

use super::{
    comparison::{ControlSandwich, MatchedBuild, SourceIdentity},
    facts::identity,
    folder::Folder,
    manifest::sha256,
    points::Points,
    recorded::{Recorded, RecordedTarget},
    tables::{DirectHit, Round, RunStats, Summary},
    tsv::{Row, each},
    verified::Verified,
};
use crate::{
    model::{Comparison, CountedFunction, Fact, LatencyBlock, Report, ReportPart as Part, Timing},
    wording::plain,
};

/// Who may have executed calls, as a record and a reader call them, in this order.
const EXECUTED_BY: [(&str, &str); 7] = [
    ("workload", "the workload"),
    ("commit", "commit threads"),
    ("cleaner", "cleaners"),
    ("kworker", "kworkers"),
    ("kthread", "kernel threads"),
    ("other", "other tasks"),
    ("interrupt", "interrupts"),
];

/// What a report is made from.
#[derive(Debug, Default)]
struct Tables {
    record: Option<Recorded>,
    points: Option<Points>,
    stats: Vec<RunStats>,
    hits: Vec<DirectHit>,
    summary: Vec<Summary>,
    sandwich: Vec<ControlSandwich>,
    builds: Vec<MatchedBuild>,
    identity: Vec<SourceIdentity>,
    sources: Vec<Fact>,
    /// What does not follow.
    wrong: Vec<String>,
}

/// Of a bundle's folder, or of a record alone; an error says in one line what cannot be
/// read.
pub(crate) fn report(path: &Path) -> Result<Report, String> {
    let tables = if path.is_dir() {
        of_folder(path)?
    } else {
        of_record(path)?
    };
    Ok(tables.report())
}

fn of_record(path: &Path) -> Result<Tables, String> {
    let name = path.display().to_string();
    let unread = |error: &std::io::Error| format!("{name}: cannot read it: {}", plain(error));
    let text = std::fs::read_to_string(path).map_err(|e| unread(&e))?;
    let record = Recorded::parse(&text).map_err(|why| format!("{name}, {why}"))?;
    let hash = sha256(path).map_err(|e| unread(&e))?;
    let (wrong, _) = record.faults();
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Tables {
        wrong: wrong.into_iter().map(|w| format!("{name}, {w}")).collect(),
        record: Some(record),
        sources: vec![Fact::new(file, hash)],
        ..Tables::default()
    })
}

fn of_folder(dir: &Path) -> Result<Tables, String> {
    let folder = Folder::open(dir)?;
    let points = folder.has(Round::FILE).then(|| points(&folder));
    let points = points.transpose()?;
    let stats = match &points {
        Some(points) => points.stats().unwrap_or_default(),
        None => folder.table::<RunStats>()?.unwrap_or_default(),
    };
    let mut sources = Vec::new();
    for name in folder.known() {
        let hash = sha256(&dir.join(name));
        let hash = hash.map_err(|e| format!("{name}: cannot read it: {}", plain(&e)))?;
        sources.push(Fact::new(name, hash));
    }
    Ok(Tables {
        record: folder.record()?,
        points,
        stats,
        hits: folder.table()?.unwrap_or_default(),
        summary: folder.table()?.unwrap_or_default(),
        sandwich: folder.table()?.unwrap_or_default(),
        builds: folder.table()?.unwrap_or_default(),
        identity: folder.table()?.unwrap_or_default(),
        sources,
        wrong: Verified::of(dir)?.wrong,
    })
}

fn points(folder: &Folder) -> Result<Points, String> {
    let mut points = Points::default();
    each(folder.reader(Round::FILE)?, |line, round: Round| {
        points.add(line, &round)
    })
    .map_err(|fault| fault.to_string())?;
    Ok(points)
}

impl Tables {
    fn report(self) -> Report {
        Report {
            schema: Report::SCHEMA,
            tested: self.tested(),
            counts: self.counts(),
            expectations: self.expectations(),
            latency: self.latency(),
            timing: self.stats.iter().map(timing).collect(),
            comparison: self.sandwich.iter().map(comparison).collect(),
            checks: self.checks(),
            identity: self.record.as_ref().map_or_else(Vec::new, identity),
            command: self.command(),
            caveats: self.caveats(),
            failed: self.failed(),
            sources: self.sources,
            tested_by: None,
        }
    }

    fn tested(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Some(record) = &self.record {
            let kernel = &record.identity;
            let machine = kernel.machine.as_deref().unwrap_or_default();
            let name = format!("{} {machine}", kernel.release);
            facts.push(Fact::new("kernel", name.trim_end()));
            if let Some(variant) = &kernel.inhibition {
                let words = match (&*variant.variant, variant.slots) {
                    ("inline-buffer", Some(slots)) => format!("inline buffer, {slots} slots"),
                    (variant, _) => variant.to_owned(),
                };
                facts.push(Fact::new("inhibition", words));
            }
        }
        let said = self.identity.iter();
        facts.extend(said.map(|row| Fact::new(row.field.clone(), row.value.clone())));
        let builds = self.builds.iter();
        facts.extend(builds.map(|row| {
            let both = if row.control == row.patched {
                format!("{}: {}", row.status, row.control)
            } else {
                format!("{}: {} / {}", row.status, row.control, row.patched)
            };
            Fact::new(format!("matched {}", row.field), both)
        }));
        facts
    }

    fn counts(&self) -> Vec<CountedFunction> {
        match &self.record {
            Some(record) => record.targets.iter().map(counted).collect(),
            None => self.hits.iter().map(hit).collect(),
        }
    }

    fn expectations(&self) -> Vec<String> {
        let all = self.record.iter().flat_map(|record| &record.expectations);
        let each = all.map(|expected| {
            let counted: Vec<_> = expected.counted.iter().map(u64::to_string).collect();
            let counted = match &counted[..] {
                [] => String::new(),
                counted => format!(": counted {}", counted.join("/")),
            };
            format!("{}{counted}: {}", expected.text, expected.outcome)
        });
        each.collect()
    }

    fn latency(&self) -> Vec<LatencyBlock> {
        let targets = self.record.iter().flat_map(|record| &record.targets);
        targets.filter_map(RecordedTarget::block).collect()
    }

    fn checks(&self) -> Vec<Fact> {
        let words = |rows: u64, ratio: String, unexpected: u64| {
            format!("{rows} rounds, expected_match_ratio={ratio}, unexpected_results={unexpected}")
        };
        if let Some(points) = &self.points {
            let each = points.timed().map(|point| {
                let ratio = point.min_match_ratio.shortest();
                let words = words(point.rows, ratio, point.unexpected);
                Fact::new(point.target_id.clone(), words)
            });
            return each.collect();
        }
        let each = self.summary.iter().map(|row| {
            let ratio = row.min_expected_match_ratio.shortest();
            let words = words(row.observed_rows, ratio, row.unexpected_results);
            Fact::new(row.target_id.clone(), words)
        });
        each.collect()
    }

    fn command(&self) -> Vec<String> {
        let tool = self.record.as_ref().and_then(|record| record.tool.as_ref());
        tool.map_or_else(Vec::new, |tool| tool.argv.clone())
    }

    fn caveats(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |text: &str| all.push(text.to_owned());
        if let Some(record) = &self.record {
            match &record.scope {
                Some(scope) if scope.refused.is_none() => {
                    note(&format!(
                        "The counts are of {} alone.",
                        scope.asked.join(", ")
                    ));
                }
                _ => note("The counts are of every call on the machine in the windows."),
            }
            let times = record.targets.iter().any(|t| t.latency.is_some());
            if times {
                note(
                    "Times are from entry to return of a function, with what the probes cost. \
                     Mean and range are exact; the others lie in the buckets of a histogram, \
                     so they are given as bounds.",
                );
            }
            if record.identity.hardware.virtual_machine == Some(true) {
                note("This was a virtual machine: its times are not those of hardware.");
            }
            for warning in &record.warnings {
                note(&format!("Warning: {warning}"));
            }
        }
        if !self.stats.is_empty() {
            note(
                "The rounds are those of a synthetic benchmark of clones and dedupes, timed \
                 without probes. It is no application, and its device no other.",
            );
        }
        if self.points.is_none() && !self.stats.is_empty() {
            note("The means are as their table has them: there are no raw rounds.");
        }
        if self.record.is_none() {
            note("There is no record: nothing here tells whether calls were missed.");
        }
        all
    }

    fn failed(&self) -> Vec<String> {
        let mut all = self.wrong.clone();
        if let Some(record) = &self.record {
            match &record.exit {
                Some(exit) if exit.code != 0 => {
                    let causes = exit.causes.iter().cloned();
                    all.extend(causes);
                    if exit.causes.is_empty() {
                        all.push(format!("the run ended with status {}", exit.code));
                    }
                }
                Some(_) => {}
                None => all.push("the run did not come to its end".to_owned()),
            }
        }
        if !self.hits.is_empty() && !DirectHit::passed(&self.hits) {
            all.push("a required function was not called".to_owned());
        }
        for fact in self.checks() {
            if !fact
                .value
                .ends_with("expected_match_ratio=100, unexpected_results=0")
            {
                all.push(format!("{}: {}", fact.name, fact.value));
            }
        }
        let differ = self.builds.iter().filter(|row| row.status != "PASS");
        all.extend(differ.map(|row| format!("{} does not match", row.field)));
        all
    }
}

fn counted(target: &RecordedTarget) -> CountedFunction {
    let mut parts = Vec::new();
    let mut part = |name: &str, calls: Option<u64>| {
        if let Some(calls) = calls {
            let name = name.to_owned();
            parts.push(Part { name, calls });
        }
    };
    part("clone", target.clones);
    part("dedupe", target.dedupes);
    for (field, name) in EXECUTED_BY {
        let by = target.executed_by.as_ref();
        let calls = by.and_then(|by| by.get(field).copied().flatten());
        part(&format!("by {name}"), calls.filter(|calls| *calls > 0));
    }
    part("out of scope", target.out_of_scope.filter(|n| *n > 0));
    let missed = target.missed.zip(target.recursion_misses);
    CountedFunction {
        function: target.symbol.clone(),
        required: target.required,
        calls: target.calls,
        errors: target.errors,
        missed: missed.map(|(a, b)| a.saturating_add(b)),
        verdict: match &target.verdict {
            Some(verdict) => verdict.clone(),
            None => "absent".to_owned(),
        },
        parts,
    }
}

fn hit(hit: &DirectHit) -> CountedFunction {
    CountedFunction {
        function: hit.function.clone(),
        required: hit.required,
        calls: hit.available.then_some(hit.calls),
        errors: None,
        missed: None,
        verdict: if hit.available {
            "not recorded"
        } else {
            "absent"
        }
        .to_owned(),
        parts: Vec::new(),
    }
}

fn timing(row: &RunStats) -> Timing {
    Timing {
        target_id: row.target_id.clone(),
        kernel: row.kernel.clone(),
        scenario: row.scenario.clone(),
        rounds: row.rounds,
        mean: row.all_mean.to_string(),
        mean_without_first: row.skip_first_mean.map(|mean| mean.to_string()),
        min: row.min.to_string(),
        max: row.max.to_string(),
    }
}

fn comparison(row: &ControlSandwich) -> Comparison {
    Comparison {
        scenario: row.scenario.clone(),
        rounds: match &*row.scope {
            "all_rounds" => "all rounds",
            _ => "without the first",
        },
        control_a: row.control_a.to_string(),
        patched: row.patched.to_string(),
        control_b: row.control_b.to_string(),
        drift_pct: row.drift_pct.to_string(),
        delta_pct: row.delta_pct.to_string(),
    }
}
