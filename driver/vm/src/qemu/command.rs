//! QEMU's command line.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::error::QemuError;
use crate::config::{Disk, DiskAccess, MachineConfig};

/// The program, from Debian's package `qemu-system-x86`.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// Host memory that the emulator may fill with translated code, in MiB. QEMU's own bound would be 1 GiB.
const TRANSLATION_CACHE_MIB: u32 = 256;

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The host's processors, through `/dev/kvm`.
    Kvm,
    /// Translation in software: works anywhere, some ten to thirty times slower.
    Tcg,
}

/// Where QEMU meets vk: it connects to both.
#[derive(Debug, Clone)]
pub(super) struct Sockets {
    pub(super) vhost: PathBuf,
    pub(super) monitor: PathBuf,
}

/// Checks what QEMU would refuse with a message of its own, or accept and misread.
pub(super) fn check(config: &MachineConfig) -> Result<(), QemuError> {
    let is_name = (1..=16).contains(&config.name.len())
        && config
            .name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let refuse = |what: String| Err(QemuError::Config(what));
    if !is_name {
        return refuse(format!("the name `{}`", config.name.escape_debug()));
    }
    if config.cpus == 0 {
        return refuse("no processor".into());
    }
    if config.memory_mib < 64 {
        return refuse(format!(
            "{} MiB of memory, 64 are needed",
            config.memory_mib
        ));
    }
    if let Some(word) = config.cmdline.iter().find(|word| word.contains('\0')) {
        let word = word.escape_debug();
        return refuse(format!("`{word}` on its kernel command line"));
    }
    if let Some(disk) = config
        .disks
        .iter()
        .find(|disk| disk.path.to_str().is_none())
    {
        let path = disk.path.display();
        return refuse(format!("a disk whose path is not UTF-8: {path}"));
    }
    let files = [("kernel", &config.kernel), ("initramfs", &config.initramfs)];
    let disks = config.disks.iter().map(|disk| ("disk", &disk.path));
    for (what, path) in files.into_iter().chain(disks) {
        std::fs::File::open(path).map_err(|source| QemuError::File {
            what,
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

/// The command that runs `config`. Console on standard output, complaints on standard error.
pub(super) fn command(
    config: &MachineConfig,
    accelerator: Accelerator,
    tsc_khz: u64,
    sockets: &Sockets,
) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        // Nothing of our environment is a guest's business, should it break out.
        .env_clear()
        .env("PATH", &config.search_path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .args(["-no-user-config", "-nodefaults", "-no-reboot"])
        .args(["-display", "none", "-name"])
        .arg(format!("{0},process=vk-{0}", config.name))
        // No devices but those named here and the platform's own.
        .arg("-machine")
        .arg("microvm,acpi=on,x-option-roms=off,auto-kernel-cmdline=off,memory-backend=ram")
        .arg("-object")
        // Shared, for our vsock device.
        .arg(format!(
            "memory-backend-memfd,id=ram,size={}M,share=on",
            config.memory_mib
        ))
        .arg("-m")
        .arg(format!("{}M", config.memory_mib))
        .arg("-smp")
        .arg(config.cpus.to_string())
        .args([
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
        ]);
    match accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::Tcg => command
            .arg("-accel")
            .arg(format!("tcg,thread=multi,tb-size={TRANSLATION_CACHE_MIB}"))
            // Without ERMS the guest's kernel copies eight bytes a step, and not one: emulated step by step, that makes
            // all of its input and output three to four times as fast.
            .args(["-cpu", "max,-erms"]),
    };
    command
        .arg("-kernel")
        .arg(&config.kernel)
        .arg("-initrd")
        .arg(&config.initramfs)
        .arg("-append")
        .arg(kernel_command_line(config, accelerator, tsc_khz))
        .args(["-chardev", "stdio,id=console,signal=off"])
        .args(["-serial", "chardev:console"])
        .arg("-chardev")
        .arg(socket("monitor", &sockets.monitor))
        .args(["-mon", "chardev=monitor,mode=control"])
        .arg("-chardev")
        .arg(socket("vsock", &sockets.vhost))
        .args(["-device", "vhost-user-vsock-device,chardev=vsock"])
        .args(["-object", "rng-builtin,id=rng"])
        .args(["-device", "virtio-rng-device,rng=rng"]);
    for (index, disk) in config.disks.iter().enumerate() {
        command
            .arg("-blockdev")
            .arg(block_device(index, disk))
            .arg("-device")
            .arg(format!("virtio-blk-device,drive=disk{index}"));
    }
    command
}

/// What the kernel is told.
fn kernel_command_line(config: &MachineConfig, accelerator: Accelerator, tsc_khz: u64) -> String {
    let mut words = vec![
        "console=ttyS0",
        "quiet",
        // A panic resets the machine at once, which ends it;
        "panic=-1",
        // by a triple fault: nothing else works sooner.
        "reboot=t",
        // The processor's random numbers count as entropy, as virtio-rng's do later.
        "random.trust_cpu=on",
        // Self-tests of the kernel's ciphers take a fifth of a second when emulated.
        "cryptomgr.notests",
        // On a busy host the kernel may find its timer late, and not use it for that.
        "no_timer_check",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    if accelerator == Accelerator::Tcg {
        // See the module `tsc`.
        words.push(format!("tsc_early_khz={tsc_khz}"));
        // Nor may it distrust its only clock.
        words.push("tsc=reliable".to_owned());
        if config.cpus == 1 {
            // Its code for several processors works for one: patching it costs a tenth of a second.
            words.push("noreplace-smp".to_owned());
        }
    }
    words.extend(config.cmdline.iter().cloned());
    words.join(" ")
}

fn block_device(index: usize, disk: &Disk) -> String {
    let (read_only, discard) = match disk.access {
        DiskAccess::ReadOnly => (true, "ignore"),
        DiskAccess::Scratch => (false, "unmap"),
    };
    json!({
        "driver": "raw",
        "node-name": format!("disk{index}"),
        "read-only": read_only,
        "discard": discard,
        // A flush by the guest needs no disk access of the host: the disk does not outlive the machine.
        "cache": { "direct": false, "no-flush": true },
        "file": {
            "driver": "file",
            "filename": disk.path.to_string_lossy(),
            "read-only": read_only,
            "discard": discard,
            "cache": { "direct": false, "no-flush": true },
            // Read-only images are shared; scratch disks lie in a run's own folder.
            "locking": "off",
        },
    })
    .to_string()
}

fn socket(id: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("socket,id={id},path="));
    option.push(escaped(path));
    option
}

/// A path as a value in a list of QEMU options, where a comma is written twice.
fn escaped(path: &Path) -> OsString {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> MachineConfig {
        // Any file that is there.
        let file = PathBuf::from("/dev/null");
        MachineConfig {
            name: "job-1".into(),
            cpus: 2,
            memory_mib: 2048,
            kernel: file.clone(),
            initramfs: file,
            cmdline: vec!["vk.hostname=x".into()],
            disks: Vec::new(),
            run_dir: "/run".into(),
            search_path: vk_process::SEARCH_PATH.into(),
        }
    }

    fn line(accelerator: Accelerator) -> String {
        let sockets = Sockets {
            vhost: "/run/a,b.vhost".into(),
            monitor: "/run/x.qmp".into(),
        };
        let command = command(&config(), accelerator, 2_100_000, &sockets);
        let arguments: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        arguments.join(" ")
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        assert!(line(Accelerator::Tcg).contains("path=/run/a,,b.vhost"));
    }

    #[test]
    fn emulated_kernel_is_told_the_counters_rate_and_the_callers_words_come_last() {
        let line = line(Accelerator::Tcg);
        assert!(
            line.contains(" tsc_early_khz=2100000 tsc=reliable vk.hostname=x "),
            "{line}"
        );
        assert!(line.contains("tcg,thread=multi"), "{line}");
    }

    #[test]
    fn kvm_guest_finds_the_rate_itself() {
        let line = line(Accelerator::Kvm);
        assert!(!line.contains("tsc_early_khz"), "{line}");
        assert!(line.contains("-accel kvm -cpu host"), "{line}");
    }

    #[test]
    fn sizes_are_the_configurations() {
        let line = line(Accelerator::Kvm);
        assert!(line.contains("size=2048M"), "{line}");
        assert!(line.contains("-m 2048M -smp 2"), "{line}");
    }

    #[test]
    fn impossible_machines_are_refused_with_the_reason() {
        type Mutation = fn(&mut MachineConfig);
        let cases: [(Mutation, &str); 6] = [
            (|config| config.name = "a/b".into(), "the name `a/b`"),
            (|config| config.name = String::new(), "the name ``"),
            (|config| config.cpus = 0, "no processor"),
            (
                |config| config.memory_mib = 8,
                "8 MiB of memory, 64 are needed",
            ),
            (
                |config| config.cmdline.push("a\0b".into()),
                "`a\\0b` on its kernel command line",
            ),
            (
                |config| {
                    config.disks.push(Disk {
                        path: OsString::from_vec(vec![b'/', 0xff]).into(),
                        access: DiskAccess::ReadOnly,
                    });
                },
                "a disk whose path is not UTF-8: /\u{fffd}",
            ),
        ];
        check(&config()).unwrap();
        for (spoil, reason) in cases {
            let mut config = config();
            spoil(&mut config);
            let error = check(&config).unwrap_err().to_string();
            assert_eq!(error, format!("a VM cannot have {reason}"));
        }
    }
}
