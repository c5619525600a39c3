//! The order of things.

use std::fs::{self, File};
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use vk_agent_proto::boot::{BUILDS_DIR, FAILED, IMAGE_FAULT, MODULES_DIR, MODULES_ORDER};
use vk_agent_proto::{AGENT_PORT, READY_PORT, Ready};

use super::cmdline::Parameters;
use super::error::{BootError, During, failed};
use super::root::Root;
use super::{cgroup, disks, etc, modules, settings};
use crate::agent::{Agent, Ending};
use crate::house::House;
use crate::processes::Processes;
use crate::{console, power, server, sys};

/// Open files that the agent may have and allow: what Linux lets a process ask for (`fs.nr_open`).
const MAX_FILES: u64 = 1 << 20;

/// How long the host may take to accept the ready connection.
const HOST_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Makes the guest, serves the host, and powers off when either ends.
pub(crate) fn run() -> ! {
    let main = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        let text = info.to_string().replace('\n', " ");
        if thread::current().id() == main {
            fail(&text);
        }
        console::line(&format!("vk-agent: an operation failed: {text}"));
    }));
    let Err(error) = boot();
    match error.image_fault() {
        Some(fault) => end(&format!("{IMAGE_FAULT}{fault}")),
        None => fail(&server::error_line(&error)),
    }
}

fn fail(why: &str) -> ! {
    end(&format!("{FAILED}{why}"))
}

fn end(line: &str) -> ! {
    console::line(line);
    nix::unistd::sync();
    power::off()
}

/// Prints steps with their times, if asked to.
struct Log {
    verbose: bool,
    start: Instant,
}

impl Log {
    fn step(&self, what: &str) {
        if self.verbose {
            let ms = self.start.elapsed().as_millis();
            console::line(&format!("vk-agent: {ms:>5} ms: {what}"));
        }
    }
}

fn boot() -> Result<std::convert::Infallible, BootError> {
    let start = Instant::now();
    let kernel_ms = uptime_ms().during("reading the clock")?;
    // Folders and files get the modes we name.
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    mount_early()?;
    console::open();
    let house = House::open().during("opening the agent's standard streams")?;
    let cmdline = fs::read_to_string("/proc/cmdline").during("reading /proc/cmdline")?;
    let parameters = Parameters::parse(&cmdline);
    let log = Log {
        verbose: parameters.verbose,
        start,
    };
    setrlimit(Resource::RLIMIT_NOFILE, MAX_FILES, MAX_FILES).during("raising limits")?;
    // Debian's dockerd gives its containers these: processes are counted by the cgroup.
    for unlimited in [Resource::RLIMIT_CORE, Resource::RLIMIT_NPROC] {
        setrlimit(unlimited, RLIM_INFINITY, RLIM_INFINITY).during("raising limits")?;
    }
    fs::write("/proc/self/oom_score_adj", "-1000").during("protecting the agent")?;
    let processes = Processes::start().during("starting the reaper")?;
    log.step("kernel file systems mounted");
    settings::write()?;
    // One thing after the other, nothing beside it: the kernel patches its own code as controllers are enabled and
    // modules load, and QEMU 7.2 can hang a second processor that runs that code just then (it translates
    // without the lock that keeps the code's page still).
    let cgroups = cgroup::set_up(parameters.pids).during("setting up cgroups")?;
    log.step("cgroups set up");
    modules::load(Path::new(MODULES_ORDER), Path::new(MODULES_DIR))?;
    log.step("modules loaded");
    disks::mount_all()?;
    log.step("disks mounted");
    let root = Root::open()?;
    nix::unistd::sethostname(&parameters.hostname).during("setting the host name")?;
    etc::write(&root, &parameters.hostname)?;
    sys::loopback_up().during("bringing the loopback interface up")?;
    root.mount_all(parameters.builds)?;
    root.switch()?;
    log.step("root switched");
    let agent = Agent::new(
        processes,
        Some(cgroups),
        PathBuf::from(if parameters.builds { BUILDS_DIR } else { "/" }),
        Some(house),
        Ending::PowerOff,
    )
    .during("opening what the job's root must have")?;
    let listener = sys::listen(AGENT_PORT).during("listening on vsock")?;
    let ready = Ready {
        kernel_ms,
        agent_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    let host = call_host()?;
    server::report_ready(&host, &ready, set_clock)
        .during("telling the host that the guest is ready")?;
    drop(host);
    log.step("host called");
    server::serve(&Arc::new(agent), || sys::accept_host(&listener)).during("serving the host")?;
    Err(failed("serving the host", "it ended"))
}

/// What later steps read and mount on.
fn mount_early() -> Result<(), BootError> {
    let shielded = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for (kind, path, flags, options) in [
        ("devtmpfs", "/dev", MsFlags::MS_NOSUID, Some("mode=755")),
        ("proc", "/proc", shielded, None),
        ("sysfs", "/sys", shielded, None),
    ] {
        fs::create_dir_all(path).during(format_args!("making {path}"))?;
        match mount(Some(kind), path, Some(kind), flags, options) {
            // The kernel may have mounted /dev by itself.
            Ok(()) | Err(nix::errno::Errno::EBUSY) => {}
            Err(errno) => return Err(errno).during(format_args!("mounting {path}")),
        }
    }
    Ok(())
}

/// Connects to the host's ready port. The host listens before it starts the guest, but its end of the vsock
/// device may come up after ours.
fn call_host() -> Result<File, BootError> {
    let until = Instant::now() + HOST_ANSWERS_WITHIN;
    loop {
        match sys::connect_host(READY_PORT) {
            Ok(host) => return Ok(File::from(host)),
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
            Err(error) => {
                return Err(error)
                    .during(format_args!("calling the host on vsock port {READY_PORT}"));
            }
        }
    }
}

fn set_clock(epoch_ns: u64) -> io::Result<()> {
    let time = TimeSpec::from(Duration::from_nanos(epoch_ns));
    clock_settime(ClockId::CLOCK_REALTIME, time)?;
    Ok(())
}

fn uptime_ms() -> io::Result<u64> {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?);
    Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
