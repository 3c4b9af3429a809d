//! Computes a bundle again, from its raw rounds and its record.

use std::path::Path;

use super::{
    comparison::{ControlSandwich, MatchedBuild, SourceIdentity},
    folder::{Folder, RECORD},
    manifest::{MANIFEST, listed, sha256},
    points::Points,
    recorded::Recorded,
    tables::{DirectHit, Round, RunStats, Summary, Timed},
    tsv::{Row, each},
};
use crate::{
    stats::{Sandwich, Thousandths},
    wording::plain,
};

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// A line or more for each file.
    pub(crate) said: Vec<String>,
    /// What does not follow.
    pub(crate) wrong: Vec<String>,
}

impl Verified {
    /// Of a folder; an error says in one line what cannot be read.
    pub(crate) fn of(dir: &Path) -> Result<Self, String> {
        let bundle = Folder::open(dir)?;
        let mut verified = Self::default();
        verified.manifest(&bundle)?;
        let record = bundle.record()?;
        if let Some(record) = &record {
            verified.record(record);
        }
        let points = verified.rounds(&bundle)?;
        if let (Some(points), Some(record)) = (&points, &record) {
            verified.of_one_kernel(points, record);
        }
        let stats = bundle.table::<RunStats>()?;
        let hits = bundle.table::<DirectHit>()?;
        if let Some(stats) = &stats {
            verified.stats(stats, points.as_ref());
        }
        if let Some(hits) = &hits {
            verified.hits(hits, record.as_ref());
        }
        if let Some(summary) = bundle.table::<Summary>()? {
            verified.summary(&summary, points.as_ref(), stats.as_deref(), hits.as_deref());
            if let ([row], Some(record)) = (&*summary, &record) {
                verified.of_one_run(row, record);
            }
        }
        if let Some(sandwich) = bundle.table::<ControlSandwich>()? {
            verified.sandwich(&sandwich, stats.as_deref());
        }
        if let Some(builds) = bundle.table::<MatchedBuild>()? {
            verified.builds(&builds);
        }
        if let Some(identity) = bundle.table::<SourceIdentity>()? {
            verified.identity(&identity, record.as_ref());
        }
        Ok(verified)
    }

    fn manifest(&mut self, bundle: &Folder) -> Result<(), String> {
        if !bundle.has(MANIFEST) {
            self.say(MANIFEST, "is not there: changed bytes are not noticed");
            return Ok(());
        }
        let hashes = listed(&bundle.read(MANIFEST)?)?;
        for (name, hash) in &hashes {
            if !bundle.has(name) {
                self.wrong
                    .push(format!("{name}: it is in {MANIFEST} and not there"));
                continue;
            }
            let there = sha256(&bundle.dir.join(name));
            let there = there.map_err(|e| format!("{name}: cannot read it: {}", plain(&e)))?;
            if there != *hash {
                let why = format!("{name}: it was changed: its SHA-256 is not that in {MANIFEST}");
                self.wrong.push(why);
            }
        }
        for name in &bundle.names {
            if name != MANIFEST && !hashes.contains_key(name) {
                self.wrong.push(format!("{name}: it is not in {MANIFEST}"));
            }
        }
        self.say(MANIFEST, &format!("{} files looked at", hashes.len()));
        Ok(())
    }

    fn record(&mut self, record: &Recorded) {
        let (faults, compared) = record.faults();
        self.say(
            RECORD,
            &format!("{compared} numbers and words computed again"),
        );
        let faults = faults.into_iter().map(|fault| format!("{RECORD}, {fault}"));
        self.wrong.extend(faults);
    }

    fn rounds(&mut self, bundle: &Folder) -> Result<Option<Points>, String> {
        if !bundle.has(Round::FILE) {
            return Ok(None);
        }
        let mut points = Points::default();
        let mut cells = 0;
        let mut last = 1;
        let wrong = &mut self.wrong;
        let read = each(bundle.reader(Round::FILE)?, |line, round: Round| {
            points.add(line, &round)?;
            last = line;
            let timed = &round.timed;
            let (ns, operations) = (timed.elapsed_ns, timed.operations);
            let mut follows = round.clone();
            if let Some(number) = Timed::ns_per_op_of(ns, operations) {
                follows.timed.ns_per_op = number;
            }
            let ratio = Timed::match_ratio_of(timed.unexpected_results, operations);
            if let Some(ratio) = ratio {
                follows.timed.expected_match_ratio = ratio;
            }
            cells += 2;
            compare(wrong, line, &round, &follows, "its own time and results");
            Ok(())
        });
        read.and_then(|()| points.complete(last))
            .map_err(|fault| fault.to_string())?;
        let rows = last - 1;
        self.say(
            Round::FILE,
            &format!("{rows} rounds, {cells} cells computed again"),
        );
        Ok(Some(points))
    }

    fn stats(&mut self, stats: &[RunStats], points: Option<&Points>) {
        let Some(follow) = points.and_then(Points::stats) else {
            for (line, row) in lines(stats) {
                self.plausible(line, row);
            }
            let means = stats.len() * 4;
            let why = format!("{means} means are NOT RECOMPUTABLE: there are no raw rounds");
            self.say(RunStats::FILE, &why);
            return;
        };
        let key = |row: &RunStats| format!("{} and {}", row.target_id, row.scenario);
        self.table(stats, &follow, key, Round::FILE);
    }

    /// Without raw rounds: what cannot be, whatever they were.
    fn plausible(&mut self, line: u64, row: &RunStats) {
        let mut wrong = |column: &str, why: String| {
            let file = RunStats::FILE;
            self.wrong
                .push(format!("{file}, line {line}, {column}: {why}"));
        };
        if Some(row.skip_first_rounds) != row.rounds.checked_sub(1) {
            let (without, rounds) = (row.skip_first_rounds, row.rounds);
            wrong("skip_first_rounds", format!("{without} of {rounds} rounds"));
        }
        let within = |mean: Thousandths| row.min <= mean && mean <= row.max;
        if !within(row.all_mean) {
            let why = format!(
                "{} is not between {} and {}",
                row.all_mean, row.min, row.max
            );
            wrong("all_mean_ns_per_op", why);
        }
        let Some(without) = row.skip_first_mean else {
            return;
        };
        // The first round is what both means leave; each is off by half a thousandth at most.
        let [all, rest] = [row.all_mean, without].map(Thousandths::thousandths);
        let rounds = i128::from(row.rounds);
        let first = rounds * all - (rounds - 1) * rest;
        let (least, most) = (row.min.thousandths(), row.max.thousandths());
        if !within(without) || !(least - rounds..=most + rounds).contains(&first) {
            let why = format!(
                "{without} does not go with the mean {} of all",
                row.all_mean
            );
            wrong("skip_first_mean_ns_per_op", why);
        }
    }

    fn hits(&mut self, hits: &[DirectHit], record: Option<&Recorded>) {
        let Some(record) = record else {
            let why = format!(
                "{} counts are NOT RECOMPUTABLE: there is no {RECORD}",
                hits.len()
            );
            self.say(DirectHit::FILE, &why);
            return;
        };
        let key = |row: &DirectHit| row.function.clone();
        self.table(hits, &record.direct_hits(), key, RECORD);
    }

    fn summary(
        &mut self,
        summary: &[Summary],
        points: Option<&Points>,
        stats: Option<&[RunStats]>,
        hits: Option<&[DirectHit]>,
    ) {
        let mut cells = 0;
        for (place, (line, row)) in lines(summary).enumerate() {
            let mut follows = row.clone();
            follows.step = place as u64;
            cells += 1;
            let mut from = "the rows before";
            let point = points.and_then(|p| p.timed().find(|p| p.target_id == row.target_id));
            if let Some(point) = point {
                from = Round::FILE;
                follows.kernel.clone_from(&point.kernel);
                follows.observed_rows = point.rows;
                follows.min_expected_match_ratio = point.min_match_ratio;
                follows.unexpected_results = point.unexpected;
                cells += 4;
            } else if points.is_some() {
                let why = format!("{} is not in {}", row.target_id, Round::FILE);
                self.cell::<Summary>(line, "target_id", &why);
            } else if let Some(stats) = stats {
                from = RunStats::FILE;
                let of = stats.iter().filter(|s| s.target_id == row.target_id);
                follows.observed_rows = of.map(|s| s.rounds).sum();
                cells += 1;
            }
            compare(&mut self.wrong, line, row, &follows, from);
            if let Some(hits) = hits.filter(|_| row.direct_hit != "not-run") {
                let mut follows = row.clone();
                let passed = DirectHit::passed(hits);
                verdict(passed).clone_into(&mut follows.direct_hit);
                cells += 1;
                compare(&mut self.wrong, line, row, &follows, DirectHit::FILE);
            }
        }
        self.say(Summary::FILE, &format!("{cells} cells computed again"));
        if points.is_none() {
            let why = format!(
                "{} match ratios and results are NOT RECOMPUTABLE: there are no raw rounds",
                2 * summary.len()
            );
            self.say(Summary::FILE, &why);
        }
    }

    /// Rounds of one point beside a record are of the record's kernel.
    fn of_one_kernel(&mut self, points: &Points, record: &Recorded) {
        let (release, mut all) = (&record.identity.release, points.all());
        let Some(first) = all.next() else { return };
        if all.all(|other| other.target_id == first.target_id) && first.kernel != *release {
            let why = format!("{}, but by {RECORD} it is {release}", first.kernel);
            self.cell::<Round>(2, "kernel", &why);
        }
    }

    /// A point beside a record is the record's.
    fn of_one_run(&mut self, row: &Summary, record: &Recorded) {
        let mut follows = row.clone();
        follows.kernel.clone_from(&record.identity.release);
        if let Some(at) = &record.started_at {
            follows.run_timestamp_utc.clone_from(at);
        }
        compare(&mut self.wrong, 2, row, &follows, RECORD);
    }

    fn sandwich(&mut self, rows: &[ControlSandwich], stats: Option<&[RunStats]>) {
        let mut cells = 0;
        for (line, row) in lines(rows) {
            let mut follows = row.clone();
            let mean = |target: &str| {
                let is = |s: &&RunStats| s.target_id == target && s.scenario == row.scenario;
                let found = stats?.iter().find(is)?;
                match &*row.scope {
                    "all_rounds" => Some(found.all_mean),
                    _ => found.skip_first_mean,
                }
            };
            let mut from = "the row's own means";
            for (target, cell) in [
                ("control_a", &mut follows.control_a),
                ("control_b", &mut follows.control_b),
                ("upstream_v2", &mut follows.patched),
            ] {
                if let Some(mean) = mean(target) {
                    *cell = mean;
                    cells += 1;
                    from = RunStats::FILE;
                }
            }
            let of = Sandwich::of(follows.control_a, follows.patched, follows.control_b);
            let Some(of) = of else {
                let why = "there is no drift of a mean that is 0";
                self.cell::<ControlSandwich>(line, "control_a_ns_per_op", why);
                continue;
            };
            follows.midpoint = of.midpoint;
            follows.drift_pct = of.drift_pct;
            follows.delta_pct = of.delta_pct;
            cells += 3;
            compare(&mut self.wrong, line, row, &follows, from);
        }
        self.say(
            ControlSandwich::FILE,
            &format!("{cells} cells computed again"),
        );
    }

    fn builds(&mut self, rows: &[MatchedBuild]) {
        for (line, row) in lines(rows) {
            // The patch is what must differ.
            let as_it_must = (row.control == row.patched) == (row.field != "patch_identity");
            let mut follows = row.clone();
            verdict(as_it_must).clone_into(&mut follows.status);
            compare(&mut self.wrong, line, row, &follows, "both values");
        }
        let cells = rows.len();
        self.say(MatchedBuild::FILE, &format!("{cells} cells computed again"));
    }

    fn identity(&mut self, rows: &[SourceIdentity], record: Option<&Recorded>) {
        let file = SourceIdentity::FILE;
        let releases = || lines(rows).filter(|(_, row)| row.is_release());
        let running = || lines(rows).filter(|(_, row)| row.is_of_the_record());
        let none = releases().next().is_none() && running().next().is_none();
        let Some(record) = record.filter(|_| !none) else {
            let why = "what the tester says of the sources; nothing to compare it with";
            self.say(file, why);
            return;
        };
        let release = &record.identity.release;
        if let Some((line, row)) = releases().next()
            && releases().all(|(_, row)| row.value != *release)
        {
            let why = format!(
                "{:?} in the row {}, but the record is of {release:?}",
                row.value, row.field
            );
            self.cell::<SourceIdentity>(line, "value", &why);
        }
        let mut cells = releases().count();
        let follow = record.running();
        for (line, row) in running() {
            cells += 1;
            if let Some(other) = follow.iter().find(|other| other.field == row.field) {
                compare(&mut self.wrong, line, row, other, RECORD);
            } else {
                let why = format!("{} does not follow from {RECORD}", row.field);
                self.cell::<SourceIdentity>(line, "field", &why);
            }
        }
        for SourceIdentity { field, .. } in follow {
            let count = running().filter(|(_, row)| row.field == field).count();
            if count != 1 && running().next().is_some() {
                let why = format!("{file}: {count} rows for {field}, which is in {RECORD}");
                self.wrong.push(why);
            }
        }
        self.say(file, &format!("{cells} rows compared with the record"));
    }

    /// A table that follows as a whole.
    fn table<R: Row>(
        &mut self,
        there: &[R],
        follow: &[R],
        key: impl Fn(&R) -> String,
        from: &'static str,
    ) {
        for (line, row) in lines(there) {
            let name = key(row);
            match follow.iter().find(|other| key(other) == name) {
                Some(other) => compare(&mut self.wrong, line, row, other, from),
                None => self.cell::<R>(line, R::COLUMNS[0], &format!("{name} is not in {from}")),
            }
        }
        for row in follow {
            let name = key(row);
            let rows = there.iter().filter(|other| key(other) == name).count();
            if rows != 1 {
                let file = R::FILE;
                self.wrong.push(format!(
                    "{file}: {rows} rows for {name}, which is in {from}"
                ));
            }
        }
        let cells = there.len() * R::COLUMNS.len();
        self.say(
            R::FILE,
            &format!("{cells} cells computed again from {from}"),
        );
    }

    fn say(&mut self, file: &str, what: &str) {
        self.said.push(format!("{file}: {what}"));
    }

    fn cell<R: Row>(&mut self, line: u64, column: &str, why: &str) {
        let file = R::FILE;
        self.wrong
            .push(format!("{file}, line {line}, {column}: {why}"));
    }
}

/// Each cell that is not what follows.
fn compare<R: Row>(wrong: &mut Vec<String>, line: u64, there: &R, follows: &R, from: &str) {
    let cells = there.fields().into_iter().zip(follows.fields());
    for ((there, follows), column) in cells.zip(R::COLUMNS) {
        if there != follows {
            let file = R::FILE;
            wrong.push(format!(
                "{file}, line {line}, {column}: {there}, but by {from} it is {follows}"
            ));
        }
    }
}

/// As the tables say it.
const fn verdict(passed: bool) -> &'static str {
    if passed { "PASS" } else { "FAIL" }
}

/// Rows with their lines.
fn lines<R>(rows: &[R]) -> impl Iterator<Item = (u64, &R)> {
    (2..).zip(rows)
}
