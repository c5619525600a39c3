//! The files of `/etc` that belong to the machine, not to the image.

use super::error::{BootError, During};
use super::root::Root;

/// Writes host name, hosts and resolver configuration.
///
/// # Errors
///
/// [`BootError`] that names the file.
pub(super) fn write(root: &Root, hostname: &str) -> Result<(), BootError> {
    let files = [
        ("hostname", format!("{hostname}\n")),
        ("hosts", hosts(hostname)),
        // No network, no name servers.
        ("resolv.conf", String::new()),
    ];
    for (name, content) in files {
        root.write_etc(name, &content)
            .during(format_args!("writing /etc/{name}"))?;
    }
    root.mark_container()
        .during("marking the job's root as a container's")
}

/// Docker's lines, and this guest's name.
fn hosts(hostname: &str) -> String {
    format!(
        "127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         ff00::0\tip6-mcastprefix\n\
         ff02::1\tip6-allnodes\n\
         ff02::2\tip6-allrouters\n\
         127.0.1.1\t{hostname}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_names_this_guest_and_localhost() {
        let hosts = hosts("runner-1");

        assert!(hosts.contains("127.0.0.1\tlocalhost\n") && hosts.ends_with("\trunner-1\n"));
    }
}
