//! What passed, failed and was skipped, part by part.

use std::process::ExitCode;

/// The parts in the order in which they ran.
#[derive(Debug, Default)]
pub(crate) struct Report {
    parts: Vec<Part>,
}

/// One part's checks.
#[derive(Debug, Default)]
pub(crate) struct Part {
    name: String,
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    /// Begins a part.
    pub(crate) fn part(&mut self, name: impl Into<String>) -> &mut Part {
        self.parts.push(Part {
            name: name.into(),
            ..Part::default()
        });
        self.parts.last_mut().expect("just pushed")
    }

    /// Prints the table, the names of what failed or was skipped, and the closing line. A run in which
    /// nothing was checked has failed.
    pub(crate) fn finish(self) -> ExitCode {
        println!("\n{}", self.table());
        let passed: usize = self.parts.iter().map(|p| p.passed).sum();
        let failed: usize = self.parts.iter().map(|p| p.failed.len()).sum();
        let skipped: usize = self.parts.iter().map(|p| p.skipped.len()).sum();
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed == 0 && passed > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn table(&self) -> String {
        let width = self.parts.iter().map(|p| p.name.len()).max().unwrap_or(0);
        let row = |name: &str, counts: [&str; 3]| {
            let [passed, failed, skipped] = counts;
            format!("{name:width$}  {passed:>6}  {failed:>6}  {skipped:>7}\n")
        };
        let mut lines = vec![row("", ["passed", "failed", "skipped"])];
        lines.extend(self.parts.iter().map(|part| {
            let counts = [part.passed, part.failed.len(), part.skipped.len()];
            let [passed, failed, skipped] = counts.map(|n| n.to_string());
            row(&part.name, [&passed, &failed, &skipped])
        }));
        for part in &self.parts {
            let named = |how: &str, why: &String| format!("{how:<7}  {}: {why}\n", part.name);
            lines.extend(part.failed.iter().map(|why| named("failed", why)));
            lines.extend(part.skipped.iter().map(|why| named("skipped", why)));
        }
        lines.concat()
    }
}

impl Part {
    /// So many checks passed.
    pub(crate) fn passed(&mut self, checks: usize) {
        self.passed += checks;
    }

    /// A check failed.
    pub(crate) fn failed(&mut self, why: impl Into<String>) {
        self.failed.push(why.into());
    }

    /// A check could not be made here.
    pub(crate) fn skipped(&mut self, why: impl Into<String>) {
        self.skipped.push(why.into());
    }

    /// A check that is all or nothing.
    pub(crate) fn check(&mut self, result: anyhow::Result<()>) {
        match result {
            Ok(()) => self.passed(1),
            Err(error) => self.failed(format!("{error:#}")),
        }
    }

    /// Takes over what a guest's referee said: `ok NAME: …`, `not ok NAME: …`, `skip NAME: …`, and
    /// `plan N` in the end.
    pub(crate) fn referee(&mut self, said: &str) {
        let (mut checks, mut plan) = (0, None);
        for line in said.lines() {
            if line.starts_with("ok ") {
                checks += 1;
                self.passed(1);
            } else if let Some(what) = line.strip_prefix("not ok ") {
                checks += 1;
                self.failed(what);
            } else if let Some(what) = line.strip_prefix("skip ") {
                checks += 1;
                self.skipped(what);
            } else if let Some(n) = line.strip_prefix("plan ") {
                plan = n.parse().ok();
            }
        }
        if plan != Some(checks) {
            self.failed(format!("{checks} checks ended, planned were {plan:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &str) -> (usize, usize, usize) {
        let mut part = Part::default();
        part.referee(said);
        (part.passed, part.failed.len(), part.skipped.len())
    }

    #[test]
    fn a_check_that_never_ended_is_a_failure() {
        assert_eq!(read("ok a: x\nskip b: y\nplan 2\n"), (1, 0, 1));
        assert_eq!(read("ok a: x\nnot ok b: y\nplan 2\n"), (1, 1, 0));
        assert_eq!(read("ok a: x\nplan 2\n"), (1, 1, 0));
        assert_eq!(read("ok a: x\n"), (1, 1, 0));
        assert_eq!(read(""), (0, 1, 0));
        assert_eq!(read("plan 0\n"), (0, 0, 0));
    }

    #[test]
    fn the_table_names_what_did_not_pass() {
        let mut report = Report::default();
        report.part("format").passed(1);
        let part = report.part("guests");
        part.passed(10);
        part.failed("window 3: differs");
        part.skipped("7.2.12-cow: no image");
        assert_eq!(
            report.table(),
            "        passed  failed  skipped\n\
             format       1       0        0\n\
             guests      10       1        1\n\
             failed   guests: window 3: differs\n\
             skipped  guests: 7.2.12-cow: no image\n"
        );
    }
}
