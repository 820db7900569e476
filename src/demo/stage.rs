//! The stage: it makes things happen, and collects what everybody says about them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use super::autoscaler::{Said, What};
use super::in_tree::InTree;
use super::line::{Line, Speaker};
use super::pods::PodCounts;
use super::report::Report;
use super::scene::{Act, Scene, script};
use crate::admin::statusz::{Document, GroupEntry};
use crate::cloud::InstanceState;
use crate::clouds::simulated::{Event, Simulated};
use crate::fleet::Fleet;

/// How many lines are kept.
const LINES_MAX: usize = 1000;

/// Everything that happens in the demo.
pub(super) struct Stage {
    cloud: Arc<Simulated>,
    fleet: Arc<Fleet>,
    events: broadcast::Receiver<Event>,
    hears: mpsc::Receiver<Said>,
    changes: mpsc::Sender<(&'static str, i32)>,
    in_tree: InTree,
    /// What is still to happen, and when.
    acts: Vec<(Duration, Act)>,
    /// When the last scene is over.
    ends: Duration,
    is_reachable: bool,
    /// Groups whose next response will be lost.
    loses: Option<&'static str>,
    groups: Vec<GroupEntry>,
    /// Whether the response to the autoscaler's last request to grow was lost.
    is_lost: bool,
    reports: BTreeMap<String, Report>,
    /// Why the source cannot be read.
    problem: Option<String>,
    pods: PodCounts,
    lines: VecDeque<Line>,
    /// How many of the last lines have not been taken.
    new: usize,
}

impl Stage {
    pub(super) fn new(
        cloud: Arc<Simulated>,
        fleet: Arc<Fleet>,
        hears: mpsc::Receiver<Said>,
        changes: mpsc::Sender<(&'static str, i32)>,
    ) -> Self {
        Self {
            events: cloud.subscribe(),
            ends: cloud.elapsed(),
            cloud,
            fleet,
            hears,
            changes,
            in_tree: InTree::default(),
            acts: Vec::new(),
            is_reachable: true,
            loses: None,
            is_lost: false,
            groups: Vec::new(),
            reports: BTreeMap::new(),
            problem: None,
            pods: PodCounts::default(),
            lines: VecDeque::new(),
            new: 0,
        }
    }

    /// Plays a scene from now on, beside those that play already.
    pub(super) fn play(&mut self, scene: &Scene) {
        self.acts.extend(scene.all(self.cloud.elapsed()));
        self.acts.sort_by_key(|(at, _)| *at);
    }

    /// Plays all scenes, one after the other.
    pub(super) fn play_script(&mut self) {
        let now = self.cloud.elapsed();
        let (acts, lasts) = script();
        self.acts.extend(acts.into_iter().map(|(at, act)| (now + at, act)));
        self.acts.sort_by_key(|(at, _)| *at);
        self.ends = now + lasts;
    }

    /// Whether the script has been played.
    pub(super) fn is_over(&self) -> bool {
        self.cloud.elapsed() >= self.ends
    }

    /// Lets what is due happen, and collects what was said since the last step.
    pub(super) async fn step(&mut self) {
        let now = self.cloud.elapsed();
        let due = self.acts.partition_point(|(at, _)| *at <= now);
        for (_, act) in self.acts.drain(..due).collect::<Vec<_>>() {
            self.happen(act).await;
        }
        self.hear_all();
        self.watch_source();
        self.watch_groups();
    }

    async fn happen(&mut self, act: Act) {
        self.say(Speaker::Demo, act.sentence());
        if let Err(refusal) = act.happen(&self.cloud) {
            self.say(Speaker::Demo, refusal.message);
        }
        match act {
            // An error means that the imitation has ended, and the demo with it.
            Act::Pods(workload, by) => drop(self.changes.send((workload, by)).await),
            Act::LoseResponse(group) => self.loses = Some(group),
            Act::OutageBegins => {
                self.is_reachable = false;
                let outage = self.in_tree.outage(&self.cloud);
                self.say(Speaker::InTree, outage);
            }
            Act::OutageEnds => self.is_reachable = true,
            _ => {}
        }
    }

    /// Hears what the autoscaler and the cloud have said, in order of time.
    fn hear_all(&mut self) {
        let mut said: Vec<Said> = std::iter::from_fn(|| self.hears.try_recv().ok()).collect();
        let events = std::iter::from_fn(|| self.events.try_recv().ok()).collect::<Vec<_>>();
        for event in events {
            let before = said.iter().take_while(|said| said.at <= event.at).count();
            said.drain(..before).collect::<Vec<_>>().into_iter().for_each(|said| self.hear(said));
            self.say_at(event.at, Speaker::Cloud, event.to_string());
        }
        said.into_iter().for_each(|said| self.hear(said));
    }

    fn hear(&mut self, Said { at, what }: Said) {
        match what {
            What::Line(text) => self.say_at(at, Speaker::Autoscaler, text),
            What::Pods(pods) => self.pods = pods,
            What::Refreshing => self.in_tree.refresh(&self.cloud, self.is_reachable),
            What::Increasing { group, delta, capacity } if self.is_reachable => {
                if let Some(sentence) = self.in_tree.increase(&group, delta, capacity, at) {
                    self.say_at(at, Speaker::InTree, sentence);
                }
                self.is_lost = self.loses.take_if(|loses| *loses == group).is_some();
            }
            What::Increasing { .. } => {}
            What::Increased(group) if std::mem::take(&mut self.is_lost) => {
                let answer = "the response was lost; it has read the group, found the new capacity, and returned OK";
                self.say_at(at, Speaker::Headcount, format!("{group}: {answer}"));
                self.say_at(at, Speaker::InTree, format!("{group}: {}", InTree::lost_response()));
            }
            What::Increased(_) => {}
            What::Deleting(group, count) => self.in_tree.delete(&group, count, at),
        }
    }

    /// Says so when Headcount can no longer read the cloud, and when it can again.
    fn watch_source(&mut self) {
        let problem = self.fleet.sources().find_map(|(_, health)| health.problem);
        match (&self.problem, &problem) {
            (None, Some(_)) => {
                self.say(
                    Speaker::Headcount,
                    "cannot read the cloud: it serves its last readings, and refuses writes".to_owned(),
                );
            }
            (Some(_), None) => self.say(Speaker::Headcount, "reads the cloud again".to_owned()),
            _ => {}
        }
        self.problem = problem;
    }

    /// Says what Headcount reports about each group that has changed, and what the in-tree provider would.
    fn watch_groups(&mut self) {
        self.groups = Document::of(&self.fleet).groups;
        for group in self.groups.clone() {
            let running = self.running(&group.id);
            let report = Report::of(&group, running);
            if self.reports.get(&group.id) != Some(&report) {
                self.say(Speaker::Headcount, report.to_string());
                self.reports.insert(group.id.clone(), report);
            }
            if let Some(sentence) = self.in_tree.difference(&self.cloud, &group) {
                self.say(Speaker::InTree, sentence);
            }
        }
    }

    /// How many instances of a group Headcount reports as running.
    fn running(&self, id: &str) -> u32 {
        let snapshot = self.fleet.snapshot();
        snapshot.group(id).map(|(_, view)| view.status.in_state(InstanceState::Running)).unwrap_or_default()
    }

    /// Says how it ended.
    pub(super) fn end(&mut self) {
        let unnamed = self.cloud.world(|world, _| world.killed_unnamed().len());
        let in_tree = self.in_tree.unnamed();
        self.say(Speaker::Demo, "── the end ──".to_owned());
        self.say(
            Speaker::Headcount,
            format!("running instances that were deleted though CA had not named them: {unnamed}"),
        );
        self.say(Speaker::InTree, format!("running instances that would have been: {in_tree}"));
    }

    fn say(&mut self, speaker: Speaker, text: String) {
        self.say_at(self.cloud.elapsed(), speaker, text);
    }

    fn say_at(&mut self, at: Duration, speaker: Speaker, text: String) {
        let is_said = |line: &Line| line.speaker == speaker && line.text == text && line.at.as_secs() == at.as_secs();
        // Two instances that fail at once fail for the same reason.
        if self.lines.back().is_some_and(is_said) {
            return;
        }
        if self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at, speaker, text });
        self.new = (self.new + 1).min(self.lines.len());
    }

    /// The lines since the last call.
    pub(super) fn take_new_lines(&mut self) -> Vec<Line> {
        let new = std::mem::take(&mut self.new);
        self.lines.range(self.lines.len() - new..).cloned().collect()
    }

    /// The last lines, this many at most.
    pub(super) fn last_lines(&self, count: usize) -> impl Iterator<Item = &Line> {
        self.lines.range(self.lines.len().saturating_sub(count)..)
    }

    /// The groups, each with the target size that the in-tree provider would report.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&GroupEntry, Option<u32>)> {
        self.groups.iter().map(|group| (group, self.in_tree.target(&group.id)))
    }

    pub(super) fn pods(&self) -> PodCounts {
        self.pods
    }

    /// How long it has played.
    pub(super) fn elapsed(&self) -> Duration {
        self.cloud.elapsed()
    }
}
