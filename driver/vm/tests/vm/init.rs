//! PID 1 of the VMs that the tests boot: built by `tests/support`, put over the agent in the initramfs.
//!
//! The kernel command line's `test=` says what to do. `serve` offers, on vsock ports:
//! 7 echo; 9 discard, answering with the number of bytes read; 19 as many bytes as the first eight ask for.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::thread;
use std::time::Duration;

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn reboot(how: c_int) -> c_int;
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, address: *const Address, len: c_uint) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut Address, len: *mut c_uint) -> c_int;
    fn connect(fd: c_int, address: *const Address, len: c_uint) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
}

const FINIT_MODULE: c_long = 313;
const AF_VSOCK: c_int = 40;
const HOST: u32 = 2;
const ANY: u32 = u32::MAX;
const READY_PORT: u32 = 1024;

#[repr(C)]
struct Address {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    zero: [u8; 4],
}

fn address(cid: u32, port: u32) -> Address {
    Address { family: AF_VSOCK as u16, reserved: 0, port, cid, zero: [0; 4] }
}

const ADDRESS_LEN: c_uint = size_of::<Address>() as c_uint;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn mount_at(kind: &str, target: &str) {
    let _ = fs::create_dir_all(target);
    let (kind, target) = (CString::new(kind).unwrap(), CString::new(target).unwrap());
    unsafe { mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
}

fn load_modules() {
    let order = fs::read_to_string("/modules/order").unwrap_or_default();
    for line in order.lines() {
        let (name, parameters) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(file) = File::open(format!("/modules/{name}")) else {
            println!("no module {name}");
            continue;
        };
        let parameters = CString::new(parameters).unwrap();
        unsafe { syscall(FINIT_MODULE, file.as_raw_fd(), parameters.as_ptr(), 0) };
    }
}

fn dial(port: u32) -> io::Result<File> {
    let fd = check(unsafe { socket(AF_VSOCK, 1, 0) })?;
    let stream = unsafe { File::from_raw_fd(fd) };
    check(unsafe { connect(fd, &address(HOST, port), ADDRESS_LEN) })?;
    Ok(stream)
}

fn serve(port: u32, answer: fn(&mut File) -> io::Result<()>) {
    let listener = unsafe { socket(AF_VSOCK, 1, 0) };
    check(unsafe { bind(listener, &address(ANY, port), ADDRESS_LEN) }).unwrap();
    check(unsafe { listen(listener, 512) }).unwrap();
    thread::spawn(move || {
        loop {
            let null = std::ptr::null_mut();
            let fd = check(unsafe { accept(listener, null, null.cast()) }).unwrap();
            thread::spawn(move || {
                let mut stream = unsafe { File::from_raw_fd(fd) };
                let _ = answer(&mut stream);
            });
        }
    });
}

fn echo(stream: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => stream.write_all(&buffer[..count])?,
        }
    }
    unsafe { shutdown(stream.as_raw_fd(), 1) };
    Ok(())
}

fn discard(stream: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0u64;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => total += count as u64,
        }
    }
    stream.write_all(&total.to_le_bytes())
}

fn generate(stream: &mut File) -> io::Result<()> {
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    let mut left = u64::from_le_bytes(count);
    let buffer = vec![b'x'; 256 * 1024];
    while left > 0 {
        let some = left.min(buffer.len() as u64) as usize;
        left -= stream.write(&buffer[..some])? as u64;
    }
    Ok(())
}

/// Writes as many bytes to the second disk as were sent, and answers once the disk has them.
fn write_to_disk(stream: &mut File) -> io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let mut disk = File::options().write(true).open("/dev/vdb")?;
    disk.write_all(&bytes)?;
    disk.sync_all()?;
    stream.write_all(b"written")
}

fn sleep_for_ever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Calls port 5000 of the host so often that nobody there accepts them all, then says how many came through.
fn call_many() {
    let streams: Vec<_> = (0..50).map(|_| dial(5000)).collect();
    let made = streams.iter().filter(|stream| stream.is_ok()).count();
    println!("made {made} of 50 calls");
}

fn show_disks() {
    for disk in ["vda", "vdb"] {
        let mut start = [0; 8];
        let path = format!("/dev/{disk}");
        let mut file = File::open(&path).unwrap();
        file.read_exact(&mut start).unwrap();
        let size = fs::read_to_string(format!("/sys/block/{disk}/size")).unwrap();
        let write = |mut file: File| file.write_all(&start).and_then(|()| file.sync_all());
        let writable = File::options().write(true).open(&path).and_then(write).is_ok();
        let start = String::from_utf8_lossy(&start);
        println!("{disk}: {start:?}, {} sectors, writable: {writable}", size.trim());
    }
    let mut disk = File::options().write(true).open("/dev/vdb").unwrap();
    disk.write_all(b"written!").unwrap();
    disk.sync_all().unwrap();
}

fn main() {
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("devtmpfs", "/dev");
    let line = fs::read_to_string("/proc/cmdline").unwrap();
    let test = line.split_whitespace().find_map(|word| word.strip_prefix("test=")).unwrap();
    if test != "unresponsive" {
        load_modules();
    }
    println!("test {test}");
    match test {
        "poweroff" => {}
        "halt" => drop(unsafe { reboot(0xcdef0123u32 as c_int) }),
        "reboot" => drop(unsafe { reboot(0x01234567) }),
        "exit" => return,
        "crash" => fs::write("/proc/sysrq-trigger", "c").unwrap(),
        "disks" => show_disks(),
        "call-many" => call_many(),
        "chatter" => loop {
            println!("{}", "chatter ".repeat(100));
        },
        "silent" => {
            println!("never calls");
            sleep_for_ever();
        }
        "unresponsive" => sleep_for_ever(),
        "serve" => {
            serve(7, echo);
            serve(9, discard);
            serve(19, generate);
            serve(21, write_to_disk);
            let mut ready = dial(READY_PORT).unwrap();
            ready.write_all(b"ready\n").unwrap();
            let _ = ready.read(&mut [0]);
            sleep_for_ever();
        }
        other => println!("unknown test {other}"),
    }
    unsafe { reboot(0x4321fedc) };
}
