//! What `check` found.

use tabled::settings::Alignment;

use super::lay_out;
use crate::{
    kernel::{Identity, Presence, Variant},
    model::Target,
};

/// What `check` found of one target.
#[derive(Debug)]
pub(crate) struct CheckRow<'a> {
    pub(crate) target: &'a Target,
    pub(crate) presence: &'a Presence,
    /// Whether its probes could be attached.
    pub(crate) traceable: bool,
}

/// The kernel, then a row for each target.
pub(crate) fn check_table(identity: &Identity, variant: &Variant, rows: &[CheckRow<'_>]) -> String {
    let mut text = format!(
        "kernel      {} {}\ninhibition  {variant}\n\n",
        identity.release, identity.machine
    );
    let head = ["target", "need", "available", "traceable"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let available = match row.presence {
            Presence::BuiltIn => "built in".to_owned(),
            Presence::Module(name) => format!("in {name}"),
            Presence::Absent => "absent".to_owned(),
        };
        let traceable = if row.traceable { "yes" } else { "no" };
        table.push(vec![
            row.target.symbol.to_owned(),
            row.target.need.as_str().to_owned(),
            available,
            traceable.to_owned(),
        ]);
    }
    text.push_str(&lay_out(table, Alignment::left()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::TARGETS, view::assert_golden};

    #[test]
    fn kernel_and_targets() {
        let identity = Identity {
            release: "7.3.4+deb13-cloud-amd64".to_owned(),
            version: String::new(),
            machine: "x86_64".to_owned(),
            boot_id: None,
            command_line: None,
        };
        let module = Presence::Module("btrfs".to_owned());
        let mut text = String::new();
        for (variant, presence) in [
            (
                Variant::InlineBuffer { slots: 8 },
                [&module, &module, &module],
            ),
            (Variant::Xarray, [&Presence::BuiltIn; 3]),
            (
                Variant::None,
                [&module, &Presence::Absent, &Presence::Absent],
            ),
        ] {
            let rows: Vec<_> = TARGETS
                .iter()
                .zip(presence)
                .map(|(target, presence)| CheckRow {
                    target,
                    presence,
                    traceable: *presence != Presence::Absent,
                })
                .collect();
            text.push_str(&check_table(&identity, &variant, &rows));
            text.push('\n');
        }
        assert_golden("check.txt", &text);
    }
}
