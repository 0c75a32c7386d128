//! Lines and tables that fit on a terminal, or in a document.

use std::fmt::Write as _;

/// Characters of a line.
const WIDTH: usize = 100;
/// Between columns.
const GAP: usize = 2;

/// How a report looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Columns.
    Plain,
    /// With bars between them.
    Markdown,
}

/// The name of what follows.
pub(super) fn title(text: &mut String, words: &str, style: Style) {
    let _ = match style {
        Style::Plain => writeln!(text, "{words}"),
        Style::Markdown => writeln!(text, "### {words}\n"),
    };
}

/// Things that are told one below the other.
pub(super) fn list(lines: &[String], style: Style) -> String {
    lines
        .iter()
        .map(|line| match style {
            Style::Plain => wrap(line),
            Style::Markdown => format!("- {}\n", line.trim_start()),
        })
        .collect()
}

/// A sentence below a table.
pub(super) fn below(text: &mut String, sentence: &str, style: Style) {
    if style == Style::Markdown && !text.ends_with("\n\n") {
        text.push('\n');
    }
    *text += &match style {
        Style::Plain => wrap(sentence),
        Style::Markdown => format!("{sentence}\n"),
    };
}

/// Broken at spaces (but for those that do not break), with what follows the first line set in; lines that are there stay apart.
fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let inset = line.len() - line.trim_start().len();
        let mut width = inset;
        wrapped += &" ".repeat(inset);
        for (number, word) in line.trim().split(' ').enumerate() {
            let long = word.chars().count();
            if number > 0 && width + 1 + long > WIDTH {
                let _ = write!(wrapped, "\n{}{word}", " ".repeat(inset + 2));
                width = inset + 2 + long;
                continue;
            }
            if number > 0 {
                wrapped.push(' ');
                width += 1;
            }
            wrapped += word;
            width += long;
        }
        wrapped.push('\n');
    }
    wrapped
}

/// A table whose first row is its header. The first `names` columns are words, the others numbers; columns that do not fit beside the
/// others follow in a table of their own, with the names again.
pub(super) fn draw(rows: &[Vec<String>], names: usize, style: Style) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    if style == Style::Markdown {
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
            if number == 0 {
                let _ = writeln!(
                    text,
                    "| {}{}|",
                    "--- | ".repeat(names),
                    "---: | ".repeat(columns - names).trim_end_matches("| ")
                );
            }
        }
        return text;
    }
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let of_names: usize = widths[..names].iter().map(|width| width + GAP).sum();
    let (mut text, mut from) = (String::new(), names);
    loop {
        let (mut to, mut width) = (from, of_names);
        while to < columns && (to == from || width + widths[to] <= WIDTH) {
            width += widths[to] + GAP;
            to += 1;
        }
        for row in rows {
            let mut line = String::new();
            for column in (0..names).chain(from..to) {
                let (cell, width) = (&row[column], widths[column]);
                line += &if column < names { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                line += &" ".repeat(GAP);
            }
            text += line.trim_end();
            text.push('\n');
        }
        from = to;
        if from >= columns {
            return text;
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wider_than_a_terminal() {
        let words = "word ".repeat(60) + "20\u{a0}s";
        let wrapped = wrap(&format!("first\n{words}"));
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH) && wrapped.starts_with("first\nword"));
        assert_eq!(wrapped.lines().nth(2).map(|line| &line[..6]), Some("  word"));
        let row = |cell: &str| (0..12).map(|column| format!("{cell}{column}")).collect::<Vec<_>>();
        let table = draw(&[row("a long header "), row("cell ")], 1, Style::Plain);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        for column in 1..12 {
            assert_eq!(table.matches(&format!("cell {column}")).count(), if column == 1 { 3 } else { 1 }, "{table}");
        }
        assert_eq!(table.lines().filter(|line| line.starts_with("cell 0")).count(), 3, "{table}");
    }

    #[test]
    fn documents_have_tables_and_lines_of_their_own() {
        let rows = [["case", "device", "time"], ["a", "cpu", "1 s"]].map(|row| row.map(str::to_owned).to_vec());
        let mut text = draw(&rows, 2, Style::Markdown);
        assert_eq!(text, "| case | device | time |\n| --- | --- | ---: |\n| a | cpu | 1 s |\n");
        below(&mut text, "A sentence.", Style::Markdown);
        assert!(text.ends_with("1 s |\n\nA sentence.\n"), "else it is a row: {text}");
        assert_eq!(list(&["one".into(), "two".into()], Style::Markdown), "- one\n- two\n");
    }
}
