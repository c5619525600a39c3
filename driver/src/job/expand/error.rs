//! Why a text cannot be expanded, in the words of GitLab Runner's helper (gitlab-runner, wire §3.2).

use super::source::Place;

/// A text that cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    /// It is not written as it must be.
    #[error("{0}: {1}")]
    Syntax(Place, Wrong),
    /// It asks to run a command.
    #[error("unexpected command substitution at {0}")]
    Command(Place),
    /// It asks for the value of a variable that another one names, which names none.
    #[error("invalid indirect expansion")]
    Indirect,
    /// It sets a variable.
    #[error("environment is read-only")]
    ReadOnly,
    #[error("division by zero")]
    DivisionByZero,
    #[error("unsupported binary arithmetic operator: \"{0}\"")]
    Operator(&'static str),
    /// The text says that a variable must be set.
    #[error("{0}: {1}")]
    Unset(String, String),
    /// A thing that no artifact's name has, and that GitLab Runner's helper crashes on in part.
    #[error("the transformation `@{0}` at {1} is not supported")]
    Transform(String, Place),
    /// More comes out than anyone wants.
    #[error("the expanded text is too long")]
    TooLong,
    /// There is more to expand than anyone wants.
    #[error("the text is too long")]
    LongText,
    /// There are more references than anyone wants.
    #[error("the text has too many references")]
    TooManyParts,
    /// Deeper than anyone wants.
    #[error("the references are too deep")]
    TooDeep,
    /// A pattern has more letters than this.
    #[error("a pattern is longer than {0} letters")]
    LongPattern(usize),
    /// All texts together ask for more than anyone wants.
    #[error("the references ask for too much work")]
    TooMuchWork,
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("reached {found} without matching `{opened}` with `{closes}`")]
    Open {
        /// What stands where it should be closed.
        found: String,
        opened: &'static str,
        closes: &'static str,
    },
    #[error("reached EOF without closing quote {}", quoted(.0))]
    Quote(&'static str),
    #[error("invalid parameter name")]
    Name,
    #[error("invalid nested parameter expansion")]
    QuotedName,
    #[error("cannot index a special parameter name")]
    IndexedSpecial,
    #[error("cannot combine multiple parameter expansion operators")]
    Combined,
    #[error("`{0}` cannot be followed by a word")]
    FollowedByWord(String),
    #[error("not a valid parameter expansion operator: {}", quoted(.0))]
    ReferenceOperator(String),
    #[error("invalid @ expansion operator {}", quoted(.0))]
    Transform(String),
    #[error("@ expansion operator requires a literal")]
    TransformNotLiteral,
    #[error("not a valid arithmetic operator: {}", quoted(.0))]
    SumOperator(String),
    #[error("`{0}` must be followed by an expression")]
    NothingFollows(&'static str),
    #[error("`{0}` must be followed by a literal")]
    NoLiteralFollows(&'static str),
    #[error("`{0}` must follow an expression")]
    NothingBefore(&'static str),
    #[error("`{0}` must follow a name")]
    NoNameBefore(&'static str),
    #[error("`[` must follow a name like a[i]")]
    NoArrayBefore,
    #[error("ternary operator missing `?` before `:`")]
    NoQuestion,
    #[error("ternary operator missing `:` after `?`")]
    NoColon,
    /// A thing that another shell knows.
    #[error("{0} a {1} feature; tried parsing as bash")]
    OtherShell(&'static str, &'static str),
}

/// Between backquotes, or in Go's way where these cannot be.
pub(super) fn quoted(text: &str) -> String {
    let is_odd = |letter: char| {
        (letter.is_ascii_control() && letter != '\t') || letter == '`' || letter == '\u{feff}'
    };
    if !text.contains(is_odd) {
        return format!("`{text}`");
    }
    vk_text::quoted(text)
}
