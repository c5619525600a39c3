//! Folders that are yet to be read.

use std::rc::Rc;

use crate::gopath::below;

/// A folder. One that holds very many others is named once for all of them.
#[derive(Debug)]
pub(super) struct Unread {
    parent: Rc<[u8]>,
    name: Box<[u8]>,
}

impl Unread {
    /// The folder `path`.
    pub(super) fn at(path: &[u8]) -> Self {
        Self {
            parent: Rc::from(&b"."[..]),
            name: path.into(),
        }
    }

    /// The folder `name` in `parent`.
    pub(super) fn inside(parent: &Rc<[u8]>, name: &[u8]) -> Self {
        Self {
            parent: Rc::clone(parent),
            name: name.into(),
        }
    }

    /// Its path in the project.
    pub(super) fn path(&self) -> Rc<[u8]> {
        below(&self.parent, &self.name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_project() {
        for (top, inner) in [(".", "d"), ("a/b", "a/b/d"), ("a", "a/d")] {
            let top = Unread::at(top.as_bytes()).path();

            let path = Unread::inside(&top, b"d").path();

            assert_eq!(&*path, inner.as_bytes());
        }
    }
}
