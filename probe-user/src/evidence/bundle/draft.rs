//! A bundle that is being made: in a folder beside its place, which it takes in one step
//! when all is there and has been verified.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata, Permissions},
    io::{self, BufReader, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use tempfile::TempDir;

use super::{
    comparison::SourceIdentity,
    folder::RECORD,
    manifest::{MANIFEST, manifest, sha256},
    points::Points,
    recorded::Recorded,
    tables::{DirectHit, Round, RunStats, Summary, Timed},
    tsv::{Row, all, each, text},
    verified::Verified,
};
use crate::wording::plain;

/// What the command wrote to standard output and to standard error.
pub(crate) const STREAMS: [&str; 2] = ["stdout.txt", "stderr.txt"];

/// The role of the one point of a run.
const ROLE: &str = "tested";

/// A bundle before it is complete. Dropped, it leaves nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    place: PathBuf,
    /// The empty folder that stands there lends its owner and mode.
    older: Option<Metadata>,
    dir: TempDir,
    /// What the tables call the kernel.
    label: String,
    /// What the tester says.
    identity: Vec<SourceIdentity>,
}

impl Draft {
    /// Begins one for `place`, where nothing may be but an empty folder. `release` is the
    /// running kernel's, with which a tester's file must agree.
    pub(crate) fn begin(
        place: &Path,
        label: &str,
        identity: Option<&Path>,
        release: &str,
    ) -> anyhow::Result<Self> {
        let identity = identity.map(|path| source_identity(path, release));
        let identity = identity.transpose()?.unwrap_or_default();
        let name = place.display();
        let begun = begin(place).map_err(|why| {
            anyhow!("cannot make the folder {name}: {why}; name one with --bundle that can be")
        })?;
        let (place, older, dir) = begun;
        Ok(Self {
            place,
            older,
            dir,
            label: label.to_owned(),
            identity,
        })
    }

    /// Where a file of this name goes until then.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the record and what follows from it and from the rounds, verifies all, and
    /// puts the folder in its place. One that does not verify is there, too, for whoever
    /// looks for the reason.
    pub(crate) fn commit(self, record: &str, timed: &[Timed]) -> anyhow::Result<()> {
        let lost = || format!("the folder is lost: cannot write {}", self.place.display());
        self.fill(record, timed).with_context(lost)?;
        let verified = Verified::of(self.dir.path());
        let verified = verified.map_err(|why| anyhow!(why)).with_context(lost)?;
        let Self {
            place, older, dir, ..
        } = self;
        if let Some(older) = older {
            // As root the owner is kept; another user owns it already.
            let _ = chown(dir.path(), Some(older.uid()), Some(older.gid()));
            fs::set_permissions(dir.path(), older.permissions())?;
        }
        // From here on nothing removes it.
        let dir = dir.keep();
        let shown = place.display();
        // A folder that is not empty is never replaced (rename(2), ENOTEMPTY).
        if let Err(error) = fs::rename(&dir, &place) {
            let (why, there) = (plain(&error), dir.display());
            bail!("cannot put the folder in its place {shown}: {why}; it is complete in {there}");
        }
        // As with a record: what cannot be synced is whole all the same.
        let _ = File::open(parent(&place)).and_then(|dir| dir.sync_all());
        match verified.wrong.first() {
            Some(wrong) => bail!("{shown} is there and does not verify: {wrong}"),
            None => Ok(()),
        }
    }

    fn fill(&self, record: &str, timed: &[Timed]) -> anyhow::Result<()> {
        let recorded = Recorded::parse(record).map_err(|why| anyhow!("{RECORD}, {why}"))?;
        self.put(RECORD, record)?;
        let hits = recorded.direct_hits();
        self.put(DirectHit::FILE, &text(&hits))?;
        if !timed.is_empty() {
            self.put_rounds(&recorded, &hits, timed)?;
        }
        let mut identity = self.identity.clone();
        identity.extend(recorded.running());
        self.put(SourceIdentity::FILE, &text(&identity))?;
        let mut hashes = BTreeMap::new();
        for entry in fs::read_dir(self.dir.path())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            hashes.insert(name, sha256(&entry.path())?);
        }
        self.put(MANIFEST, &manifest(&hashes))?;
        File::open(self.dir.path())?.sync_all()?;
        Ok(())
    }

    fn put_rounds(
        &self,
        recorded: &Recorded,
        hits: &[DirectHit],
        timed: &[Timed],
    ) -> anyhow::Result<()> {
        let kernel = &recorded.identity.release;
        let rounds = timed.iter().map(|timed| Round {
            target_id: self.label.clone(),
            kernel: kernel.clone(),
            timed: timed.clone(),
        });
        let rounds: Vec<_> = rounds.collect();
        let mut points = Points::default();
        for (line, round) in (2..).zip(&rounds) {
            points.add(line, round)?;
        }
        self.put(Round::FILE, &text(&rounds))?;
        let stats = points.stats().context("a mean beyond bounds")?;
        let Some(point) = points.timed().next() else {
            // No time is one of evidence.
            return Ok(());
        };
        self.put(RunStats::FILE, &text(&stats))?;
        let passed = DirectHit::passed(hits);
        let summary = Summary {
            step: 0,
            target_id: self.label.clone(),
            role: ROLE.to_owned(),
            kernel: kernel.clone(),
            run_timestamp_utc: recorded.started_at.clone().context("no started_at")?,
            observed_rows: point.rows,
            min_expected_match_ratio: point.min_match_ratio,
            unexpected_results: point.unexpected,
            direct_hit: if passed { "PASS" } else { "FAIL" }.to_owned(),
        };
        self.put(Summary::FILE, &text(&[summary]))
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let put = File::create_new(self.path(name)).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        put.with_context(|| name.to_owned())
    }
}

/// What `bench remap --tsv` wrote.
pub(crate) fn read_timed(path: &Path) -> anyhow::Result<Vec<Timed>> {
    let file = File::open(path).context("cannot read the rounds")?;
    let mut timed = Vec::new();
    each(BufReader::new(file), |_, row| {
        timed.push(row);
        Ok(())
    })?;
    Ok(timed)
}

/// The place as it will be, and the folder beside it.
fn begin(place: &Path) -> Result<(PathBuf, Option<Metadata>, TempDir), String> {
    let said = |error: io::Error| plain(&error);
    let name = place.file_name().ok_or("it has no name of its own")?;
    let found = match fs::metadata(place) {
        Ok(found) => Some(found),
        Err(e) if e.kind() == io::ErrorKind::NotFound && !place.is_symlink() => None,
        Err(e) => return Err(said(e)),
    };
    let (place, older) = match found {
        None => (place.to_owned(), None),
        Some(found) if found.is_dir() => {
            if fs::read_dir(place).map_err(said)?.next().is_some() {
                return Err("it is there, and not empty".to_owned());
            }
            // The folder behind a symbolic link is replaced, not the link.
            let place = fs::canonicalize(place).map_err(said)?;
            let around = fs::metadata(parent(&place)).map_err(said)?;
            if around.dev() != found.dev() {
                return Err("something is mounted there".to_owned());
            }
            (place, Some(found))
        }
        Some(_) => return Err("it is there, and no folder".to_owned()),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let dir = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".partial")
        // As any program's folder: what the umask leaves of this.
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(parent(&place))
        .map_err(said)?;
    Ok((place, older, dir))
}

/// What a tester says of the sources. It must not speak of other kernels alone.
fn source_identity(path: &Path, release: &str) -> anyhow::Result<Vec<SourceIdentity>> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| anyhow!("cannot read {shown}: {}", plain(&e)))?;
    let rows = all::<SourceIdentity>(BufReader::new(file));
    let rows = rows.with_context(|| format!("--identity {shown}"))?;
    if let Some(row) = rows.iter().find(|row| row.is_of_the_record()) {
        bail!("--identity {shown}: {} is for cowprobe to say", row.field);
    }
    let mut releases = rows.iter().filter(|row| row.is_release()).peekable();
    let is_other = releases.peek().is_some() && releases.all(|row| row.value != release);
    ensure!(
        !is_other,
        "--identity {shown}: none of its kernelreleases is {release}, which runs here"
    );
    Ok(rows)
}

/// Where a folder is.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
