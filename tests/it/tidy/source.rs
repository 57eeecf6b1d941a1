//! The text files of the repository, and Rust code without its comments and strings.

use std::path::Path;

/// One text file.
pub struct Source {
    /// Its path from the repository's root, with `/`.
    pub path: String,
    /// Its text as it is.
    pub text: String,
    /// For Rust: the text with comments and the insides of strings blanked, lines kept. Else empty.
    pub code: String,
    /// For Rust: for each line, whether only tests are built from it.
    tests: Vec<bool>,
}

/// Folders that hold nothing of ours.
const NOT_OURS: [&str; 6] = [
    "target",
    ".git",
    "node_modules",
    ".venv",
    "__pycache__",
    "mutants.out",
];

/// The sources of these rules name what they forbid.
const OWN: &str = "tests/it/tidy/";

impl Source {
    /// Takes a text as the file at a path.
    pub fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") {
            blank(text)
        } else {
            String::new()
        };
        let tests = test_lines(path, &code);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            tests,
        }
    }

    /// Whether only tests are built from a line (the first is 1).
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.get(line - 1).copied().unwrap_or(false)
    }

    /// The lines of the text, from 1.
    pub fn text_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// The number of the line that holds a place in the code.
    pub fn line_of(&self, place: usize) -> usize {
        self.code[..place].matches('\n').count() + 1
    }
}

/// Every text file of the repository but these rules' own, by path.
pub fn tree() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
                open.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let below = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace('\\', "/");
                // What is not UTF-8 is no source.
                if let Ok(text) = std::fs::read_to_string(&path)
                    && !below.starts_with(OWN)
                {
                    sources.push(Source::new(&below, &text));
                }
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Blanks comments, the insides of strings and character literals; keeps every line where it is.
fn blank(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    let hide = |code: &mut String, letter: char| code.push(if letter == '\n' { '\n' } else { ' ' });
    while let Some(&letter) = letters.get(at) {
        let end = match letter {
            '/' if letters.get(at + 1) == Some(&'/') => line_end(&letters, at),
            '/' if letters.get(at + 1) == Some(&'*') => comment_end(&letters, at),
            '"' => string_end(&letters, at),
            'r' if !continues_word(&letters, at) => raw_end(&letters, at),
            '\'' => character_end(&letters, at),
            _ => at,
        };
        if end == at {
            code.push(letter);
            at += 1;
            continue;
        }
        for &hidden in &letters[at..end] {
            hide(&mut code, hidden);
        }
        at = end;
    }
    code
}

/// Whether the letter at a place goes on with a word; `br"` and `cr"` begin one.
fn continues_word(letters: &[char], at: usize) -> bool {
    let word = |place: usize| {
        letters
            .get(place)
            .is_some_and(|l| l.is_alphanumeric() || *l == '_')
    };
    match at.checked_sub(1) {
        None => false,
        Some(before) if matches!(letters[before], 'b' | 'c') => before > 0 && word(before - 1),
        Some(before) => word(before),
    }
}

fn line_end(letters: &[char], at: usize) -> usize {
    letters[at..]
        .iter()
        .position(|letter| *letter == '\n')
        .map_or(letters.len(), |length| at + length)
}

fn comment_end(letters: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut place = at;
    while place < letters.len() {
        match letters[place..] {
            ['/', '*', ..] => (depth, place) = (depth + 1, place + 2),
            ['*', '/', ..] => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            break;
        }
    }
    place.min(letters.len())
}

fn string_end(letters: &[char], at: usize) -> usize {
    let mut place = at + 1;
    while let Some(letter) = letters.get(place) {
        match letter {
            '\\' => place += 2,
            '"' => return place + 1,
            _ => place += 1,
        }
    }
    letters.len()
}

/// The end of `r"…"` or `r#"…"#`; a raw name such as `r#type` ends where it begins.
fn raw_end(letters: &[char], at: usize) -> usize {
    let hashes = letters[at + 1..]
        .iter()
        .take_while(|letter| **letter == '#')
        .count();
    if letters.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let mut close = vec!['"'];
    close.resize(hashes + 1, '#');
    let inside = at + 2 + hashes;
    letters[inside..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(letters.len(), |length| inside + length + close.len())
}

/// The end of a character literal; a lifetime ends where it begins.
fn character_end(letters: &[char], at: usize) -> usize {
    match letters[at + 1..] {
        ['\\', ..] => {
            let closing = letters[at + 3..].iter().position(|letter| *letter == '\'');
            closing.map_or(letters.len(), |length| at + 3 + length + 1)
        }
        [_, '\'', ..] => at + 3,
        _ => at,
    }
}

/// Which lines are built for tests only: all of `tests/` and of `tests.rs`, and the body of `#[cfg(test)] mod … {`.
fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let count = code.lines().count();
    let whole = path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.starts_with("src/testkit");
    let mut lines = vec![whole; count];
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]").map(|place| place + from) {
        from = found + "#[cfg(test)]".len();
        let head = code[from..].trim_start();
        let is_module = head.starts_with("mod ") || head.starts_with("pub mod ");
        let Some(body) = code[from..]
            .find('{')
            .map(|place| place + from)
            .filter(|_| is_module)
        else {
            continue;
        };
        if code[from..body].contains(';') {
            continue;
        }
        let end = block_end(code, body);
        let (first, last) = (
            code[..body].matches('\n').count(),
            code[..end].matches('\n').count(),
        );
        lines[first..=last.min(count - 1)].fill(true);
        from = end;
    }
    lines
}

/// The place after the brace that closes the one at `open`.
pub fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (place, letter) in code[open..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + place + 1;
        }
    }
    code.len()
}

#[test]
fn comments_and_strings_are_no_code() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("b\"c", d)"#, "f(      , d)"),
        (r##"f(r#"b"c"#, d)"##, "f(        , d)"),
        ("f(br\"b\\\", d)", "f(b     , d)"),
        ("let r#type = '{';", "let r#type =    ;"),
        ("let q = '\\''; b", "let q =     ; b"),
        ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
    ] {
        assert_eq!(blank(text), code, "{text}");
    }
}

#[test]
fn lines_of_tests_are_told_from_others() {
    let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::new("src/core/x.rs", text);
    let lines: Vec<_> = (1..=8).filter(|line| source.is_test(*line)).collect();
    assert_eq!(lines, [5, 6, 7]);
    assert!(Source::new("src/core/x/tests.rs", "fn a() {}").is_test(1));
    assert!(Source::new("tests/it/a.rs", "fn a() {}").is_test(1));
}
