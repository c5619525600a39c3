//! What a parsed text is made of.

use super::source::Place;

/// A text, or a part of one: its pieces one after the other.
pub(super) type Word = Vec<Piece>;

#[derive(Debug)]
pub(super) enum Piece {
    /// Letters that stand for themselves.
    Text(String),
    /// What stood between quotes.
    Quoted(Word),
    Reference(Box<Reference>),
    /// `$((…))` or `$[…]`.
    Sum(Sum),
    /// A command to run; nobody does.
    Command(Place),
}

/// A reference: a variable, and what is done with it.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) index: Option<Sum>,
    pub(super) subject: Subject,
    pub(super) operation: Operation,
}

impl Reference {
    /// The variable's value and no more.
    pub(super) fn plain(name: String) -> Self {
        Self {
            name,
            index: None,
            subject: Subject::Value,
            operation: Operation::None,
        }
    }
}

/// What of a variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Value,
    /// `${#NAME}`
    Length,
    /// `${!NAME}`: the value of the variable that the value names.
    Indirect,
    /// `${!NAME*}`: the names that begin so. There are none, as nobody can list the variables.
    Names,
}

#[derive(Debug)]
pub(super) enum Operation {
    None,
    /// `:-`, `=` and the like, with a word.
    Fallback {
        kind: Fallback,
        /// With a colon, an empty value is none. Variables have no empty value anyway; items have.
        has_colon: bool,
        word: Word,
    },
    /// From a letter, so many letters.
    Part(Sum, Option<Sum>),
    Cut {
        end: End,
        is_longest: bool,
        pattern: Word,
    },
    Replace {
        is_everywhere: bool,
        pattern: Word,
        replacement: Word,
    },
    Case {
        is_upper: bool,
        is_everywhere: bool,
        pattern: Word,
    },
    /// `@`: how a shell would write the value, and the like.
    Transform(String, Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// `-`: the word where the variable is empty.
    Default,
    /// `=`: as [`Self::Default`], and sets the variable.
    Assign,
    /// `+`: the word where it is not empty.
    Alternative,
    /// `?`: an error where it is empty.
    Demand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// A sum.
#[derive(Debug)]
pub(super) enum Sum {
    /// A number or a variable's name, as it is.
    Literal(String),
    /// One that is quoted or to be expanded.
    Word(Word),
    /// One of a variable's values.
    Item(String, Box<Sum>),
    /// `!`, `~`, `-` or `+`.
    Sign(char, Box<Sum>),
    /// What is worked out from left to right. One list, so that a long sum is no deep one.
    Chain(Box<Sum>, Vec<(&'static str, Sum)>),
    /// `a ? b : c`
    Choice(Box<Sum>, Box<Sum>, Box<Sum>),
    /// Sets a variable to what `operator` (of `operator=`) makes of its value and a sum.
    Assign {
        target: Box<Sum>,
        operator: &'static str,
        value: Box<Sum>,
    },
    /// `++` or `--`, before or after a name.
    Step,
}
