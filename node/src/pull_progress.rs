//! A pull's progress on standard error: a bar for each layer on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use vk_oci::Digest;
use vk_oci::PullEvent;
use vk_text::chain;

use crate::log::print_error;

/// How often a line tells how far a download is.
const LINES: Duration = Duration::from_secs(10);

/// How often the spinner of a step without a bar moves.
const TICK: Duration = Duration::from_millis(120);

/// Most bars that are drawn: a terminal has some 24 lines. The last one is for all layers that have none of their own.
const MAX_BARS: usize = 16;

/// Shows a pull's events.
pub(crate) struct PullProgress {
    shown: Mutex<Shown>,
    /// Whether there is another policy to try: a failure is told by the error at the end, too.
    tries_several: AtomicBool,
}

/// The bars of a download.
#[derive(Default)]
struct Layers {
    bars: Vec<ProgressBar>,
    /// By layer, in bytes.
    received: Vec<u64>,
}

enum Shown {
    Bars {
        screen: MultiProgress,
        /// A step without a bar.
        step: Option<ProgressBar>,
        layers: Layers,
    },
    Lines {
        received: Vec<u64>,
        total: u64,
        last: Instant,
    },
}

impl PullProgress {
    /// Bars if standard error is a terminal, lines if not.
    pub(crate) fn new() -> Self {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Bars {
                screen: MultiProgress::new(),
                step: None,
                layers: Layers::default(),
            }
        } else {
            Shown::Lines {
                received: Vec::new(),
                total: 0,
                last: Instant::now(),
            }
        };
        Self {
            shown: Mutex::new(shown),
            tries_several: AtomicBool::new(false),
        }
    }

    /// Shows `event`.
    pub(crate) fn show(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Policies(policies) => {
                self.tries_several
                    .store(policies.len() > 1, Ordering::Relaxed);
            }
            PullEvent::Failed { .. } if !self.tries_several.load(Ordering::Relaxed) => return,
            _ => {}
        }
        match &mut *self.shown() {
            Shown::Bars {
                screen,
                step,
                layers,
            } => draw(event, screen, step, layers),
            Shown::Lines {
                received,
                total,
                last,
            } => tell(event, received, total, last),
        }
    }

    /// Takes bars away.
    pub(crate) fn clear(&self) {
        if let Shown::Bars {
            screen,
            step,
            layers,
        } = &mut *self.shown()
        {
            take_away(step, layers);
            // A closed terminal needs no clearing.
            let _ = screen.clear();
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PullProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn take_away(step: &mut Option<ProgressBar>, layers: &mut Layers) {
    for bar in step.take().into_iter().chain(layers.bars.drain(..)) {
        bar.finish_and_clear();
    }
}

impl Layers {
    fn new(screen: &MultiProgress, parts: &[(Digest, u64)]) -> Self {
        let own = if parts.len() > MAX_BARS {
            MAX_BARS - 1
        } else {
            parts.len()
        };
        let (own, others) = parts.split_at(own);
        let name = |digest: &Digest| digest.hex().get(..12).unwrap_or_default().to_owned();
        let mut bars: Vec<_> = own
            .iter()
            .map(|(digest, size)| bar(screen, *size, name(digest)))
            .collect();
        if !others.is_empty() {
            let size = others.iter().map(|(_, size)| size).sum();
            bars.push(bar(screen, size, format!("{} more", others.len())));
        }
        Self {
            bars,
            received: vec![0; parts.len()],
        }
    }

    fn received(&mut self, layer: usize, bytes: u64) {
        if let Some(received) = self.received.get_mut(layer) {
            *received = bytes;
        }
        let last = self.bars.len().saturating_sub(1);
        if let Some(bar) = self.bars.get(layer.min(last)) {
            let position = if layer < last {
                bytes
            } else {
                self.received.iter().skip(last).sum()
            };
            bar.set_position(position);
        }
    }
}

fn bar(screen: &MultiProgress, size: u64, name: String) -> ProgressBar {
    let bar = screen.add(ProgressBar::new(size).with_message(name));
    let template = "{msg:12} [{bar:40}] {bytes:>12} of {total_bytes:<12}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.tick();
    bar
}

fn draw(
    event: &PullEvent<'_>,
    screen: &MultiProgress,
    step: &mut Option<ProgressBar>,
    layers: &mut Layers,
) {
    let spin = |message: String| {
        let bar = screen.add(ProgressBar::new_spinner().with_message(message));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Some(bar)
    };
    match event {
        PullEvent::Warning(_) | PullEvent::Failed { .. } => {
            take_away(step, layers);
            if let Some(line) = line(event) {
                screen.suspend(|| print_error(&line));
            }
        }
        PullEvent::Layers(parts) => {
            take_away(step, layers);
            *layers = Layers::new(screen, parts);
        }
        PullEvent::Received { layer, bytes } => layers.received(*layer, *bytes),
        _ => {
            if let Some(line) = line(event) {
                take_away(step, layers);
                *step = spin(line);
            }
        }
    }
}

fn tell(event: &PullEvent<'_>, received: &mut Vec<u64>, total: &mut u64, last: &mut Instant) {
    match event {
        PullEvent::Received { layer, bytes } => {
            if let Some(known) = received.get_mut(*layer) {
                *known = *bytes;
            }
            if last.elapsed() >= LINES {
                *last = Instant::now();
                let sum = received.iter().sum();
                print_error(&format!("{} of {}", HumanBytes(sum), HumanBytes(*total)));
            }
        }
        PullEvent::Layers(parts) => {
            *received = vec![0; parts.len()];
            *total = parts.iter().map(|(_, size)| size).sum();
            *last = Instant::now();
        }
        _ => {}
    }
    if let Some(line) = line(event) {
        print_error(&line);
    }
}

/// An event in words; `None` for those that need none.
fn line(event: &PullEvent<'_>) -> Option<String> {
    Some(match event {
        PullEvent::Attempt { number, policy } => {
            format!("attempt #{number}: trying the pull policy {policy}")
        }
        PullEvent::Login { source } => format!("logging in with credentials from {source}"),
        PullEvent::Warning(warning) => format!("warning: {warning}"),
        PullEvent::Pulling {
            reference,
            platform: Some(platform),
        } => format!("pulling {reference} for platform {platform}"),
        PullEvent::Pulling { reference, .. } => format!("pulling {reference}"),
        PullEvent::Resolved(digest) => format!("it is {digest}"),
        PullEvent::Found(policy) => format!("this host has it; policy {policy}"),
        PullEvent::Present => "this host has it".to_owned(),
        PullEvent::Waiting => "waiting for another vk that pulls it".to_owned(),
        PullEvent::Layers(parts) => {
            let total = parts.iter().map(|(_, size)| size).sum();
            format!("downloading {} layers, {}", parts.len(), HumanBytes(total))
        }
        PullEvent::Storing => "writing it to disk".to_owned(),
        PullEvent::Failed { policy, cause } => {
            format!("failed with the pull policy {policy}: {}", chain(*cause))
        }
        _ => return None,
    })
}
