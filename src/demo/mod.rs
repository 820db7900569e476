//! `headcount demo`: a cluster's life in one process.
//!
//! The real service runs over a simulated cloud. An imitation of the Cluster Autoscaler's loop calls it for pods that
//! come and go, and keys or a script make things happen (`scene`). `stage` collects what everybody says: each line of
//! Headcount's report, and beside it what the in-tree provider's published rules come to, where that differs
//! (`in_tree`). `page` shows it on a terminal, `text` anywhere else.

mod autoscaler;
mod in_tree;
mod line;
mod nodes;
mod page;
mod pods;
mod report;
mod scene;
mod stage;
#[cfg(test)]
mod tests;
mod text;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tonic::service::Routes;

use crate::clouds::simulated::Simulated;
use crate::fleet::Fleet;
use autoscaler::Autoscaler;
pub use nodes::{NodeRegistrar, taint};
use page::Page;
use scene::SCENES;
use stage::Stage;
use text::Text;

/// How often the demo looks at everything.
const TICK: Duration = Duration::from_millis(100);
/// How many messages between the parts of the demo wait.
const WAITING_MAX: usize = 256;

/// The parts that the demo plays with. All are real but the cloud.
pub struct Demo {
    /// The simulated cloud.
    pub cloud: Arc<Simulated>,
    /// The fleet over it, which has been read once.
    pub fleet: Arc<Fleet>,
    /// The service of the fleet.
    pub service: Routes,
    /// Where a person finds the service and the status page, for the heading.
    pub addresses: String,
}

impl Demo {
    /// Plays it as a page on the terminal, until a key ends it.
    pub async fn play_on_terminal(self) -> io::Result<()> {
        let page = Page::open(&self.addresses)?;
        self.play(|stage| on_terminal(stage, page)).await
    }

    /// Plays the script, and writes it as lines.
    pub async fn play_as_text(self, output: impl io::Write) -> io::Result<()> {
        let text = Text::begin(output, &self.addresses)?;
        self.play(|stage| as_text(stage, text)).await
    }

    async fn play<F: Future<Output = io::Result<()>>>(self, show: impl FnOnce(Stage) -> F) -> io::Result<()> {
        let Self { cloud, fleet, service, .. } = self;
        let (said, hears) = mpsc::channel(WAITING_MAX);
        let (changes, changed) = mpsc::channel(WAITING_MAX);
        let autoscaler = Autoscaler::new(service, Arc::clone(&cloud), said);
        tokio::select! {
            shown = show(Stage::new(cloud, fleet, hears, changes)) => shown,
            // It ends only when the stage is gone.
            () = autoscaler.run(changed) => Ok(()),
        }
    }
}

async fn on_terminal(mut stage: Stage, mut page: Page) -> io::Result<()> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        stage.step().await;
        page.draw(&stage)?;
        for key in page.keys()? {
            match key {
                page::Key::Quit => return Ok(()),
                page::Key::Letter('p') => stage.play_script(),
                page::Key::Letter(letter) => {
                    if let Some(scene) = SCENES.iter().find(|scene| scene.key == letter) {
                        stage.play(scene);
                    }
                }
            }
        }
    }
}

async fn as_text(mut stage: Stage, mut text: Text<impl io::Write>) -> io::Result<()> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stage.play_script();
    while !stage.is_over() {
        ticks.tick().await;
        stage.step().await;
        text.show(&mut stage)?;
    }
    stage.end();
    text.show(&mut stage)
}
