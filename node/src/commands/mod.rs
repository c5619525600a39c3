//! The commands, a file each.

pub(crate) mod check;
pub(crate) mod gitlab_run;
pub(crate) mod image;
pub(crate) mod run;

/// Reads `KEY=VALUE`, text.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Checks the name of a platform.
fn parse_platform(text: &str) -> Result<String, String> {
    vk_oci::check_platform(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}
