//! As many rounds as nobody has.

use std::fs;

use super::{
    super::{tables::Round, tsv::Row, verified::Verified},
    rounds,
};

/// Two gigabytes: run by `cargo xtask test --full`.
#[test]
#[ignore = "it writes 2 GB"]
fn ten_million_rounds_are_read_in_bounded_memory() {
    const ROUNDS: u64 = 10_000_000;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(Round::FILE);
    let mut file = std::io::BufWriter::new(fs::File::create(&path).expect("creates"));
    let mut put =
        |text: &str| std::io::Write::write_all(&mut file, text.as_bytes()).expect("writes");
    put(&(Round::COLUMNS.join("\t") + "\n"));
    let mut round = rounds()[0].clone();
    round.kernel = "7.3.4+deb13-cloud-amd64-with-a-name-that-is-rather-long".to_owned();
    for place in 1..=ROUNDS {
        round.timed.round = place;
        put(&(round.fields().join("\t") + "\n"));
    }
    std::io::Write::flush(&mut file).expect("writes");
    let bytes = fs::metadata(&path).expect("is").len();
    let peak_kib = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("proc");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let number = line.and_then(|l| l.split_whitespace().next());
        number.expect("a number").parse().expect("a number")
    };
    let before = peak_kib();
    let verified = Verified::of(dir.path()).expect("readable");
    let more = peak_kib() - before;
    println!(
        "{bytes} bytes read with {more} KiB more than before, {} KiB in all",
        peak_kib()
    );
    assert_eq!(verified.wrong, [""; 0]);
    let said = format!(
        "rounds.tsv: {ROUNDS} rounds, {} cells computed again",
        2 * ROUNDS
    );
    assert!(verified.said.contains(&said), "{:?}", verified.said);
    assert!(more < 16 << 10, "{more} KiB for {bytes} bytes");
}
