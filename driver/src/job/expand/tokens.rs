//! Letters of sums, together where they belong together (gitlab-runner, wire §3.2).

use super::error::{ExpandError, Wrong, quoted};
use super::source::Place;
use super::words::Parser;

/// How closely operators bind: those of a higher level take their sides first.
pub(super) const COMMA: u8 = 0;
pub(super) const ASSIGN: u8 = 1;
pub(super) const CHOICE: u8 = 2;
pub(super) const POWER: u8 = 13;

/// All operators, those before others that they begin with.
const OPERATORS: [(&str, u8); 34] = [
    ("<<=", ASSIGN),
    (">>=", ASSIGN),
    ("+=", ASSIGN),
    ("-=", ASSIGN),
    ("*=", ASSIGN),
    ("/=", ASSIGN),
    ("%=", ASSIGN),
    ("&=", ASSIGN),
    ("|=", ASSIGN),
    ("^=", ASSIGN),
    ("**", POWER),
    ("||", 3),
    ("^^", 3),
    ("&&", 4),
    ("==", 8),
    ("!=", 8),
    ("<=", 9),
    (">=", 9),
    ("<<", 10),
    (">>", 10),
    (",", COMMA),
    ("=", ASSIGN),
    ("?", CHOICE),
    (":", CHOICE),
    ("|", 5),
    ("^", 6),
    ("&", 7),
    ("<", 9),
    (">", 9),
    ("+", 11),
    ("-", 11),
    ("*", 12),
    ("/", 12),
    ("%", 12),
];

/// What can be next in a sum and is no such operator, in the same order.
const OTHERS: [&str; 20] = [
    "$((", "$(", "$[", "${", "$'", "$\"", "$", ";;", ";&", "++", "--", ";", "(", ")", "[", "]",
    "!", "~", "#", ".",
];

/// What is next where something else should be.
pub(super) enum Token {
    /// A word, and whether nothing is right after it that belongs to it.
    Word {
        word: String,
        is_whole: bool,
    },
    Mark(String),
}

impl Parser<'_> {
    /// The letters that are next and are neither quoted nor to be expanded.
    pub(super) fn literal(&mut self) -> String {
        let mut literal = String::new();
        while let Some(letter) = self.source.peek() {
            if !self.is_word_letter(letter, literal.is_empty()) {
                break;
            }
            self.source.next();
            literal.push(letter);
            if letter == '\\' {
                literal.extend(self.source.next_raw());
            }
        }
        literal
    }

    /// Whether a word is next and nothing in it is quoted or to be expanded.
    pub(super) fn is_literal_next(&mut self) -> bool {
        let before = self.source.clone();
        let is_word = !self.literal().is_empty() && !self.is_part_next();
        self.source = before;
        is_word
    }

    fn is_part_next(&mut self) -> bool {
        matches!(self.source.peek(), Some('$' | '\'' | '"' | '`'))
    }

    fn is_word_letter(&self, letter: char, is_first: bool) -> bool {
        match letter {
            '#' => !is_first,
            '}' => !self.context.brace_ends,
            '@' => !(is_first && self.context.is_subscript),
            '"' | '\'' | '`' | '$' => false,
            _ => !" \t\n+-*/%^&|<>=?:,;!~()[].".contains(letter),
        }
    }

    /// Whether `letter`, where a reference's sum should end, is wrong for its own sake.
    pub(super) fn is_odd(&self, letter: char) -> bool {
        matches!(letter, '.' | '[') || self.is_word_letter(letter, true)
    }

    pub(super) fn skip_spaces(&mut self) {
        while self.source.take(' ') || self.source.take('\t') {}
    }

    /// Skips ends of lines, too.
    pub(super) fn skip_blanks(&mut self) {
        while self
            .source
            .peek()
            .is_some_and(|letter| " \t\n".contains(letter))
        {
            self.source.next();
        }
    }

    /// The operator of two sides that is next.
    pub(super) fn operator(&mut self) -> Option<(&'static str, u8)> {
        let next = self.upcoming();
        if begins(next, "++") || begins(next, "--") {
            return None;
        }
        OPERATORS
            .into_iter()
            .find(|(operator, _)| begins(next, operator))
    }

    /// Whether `wanted`, of no more than three letters, is next.
    pub(super) fn is_next(&mut self, wanted: &str) -> bool {
        begins(self.upcoming(), wanted)
    }

    fn upcoming(&mut self) -> [Option<char>; 3] {
        [
            self.source.peek(),
            self.source.second(),
            self.source.third(),
        ]
    }

    /// What is next, in the helper's words; nothing at the end.
    pub(super) fn token(&mut self) -> Option<Token> {
        let first = self.source.peek()?;
        let next = self.upcoming();
        let operators = OPERATORS.map(|(operator, _)| operator);
        let mark = OTHERS
            .into_iter()
            .chain(operators)
            .find(|mark| begins(next, mark));
        if let Some(mark) = mark {
            return Some(Token::Mark(mark.to_owned()));
        }
        let word = self.literal();
        if word.is_empty() {
            return Some(Token::Mark(first.to_string()));
        }
        let is_whole = !self.is_part_next();
        Some(Token::Word { word, is_whole })
    }

    /// That `opened` is not closed where the next letter is.
    pub(super) fn open(
        &mut self,
        place: Place,
        opened: &'static str,
        closes: &'static str,
    ) -> ExpandError {
        let found = match self.token() {
            Some(Token::Word { is_whole: true, .. }) => "LitWord".to_owned(),
            Some(Token::Word { .. }) => "Lit".to_owned(),
            Some(Token::Mark(mark)) => quoted(&mark),
            None => "EOF".to_owned(),
        };
        ExpandError::Syntax(
            place,
            Wrong::Open {
                found,
                opened,
                closes,
            },
        )
    }
}

/// Whether `wanted` stands at the beginning of `next`.
fn begins(next: [Option<char>; 3], wanted: &str) -> bool {
    wanted
        .chars()
        .zip(next)
        .all(|(wanted, letter)| letter == Some(wanted))
}
