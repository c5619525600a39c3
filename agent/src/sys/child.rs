//! Starts a process in its cgroup, as its user, with nothing of the agent's.
//!
//! The child of a program with threads may only make system calls until it executes: other threads may have
//! held any lock when it was copied. So everything is prepared before, and the child calls the kernel
//! directly; libc's `setuid` and friends would wait for threads that the child does not have.

use std::ffi::{CString, c_char};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use nix::unistd::Pid;

/// Flag of clone3(2), from <linux/sched.h>; libc's own constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A process to start.
pub(crate) struct ChildSpec<'a> {
    /// Paths to try, in order.
    pub(crate) programs: Vec<CString>,
    /// Its arguments, the zeroth included.
    pub(crate) argv: Vec<CString>,
    /// Its environment, `NAME=value` each.
    pub(crate) envp: Vec<CString>,
    /// Its working folder.
    pub(crate) cwd: CString,
    /// Who it will be; none leaves it what the agent is.
    pub(crate) ids: Option<Ids>,
    /// Standard input, output and error; none of them may be descriptor 0, 1 or 2.
    pub(crate) streams: [OwnedFd; 3],
    /// Whether the streams are a terminal, which becomes that of its session.
    pub(crate) terminal: bool,
    /// Folder of the cgroup it starts in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// The cgroup namespace it gets, see cgroup_namespaces(7).
    pub(crate) cgroup_namespace: Option<BorrowedFd<'a>>,
    /// Root folder of a mounted proc(5), with which the child gives up the agent's protection from the
    /// kernel's out-of-memory killer.
    pub(crate) proc: Option<BorrowedFd<'a>>,
    /// Most open files it may have.
    pub(crate) max_files: u64,
}

/// User and groups by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// User.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
}

/// How far a child came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Session, signals, streams, limits.
    Setup = 1,
    /// Entering the working folder.
    Folder,
    /// Becoming the user.
    User,
    /// Executing the program.
    Exec,
}

/// What a child could not do.
#[derive(Debug)]
pub(crate) struct ChildError {
    /// The step.
    pub(crate) step: Step,
    /// What the kernel said to it.
    pub(crate) error: io::Error,
}

/// Starts the process. What it cannot do before it executes it writes into `report` ([`await_exec`] reads
/// it), which must be closed on exec.
///
/// # Errors
///
/// What the kernel says to the clone.
pub(crate) fn spawn(spec: &ChildSpec<'_>, report: &PipeWriter) -> io::Result<Pid> {
    let argv = pointers(&spec.argv);
    let envp = pointers(&spec.envp);
    let [stdin, stdout, stderr] = &spec.streams;
    let plan = Plan {
        programs: &spec.programs,
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        cwd: spec.cwd.as_ptr(),
        ids: spec.ids.as_ref(),
        streams: [stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()],
        terminal: spec.terminal,
        cgroup_namespace: spec.cgroup_namespace.map(|fd| fd.as_raw_fd()),
        proc: spec.proc.map(|fd| fd.as_raw_fd()),
        max_files: spec.max_files,
        report: report.as_raw_fd(),
    };
    // SAFETY: `clone_args` is plain data, all zeros mean a plain fork.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD.unsigned_abs().into();
    if let Some(cgroup) = spec.cgroup {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: without CLONE_VM the child has its own copy of memory and one thread, this one; it runs only
    // `Plan::run`, which makes system calls and never returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            size_of::<libc::clone_args>(),
        )
    };
    match result {
        0 => {
            // SAFETY: we are the child just made, and `plan` points into vectors that the copy of this
            // stack frame still owns.
            unsafe { plan.run() }
        }
        pid if pid > 0 => Ok(Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until the child executes (no error) or says what it could not do. The parent's end for writing must
/// be closed before.
///
/// # Errors
///
/// [`ChildError`] from the child.
pub(crate) fn await_exec(mut report: PipeReader) -> Result<(), ChildError> {
    let mut said = [0; REPORT];
    let Ok(()) = report.read_exact(&mut said) else {
        return Ok(());
    };
    let [step, a, b, c, d] = said;
    let step = match step {
        2 => Step::Folder,
        3 => Step::User,
        4 => Step::Exec,
        _ => Step::Setup,
    };
    Err(ChildError {
        step,
        error: io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d])),
    })
}

/// Bytes of a child's report: the step, then errno.
const REPORT: usize = 5;

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

struct Plan<'a> {
    programs: &'a [CString],
    argv: *const *const c_char,
    envp: *const *const c_char,
    cwd: *const c_char,
    ids: Option<&'a Ids>,
    streams: [RawFd; 3],
    terminal: bool,
    cgroup_namespace: Option<RawFd>,
    proc: Option<RawFd>,
    max_files: u64,
    report: RawFd,
}

impl Plan<'_> {
    /// # Safety
    ///
    /// Only in a child process of its own memory, with the pointers valid. Allocates nothing, takes no lock.
    unsafe fn run(&self) -> ! {
        // SAFETY: by this function's contract; each step only makes system calls.
        let (step, errno) = unsafe {
            match self.setup() {
                Err(errno) => (Step::Setup, errno),
                Ok(()) if libc::chdir(self.cwd) < 0 => (Step::Folder, *libc::__errno_location()),
                Ok(()) => match self.become_user() {
                    Err(errno) => (Step::User, errno),
                    Ok(()) => (Step::Exec, self.exec()),
                },
            }
        };
        let [a, b, c, d] = errno.to_ne_bytes();
        let said = [step as u8, a, b, c, d];
        // SAFETY: writes five bytes that live on this stack to a descriptor that is open or not, and ends
        // the process without running anything of the parent's.
        unsafe {
            libc::write(self.report, said.as_ptr().cast(), REPORT);
            libc::_exit(127)
        }
    }

    /// # Safety
    ///
    /// As [`Plan::run`].
    unsafe fn setup(&self) -> Result<(), i32> {
        // SAFETY: system calls on plain values, and on structures that live on this stack.
        unsafe {
            check(libc::setsid())?;
            // Not with libc's `signal`, which leaves out the signals that it uses itself. All zeros: SIG_DFL.
            let default = [0_u64; 4];
            for signal in 1..=64 {
                let size = size_of::<u64>();
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    default.as_ptr(),
                    ptr::null::<u64>(),
                    size,
                );
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            check(libc::sigprocmask(
                libc::SIG_SETMASK,
                &raw const none,
                ptr::null_mut(),
            ))?;
            for (target, source) in (0..).zip(self.streams) {
                check(libc::dup2(source, target))?;
            }
            if self.terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
            // Ours close by themselves; whoever started us may have left us others.
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            if let Some(proc) = self.proc {
                let file = libc::openat(
                    proc,
                    c"self/oom_score_adj".as_ptr(),
                    libc::O_WRONLY | libc::O_CLOEXEC,
                );
                check(file)?;
                if libc::write(file, c"0".as_ptr().cast(), 1) < 0 {
                    return Err(*libc::__errno_location());
                }
            }
            if let Some(namespace) = self.cgroup_namespace {
                check(libc::setns(namespace, libc::CLONE_NEWCGROUP))?;
            }
            let files = libc::rlimit {
                rlim_cur: self.max_files,
                rlim_max: self.max_files,
            };
            check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files))?;
            libc::umask(0o022);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As [`Plan::run`].
    unsafe fn become_user(&self) -> Result<(), i32> {
        let Some(ids) = self.ids else {
            return Ok(());
        };
        // SAFETY: raw system calls on plain values; the pointer and length are those of one slice.
        unsafe {
            check_long(libc::syscall(
                libc::SYS_setgroups,
                ids.groups.len(),
                ids.groups.as_ptr(),
            ))?;
            check_long(libc::syscall(
                libc::SYS_setresgid,
                ids.gid,
                ids.gid,
                ids.gid,
            ))?;
            check_long(libc::syscall(
                libc::SYS_setresuid,
                ids.uid,
                ids.uid,
                ids.uid,
            ))?;
        }
        Ok(())
    }

    /// Tries the programs in turn; the errno to report if none executes. One that exists and may not be
    /// executed says more than one that is missing, as with execvp(3).
    ///
    /// # Safety
    ///
    /// As [`Plan::run`].
    unsafe fn exec(&self) -> i32 {
        let mut worst = libc::ENOENT;
        for program in self.programs {
            // SAFETY: a C string, and two arrays of C strings that end with a null pointer.
            let errno = unsafe {
                libc::execve(program.as_ptr(), self.argv, self.envp);
                *libc::__errno_location()
            };
            match errno {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = errno,
                _ => return errno,
            }
        }
        worst
    }
}

fn check(result: libc::c_int) -> Result<(), i32> {
    check_long(result.into())
}

fn check_long(result: libc::c_long) -> Result<(), i32> {
    if result < 0 {
        // SAFETY: points to this thread's errno, always.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(())
}
