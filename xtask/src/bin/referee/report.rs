//! The lines that the host reads.

use std::process::ExitCode;

/// What has been checked so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    checks: usize,
    failed: usize,
}

impl Report {
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

    /// Ends the suite; an error is one more failed check.
    pub(crate) fn finish(mut self, result: anyhow::Result<()>) -> ExitCode {
        if let Err(error) = result {
            self.check("suite", Err(error));
        }
        println!("plan {}", self.checks);
        if self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
