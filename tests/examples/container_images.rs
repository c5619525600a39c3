//! Writes the images of `container_images` into a folder, as `docker load` takes them, and a table of what to run in them:
//! image, user, arguments. For `tests/container/record`.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use vk_tests::container_images::{LOOKED_AT, write_archive};

fn main() -> anyhow::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.context("usage: container_images FOLDER")?;
    let mut runs = String::new();
    for looked in LOOKED_AT {
        let file = folder.join(format!("{}.tar", looked.name));
        write_archive(
            &looked.image(),
            &format!("looked-at:{}", looked.name),
            &file,
        );
        for user in looked.users {
            let shown = if user.is_empty() { "-" } else { user };
            runs.push_str(&format!(
                "{}\t{shown}\t{}\n",
                looked.name,
                looked.argv().join(" ")
            ));
        }
    }
    fs::write(folder.join("runs"), runs).context("cannot write the table of runs")
}
