//! Lines and tables that fit on a terminal, or in a document.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Characters of a line where there is no terminal that has a width: they fit on all.
const WITHOUT_TERMINAL: usize = 80;
/// Characters of a line at most, as of the help.
const WIDEST: usize = 100;
/// Between columns.
const GAP: usize = 2;
/// Before lines whose name stands above them.
const INSET: &str = "  ";

/// Characters of a line of what is printed to standard output.
pub(super) fn width() -> usize {
    if std::io::stdout().is_terminal() { textwrap::termwidth().min(WIDEST) } else { WITHOUT_TERMINAL }
}

/// How a report looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Columns, in lines of so many characters.
    Plain { width: usize },
    /// With bars between them.
    Markdown,
}

/// The name of what follows.
pub(super) fn title(text: &mut String, words: &str, style: Style) {
    *text += &match style {
        Style::Plain { width } => wrap(words, width),
        Style::Markdown => format!("### {words}\n\n"),
    };
}

/// Things that are told one below the other.
pub(super) fn list(lines: &[String], style: Style) -> String {
    lines
        .iter()
        .map(|line| match style {
            Style::Plain { width } => wrap(line, width),
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
        Style::Plain { width } => wrap(sentence, width),
        Style::Markdown => format!("{sentence}\n"),
    };
}

/// Broken at spaces (but for those that do not break), with what follows the first line set in; lines that are there
/// stay apart.
pub(super) fn wrap(text: &str, width: usize) -> String {
    text.lines().map(|line| hang(line, line.len() - line.trim_start().len() + 2, width)).collect()
}

/// One line broken like that, with what follows set in by `by`.
pub(super) fn hang(line: &str, by: usize, width: usize) -> String {
    fill(line, by, width) + "\n"
}

/// A message as a terminal shows it, if standard error is one; whoever else reads it has its lines whole.
pub(super) fn for_stderr(line: &str) -> String {
    if std::io::stderr().is_terminal() { fill(line, 2, textwrap::termwidth()) } else { line.to_owned() }
}

fn fill(line: &str, by: usize, width: usize) -> String {
    let indent = " ".repeat(by);
    // words stay whole, to be copied: flags, paths, addresses
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(line, options)
}

/// A table whose first row is its header. The first `names` columns are words, the others numbers. Where it is too
/// wide, the first of two names stands above its lines if that is enough; else columns that do not fit beside the
/// others follow in a table of their own, with the names again. Where all are words, the last ones are broken.
pub(super) fn draw(rows: &[Vec<String>], names: usize, style: Style) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let Style::Plain { width: most } = style else { return bars(rows, names) };
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    if names == columns {
        return words(rows, &widths, most);
    }
    let all = widths.iter().sum::<usize>() + GAP * (columns - 1);
    let is_above = names > 1 && all > most && INSET.len() + all - widths[0] - GAP <= most;
    let (inset, first) = if is_above { (INSET, 1) } else { ("", 0) };
    let of_names = inset.len() + widths[first..names].iter().map(|width| width + GAP).sum::<usize>();
    let (mut text, mut from) = (String::new(), names);
    loop {
        let (mut to, mut width) = (from, of_names);
        while to < columns && (to == from || width + widths[to] <= most) {
            width += widths[to] + GAP;
            to += 1;
        }
        for row in rows {
            if is_above && !row[0].is_empty() {
                let _ = writeln!(text, "{}", row[0]);
            }
            let mut line = inset.to_owned();
            for column in (first..names).chain(from..to) {
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

/// A table of a document.
fn bars(rows: &[Vec<String>], names: usize) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let below: Vec<&str> = (0..row.len()).map(|column| if column < names { "---" } else { "---:" }).collect();
            let _ = writeln!(text, "| {} |", below.join(" | "));
        }
    }
    text
}

/// A table of words alone.
fn words(rows: &[Vec<String>], widths: &[usize], most: usize) -> String {
    let line = |row: &Vec<String>| {
        let Some((last, before)) = row.split_last() else { return "\n".to_owned() };
        let mut line = String::new();
        for (cell, width) in before.iter().zip(widths) {
            line += &format!("{cell:<width$}{}", " ".repeat(GAP));
        }
        let by = line.chars().count();
        hang(&(line + last), by, most)
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 80;
    const PLAIN: Style = Style::Plain { width: WIDTH };

    fn fits(text: &str) -> bool {
        text.lines().all(|line| line.chars().count() <= WIDTH)
    }

    fn table(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn nothing_is_wider_than_a_terminal() {
        let words = "word ".repeat(60) + "20\u{a0}s";
        let wrapped = wrap(&format!("first\n{words}"), WIDTH);
        assert!(fits(&wrapped) && wrapped.starts_with("first\nword"));
        assert_eq!(wrapped.lines().nth(2).map(|line| &line[..6]), Some("  word"));
        let mut heading = String::new();
        title(&mut heading, &words, PLAIN);
        assert!(fits(&heading) && heading.ends_with("s\n"), "{heading}");
        let row = |cell: &str| (0..12).map(|column| format!("{cell}{column}")).collect::<Vec<_>>();
        let table = draw(&[row("a header "), row("cell ")], 1, PLAIN);
        assert!(fits(&table), "{table}");
        for column in 1..12 {
            assert_eq!(table.matches(&format!("cell {column}")).count(), if column == 1 { 3 } else { 1 }, "{table}");
        }
        assert_eq!(table.lines().filter(|line| line.starts_with("cell 0")).count(), 3, "{table}");
    }

    #[test]
    fn a_name_stands_above_its_lines_where_that_is_enough() {
        let long = "a time and its spread, which is long";
        let rows = [&["case", "device", "time", "rate"][..], &["a_case", "cpu", long, "1"], &["", "gpu:0", long, "2"]];
        let drawn = draw(&table(&rows), 2, Style::Plain { width: 54 });
        let expected = [
            "case".to_owned(),
            format!("  device{:>38}  rate", "time"),
            "a_case".to_owned(),
            format!("  cpu     {long}     1"),
            format!("  gpu:0   {long}     2"),
        ];
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
        assert_eq!(draw(&table(&rows), 2, PLAIN).lines().count(), 3, "there is room");
    }

    #[test]
    fn words_are_broken_in_their_column() {
        let what = "100 times: random 7000x3000 and 3000x7000, their product, its sum: 29.4 TFLOP";
        let drawn = draw(&table(&[&["case", "one run is"], &["large", what]]), 2, PLAIN);
        assert_eq!(drawn.lines().next(), Some("case   one run is"));
        assert!(fits(&drawn) && drawn.ends_with("\n       TFLOP\n"), "{drawn}");
    }

    #[test]
    fn documents_have_tables_and_lines_of_their_own() {
        let rows = [["case", "device", "time"], ["a", "cpu", "1 s"]].map(|row| row.map(str::to_owned).to_vec());
        let mut text = draw(&rows, 2, Style::Markdown);
        assert_eq!(text, "| case | device | time |\n| --- | --- | ---: |\n| a | cpu | 1 s |\n");
        below(&mut text, "A sentence.", Style::Markdown);
        assert!(text.ends_with("1 s |\n\nA sentence.\n"), "else it is a row: {text}");
        let words = draw(&table(&[&["case", "one run is"], &["a", "x"]]), 2, Style::Markdown);
        assert_eq!(words, "| case | one run is |\n| --- | --- |\n| a | x |\n");
        assert_eq!(list(&["one".into(), "two".into()], Style::Markdown), "- one\n- two\n");
    }
}
