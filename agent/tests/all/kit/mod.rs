//! The real agent in rehearsal, and the driver's own client of it.

pub mod guest;

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use bytes::Bytes;
use vk_agent_client::{
    AgentClient, AgentError, ExecEvent, ExecHandle, ExecRequest, ExitStatus, ReadyListener, Stdin,
};

/// Nothing in these tests takes long on a healthy machine; what hangs must fail.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A running agent. Ends with its commands when dropped.
pub struct Rehearsal {
    pub client: AgentClient,
    pub socket: PathBuf,
    pub folder: tempfile::TempDir,
    agent: Child,
}

impl Rehearsal {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("vsock");
        let listener = ReadyListener::bind(&socket).unwrap();
        let agent = Command::new(env!("CARGO_BIN_EXE_vk-agent"))
            .arg("serve")
            .arg("--listen-unix")
            .arg(&socket)
            .args(options)
            .spawn()
            .unwrap();
        listener.ready(WAIT_LIMIT).await.unwrap();
        Self {
            client: AgentClient::new(&socket),
            socket,
            folder,
            agent,
        }
    }

    /// Runs `script` in bash to its end.
    pub async fn bash(&self, script: &str) -> Outcome {
        self.run(bash(script), Stdin::None).await.unwrap()
    }

    pub async fn run(&self, request: ExecRequest, stdin: Stdin) -> Result<Outcome, AgentError> {
        let mut handle = self.client.exec(request, stdin).await?;
        outcome(&mut handle).await
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
        // Only root can remove what is in folders that are read-only.
        if !nix::unistd::geteuid().is_root() {
            let folder = self.folder.path();
            let mut chmod = Command::new("chmod");
            chmod.args(["-R", "u+rwX"]).arg(folder).status().unwrap();
        }
    }
}

/// All that a command did.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    pub status: ExitStatus,
}

pub fn bash(script: &str) -> ExecRequest {
    command(&["bash", "-c", script])
}

pub fn command(argv: &[&str]) -> ExecRequest {
    ExecRequest {
        argv: argv.iter().map(Into::into).collect(),
        ..ExecRequest::default()
    }
}

pub fn input(text: &str) -> Stdin {
    Stdin::Bytes(Bytes::copy_from_slice(text.as_bytes()))
}

pub async fn outcome(handle: &mut ExecHandle) -> Result<Outcome, AgentError> {
    tokio::time::timeout(WAIT_LIMIT, collect(handle))
        .await
        .unwrap()
}

async fn collect(handle: &mut ExecHandle) -> Result<Outcome, AgentError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match handle.next_event().await? {
            ExecEvent::Stdout(bytes) => stdout.extend(bytes),
            ExecEvent::Stderr(bytes) => stderr.extend(bytes),
            ExecEvent::Exited(exited) => {
                return Ok(Outcome {
                    stdout: String::from_utf8_lossy(&stdout).into_owned(),
                    stderr: String::from_utf8_lossy(&stderr).into_owned(),
                    status: exited.status,
                });
            }
        }
    }
}

/// Waits until `handle`'s standard output has said `word`.
pub async fn await_word(handle: &mut ExecHandle, word: &str) {
    let mut seen = String::new();
    while !seen.contains(word) {
        let event = tokio::time::timeout(WAIT_LIMIT, handle.next_event())
            .await
            .unwrap()
            .unwrap();
        match event {
            ExecEvent::Stdout(bytes) => seen.push_str(&String::from_utf8_lossy(&bytes)),
            ExecEvent::Stderr(_) => {}
            ExecEvent::Exited(exited) => panic!("ended with {exited:?} before {word}: {seen}"),
        }
    }
}

/// Whether a process of this number lives (and is no zombie).
pub fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}
