//! The folder of a bundle.

use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
};

use super::{
    comparison::{ControlSandwich, MatchedBuild, SourceIdentity},
    manifest::MANIFEST,
    recorded::Recorded,
    tables::{DirectHit, Round, RunStats, Summary},
    tsv::{Row, all},
};
use crate::wording::plain;

/// The record's name in a bundle.
pub(super) const RECORD: &str = "record.json";

/// Tables that are looked into.
const TABLES: [&str; 7] = [
    Round::FILE,
    RunStats::FILE,
    Summary::FILE,
    DirectHit::FILE,
    SourceIdentity::FILE,
    ControlSandwich::FILE,
    MatchedBuild::FILE,
];

/// What a bundle has.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) dir: PathBuf,
    pub(super) names: Vec<String>,
}

impl Folder {
    pub(super) fn open(dir: &Path) -> Result<Self, String> {
        let shown = dir.display();
        let entries = fs::read_dir(dir).map_err(|e| format!("{shown}: {}", plain(&e)))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| format!("{shown}: {}", plain(&e)))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let known = TABLES.contains(&&*name) || [MANIFEST, RECORD].contains(&&*name);
            if known && !is_file {
                return Err(format!("{name}: no plain file; a bundle holds files alone"));
            }
            names.push(name);
        }
        names.sort();
        let bundle = Self {
            dir: dir.to_owned(),
            names,
        };
        let known = TABLES.iter().chain([&RECORD]).any(|name| bundle.has(name));
        if !known {
            return Err(format!(
                "{shown}: no bundle; one has {RECORD}, {} or other tables of that kind",
                Round::FILE
            ));
        }
        Ok(bundle)
    }

    /// Those of its files that are tables or the record, in the order of their names.
    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.filter(|name| TABLES.contains(name) || *name == RECORD)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|there| there == name)
    }

    pub(super) fn read(&self, name: &str) -> Result<String, String> {
        let bytes = fs::read(self.dir.join(name));
        let bytes = bytes.map_err(|e| format!("{name}: cannot read it: {}", plain(&e)))?;
        String::from_utf8(bytes).map_err(|_| format!("{name}: it is not UTF-8"))
    }

    pub(super) fn reader(&self, name: &str) -> Result<BufReader<File>, String> {
        let file = File::open(self.dir.join(name));
        let file = file.map_err(|e| format!("{name}: cannot read it: {}", plain(&e)))?;
        Ok(BufReader::new(file))
    }

    pub(super) fn table<R: Row>(&self) -> Result<Option<Vec<R>>, String> {
        if !self.has(R::FILE) {
            return Ok(None);
        }
        let rows = all(self.reader(R::FILE)?);
        rows.map(Some).map_err(|fault| fault.to_string())
    }

    pub(super) fn record(&self) -> Result<Option<Recorded>, String> {
        if !self.has(RECORD) {
            return Ok(None);
        }
        let record = Recorded::parse(&self.read(RECORD)?);
        record.map(Some).map_err(|why| format!("{RECORD}, {why}"))
    }
}
