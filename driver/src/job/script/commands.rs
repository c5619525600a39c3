//! The user's commands: each is shown, then run (gitlab-runner, build §2.6 and build §2.7).

use super::writer::{BOLD_GREEN, RESET, Writer};

/// How the commands of one list are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandStyle {
    /// Whether a multi-line command gets a section that shows the whole of it.
    pub(super) sections: bool,
    /// What the list is called in its sections' names.
    pub(super) prefix: &'static str,
}

/// Writes `commands` in order.
pub(super) fn write_commands(writer: &mut Writer, commands: &[String], style: CommandStyle) {
    for (position, command) in commands.iter().enumerate() {
        let command = command.trim();
        match command.split_once('\n') {
            _ if command.is_empty() => writer.line("echo"),
            None => writer.notice(&format!("$ {command}")),
            Some(_) if style.sections => {
                write_section(writer, command, &format!("{}_{position}", style.prefix));
            }
            Some((first, _)) => {
                writer.notice(&format!("$ {first} # collapsed multi-line command"));
            }
        }
        writer.line(command);
        writer.check_exit_code();
    }
}

/// A section that holds the command's text alone; what the command prints follows it.
fn write_section(writer: &mut Writer, command: &str, name: &str) {
    const NOW: &str = "$(awk 'BEGIN{srand(); print srand()}')";
    let title = format!("{BOLD_GREEN}$ {command}{RESET}");
    let title = writer.quote(&title);
    writer.line(&format!(
        "printf '%b\\n' section_start:{NOW}:section_{name}\
         [hide_duration=true,collapsed=true]\r\x1b[0K{title}"
    ));
    writer.line(&format!(
        "printf '%b\\n' section_end:{NOW}:section_{name}\r\x1b[0K"
    ));
}
