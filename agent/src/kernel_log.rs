//! Which programs the kernel killed for want of memory, as its log says.
//!
//! The log is read through `/dev/kmsg` (the kernel's document ABI/testing/dev-kmsg): one record a read, each with a
//! facility that tells the kernel's own lines from those that a job writes there. It is read only when a command's
//! cgroup has counted kills; what the ring has lost by then is not named.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of the longest record that Linux hands out (`CONSOLE_EXT_LOG_MAX` of its printk).
const RECORD: usize = 8192;

/// Most records that are read for one command: four times what fits the ring of Debian's kernel (128 KiB, 32 bytes a
/// record). A job may write as fast as we read.
const MOST_RECORDS: usize = 1 << 14;

/// Kills that are remembered until their command ends.
const MOST_KILLS: usize = 64;

/// Names told of one command.
const MOST_NAMES: usize = 8;

/// The kernel's log from where it was opened.
pub(crate) struct KernelLog(Mutex<State>);

struct State {
    file: File,
    kills: Kills,
}

impl KernelLog {
    /// Opens the log of the mounted `/dev`, before any job could replace it. What is in it already is skipped in time,
    /// for it names no command's cgroup.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn open() -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        Ok(Self(Mutex::new(State {
            file,
            kills: Kills::default(),
        })))
    }

    /// Names of the programs of `cgroup`, a command's, that were killed for want of memory: each once, in the order of the
    /// kills, no more than `kills` and never many.
    pub(crate) fn killed(&self, cgroup: &str, kills: u64) -> Vec<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { file, kills: known } = &mut *state;
        let mut record = [0; RECORD];
        for _ in 0..MOST_RECORDS {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(len) => known.take_in(record.get(..len).unwrap_or_default()),
                Err(error) => match error.raw_os_error() {
                    // Records were overwritten before they were read, or one is too long: the next read is past them.
                    Some(libc::EPIPE | libc::EINVAL | libc::EINTR) => {}
                    // EAGAIN: there are no more.
                    _ => break,
                },
            }
        }
        known.take_out(cgroup, usize::try_from(kills).unwrap_or(usize::MAX))
    }
}

/// A process that the kernel killed.
#[derive(Debug, PartialEq, Eq)]
struct Kill {
    pid: u32,
    /// The command's cgroup that it was in, if the kernel said so.
    cgroup: Option<String>,
    name: String,
}

/// Those of commands that may still run.
#[derive(Debug, Default)]
struct Kills(VecDeque<Kill>);

impl Kills {
    /// Takes in a record of the log.
    fn take_in(&mut self, record: &[u8]) {
        let Some(line) = kernels_own(record).and_then(Line::parse) else {
            return;
        };
        let kill = match line {
            Line::Chosen { cgroup, pid, name } => Kill {
                pid,
                cgroup: command_of(cgroup).map(str::to_owned),
                name: plain(name),
            },
            // The line before said more of it.
            Line::Killed { pid, .. } if self.0.back().is_some_and(|last| last.pid == pid) => return,
            Line::Killed { pid, name } => Kill {
                pid,
                cgroup: None,
                name: plain(name),
            },
        };
        if self.0.len() == MOST_KILLS {
            self.0.pop_front();
        }
        self.0.push_back(kill);
    }

    /// Removes the kills in `cgroup`, and of those whose cgroup is not known as many as `count` leaves; their names, each once.
    fn take_out(&mut self, cgroup: &str, count: usize) -> Vec<String> {
        let is_here = |kill: &Kill| kill.cgroup.as_deref() == Some(cgroup);
        let mut unknown = count.saturating_sub(self.0.iter().filter(|kill| is_here(kill)).count());
        let mut names: Vec<String> = Vec::new();
        self.0.retain(|kill| {
            let takes_unknown = kill.cgroup.is_none() && unknown > 0;
            unknown -= usize::from(takes_unknown);
            let taken = takes_unknown || is_here(kill);
            if taken && names.len() < count.min(MOST_NAMES) && !names.contains(&kill.name) {
                names.push(kill.name.clone());
            }
            !taken
        });
        names
    }
}

/// The text of a record that the kernel itself wrote. Who writes to `/dev/kmsg` gets another facility than the kernel's,
/// whatever he asks for (syslog(2): the priority is the level and eight times the facility).
fn kernels_own(record: &[u8]) -> Option<&str> {
    let record = std::str::from_utf8(record).ok()?;
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    // Lines after the first are the record's properties.
    (priority >> 3 == 0).then(|| text.lines().next().unwrap_or_default())
}

/// What Linux says of a process that it kills for want of memory (`mm/oom_kill.c`), names as the log escapes them.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// It was chosen. Linux says so ten times in five seconds at most.
    Chosen {
        cgroup: &'a str,
        pid: u32,
        name: &'a str,
    },
    /// It was sent its signal, mostly right after that.
    Killed { pid: u32, name: &'a str },
}

impl<'a> Line<'a> {
    /// A name is the job's to choose, and so is a cgroup's below a command's: a name is 15 bytes, which cannot hide the
    /// numbers behind it.
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("oom-kill:constraint=") {
            let (_, rest) = rest.split_once(",task_memcg=")?;
            let (cgroup, rest) = rest.split_once(",task=")?;
            let (name, rest) = rest.rsplit_once(",pid=")?;
            let (pid, _) = rest.split_once(",uid=")?;
            let pid = pid.parse().ok()?;
            return Some(Self::Chosen { cgroup, pid, name });
        }
        let rest = text
            .strip_prefix("Memory cgroup out of memory")
            .or_else(|| text.strip_prefix("Out of memory"))?;
        let (_, rest) = rest.split_once(": Killed process ")?;
        let (pid, rest) = rest.split_once(" (")?;
        let (name, _) = rest.rsplit_once(") total-vm:")?;
        let pid = pid.parse().ok()?;
        Some(Self::Killed { pid, name })
    }
}

/// The name of the command's cgroup that the kernel's path leads to or below: `exec-3` of `/vk/exec-3/its/own`.
fn command_of(path: &str) -> Option<&str> {
    path.split('/').nth(2)
}

/// A text of the log as it was: `/dev/kmsg` writes `\x0a` for each byte that is no printable ASCII, and for `\`.
fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\x") {
        bytes.extend(before.bytes());
        let byte = behind
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.extend(b"\\x");
                rest = behind;
            }
        }
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 says it for commands' cgroups of a guest.
    fn chosen(cgroup: &str, name: &str, pid: u32) -> String {
        format!(
            "6,411,2093471,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/vk,\
             task_memcg={cgroup},task={name},pid={pid},uid=0\n"
        )
    }

    fn killed(name: &str, pid: u32) -> String {
        format!(
            "3,412,2093842,-;Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:444092kB, \
             anon-rss:439328kB, file-rss:1100kB, shmem-rss:0kB, UID:0 pgtables:908kB oom_score_adj:0\n"
        )
    }

    fn kills(records: &[String]) -> Kills {
        let mut kills = Kills::default();
        for record in records {
            kills.take_in(record.as_bytes());
        }
        kills
    }

    #[test]
    fn killed_programs_are_told_to_the_command_that_they_were_of() {
        let mut kills = kills(&[
            chosen("/vk/exec-3", "cc1plus", 70),
            killed("cc1plus", 70),
            chosen("/vk/exec-4", "ld", 71),
            killed("ld", 71),
            chosen("/vk/exec-3/its/own", "make", 72),
            killed("make", 72),
            chosen("/vk/exec-3", "cc1plus", 73),
            killed("cc1plus", 73),
        ]);

        assert_eq!(kills.take_out("exec-3", 3), ["cc1plus", "make"]);
        assert_eq!(kills.take_out("exec-3", 3), [""; 0]);
        assert_eq!(kills.take_out("exec-4", 1), ["ld"]);
        assert_eq!(kills.0, []);
    }

    #[test]
    fn the_whole_guests_want_of_memory_is_told_too() {
        let mut kills = kills(&[
            "6,903,7000000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
             task_memcg=/vk/exec-0,task=tail,pid=90,uid=1000\n"
                .to_owned(),
            "3,904,7000001,-;Out of memory: Killed process 90 (tail) total-vm:9kB, anon-rss:9kB, file-rss:9kB, \
             shmem-rss:0kB, UID:1000 pgtables:9kB oom_score_adj:0\n"
                .to_owned(),
        ]);

        assert_eq!(kills.take_out("exec-0", 1), ["tail"]);
    }

    /// Linux says only ten times in five seconds where one was.
    #[test]
    fn kills_of_no_known_command_are_told_where_one_lacks_them() {
        let mut kills = kills(&[
            killed("first", 7),
            chosen("/vk/exec-1", "second", 8),
            killed("second", 8),
            killed("third", 9),
        ]);

        assert_eq!(kills.take_out("exec-1", 2), ["first", "second"]);
        assert_eq!(kills.take_out("exec-1", 0), [""; 0]);
        assert_eq!(kills.0.len(), 1);
    }

    #[test]
    fn what_a_job_writes_into_the_log_is_no_word_of_the_kernels() {
        // What `echo '<3>…' > /dev/kmsg` makes: facility 1. And syslog's, facility 5.
        for priority in ["11", "14", "43", "", "x", "-1"] {
            let line = killed("fake", 7).replacen('3', priority, 1);
            assert_eq!(kills(&[line]).0, [], "{priority}");
        }
        let property =
            "6,1,1,-;a line\n Memory cgroup out of memory: Killed process 7 (fake) total-vm:1kB\n";
        assert_eq!(kills(&[property.to_owned()]).0, []);
    }

    #[test]
    fn names_may_be_anything() {
        for (escaped, name) in [
            ("a b", "a b"),
            ("", ""),
            ("x) total-vm:1kB", "x) total-vm:1kB"),
            ("a,pid=1,uid=0", "a,pid=1,uid=0"),
            (",task=b", ",task=b"),
            ("a (b)", "a (b)"),
            ("a\\x0a6,1,1,-;b", "a\n6,1,1,-;b"),
            ("\\x1b[31m", "\u{1b}[31m"),
            ("\\x5cx0a", "\\x0a"),
            ("\\xc3\\xa9", "é"),
            ("\\xff", "\u{fffd}"),
            ("\\x", "\\x"),
            ("\\xé", "\\xé"),
        ] {
            let wanted = |cgroup: Option<&str>| Kill {
                pid: 9,
                cgroup: cgroup.map(str::to_owned),
                name: name.to_owned(),
            };
            assert_eq!(kills(&[killed(escaped, 9)]).0, [wanted(None)]);
            let both = kills(&[chosen("/vk/exec-0", escaped, 9), killed(escaped, 9)]);
            assert_eq!(both.0, [wanted(Some("exec-0"))]);
        }
    }

    #[test]
    fn few_are_remembered_and_fewer_told() {
        let records: Vec<String> = (0..200)
            .map(|pid| chosen("/vk/exec-0", &format!("p{pid}"), pid))
            .collect();
        let mut kills = kills(&records);

        assert_eq!(kills.0.len(), MOST_KILLS);
        let names = kills.take_out("exec-0", 200);
        assert_eq!(names.len(), MOST_NAMES);
        assert_eq!(names.first().map(String::as_str), Some("p136"));
    }

    #[test]
    fn broken_records_are_none() {
        for record in [
            &b""[..],
            b";",
            b"6,1,1,-",
            b"6,1,1,-;\xff",
            b"3,1,1,-;Out of memory: Killed process",
            b"3,1,1,-;Out of memory: Killed process 99999999999 (a) total-vm:1kB",
            b"6,1,1,-;oom-kill:constraint=,task_memcg=/vk,task=a,pid=,uid=0",
        ] {
            let mut kills = Kills::default();
            kills.take_in(record);
            assert_eq!(kills.0, [], "{record:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(record: Vec<u8>, text in r"[\\x0-9a-f,=();: é]{0,60}") {
            let mut kills = Kills::default();
            kills.take_in(&record);
            kills.take_in(chosen(&text, &text, 1).as_bytes());
            kills.take_in(format!("6,1,1,-;oom-kill:constraint={text}").as_bytes());
            kills.take_out("exec-0", 3);
        }
    }
}
