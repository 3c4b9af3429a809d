//! The lines that the host reads.

use std::process::ExitCode;

/// A check's name, and what it does.
pub(crate) type Check = (&'static str, fn() -> anyhow::Result<String>);

/// What was planned and has been checked so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    planned: usize,
    checks: usize,
    failed: usize,
}

impl Report {
    /// Says how many checks there will be; to be called once, before the first.
    pub(crate) fn plan(&mut self, checks: usize) {
        self.planned = checks;
        println!("plan {checks}");
    }

    /// Runs checks one after the other.
    pub(crate) fn run(&mut self, checks: &[Check]) {
        for (name, check) in checks {
            self.check(name, check());
        }
    }

    /// Says how a check ended; an error says why it failed.
    pub(crate) fn check(&mut self, name: &str, result: anyhow::Result<String>) {
        self.checks += 1;
        match result {
            Ok(detail) => println!("ok {name}: {}", one_line(&detail)),
            Err(error) => {
                self.failed += 1;
                println!("not ok {name}: {}", one_line(&format!("{error:#}")));
            }
        }
    }

    /// Ends the suite; an error is what kept it from its end.
    pub(crate) fn finish(self, result: anyhow::Result<()>) -> ExitCode {
        let at_its_end = match result {
            Ok(()) => self.planned > 0 && self.checks == self.planned,
            Err(error) => {
                println!("error {}", one_line(&format!("{error:#}")));
                false
            }
        };
        if at_its_end && self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
