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

    /// Gives the part another name: what it really is about may be known only later.
    pub(crate) fn rename(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Takes over what a guest's referee said: first `plan N`, then for each of the N checks
    /// `ok NAME: …` or `not ok NAME: …`, and `error …` for what kept it from the rest; and its exit
    /// status, 0 if all N passed.
    pub(crate) fn referee(&mut self, said: &str, status: u8) {
        let (mut plan, mut passed, mut failed, mut errors) = (None, 0, 0, 0);
        for line in said.lines() {
            if let Some(n) = line.strip_prefix("plan ") {
                // One that comes later is no plan.
                if plan.is_none() && passed + failed + errors == 0 {
                    plan = n.parse().ok();
                }
            } else if line.starts_with("ok ") {
                passed += 1;
                self.passed(1);
            } else if let Some(what) = line.strip_prefix("not ok ") {
                failed += 1;
                self.failed(what);
            } else if let Some(what) = line.strip_prefix("error ") {
                errors += 1;
                self.failed(what);
            }
        }
        let checks = passed + failed;
        match plan {
            None => self.failed(format!("{checks} checks ended and none were planned")),
            Some(plan) if plan != checks || plan == 0 => {
                self.failed(format!("{checks} of {plan} planned checks ended"));
            }
            Some(_) => {}
        }
        let all_passed = passed > 0 && plan == Some(passed) && failed + errors == 0;
        if (status == 0) != all_passed {
            self.failed(format!(
                "the referee's exit status is {status}, against what it said"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &str, status: u8, expected: (usize, &[&str])) {
        let mut part = Part::default();
        part.referee(said, status);
        let failed: Vec<&str> = part.failed.iter().map(String::as_str).collect();
        assert_eq!((part.passed, failed.as_slice()), expected, "{said:?}");
    }

    #[test]
    fn what_the_referee_says_is_taken_over() {
        check("plan 2\nok a: x\nok b: y\n", 0, (2, &[]));
        check("plan 2\nok a: x\nnot ok b: y\n", 1, (1, &["b: y"]));
        check("words\nplan 1\nwords\nok a: x\n", 0, (1, &[]));
        // The checks are complete, and yet something went wrong.
        check(
            "plan 1\nok a: x\nerror umount: busy\n",
            1,
            (1, &["umount: busy"]),
        );
    }

    #[test]
    fn a_check_that_never_ended_is_a_failure() {
        check(
            "plan 2\nok a: x\n",
            1,
            (1, &["1 of 2 planned checks ended"]),
        );
        check(
            "plan 3\nok a: x\nerror no bpftrace\n",
            1,
            (1, &["no bpftrace", "1 of 3 planned checks ended"]),
        );
        check(
            "plan 1\nok a: x\nok b: y\n",
            1,
            (2, &["2 of 1 planned checks ended"]),
        );
        check("plan 0\n", 1, (0, &["0 of 0 planned checks ended"]));
    }

    #[test]
    fn without_a_plan_beforehand_nothing_is_complete() {
        let failed = "1 checks ended and none were planned";
        check("ok a: x\n", 1, (1, &[failed]));
        check("ok a: x\nplan 1\n", 1, (1, &[failed]));
        check("plan many\nok a: x\n", 1, (1, &[failed]));
        check("", 2, (0, &["0 checks ended and none were planned"]));
    }

    #[test]
    fn an_exit_status_against_the_lines_is_a_failure() {
        let against =
            |status| format!("the referee's exit status is {status}, against what it said");
        check("plan 1\nok a: x\n", 137, (1, &[&against(137)]));
        check("plan 1\nnot ok a: x\n", 0, (0, &["a: x", &against(0)]));
        check(
            "plan 2\nok a: x\n",
            0,
            (1, &["1 of 2 planned checks ended", &against(0)]),
        );
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
