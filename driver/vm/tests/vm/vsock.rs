//! Streams between host programs and a real guest.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    SECOND, WAIT_LIMIT, boot, config, dial, in_time, processes_of, serving_vm, serving_vm_with,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use vk_vm::{Backend, Disk, DiskAccess, EndCause, start};

const ECHO: u32 = 7;
const DISCARD: u32 = 9;
const GENERATE: u32 = 19;
const WRITE: u32 = 21;

/// Bytes that do not repeat soon, so that a lost or doubled packet shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn echo_returns_every_byte_in_order_and_then_the_end() {
    let (vm, _call) = serving_vm().await;
    let stream = dial(vm.machine.vsock_path(), ECHO).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent = pattern(8 << 20);
    let expected = sent.clone();

    let send = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    in_time("the echo", reader.read_to_end(&mut received))
        .await
        .unwrap();

    send.await.unwrap();
    assert!(received == expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_rapid_dials_all_work() {
    let (vm, _call) = serving_vm().await;
    let path = vm.machine.vsock_path();

    let mut tasks = Vec::new();
    for number in 0u32..200 {
        let path = path.to_owned();
        tasks.push(tokio::spawn(async move {
            let mut stream = dial(&path, ECHO).await.expect("an open port");
            stream.write_all(&number.to_le_bytes()).await.unwrap();
            let answer = stream.read_u32_le().await.unwrap();
            assert_eq!(answer, number);
        }));
    }

    let all = async {
        for task in tasks {
            task.await.unwrap();
        }
    };
    in_time("200 dials", all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn port_without_listener_is_refused_at_once() {
    let (vm, _call) = serving_vm().await;

    let refused = dial(vm.machine.vsock_path(), 4711);

    let stream = tokio::time::timeout(WAIT_LIMIT, refused).await.unwrap();
    assert!(stream.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn dial_to_a_guest_without_vsock_waits_and_ends_with_the_vm() {
    let vm = boot("unresponsive").await;
    let path = vm.machine.vsock_path().to_owned();
    let mut waiting = tokio::spawn(async move { dial(&path, ECHO).await.is_none() });
    assert!(tokio::time::timeout(SECOND, &mut waiting).await.is_err());

    vm.machine.kill().await;

    let ended = tokio::time::timeout(WAIT_LIMIT, waiting).await.unwrap();
    assert!(ended.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn host_listener_that_never_accepts_stops_neither_guest_nor_others() {
    let folder = tempfile::tempdir().unwrap();
    // A backlog of two, and nobody takes calls from it.
    let listener = socket_with_backlog(&folder.path().join("call-many.vsock_5000"), 2);
    let config = config("call-many", folder.path());
    let machine = start(Backend::Auto, &config).await.unwrap();

    let end = in_time("50 calls", machine.wait()).await;

    drop(listener);
    assert_eq!(end.cause, EndCause::PoweredOff);
    let console = machine.console_tail();
    assert!(console.contains("made 3 of 50 calls"), "{console}");
}

fn socket_with_backlog(path: &Path, backlog: i32) -> impl Drop + use<> {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
    };
    use std::os::fd::AsRawFd;

    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    bind(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    listen(&socket, Backlog::new(backlog).unwrap()).unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_nobody_reads_does_not_hold_up_another() {
    let (vm, _call) = serving_vm().await;
    let path = vm.machine.vsock_path();
    let mut stuck = dial(path, GENERATE).await.unwrap();
    stuck.write_all(&u64::MAX.to_le_bytes()).await.unwrap();

    let mut lively = dial(path, ECHO).await.unwrap();
    for _ in 0..100 {
        lively.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        in_time("an echo", lively.read_exact(&mut answer))
            .await
            .unwrap();
        assert_eq!(&answer, b"ping");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_vm_does() {
    let (vm, mut call) = serving_vm().await;
    let path = vm.machine.vsock_path();
    let mut stream = dial(path, ECHO).await.unwrap();

    vm.machine.kill().await;

    for stream in [stream.get_mut(), &mut call] {
        let read = stream.read_u8();
        let result = tokio::time::timeout(WAIT_LIMIT, read).await.unwrap();
        result.unwrap_err();
    }
    UnixStream::connect(path).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_side_by_side_do_not_mix_their_streams() {
    vk_test_base::places::both();
    let folder = tempfile::tempdir().unwrap();
    let mut machines = Vec::new();
    for name in ["one", "two"] {
        let mut config = config("serve", folder.path());
        config.name = name.into();
        let path = folder.path().join(format!("{name}.vsock_1024"));
        let ready = UnixListener::bind(path).unwrap();
        machines.push((start(Backend::Auto, &config).await.unwrap(), ready));
    }

    let mut calls = Vec::new();
    for (machine, ready) in &machines {
        let call = in_time("the guest's call", ready.accept()).await.unwrap();
        // Kept: the guest takes a call that ends for a failure.
        calls.push(call);
        let mut stream = dial(machine.vsock_path(), ECHO).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
    }
    let (one, _) = machines.remove(0);
    one.kill().await;
    assert!(dial(machines[0].0.vsock_path(), ECHO).await.is_some());
}

/// QEMU, vCPUs and all, is stopped again and again while bytes go both ways at once: no notification is lost.
#[tokio::test(flavor = "multi_thread")]
async fn streams_go_on_in_a_vm_that_is_paused_and_resumed() {
    const SIZE: usize = 32 << 20;
    let (vm, _call) = serving_vm().await;
    let path = vm.machine.vsock_path();
    let [qemu] = processes_of(vm.folder.path())[..] else {
        panic!("one QEMU");
    };
    let qemu = Pid::from_raw(qemu.cast_signed());
    let sent = pattern(SIZE);
    let (mut reader, mut writer) = tokio::io::split(dial(path, ECHO).await.unwrap());
    let expected = sent.clone();
    let send = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let pauses = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            kill(qemu, Signal::SIGSTOP).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            kill(qemu, Signal::SIGCONT).unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });

    let mut received = Vec::new();
    in_time("the echo", reader.read_to_end(&mut received))
        .await
        .unwrap();

    pauses.abort();
    // It may have been aborted between the two.
    kill(qemu, Signal::SIGCONT).unwrap();
    send.await.unwrap();
    assert!(received == expected);
    assert!(count.load(Ordering::Relaxed) > 0, "it was never paused");
}

/// Each of QEMU's writes to the disk's file takes ten minutes, or until whoever holds it up goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_does_not_hold_up_streams() {
    let disk = |folder: &Path, name: &str, access| {
        let path = folder.join(name);
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        Disk { path, access }
    };
    let (vm, _call) = serving_vm_with(|folder| {
        vec![
            disk(folder, "root.img", DiskAccess::ReadOnly),
            disk(folder, "scratch.img", DiskAccess::Scratch),
        ]
    })
    .await;
    let path = vm.machine.vsock_path();
    let log = vm.folder.path().join("strace");
    let [qemu] = processes_of(vm.folder.path())[..] else {
        panic!("one QEMU");
    };
    let mut slow = tokio::process::Command::new("strace")
        .args(["-f", "-q", "-p", &qemu.to_string(), "-o"])
        .arg(&log)
        .args(["-e", "trace=pwrite64,pwritev,pwritev2"])
        .args([
            "-e",
            "inject=pwrite64,pwritev,pwritev2:delay_enter=600000000",
        ])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{qemu}/status")).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    let attached = async {
        while !is_traced() {
            let ended = slow.try_wait().unwrap();
            assert!(ended.is_none(), "strace cannot attach to QEMU: {ended:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time("strace", attached).await;

    let mut write = dial(path, WRITE).await.unwrap();
    write.write_all(&pattern(4096)).await.unwrap();
    write.shutdown().await.unwrap();
    let held_up = async {
        while std::fs::read(&log).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time("a write to the disk", held_up).await;
    let mut lively = dial(path, ECHO).await.unwrap();
    for _ in 0..100 {
        lively.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        in_time("an echo", lively.read_exact(&mut answer))
            .await
            .unwrap();
        assert_eq!(&answer, b"ping");
    }
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains("DELAYED"), "the write is over: {log}");

    slow.kill().await.unwrap();
    let mut answer = Vec::new();
    in_time("the write", write.read_to_end(&mut answer))
        .await
        .unwrap();
    assert_eq!(answer, b"written");
}

/// A measurement: run it with `--ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, asserts nothing about time"]
async fn throughput_both_ways() {
    const SIZE: usize = 256 << 20;
    let (vm, _call) = serving_vm().await;
    let path = vm.machine.vsock_path();
    let report = |way: &str, start: Instant| {
        let rate = SIZE as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{way}: {rate:.0} MB/s");
    };
    for _ in 0..3 {
        let start = Instant::now();
        let mut stream = dial(path, DISCARD).await.unwrap();
        let chunk = vec![0; 1 << 20];
        for _ in 0..SIZE / chunk.len() {
            stream.write_all(&chunk).await.unwrap();
        }
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read_u64_le().await.unwrap(), SIZE as u64);
        report("host to guest", start);

        let start = Instant::now();
        let mut stream = dial(path, GENERATE).await.unwrap().into_inner();
        let count = (SIZE as u64).to_le_bytes();
        stream.write_all(&count).await.unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut left = SIZE;
        while left > 0 {
            left -= stream.read(&mut buffer).await.unwrap();
        }
        report("guest to host", start);
    }
    println!("{:?}", vm.machine.stats());
}
