//! Values of flags that are more than a word or a number.

use std::{ffi::OsString, time::Duration};

use crate::workload::{Device, SECTOR_BYTES};

/// A time in seconds, with a fraction if need be: 10 ms, as `watch -I`, to a day 1000
/// times over. What rounds to no time at all would be no period.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=86_400_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it must be 0.01 to 86400000".to_owned())
    }
}

/// The length of a range, 16 MiB at most.
pub(super) fn range_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok();
    let is = |bytes: &u32| (1..=16 << 20).contains(bytes) && bytes.is_multiple_of(SECTOR_BYTES);
    bytes
        .filter(is)
        .ok_or_else(|| format!("it must be a multiple of {SECTOR_BYTES}, 16777216 at most"))
}

/// A block device, or a new file of a size such as 512M.
pub(super) fn device(text: &str) -> Result<Device, String> {
    let Some(size) = text.strip_prefix("new:") else {
        return if text.starts_with('/') {
            Ok(Device::Block(text.into()))
        } else {
            Err("write /dev/ramN, /dev/zramN or new:SIZE".to_owned())
        };
    };
    let (number, unit) = match size.char_indices().next_back() {
        Some((at, 'K')) => (&size[..at], 1 << 10),
        Some((at, 'M')) => (&size[..at], 1 << 20),
        Some((at, 'G')) => (&size[..at], 1 << 30),
        _ => (size, 1),
    };
    let number = number.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes
        .map(Device::New)
        .ok_or_else(|| "the size is in bytes, or with K, M or G, as in new:512M".to_owned())
}

/// A filesystem's UUID, in small letters.
pub(super) fn fsid(text: &str) -> Result<String, String> {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let digits = text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    if digits && groups == [8, 4, 4, 4, 12] {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("it must be as 'blkid' shows it, 8-4-4-4-12 hexadecimal digits".to_owned())
    }
}

/// When the first window is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// With the command.
    None,
    /// So long after it.
    Ms(u64),
    /// When it is ordered.
    Disabled,
}

pub(super) fn delay(text: &str) -> Result<Delay, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(Delay::Disabled),
        Ok(0) => Ok(Delay::None),
        Ok(ms @ 1..=86_400_000) => Ok(Delay::Ms(ms.unsigned_abs())),
        _ => Err("it must be -1, or 0 to 86400000".to_owned()),
    }
}

/// Where orders come from and answers go to, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlPlace {
    Fifo(OsString, Option<OsString>),
    Fd(i32, Option<i32>),
}

impl ControlPlace {
    /// From `fifo:CTL[,ACK]` or `fd:CTL[,ACK]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let both = |rest: &str| -> (String, Option<String>) {
            match rest.split_once(',') {
                Some((orders, answers)) => (orders.to_owned(), Some(answers.to_owned())),
                None => (rest.to_owned(), None),
            }
        };
        let fd = |text: &str| match text.parse() {
            Ok(fd @ 0..) => Ok(fd),
            _ => Err(format!("{text:?} is no file descriptor")),
        };
        match text.split_once(':') {
            Some(("fifo", rest)) if !rest.is_empty() && !rest.starts_with(',') => {
                let (orders, answers) = both(rest);
                Ok(Self::Fifo(orders.into(), answers.map(Into::into)))
            }
            Some(("fd", rest)) => {
                let (orders, answers) = both(rest);
                Ok(Self::Fd(
                    fd(&orders)?,
                    answers.as_deref().map(fd).transpose()?,
                ))
            }
            _ => Err("write fifo:CTL[,ACK] or fd:CTL[,ACK]".to_owned()),
        }
    }
}

/// A word in a table and in a mail.
pub(super) fn label(text: &str) -> Result<String, String> {
    let of_word = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    if (1..=40).contains(&text.len()) && text.bytes().all(of_word) {
        Ok(text.to_owned())
    } else {
        Err("it must be 1 to 40 letters, digits, or any of '._+-'".to_owned())
    }
}

/// A name and an address, as a mail's header has them.
pub(super) fn person(text: &str) -> Result<String, String> {
    let wrong = || Err("write it as 'Ada Example <ada@example.org>'".to_owned());
    let Some((name, address)) = text.split_once(" <") else {
        return wrong();
    };
    let Some(address) = address.strip_suffix('>') else {
        return wrong();
    };
    let of_address = |c: char| c.is_ascii_graphic() && !"<>".contains(c);
    let of_name = |c: char| !c.is_control() && !"<>".contains(c);
    let halves = address.split_once('@');
    let is_address = halves
        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
    if name.trim() != name
        || name.is_empty()
        || !name.chars().all(of_name)
        || !is_address
        || !address.chars().all(of_address)
    {
        return wrong();
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_control_is_as_perf_writes_it() {
        let fifo = |orders: &str, answers: Option<&str>| {
            Ok(ControlPlace::Fifo(orders.into(), answers.map(Into::into)))
        };
        for (text, place) in [
            ("fifo:a", fifo("a", None)),
            ("fifo:/tmp/a,/tmp/b", fifo("/tmp/a", Some("/tmp/b"))),
            ("fd:3", Ok(ControlPlace::Fd(3, None))),
            ("fd:3,4", Ok(ControlPlace::Fd(3, Some(4)))),
        ] {
            assert_eq!(ControlPlace::parse(text), place, "{text}");
        }
        for text in [
            "", "fifo:", "fifo:,a", "fd:", "fd:-1", "fd:3,", "fd:x", "pipe:3",
        ] {
            assert!(ControlPlace::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_none_or_long_enough() {
        for (text, ms) in [("0.01", 10), ("1", 1000), ("2.5", 2500), ("1e1", 10_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "0", "1e-10", "0.0099", "-1", "NaN", "inf", "1e300", "1s",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_delay_is_as_perf_writes_it() {
        for (text, expected) in [
            ("0", Ok(Delay::None)),
            ("-1", Ok(Delay::Disabled)),
            ("250", Ok(Delay::Ms(250))),
        ] {
            assert_eq!(delay(text), expected, "{text}");
        }
        for text in ["-2", "1.5", "NaN", "99999999999999999999", ""] {
            assert!(delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_person_has_a_name_and_an_address() {
        for (text, good) in [
            ("Ada Example <ada@example.org>", true),
            ("\u{c9}va Example <eva@example.org>", true),
            ("Ada <ada>", false),
            ("<ada@example.org>", false),
            (" <ada@example.org>", false),
            ("Ada Example", false),
            ("Ada\nTested-by: X <ada@example.org>", false),
            ("Ada <a@b@c>", false),
            ("Ada <a@b> <c@d>", false),
            ("Ada <a @b>", false),
        ] {
            assert_eq!(person(text).is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn a_device_is_a_path_or_a_new_file() {
        let new = |bytes| Ok(Device::New(bytes));
        for (text, place) in [
            ("/dev/ram0", Ok(Device::Block("/dev/ram0".into()))),
            ("new:512M", new(512 << 20)),
            ("new:2G", new(2 << 30)),
            ("new:300K", new(300 << 10)),
            ("new:4096", new(4096)),
        ] {
            assert_eq!(device(text), place, "{text}");
        }
        for text in [
            "ram0",
            "new:",
            "new:M",
            "new:1T",
            "new:-1",
            "new:99999999999G",
            "new:5\u{e9}",
        ] {
            assert!(device(text).is_err(), "{text}");
        }
    }
}
