//! Kernel modules, in the order that the initramfs lists them.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::error::{BootError, During, failed};

/// Loads the modules that `order` lists from `folder`, as [`vk_agent_proto::boot::MODULES_ORDER`] describes.
/// No list means a kernel that has everything built in.
///
/// # Errors
///
/// [`BootError`] that names the module.
pub(super) fn load(order: &Path, folder: &Path) -> Result<(), BootError> {
    let list = match fs::read_to_string(order) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).during(format_args!("reading {}", order.display())),
    };
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, parameters) = line.split_once(' ').unwrap_or((line, ""));
        if name.contains('/') {
            return Err(failed("loading kernel modules", format!("odd name {name}")));
        }
        load_one(&folder.join(name), parameters)
            .during(format_args!("loading kernel module {name}"))?;
    }
    Ok(())
}

fn load_one(path: &Path, parameters: &str) -> io::Result<()> {
    let parameters = CString::new(parameters)?;
    let file = File::open(path)?;
    match finit_module(&file, &parameters, ModuleInitFlags::empty()) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
