//! When a command is told to end, when it is over: decisions only.
//!
//! A command is over when its **main process** has ended, whatever still holds its pipes. What others wrote
//! until then, and during a short grace after, still counts; then everything is killed. Who left its cgroup may
//! survive that and write for ever, so there is one moment, which nothing puts off, when the pipes are read a
//! last time.

use std::time::{Duration, Instant};

use vk_agent_proto::ExitStatus;

/// How long what a finished command left running may go on writing. Enough for a process that only has its
/// last lines to write; short, since every job with a left-over waits for it.
const LATE_GRACE: Duration = Duration::from_millis(200);

/// How long after everything was killed the pipes are read a last time, if they are still open. Only a process
/// that left its cgroup keeps them open that long.
const DRY_AFTER: Duration = Duration::from_millis(500);

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The main process ended.
    MainEnded(ExitStatus),
    /// Standard output and error were both closed by all who had them.
    StreamsEnded,
    /// The host asks for a graceful end.
    Cancel,
    /// The host asks for an end at once.
    Kill,
    /// The host is gone; nobody reads the output any more.
    HostGone,
    /// Nothing but time.
    Tick,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send TERM to the main process's group.
    Terminate,
    /// Send KILL to everything the command started.
    KillAll,
    /// Send what the pipes hold, at the host's pace and no more than they can hold, and then close them.
    DrainPipes,
    /// Report this status: the command is over.
    Finish(ExitStatus),
}

/// The state of one command.
#[derive(Debug)]
pub(super) struct Lifecycle {
    grace: Duration,
    status: Option<ExitStatus>,
    streams_open: bool,
    host_gone: bool,
    cancelled: bool,
    killed: bool,
    draining: bool,
    finished: bool,
    deadline: Option<Instant>,
}

impl Lifecycle {
    /// A command that just started and gets `grace` between TERM and KILL.
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            status: None,
            streams_open: true,
            host_gone: false,
            cancelled: false,
            killed: false,
            draining: false,
            finished: false,
            deadline: None,
        }
    }

    /// When a [`Event::Tick`] is due at the latest; none while only events matter.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Takes in an event.
    pub(super) fn handle(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.finished {
            return effects;
        }
        match event {
            Event::MainEnded(status) => {
                self.status = Some(status);
                self.deadline = Some(now + if self.killed { DRY_AFTER } else { LATE_GRACE });
            }
            Event::StreamsEnded => self.streams_open = false,
            Event::Cancel => {
                if !self.cancelled && !self.killed && self.status.is_none() {
                    self.cancelled = true;
                    self.deadline = now.checked_add(self.grace);
                    effects.push(Effect::Terminate);
                }
            }
            Event::Kill => self.kill_all(&mut effects),
            Event::HostGone => {
                self.host_gone = true;
                self.kill_all(&mut effects);
            }
            Event::Tick => self.tick(now, &mut effects),
        }
        self.settle(now, &mut effects);
        effects
    }

    fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        if !self.killed {
            self.kill_all(effects);
            if self.status.is_some() {
                self.deadline = Some(now + DRY_AFTER);
            }
        } else if self.status.is_some() && self.streams_open && !self.draining {
            self.draining = true;
            self.deadline = None;
            effects.push(Effect::DrainPipes);
        }
    }

    fn kill_all(&mut self, effects: &mut Vec<Effect>) {
        if !self.killed {
            self.killed = true;
            self.deadline = None;
            effects.push(Effect::KillAll);
        }
    }

    fn settle(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let Some(status) = self.status else {
            return;
        };
        if self.streams_open && !self.host_gone {
            if self.killed && self.deadline.is_none() && !self.draining {
                self.deadline = Some(now + DRY_AFTER);
            }
            return;
        }
        self.kill_all(effects);
        self.finished = true;
        effects.push(Effect::Finish(status));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OK: ExitStatus = ExitStatus::Code(0);
    const GRACE: Duration = Duration::from_secs(10);

    struct Run {
        lifecycle: Lifecycle,
        start: Instant,
    }

    impl Run {
        fn new() -> Self {
            Self {
                lifecycle: Lifecycle::new(GRACE),
                start: Instant::now(),
            }
        }

        fn at(&mut self, ms: u64, event: Event) -> Vec<Effect> {
            self.lifecycle
                .handle(self.start + Duration::from_millis(ms), event)
        }
    }

    #[test]
    fn ends_when_main_process_and_streams_have_ended_in_either_order() {
        let mut run = Run::new();
        assert_eq!(run.at(0, Event::StreamsEnded), []);
        assert_eq!(
            run.at(1, Event::MainEnded(OK)),
            [Effect::KillAll, Effect::Finish(OK)]
        );

        let mut run = Run::new();
        assert_eq!(run.at(0, Event::MainEnded(OK)), []);
        assert_eq!(
            run.at(1, Event::StreamsEnded),
            [Effect::KillAll, Effect::Finish(OK)]
        );
    }

    #[test]
    fn closed_streams_do_not_end_a_command() {
        let mut run = Run::new();

        assert_eq!(run.at(0, Event::StreamsEnded), []);
        assert_eq!(run.at(3_600_000, Event::Tick), []);
        assert_eq!(run.lifecycle.deadline(), None);
    }

    #[test]
    fn a_remaining_process_that_holds_the_streams_is_killed_after_a_short_grace() {
        let mut run = Run::new();
        assert_eq!(run.at(0, Event::MainEnded(OK)), []);
        assert_eq!(run.at(199, Event::Tick), []);
        assert_eq!(run.at(200, Event::Tick), [Effect::KillAll]);

        assert_eq!(run.at(201, Event::StreamsEnded), [Effect::Finish(OK)]);
    }

    #[test]
    fn nothing_puts_off_the_last_reading_when_a_process_escaped_with_the_streams() {
        let mut run = Run::new();
        run.at(0, Event::MainEnded(OK));
        run.at(200, Event::Tick);

        assert_eq!(run.at(699, Event::Tick), []);
        assert_eq!(run.at(700, Event::Tick), [Effect::DrainPipes]);
        assert_eq!(run.lifecycle.deadline(), None);
        assert_eq!(run.at(60_000, Event::Tick), []);
        assert_eq!(run.at(60_001, Event::StreamsEnded), [Effect::Finish(OK)]);
    }

    #[test]
    fn cancel_terminates_then_kills_after_the_grace() {
        let mut run = Run::new();
        assert_eq!(run.at(0, Event::Cancel), [Effect::Terminate]);
        assert_eq!(run.at(5, Event::Cancel), []);
        assert_eq!(run.at(9_999, Event::Tick), []);

        assert_eq!(run.at(10_000, Event::Tick), [Effect::KillAll]);
    }

    #[test]
    fn a_cancelled_command_that_obeys_ends_as_any_other() {
        let mut run = Run::new();
        run.at(0, Event::Cancel);
        run.at(50, Event::MainEnded(ExitStatus::Signal(15)));

        assert_eq!(run.at(250, Event::Tick), [Effect::KillAll]);
        assert_eq!(
            run.at(251, Event::StreamsEnded),
            [Effect::Finish(ExitStatus::Signal(15))]
        );
    }

    #[test]
    fn kill_is_at_once_and_cuts_a_cancel_short() {
        let mut run = Run::new();
        run.at(0, Event::Cancel);

        assert_eq!(run.at(1, Event::Kill), [Effect::KillAll]);
        assert_eq!(run.at(2, Event::Cancel), []);
    }

    #[test]
    fn without_a_host_the_end_of_the_main_process_is_enough() {
        let mut run = Run::new();
        assert_eq!(run.at(0, Event::HostGone), [Effect::KillAll]);

        assert_eq!(
            run.at(5, Event::MainEnded(ExitStatus::Signal(9))),
            [Effect::Finish(ExitStatus::Signal(9))]
        );
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::StreamsEnded),
            Just(Event::Cancel),
            Just(Event::Kill),
            Just(Event::HostGone),
            Just(Event::Tick),
        ]
    }

    proptest! {
        /// Whatever comes when, a main process that has ended ends the command in bounded time, once, with its
        /// own status, and never before everything was killed.
        #[test]
        fn every_story_has_one_end(
            before in proptest::collection::vec((0u64..20_000, any_event()), 0..12),
            after in proptest::collection::vec((0u64..300, any_event()), 0..12),
        ) {
            let mut run = Run::new();
            let mut ms = 0;
            let mut effects = Vec::new();
            for (pause, event) in before {
                ms += pause;
                effects.extend(run.at(ms, event));
            }
            prop_assert!(!effects.contains(&Effect::Finish(OK)));
            effects.extend(run.at(ms, Event::MainEnded(OK)));
            for (pause, event) in after {
                ms += pause;
                effects.extend(run.at(ms, event));
            }
            for _ in 0..2 {
                ms += 500;
                effects.extend(run.at(ms, Event::Tick));
            }
            if effects.contains(&Effect::DrainPipes) {
                effects.extend(run.at(ms, Event::StreamsEnded));
            }

            let finishes = effects.iter().filter(|effect| **effect == Effect::Finish(OK)).count();
            let kills = effects.iter().filter(|effect| **effect == Effect::KillAll).count();
            prop_assert_eq!((finishes, kills), (1, 1));
            prop_assert_eq!(effects.last(), Some(&Effect::Finish(OK)));
        }
    }
}
