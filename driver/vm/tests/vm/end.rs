//! A VM's end reaches its owner with its cause, whatever it is.

use std::time::Instant;

use crate::support::{SECOND, Vm, WAIT_LIMIT, boot, config, in_time, is_running, processes_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::timeout;
use vk_process::Exit;
use vk_vm::{Backend, EndCause, MachineConfig, MachineEnd, start};

async fn end_of(test: &str) -> MachineEnd {
    let vm = boot(test).await;
    in_time("the VM's end", vm.machine.wait()).await
}

fn process(vm: &Vm) -> u32 {
    let processes = processes_of(vm.folder.path());
    let [process] = processes[..] else {
        panic!("{processes:?}");
    };
    process
}

#[tokio::test]
async fn power_off_ends_the_vm() {
    let end = end_of("poweroff").await;

    assert_eq!(end.cause, EndCause::PoweredOff, "{}", end.console_tail);
}

#[tokio::test]
async fn restart_ends_the_vm() {
    let end = end_of("reboot").await;

    assert_eq!(end.cause, EndCause::Rebooted, "{}", end.console_tail);
}

#[tokio::test]
async fn halt_ends_the_vm() {
    let end = end_of("halt").await;

    assert_eq!(end.cause, EndCause::Halted, "{}", end.console_tail);
}

#[tokio::test]
async fn init_that_exits_is_a_panic_and_the_console_is_quoted() {
    let end = end_of("exit").await;

    let EndCause::Panicked(message) = &end.cause else {
        panic!("{end}");
    };
    assert!(message.contains("Attempted to kill init"), "{message}");
    assert!(
        end.console_tail.contains("test exit"),
        "{}",
        end.console_tail
    );
}

#[tokio::test]
async fn crash_of_the_kernel_is_a_panic() {
    let end = end_of("crash").await;

    let EndCause::Panicked(message) = &end.cause else {
        panic!("{end}");
    };
    assert!(message.contains("sysrq"), "{message}");
}

#[tokio::test]
async fn killed_vmm_is_a_lost_vm() {
    let vm = boot("silent").await;
    let process = process(&vm);

    kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).unwrap();

    let end = timeout(WAIT_LIMIT, vm.machine.wait()).await.unwrap();
    let EndCause::VmmLost { exit, .. } = end.cause else {
        panic!("{end}");
    };
    assert_eq!(exit, Exit::Signal(9));
    assert_eq!(vm.machine.stats(), None);
}

#[tokio::test]
async fn kill_is_hard_and_may_be_repeated() {
    let vm = boot("chatter").await;
    let process = process(&vm);

    let end = timeout(WAIT_LIMIT, vm.machine.kill()).await.unwrap();

    assert!(!is_running(process));
    assert_eq!(end.cause, EndCause::Killed);
    assert_eq!(vm.machine.kill().await, end);
    assert_eq!(vm.machine.wait().await, end);
}

#[tokio::test]
async fn stopped_vmm_can_be_killed() {
    let vm = boot("silent").await;
    kill(Pid::from_raw(process(&vm).cast_signed()), Signal::SIGSTOP).unwrap();

    let end = timeout(WAIT_LIMIT, vm.machine.kill()).await.unwrap();

    assert_eq!(end.cause, EndCause::Killed);
}

#[tokio::test]
async fn machine_of_the_same_name_may_follow() {
    let vm = boot("silent").await;
    vm.machine.kill().await;
    assert_eq!(std::fs::read_dir(vm.folder.path()).unwrap().count(), 0);

    let config = config("poweroff", vm.folder.path());
    let config = MachineConfig {
        name: "silent".into(),
        ..config
    };
    let second = start(Backend::Auto, &config).await.unwrap();

    let end = in_time("the VM's end", second.wait()).await;
    assert_eq!(end.cause, EndCause::PoweredOff);
}

#[tokio::test]
async fn dropped_machine_is_killed() {
    let vm = boot("silent").await;
    let process = process(&vm);

    drop(vm.machine);

    let dropped = Instant::now();
    while is_running(process) {
        assert!(dropped.elapsed() < WAIT_LIMIT, "QEMU lives on");
        tokio::time::sleep(SECOND / 100).await;
    }
}

#[tokio::test]
async fn console_of_a_guest_that_never_calls_can_be_read() {
    let vm = boot("silent").await;

    let console = async {
        while !vm.machine.console_tail().contains("never calls") {
            tokio::time::sleep(SECOND / 10).await;
        }
    };

    in_time("the console", console).await;
    let stats = vm.machine.stats().unwrap();
    assert!(stats.cpu_time > SECOND / 10, "{stats:?}");
    assert!(stats.peak_memory > 32 << 20, "{stats:?}");
}

/// A measurement: run it with `--ignored --nocapture`.
#[tokio::test]
#[ignore = "measures, asserts nothing about time"]
async fn time_from_start_to_power_off() {
    for _ in 0..7 {
        let started = Instant::now();
        let vm = boot("poweroff").await;
        let running = started.elapsed();
        vm.machine.wait().await;
        println!(
            "QEMU runs after {running:?}, ends after {:?}",
            started.elapsed()
        );
    }
}
