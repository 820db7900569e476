//! The demo as a page on the terminal.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Row, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Table, Wrap};

use super::line::{Line, Speaker};
use super::scene::SCENES;
use super::stage::Stage;
use crate::cloud::text::printable;

/// The page, for as long as the demo is shown. The terminal is as it was when this is gone.
pub(super) struct Page {
    terminal: DefaultTerminal,
    addresses: String,
}

/// A key that the demo knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    Quit,
}

impl Page {
    /// Takes the terminal.
    pub(super) fn open(addresses: &str) -> io::Result<Self> {
        Ok(Self { terminal: ratatui::try_init()?, addresses: addresses.to_owned() })
    }

    /// The keys since the last call.
    pub(super) fn keys(&mut self) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                keys.extend(known(key));
            }
        }
        Ok(keys)
    }

    /// Draws everything anew.
    pub(super) fn draw(&mut self, stage: &Stage) -> io::Result<()> {
        let addresses = self.addresses.as_str();
        self.terminal.draw(|frame| draw(frame, stage, addresses)).map(drop)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn known(key: KeyEvent) -> Option<Key> {
    if key.kind != KeyEventKind::Press {
        return None;
    }
    match key.code {
        KeyCode::Esc | KeyCode::Char('q') => Some(Key::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char(letter) => Some(Key::Letter(letter.to_ascii_lowercase())),
        _ => None,
    }
}

/// Draws the stage on a frame of any size.
pub(super) fn draw(frame: &mut Frame<'_>, stage: &Stage, addresses: &str) {
    let groups: Vec<TableRow<'_>> = stage.groups().map(|(group, in_tree)| table_row(group, in_tree)).collect();
    let seconds = stage.elapsed().as_secs();
    let title = format!("headcount demo   {}:{:02}   {}", seconds / 60, seconds % 60, stage.pods());
    let width = frame.area().width;
    let mut heading_rows = wrapped(&title, width, Style::new().add_modifier(Modifier::BOLD));
    heading_rows.extend(wrapped(addresses, width, Style::new()));
    let heights = [
        Constraint::Length(u16::try_from(heading_rows.len()).unwrap_or(u16::MAX)),
        Constraint::Length(u16::try_from(groups.len()).unwrap_or(u16::MAX).saturating_add(3)),
        Constraint::Min(5),
        Constraint::Length(4),
    ];
    let [heading, table, lines, keys] = frame.area().layout(&Layout::vertical(heights));
    frame.render_widget(Paragraph::new(heading_rows), heading);
    frame.render_widget(groups_table(groups), table);
    let room = usize::from(lines.height.saturating_sub(2));
    let mut newest: Vec<_> =
        stage.last_lines(room).flat_map(|line| shown(line, lines.width.saturating_sub(2))).collect();
    newest.drain(..newest.len().saturating_sub(room));
    let log = Paragraph::new(newest).block(Block::bordered().title("what happens, and why"));
    frame.render_widget(log, lines);
    frame.render_widget(Paragraph::new(help()).wrap(Wrap { trim: true }).block(Block::bordered().title("keys")), keys);
}

const HEADINGS: [&str; 8] = ["group", "min–max", "target", "in-tree", "live", "creating", "deleting", "failed"];

fn groups_table(rows: Vec<TableRow<'_>>) -> Table<'_> {
    let widths = [14, 8, 7, 8, 5, 9, 9, 7].map(Constraint::Length);
    let heading = TableRow::new(HEADINGS.map(Cell::from)).style(Modifier::BOLD);
    Table::new(rows, widths).header(heading).block(Block::bordered().title("node groups: what Headcount reports"))
}

fn table_row(group: &crate::admin::statusz::GroupEntry, in_tree: Option<u32>) -> TableRow<'static> {
    let differs = in_tree.is_some_and(|target| target != group.target);
    let in_tree_style = if differs { Style::new().fg(Color::Red) } else { Style::new() };
    let failed_style = if group.failed > 0 { Style::new().fg(Color::Yellow) } else { Style::new() };
    TableRow::new([
        Cell::from(printable(&group.id).into_owned()),
        Cell::from(format!("{}–{}", group.min, group.max)),
        Cell::from(group.target.to_string()),
        Cell::from(in_tree.map(|target| target.to_string()).unwrap_or_default()).style(in_tree_style),
        Cell::from(group.live.to_string()),
        Cell::from(group.creating.to_string()),
        Cell::from(group.deleting.to_string()),
        Cell::from(group.failed.to_string()).style(failed_style),
    ])
}

/// A text on as many rows as it needs. Each takes what fits: an address, which has no spaces, is not cut off.
fn wrapped(text: &str, width: u16, style: Style) -> Vec<Row<'static>> {
    let letters: Vec<char> = printable(text).chars().collect();
    let rows = letters.chunks(usize::from(width.max(1)));
    rows.map(|row| Row::from(Span::styled(row.iter().collect::<String>(), style))).collect()
}

fn shown(line: &Line, width: u16) -> Vec<Row<'static>> {
    let color = match line.speaker {
        Speaker::Demo => Color::Magenta,
        Speaker::Autoscaler => Color::Blue,
        Speaker::Cloud => Color::DarkGray,
        Speaker::Headcount => Color::Green,
        Speaker::InTree => Color::Red,
    };
    wrapped(&line.to_string(), width, Style::new().fg(color))
}

fn help() -> String {
    let scenes = SCENES.iter().map(|scene| format!("{} {}", scene.key, scene.label));
    let keys = scenes.chain(["p play all of them".to_owned(), "q quit".to_owned()]);
    keys.collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        known(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn keys_are_letters_and_ways_to_quit() {
        assert_eq!(press(KeyCode::Char('L'), KeyModifiers::SHIFT), Some(Key::Letter('l')));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(press(KeyCode::Esc, KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(press(KeyCode::Up, KeyModifiers::NONE), None);
    }
}
