//! Licence expressions: `MIT OR (Apache-2.0 WITH LLVM-exception AND Zlib)`.
//!
//! `WITH` binds tightest, then `AND`, then `OR`. The old `MIT/Apache-2.0` of the registry means `OR`. A `+` ("or any
//! later version") is met by the version itself. Ids are compared as they are written: an unknown id is simply not allowed.

use std::fmt;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// One licence, perhaps with an exception.
    Licence(Licence),
    /// Both sides bind.
    And(Box<Expression>, Box<Expression>),
    /// Either side may be chosen.
    Or(Box<Expression>, Box<Expression>),
}

/// One licence of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licence {
    /// The id without its `+`.
    pub id: String,
    /// Whether later versions are meant too.
    pub or_later: bool,
    /// What stands after `WITH`.
    pub exception: Option<String>,
}

impl Expression {
    /// Reads an expression; the error says what was expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = Tokens::of(text)?;
        let expression = rest.or()?;
        match rest.next() {
            None => Ok(expression),
            Some(token) => Err(format!(
                "`{text}`: expected AND, OR or the end, found `{token}`"
            )),
        }
    }

    /// Whether the licences that are allowed are enough to meet the expression.
    pub fn allowed(&self, allow: &[Licence]) -> bool {
        match self {
            Self::Licence(licence) => allow
                .iter()
                .any(|entry| entry.id == licence.id && entry.exception == licence.exception),
            Self::And(left, right) => left.allowed(allow) && right.allowed(allow),
            Self::Or(left, right) => left.allowed(allow) || right.allowed(allow),
        }
    }
}

impl Licence {
    /// Reads one licence of an allow list.
    pub fn parse(text: &str) -> Result<Self, String> {
        match Expression::parse(text)? {
            Expression::Licence(licence) => Ok(licence),
            _ => Err(format!(
                "`{text}` is an expression; list its licences one by one"
            )),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Id(String),
    And,
    Or,
    With,
    Open,
    Close,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Id(id) => id,
            Self::And => "AND",
            Self::Or => "OR",
            Self::With => "WITH",
            Self::Open => "(",
            Self::Close => ")",
        })
    }
}

struct Tokens {
    text: String,
    list: Vec<Token>,
    next: usize,
}

impl Tokens {
    fn of(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        let mut word = String::new();
        for letter in text.chars().chain([' ']) {
            if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+' | ':') {
                word.push(letter);
                continue;
            }
            match std::mem::take(&mut word).as_str() {
                "" => {}
                "AND" => list.push(Token::And),
                "OR" => list.push(Token::Or),
                "WITH" => list.push(Token::With),
                id => list.push(Token::Id(id.to_owned())),
            }
            match letter {
                ' ' | '\t' | '\n' => {}
                '(' => list.push(Token::Open),
                ')' => list.push(Token::Close),
                '/' => list.push(Token::Or),
                other => return Err(format!("`{text}`: unexpected `{other}`")),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            list,
            next: 0,
        })
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.list.get(self.next).cloned();
        self.next += usize::from(token.is_some());
        token
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let found = self.list.get(self.next) == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut left = self.and()?;
        while self.take(&Token::Or) {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut left = self.term()?;
        while self.take(&Token::And) {
            left = Expression::And(Box::new(left), Box::new(self.term()?));
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<Expression, String> {
        match self.next() {
            Some(Token::Open) => {
                let inner = self.or()?;
                if self.take(&Token::Close) {
                    Ok(inner)
                } else {
                    Err(self.expected("`)`"))
                }
            }
            Some(Token::Id(id)) => {
                let exception = match self.take(&Token::With) {
                    false => None,
                    true => match self.next() {
                        Some(Token::Id(name)) => Some(name),
                        _ => return Err(self.expected("an exception after WITH")),
                    },
                };
                let or_later = id.ends_with('+');
                let id = id.trim_end_matches('+').to_owned();
                if id.is_empty() {
                    return Err(self.expected("a licence before `+`"));
                }
                Ok(Expression::Licence(Licence {
                    id,
                    or_later,
                    exception,
                }))
            }
            _ => Err(self.expected("a licence or `(`")),
        }
    }

    fn expected(&self, what: &str) -> String {
        format!("`{}`: expected {what}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(expression: &str, allow: &[&str]) -> bool {
        let allow: Vec<_> = allow
            .iter()
            .map(|text| Licence::parse(text).unwrap())
            .collect();
        Expression::parse(expression).unwrap().allowed(&allow)
    }

    #[test]
    fn an_expression_is_met_when_a_choice_of_its_licences_is_allowed() {
        for (expression, allow, met) in [
            ("MIT", &["MIT"][..], true),
            ("MIT", &["Apache-2.0"], false),
            ("MIT OR Apache-2.0", &["Apache-2.0"], true),
            ("MIT AND Apache-2.0", &["Apache-2.0"], false),
            ("MIT AND Apache-2.0", &["Apache-2.0", "MIT"], true),
            ("GPL-3.0-only OR MIT AND Zlib", &["MIT", "Zlib"], true),
            ("GPL-3.0-only AND MIT OR Zlib", &["MIT"], false),
            ("GPL-3.0-only AND MIT OR Zlib", &["Zlib"], true),
            ("GPL-3.0-only AND (MIT OR Zlib)", &["Zlib"], false),
            (
                "(MIT OR Apache-2.0) AND Unicode-3.0",
                &["MIT", "Unicode-3.0"],
                true,
            ),
            ("MIT/Apache-2.0", &["Apache-2.0"], true),
            ("Apache-2.0 / MIT", &["MIT"], true),
            ("Unlicense OR(MIT)", &["MIT"], true),
        ] {
            assert_eq!(
                allowed(expression, allow),
                met,
                "{expression} with {allow:?}"
            );
        }
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        let with = "Apache-2.0 WITH LLVM-exception";
        assert!(!allowed(with, &["Apache-2.0"]));
        assert!(!allowed("Apache-2.0", &[with]));
        assert!(allowed(with, &[with]));
        assert!(allowed(
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            &["MIT"]
        ));
        assert!(!allowed(
            "Apache-2.0 WITH LLVM-exception AND MIT",
            &["Apache-2.0", "MIT"]
        ));
    }

    #[test]
    fn a_plus_is_met_by_the_version_itself() {
        assert!(allowed("MPL-2.0+", &["MPL-2.0"]));
        assert!(!allowed("MPL-1.1+", &["MPL-2.0"]));
    }

    #[test]
    fn broken_expressions_are_errors() {
        for broken in [
            "",
            "MIT OR",
            "OR MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "MIT WITH (x)",
            "MIT, Zlib",
            "+",
        ] {
            assert!(Expression::parse(broken).is_err(), "{broken}");
        }
        assert!(Licence::parse("MIT OR Zlib").is_err());
    }
}
