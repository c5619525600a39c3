//! Writes a script's body line by line, and the wrapper around it (gitlab-runner, build §2.1 and build §2.2).

use vk_text::quoted;

use super::quote::Quoting;

/// Begins what the runner shows in bold green (gitlab-runner, build §0.3).
pub(super) const BOLD_GREEN: &str = "\x1b[32;1m";

/// Ends a colour.
pub(super) const RESET: &str = "\x1b[0;m";

/// What follows a command under `FF_ENABLE_BASH_EXIT_CODE_CHECK` (gitlab-runner, build §2.8).
const EXIT_CODE_CHECK: &str =
    "_runner_exit_code=$?; if [ $_runner_exit_code -ne 0 ]; then exit $_runner_exit_code; fi";

/// What a script is written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Name of the shell in the first line.
    pub(super) shell: &'static str,
    pub(super) quoting: Quoting,
    /// Whether the shell's `echo` leaves backslashes alone, as bash's does and dash's does not.
    pub(super) plain_echo: bool,
    pub(super) check_exit_codes: bool,
    pub(super) legacy_eval: bool,
    pub(super) xtrace: bool,
}

/// The body of one script.
pub(super) struct Writer {
    dialect: Dialect,
    tmp_dir: String,
    body: String,
    depth: usize,
}

impl Writer {
    /// An empty body; `tmp_dir` is an absolute path.
    pub(super) fn new(dialect: Dialect, tmp_dir: &str) -> Self {
        Self {
            dialect,
            tmp_dir: tmp_dir.to_owned(),
            body: String::new(),
            depth: 0,
        }
    }

    /// The path of `name` in the folder for temporary files.
    pub(super) fn tmp_file(&self, name: &str) -> String {
        format!("{}/{name}", self.tmp_dir)
    }

    pub(super) fn quote(&self, text: &str) -> String {
        self.dialect.quoting.quote(text)
    }

    /// A line as it is; of several lines only the first is indented.
    pub(super) fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.body.push_str("  ");
        }
        self.body.push_str(line);
        self.body.push('\n');
    }

    /// A command of quoted words.
    pub(super) fn command(&mut self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|word| self.quote(word)).collect();
        self.line(&words.join(" "));
        self.check_exit_code();
    }

    /// A command whose arguments the shell expands: they stand in double quotes, unescaped.
    pub(super) fn command_expanding(&mut self, command: &str, arguments: &[&str]) {
        let mut line = self.quote(command);
        for argument in arguments {
            line.push_str(&format!(" \"{argument}\""));
        }
        self.line(&line);
        self.check_exit_code();
    }

    pub(super) fn check_exit_code(&mut self) {
        if self.dialect.check_exit_codes {
            self.line(EXIT_CODE_CHECK);
        }
    }

    /// A line that prints `text` in green.
    pub(super) fn notice(&mut self, text: &str) {
        let line = self.print(&format!("{BOLD_GREEN}{text}{RESET}"));
        self.line(&line);
    }

    /// A command that prints `text`.
    pub(super) fn print(&self, text: &str) -> String {
        let text = self.quote(text);
        if self.dialect.plain_echo {
            format!("echo {text}")
        } else {
            format!("printf '%s\\n' {text}")
        }
    }

    pub(super) fn export(&mut self, key: &str, value: &str) {
        let line = format!("export {}={}", self.quote(key), self.quote(value));
        self.line(&line);
    }

    /// Writes a file variable's content and exports its path.
    pub(super) fn export_file(&mut self, key: &str, content: &str) {
        self.make_tmp_dir();
        let path = quoted(&self.tmp_file(key));
        let content = self.quote(content);
        self.line(&format!("printf '%s' {content} > {path}"));
        let key = self.quote(key);
        self.line(&format!("export {key}={path}"));
    }

    /// Exports each line of the file `path`, which need not be there.
    pub(super) fn source_env(&mut self, path: &str) {
        let path = quoted(path);
        self.make_tmp_dir();
        self.line(&format!("touch {path}"));
        self.line(&format!(
            "while read -r line; do export \"$line\"; done < {path}"
        ));
    }

    fn make_tmp_dir(&mut self) {
        let line = format!("mkdir -p {}", quoted(&self.tmp_dir));
        self.line(&line);
    }

    /// `if [ -d path ]` around what `block` writes.
    pub(super) fn if_directory(&mut self, path: &str, block: impl FnOnce(&mut Self)) {
        self.line(&format!("if [ -d {} ]; then", quoted(path)));
        self.depth += 1;
        block(self);
        self.depth -= 1;
        self.line("fi");
    }

    pub(super) fn cd(&mut self, path: &str) {
        self.command(&["cd", path]);
    }

    pub(super) fn remove_file(&mut self, path: &str) {
        self.command_expanding("rm", &["-f", path]);
    }

    pub(super) fn remove_dir(&mut self, path: &str) {
        self.if_directory(path, |writer| {
            writer.command_expanding("chmod", &["-R", "u+rwX", path]);
        });
        self.command_expanding("rm", &["-r", "-f", path]);
    }

    /// Removes the files called `name` at any depth below `path`.
    pub(super) fn remove_files_below(&mut self, path: &str, name: &str) {
        self.find_below(path, name, "-type f -exec rm -f");
    }

    /// Removes the folders called `name` at any depth below `path`.
    pub(super) fn remove_dirs_below(&mut self, path: &str, name: &str) {
        self.find_below(path, name, "-type d -depth -exec rm -rf --");
    }

    fn find_below(&mut self, path: &str, name: &str, action: &str) {
        self.if_directory(path, |writer| {
            writer.line(&format!(
                "et='+' ; find /dev/null -exec true {{}} + 2>/dev/null || et=';' ; \
                 find {} -name {} {action} {{}} \"${{et}}\"",
                quoted(path),
                quoted(name),
            ));
        });
    }

    /// The whole script: the wrapper around the body.
    ///
    /// It is GitLab Runner's, but for one thing: there the body stands in the `eval` itself. bash prints the text of a
    /// command that a signal ended, so that a subshell killed alone (as by the kernel for want of memory) put the
    /// whole body with its secrets into the trace. Here the body is a parameter, gone before its first line runs.
    pub(super) fn finish(self) -> String {
        let body = self.quote(&self.body);
        let Dialect {
            shell,
            legacy_eval,
            xtrace,
            ..
        } = self.dialect;
        let xtrace = if xtrace { "set -o xtrace\n" } else { "" };
        let eval = if legacy_eval { LEGACY_EVAL } else { EVAL };
        format!(
            "#!/usr/bin/env {shell}\n\n\
             trap 'exit 1' TERM\n\n\
             set -- {body}\n\
             {xtrace}\
             case \"$(set -o)\" in *\"pipefail\"*) set -o pipefail;; esac; set -o errexit\n\
             set +o noclobber\n\
             {eval}\n\
             exit 0\n"
        )
    }
}

/// Runs the body in a subshell that ends on TERM, with nothing to read.
const EVAL: &str = "(trap 'exit 1' TERM; eval \"shift;$1\") < /dev/null";

/// The same under `FF_USE_LEGACY_BASH_EVAL`.
const LEGACY_EVAL: &str = ": | eval \"shift;$1\"";

/// `script` as GitLab Runner writes it, with the body in the `eval`.
#[cfg(test)]
pub(super) fn as_by_gitlab_runner(script: &str) -> String {
    let (head, rest) = script.split_once("set -- ").unwrap();
    let eval_at = rest.rfind("eval \"shift;$1\"").unwrap();
    let body_end = rest[..eval_at]
        .rfind("case \"$(set -o)\"")
        .map(|at| at - usize::from(rest[..at].ends_with("set -o xtrace\n")) * 14)
        .unwrap();
    let body = rest[..body_end].strip_suffix('\n').unwrap();
    let eval = rest[body_end..].replace("\"shift;$1\"", body);
    format!("{head}{eval}")
}
