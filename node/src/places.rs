//! Where things are on this host, as its environment says.

use std::path::{Path, PathBuf};

use vk_http::Proxies;

/// Environment variable that names the state folder.
const STATE_DIR: &str = "VK_STATE_DIR";

/// Environment variable that names the folder of guest images.
const IMAGES_DIR: &str = "VK_IMAGES_DIR";

/// The kernel among the guest images: where it is, the others are.
const KERNEL: &str = "vmlinux";

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// The state folder used when nobody names one: `$VK_STATE_DIR`, else `$XDG_STATE_HOME/vk`, else `$HOME/.local/state/vk`,
/// else `/var/lib/vk`. Variables that are empty count as unset, relative paths in `XDG_STATE_HOME` and `HOME` too (XDG
/// Base Directory Specification 0.8).
pub(crate) fn state_dir() -> PathBuf {
    choose_state_dir(variable)
}

fn choose_state_dir(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    variable(STATE_DIR)
        .filter(|path| !path.as_os_str().is_empty())
        .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("vk")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/vk")))
        .unwrap_or_else(|| PathBuf::from("/var/lib/vk"))
}

/// The folder of guest images used when nobody names one: `$VK_IMAGES_DIR`, else the first usual place that has them.
pub(crate) fn images_dir() -> PathBuf {
    variable(IMAGES_DIR)
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or_else(|| choose_images_dir(std::env::current_exe().ok().as_deref()))
}

/// In the source tree that `command` was built in (`target/release/vk`), else where a package puts them (`bin/vk` and
/// `lib/vk/images`).
fn choose_images_dir(command: Option<&Path>) -> PathBuf {
    let place = |above: usize, folder: &str| Some(command?.ancestors().nth(above)?.join(folder));
    let built = place(3, "images/out");
    let packaged = place(2, "lib/vk/images");
    [&built, &packaged]
        .into_iter()
        .flatten()
        .find(|folder| folder.join(KERNEL).is_file())
        .or(built.as_ref())
        .cloned()
        .unwrap_or_else(|| PathBuf::from("images/out"))
}

/// The configuration used when nobody names one: `$XDG_CONFIG_HOME/vk/config.toml`, else `~/.config/vk/config.toml` (XDG
/// Base Directory Specification 0.8: relative paths are ignored).
pub(crate) fn config_file() -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("vk/config.toml"))
}

/// Docker's configuration: in `$DOCKER_CONFIG`, else in `~/.docker`.
pub(crate) fn docker_config() -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    let folder = given("DOCKER_CONFIG").or_else(|| Some(given("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}

/// The proxies that this host's programs use.
pub(crate) fn proxies() -> Proxies {
    Proxies::of(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_dir(set: &[(&str, &str)]) -> PathBuf {
        choose_state_dir(|name| {
            let value = set.iter().find(|(key, _)| *key == name)?.1;
            Some(PathBuf::from(value))
        })
    }

    #[test]
    fn state_folder_is_the_first_that_the_environment_names() {
        let home = ("HOME", "/home/jo");
        let xdg = ("XDG_STATE_HOME", "/xdg");
        let own = ("VK_STATE_DIR", "here");

        assert_eq!(state_dir(&[home, xdg, own]), Path::new("here"));
        assert_eq!(state_dir(&[home, xdg]), Path::new("/xdg/vk"));
        assert_eq!(state_dir(&[home]), Path::new("/home/jo/.local/state/vk"));
        assert_eq!(state_dir(&[]), Path::new("/var/lib/vk"));
        assert_eq!(
            state_dir(&[("VK_STATE_DIR", ""), ("XDG_STATE_HOME", "relative"), home]),
            Path::new("/home/jo/.local/state/vk")
        );
    }

    #[test]
    fn guest_images_are_in_the_source_tree_or_the_package_that_has_them() {
        let root = tempfile::tempdir().unwrap();
        let command = root.path().join("usr/bin/vk");
        let packaged = root.path().join("usr/lib/vk/images");
        let built = root.path().join("images/out");

        assert_eq!(choose_images_dir(Some(&command)), built);
        std::fs::create_dir_all(&packaged).unwrap();
        std::fs::write(packaged.join(KERNEL), "").unwrap();
        assert_eq!(choose_images_dir(Some(&command)), packaged);
        std::fs::create_dir_all(&built).unwrap();
        std::fs::write(built.join(KERNEL), "").unwrap();
        assert_eq!(choose_images_dir(Some(&command)), built);
    }
}
