//! What the job's own git in the guest needs: a config file and the token, both below `<project>.tmp`, so that
//! `git fetch` in a script can authenticate, in submodules too.
//!
//! GitLab Runner's external config has the token in URLs (gitlab-runner, build §3.4.1); here a credential helper reads
//! it, as under `FF_GIT_URLS_WITHOUT_TOKENS` (gitlab-runner, build §3.6). Nothing below the project folder names the
//! token, so that it cannot end up in an artifact or a cache.

use std::io;

use tar::{EntryType, Header};

use super::credential::{answer, helper};
use super::error::CheckoutError;
use super::request::CheckoutRequest;
use super::settings::{Scoped, scopes};

/// Name of the config file below `<project>.tmp`: GitLab Runner's.
pub const GUEST_CONFIG: &str = ".gitlab-runner.ext.conf";

/// Name of the file below `<project>.tmp` that holds the helper's answer.
pub const GUEST_CREDENTIAL: &str = ".vk-git-credential";

/// Both files as a tar stream for `tmp_dir`, the guest's `<project>.tmp`; only their owner may read them.
/// `ca_file` is the guest's copy of the server's certificates.
///
/// # Errors
///
/// As [`super::checkout`], for what it refuses in the request.
pub fn guest_files(
    request: &CheckoutRequest<'_>,
    tmp_dir: &str,
    ca_file: Option<&str>,
) -> Result<Vec<u8>, CheckoutError> {
    let credential = format!("{tmp_dir}/{GUEST_CREDENTIAL}");
    let answer = answer(request.token)?;
    let ssh = request.submodules.and_then(|wanted| wanted.force_https);
    let scoped = Scoped {
        scopes: scopes(&[&request.sources.repo_url, request.server_url]),
        helper: answer.is_some().then(|| helper(&credential)),
        correlation_id: request.correlation_id,
        ca_file,
        force_https: ssh.map(|ssh| (ssh, request.server_url)),
    };
    let mut tar = tar::Builder::new(Vec::new());
    let packed = append(&mut tar, GUEST_CONFIG, scoped.render().as_bytes())
        .and_then(|()| match &answer {
            Some(answer) => append(&mut tar, GUEST_CREDENTIAL, answer.as_bytes()),
            None => Ok(()),
        })
        .and_then(|()| tar.into_inner());
    packed.map_err(CheckoutError::io("pack files for", tmp_dir.as_ref()))
}

fn append(tar: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, name, content)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use vk_hub_proto::job::Sources;

    use super::*;
    use crate::request::{SshServer, Strategy, Submodules};

    /// The files unpacked at `tmp_dir`.
    fn unpack(tmp_dir: &Path, token: &str) {
        let sources = Sources {
            repo_url: "https://gitlab.example.com:8443/g/p.git".into(),
            ..Sources::default()
        };
        let request = CheckoutRequest {
            sources: &sources,
            local_repo: None,
            server_url: "https://gitlab.example.com/",
            token,
            ca_pem: None,
            strategy: Strategy::Fetch,
            retry: false,
            checkout: true,
            lfs: true,
            clean_flags: None,
            fetch_flags: &[],
            submodules: Some(Submodules {
                recursive: true,
                depth: 0,
                paths: &[],
                update_flags: &[],
                force_https: Some(SshServer {
                    host: "ssh.example.com",
                    port: 22,
                }),
            }),
            correlation_id: Some("01CORR"),
            environment: &[],
            user_agent: "vk",
            work_dir: Path::new("/nonexistent"),
            guest_project_dir: "/builds/g/p",
            guest_config: None,
            cache: None,
            max_tree_bytes: 0,
            max_alloc_bytes: CheckoutRequest::MAX_ALLOC_BYTES,
            stall_after: Duration::ZERO,
        };
        let tar = guest_files(&request, tmp_dir.to_str().unwrap(), Some("/ca.pem")).unwrap();
        tar::Archive::new(tar.as_slice()).unpack(tmp_dir).unwrap();
    }

    fn git(tmp_dir: &Path, arguments: &[&str], input: &str) -> (bool, String) {
        let mut git = Command::new("git")
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", tmp_dir.join(GUEST_CONFIG))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env_remove("GIT_ASKPASS")
            .env_remove("SSH_ASKPASS")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let written = git.stdin.take().unwrap().write_all(input.as_bytes());
        written.unwrap();
        let output = git.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    }

    /// gitlab-runner, build §3.6.
    #[test]
    fn the_token_is_told_for_the_servers_hosts_and_for_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let tmp_dir = folder.path().join("it's a \"$HOME\" dir.tmp");
        std::fs::create_dir(&tmp_dir).unwrap();
        unpack(&tmp_dir, "tok-1");
        let ask = |host: &str| {
            let question = format!("protocol=https\nhost={host}\npath=x/y.git\n\n");
            git(&tmp_dir, &["credential", "fill"], &question)
        };

        for host in ["gitlab.example.com", "gitlab.example.com:8443"] {
            let (is_answered, answer) = ask(host);
            assert!(is_answered, "{host}");
            assert!(
                answer.contains("username=gitlab-ci-token\npassword=tok-1\n"),
                "{answer}"
            );
        }
        for host in [
            "example.com",
            "gitlab.example.com.evil.org",
            "gitlab.example.com:22",
        ] {
            assert!(!ask(host).0, "{host}");
        }
    }

    #[test]
    fn only_the_owner_reads_them_and_the_config_does_not_have_the_token() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        unpack(folder.path(), "tok-1");

        for name in [GUEST_CONFIG, GUEST_CREDENTIAL] {
            let file = std::fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        }
        let config = std::fs::read_to_string(folder.path().join(GUEST_CONFIG)).unwrap();
        assert!(!config.contains("tok-1"), "{config}");
    }

    /// gitlab-runner, build §3.4.1.
    #[test]
    fn the_servers_certificates_ssh_address_and_correlation_id_are_told() {
        let folder = tempfile::tempdir().unwrap();
        unpack(folder.path(), "tok-1");
        let get = |key: &str| git(folder.path(), &["config", key], "").1;

        let http = "http.https://gitlab.example.com";
        assert_eq!(get(&format!("{http}.sslCAInfo")), "/ca.pem\n");
        assert_eq!(
            get(&format!("{http}.extraHeader")),
            "X-Gitaly-Correlation-ID: 01CORR\n"
        );
        assert_eq!(
            get("url.https://gitlab.example.com/.insteadOf"),
            "git@ssh.example.com:\n"
        );
    }

    #[test]
    fn without_a_token_there_is_no_helper_and_no_answer() {
        let folder = tempfile::tempdir().unwrap();

        unpack(folder.path(), "");

        assert!(!folder.path().join(GUEST_CREDENTIAL).exists());
        let key = "credential.https://gitlab.example.com.helper";
        assert!(!git(folder.path(), &["config", key], "").0);
    }
}
