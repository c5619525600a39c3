//! Random layers, compared with the plainest reading of the image specification: what a layer's marks name is taken
//! from what is below it first, then the layer's entries are added one by one. What a layer brings is there in the end, or
//! the layer is refused.

use std::collections::BTreeMap;

use crate::support::{Entry, Kind, convert, layer};
use proptest::prelude::*;
use vk_erofs::{ConvertError, EntryProblem};

/// What a layer does at a path.
#[derive(Clone, Debug)]
enum Operation {
    File(u8),
    Folder(u8),
    Fifo,
    /// A hard link to one of the files that this layer has brought so far.
    Link(prop::sample::Index),
    Whiteout,
    Opaque,
}

/// An inode: file or fifo with what it holds, or a folder.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    File {
        id: usize,
        fill: u8,
    },
    Fifo {
        id: usize,
    },
    Folder {
        mode: u32,
        names: BTreeMap<String, Node>,
    },
}

const IMPLIED: u32 = 0o755;

impl Node {
    fn empty(mode: u32) -> Self {
        let names = BTreeMap::new();
        Self::Folder { mode, names }
    }

    /// The names in a folder; anything else becomes one.
    fn names(&mut self) -> &mut BTreeMap<String, Node> {
        if !matches!(self, Self::Folder { .. }) {
            *self = Self::empty(IMPLIED);
        }
        match self {
            Self::Folder { names, .. } => names,
            _ => unreachable!(),
        }
    }

    fn make(&mut self, path: &[String]) -> &mut BTreeMap<String, Node> {
        let mut node = self;
        for part in path {
            let names = node.names();
            node = names
                .entry(part.clone())
                .or_insert_with(|| Self::empty(IMPLIED));
        }
        node.names()
    }

    fn find(&mut self, path: &[String]) -> Option<&mut Node> {
        path.iter().try_fold(self, |node, part| match node {
            Self::Folder { names, .. } => names.get_mut(part),
            _ => None,
        })
    }
}

type Step = (Vec<String>, Operation);

/// Whether the way to a path leads through a file of the layer whose first file is `first`.
fn is_below_file(root: &mut Node, path: &[String], first: usize) -> bool {
    (0..path.len()).any(|len| match root.find(&path[..len]) {
        Some(Node::File { id, .. } | Node::Fifo { id }) => *id >= first,
        _ => false,
    })
}

/// Applies a layer to the model, and says which entries the layer has, and whether it is refused.
fn apply(root: &mut Node, steps: &[Step], next_id: &mut usize) -> (Vec<Entry>, bool) {
    let first = *next_id + 1;
    let mut is_refused = false;
    let mut wanted: BTreeMap<&[String], Option<usize>> = BTreeMap::new();
    for (path, operation) in steps {
        let (last, above) = path.split_last().unwrap();
        match operation {
            Operation::Whiteout => {
                if let Some(Node::Folder { names, .. }) = root.find(above) {
                    names.remove(last);
                }
            }
            Operation::Opaque => {
                if let Some(Node::Folder { names, .. }) = root.find(path) {
                    names.clear();
                }
            }
            _ => {}
        }
    }
    let mut entries = Vec::new();
    let mut brought: Vec<Vec<String>> = Vec::new();
    for (path, operation) in steps {
        let (last, above) = path.split_last().unwrap();
        let name = path.join("/");
        *next_id += 1;
        let id = *next_id;
        let count = entries.len();
        let is_below_file = match operation {
            Operation::Opaque => is_below_file(root, &[path, &[String::new()][..]].concat(), first),
            _ => is_below_file(root, path, first),
        };
        match operation {
            Operation::File(fill) => {
                root.make(above)
                    .insert(last.clone(), Node::File { id, fill: *fill });
                wanted.insert(path, Some(id));
                brought.push(path.clone());
                entries.push(Entry::file(name, vec![*fill; usize::from(*fill) * 40]));
            }
            Operation::Fifo => {
                root.make(above).insert(last.clone(), Node::Fifo { id });
                wanted.insert(path, Some(id));
                entries.push(Entry::new(b'6', name));
            }
            Operation::Folder(mode) => {
                let mode = 0o700 + u32::from(*mode);
                let node = root
                    .make(above)
                    .entry(last.clone())
                    .or_insert_with(|| Node::empty(mode));
                match node {
                    Node::Folder { mode: old, .. } => *old = mode,
                    other => *other = Node::empty(mode),
                }
                wanted.insert(path, None);
                entries.push(Entry::folder(name).mode(mode));
            }
            Operation::Link(index) => {
                brought.retain(|path| matches!(root.find(path), Some(Node::File { .. })));
                if brought.is_empty() {
                    continue;
                }
                let target = index.get(&brought).clone();
                let file = root.find(&target).unwrap().clone();
                if let Node::File { id, .. } = &file {
                    wanted.insert(path, Some(*id));
                }
                root.make(above).insert(last.clone(), file);
                entries.push(Entry::hard_link(name, target.join("/")));
                brought.push(path.clone());
            }
            Operation::Whiteout => {
                root.make(above);
                let mark = [above, &[format!(".wh.{last}")]].concat();
                entries.push(Entry::file(mark.join("/"), ""));
            }
            Operation::Opaque => {
                root.make(path);
                entries.push(Entry::file(format!("{name}/.wh..wh..opq"), ""));
            }
        }
        is_refused |= is_below_file && entries.len() > count;
    }
    is_refused |= wanted
        .into_iter()
        .any(|(path, wanted)| match root.find(path) {
            Some(Node::File { id, .. } | Node::Fifo { id }) => Some(*id) != wanted,
            Some(Node::Folder { .. }) => wanted.is_some(),
            None => true,
        });
    (entries, is_refused)
}

/// A file as both sides can tell it: type, contents or mode, and which other names it has.
type Listing = BTreeMap<String, (String, Vec<String>)>;

fn tell(node: &Node, path: String, told: &mut Vec<(String, String, Option<usize>)>) {
    match node {
        Node::File { id, fill } => told.push((path, format!("file {fill}"), Some(*id))),
        Node::Fifo { id } => told.push((path, "fifo".to_owned(), Some(*id))),
        Node::Folder { mode, names } => {
            for (name, node) in names {
                let below = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}/{name}")
                };
                tell(node, below, told);
            }
            told.push((path, format!("folder {mode:o}"), None));
        }
    }
}

fn group<I: PartialEq>(told: &[(String, String, Option<I>)]) -> Listing {
    let names = |id: &Option<I>| -> Vec<String> {
        let same = told.iter().filter(|other| id.is_some() && other.2 == *id);
        let mut names: Vec<_> = same.map(|other| other.0.clone()).collect();
        names.sort();
        names
    };
    told.iter()
        .map(|(path, what, id)| (path.clone(), (what.clone(), names(id))))
        .collect()
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let path = prop::collection::vec("[abc]", 1..4);
    let operation = prop_oneof![
        3 => any::<u8>().prop_map(Operation::File),
        3 => (0_u8..0o77).prop_map(Operation::Folder),
        1 => Just(Operation::Fifo),
        2 => any::<prop::sample::Index>().prop_map(Operation::Link),
        3 => Just(Operation::Whiteout),
        2 => Just(Operation::Opaque),
    ];
    let layer = prop::collection::vec((path, operation), 0..14);
    prop::collection::vec(layer, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn images_are_what_the_specification_says(layers in steps()) {
        let mut root = Node::empty(IMPLIED);
        let mut next_id = 0;
        let mut streams = Vec::new();
        for steps in &layers {
            let (entries, is_refused) = apply(&mut root, steps, &mut next_id);
            streams.push(layer(&entries));
            if is_refused {
                let Err(ConvertError::Entry { problem, .. }) = convert(&streams) else {
                    panic!("accepted: {steps:?}");
                };
                prop_assert!(matches!(problem, EntryProblem::BelowFile | EntryProblem::Lost));
                return Ok(());
            }
        }
        let mut expected = Vec::new();
        tell(&root, String::new(), &mut expected);

        let tree = convert(&streams).unwrap().tree();

        let found = tree.0.iter().map(|(path, found)| {
            let path = String::from_utf8(path.clone()).unwrap();
            match &found.kind {
                Kind::File(_) => {
                    let fill = found.bytes().first().copied().unwrap_or_default();
                    assert_eq!(found.bytes(), vec![fill; usize::from(fill) * 40]);
                    (path, format!("file {fill}"), Some(found.nid))
                }
                Kind::Fifo => (path, "fifo".to_owned(), Some(found.nid)),
                Kind::Folder => (path, format!("folder {:o}", found.mode), None),
                other => panic!("{other:?}"),
            }
        });
        prop_assert_eq!(group(&expected), group(&found.collect::<Vec<_>>()));
    }
}
