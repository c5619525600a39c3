//! Layers on top of each other.

use crate::support::{Entry, Kind, convert, layer, refusal, tree_of};
use vk_erofs::{ConvertError, EntryProblem};

fn problem(error: ConvertError) -> EntryProblem {
    match error {
        ConvertError::Entry { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn upper_layers_replace_and_add() {
    let tree = tree_of(&[
        vec![
            Entry::file("a", "1"),
            Entry::file("b", "1"),
            Entry::folder("d").mode(0o700),
        ],
        vec![Entry::file("a", "2"), Entry::file("d/e", "2")],
        vec![Entry::folder("d").mode(0o711).owner(3, 4)],
    ]);

    assert_eq!(tree.paths(), ["a", "b", "d", "d/e"]);
    assert_eq!((tree.text("a"), tree.text("b")), ("2".into(), "1".into()));
    assert_eq!((tree.get("d").mode, tree.get("d").uid), (0o711, 3));
}

#[test]
fn a_folder_that_is_only_passed_through_keeps_its_lower_attributes() {
    let tree = tree_of(&[
        vec![
            Entry::folder("d")
                .mode(0o700)
                .owner(3, 4)
                .xattr("user.a", "1"),
        ],
        vec![Entry::file("d/e", "2")],
    ]);

    assert_eq!((tree.get("d").mode, tree.get("d").gid), (0o700, 4));
    assert_eq!(tree.get("d").xattr("user.a"), Some(&b"1"[..]));
}

#[test]
fn whiteouts_hide_lower_files_and_folders() {
    let lower = vec![
        Entry::file("file", "1"),
        Entry::file("d/e/f", "1"),
        Entry::file("kept", "1"),
        Entry::file("d2/kept", "1"),
        Entry::file("d2/gone", "1"),
    ];
    let upper = [
        ".wh.file",
        ".wh.d",
        "d2/.wh.gone",
        ".wh.never-there",
        "new/.wh.x",
    ];
    let upper = upper.iter().map(|path| Entry::file(path, "")).collect();

    let tree = tree_of(&[lower, upper]);

    assert_eq!(tree.paths(), ["d2", "d2/kept", "kept", "new"]);
}

#[test]
fn whiteouts_spare_their_own_layer_wherever_they_stand() {
    let lower = || {
        vec![
            Entry::file("a/old", "1"),
            Entry::file("a/x", "1"),
            Entry::file("a/b/y", "1"),
        ]
    };
    let marks = || {
        vec![
            Entry::file("a/.wh..wh..opq", ""),
            Entry::file("a/.wh.old", ""),
        ]
    };
    let new = || vec![Entry::file("a/new", "2"), Entry::file("a/b/z", "2")];

    let before = tree_of(&[lower(), [marks(), new()].concat()]);
    let after = tree_of(&[lower(), [new(), marks()].concat()]);

    assert_eq!(before.paths(), ["a", "a/b", "a/b/z", "a/new"]);
    assert_eq!(after, before);
}

#[test]
fn an_opaque_root_hides_everything_below() {
    let tree = tree_of(&[
        vec![Entry::file("a/old", "1"), Entry::file("b", "1")],
        vec![
            Entry::file("c", "2"),
            Entry::file(".wh..wh..opq", ""),
            Entry::file("a/new", "2"),
        ],
    ]);

    assert_eq!(tree.paths(), ["a", "a/new", "c"]);
}

#[test]
fn what_a_whiteout_hid_can_come_back_in_a_later_layer() {
    let tree = tree_of(&[
        vec![Entry::file("a/b", "1")],
        vec![Entry::file(".wh.a", "")],
        vec![Entry::file("a/c", "3")],
        vec![Entry::file("a/.wh.c", ""), Entry::file("a/d", "4")],
    ]);

    assert_eq!(tree.paths(), ["a", "a/d"]);
}

#[test]
fn a_whiteout_leaves_a_folder_that_its_own_layer_brings() {
    let tree = tree_of(&[
        vec![
            Entry::folder("a").mode(0o700).owner(9, 9),
            Entry::file("a/old", "1"),
        ],
        vec![Entry::file("a/new", "2"), Entry::file(".wh.a", "")],
    ]);

    assert_eq!(tree.paths(), ["a", "a/new"]);
    // The hidden folder's attributes are hidden with it.
    assert_eq!((tree.get("a").mode, tree.get("a").uid), (0o755, 0));
}

#[test]
fn marks_of_one_folder_give_the_same_in_any_order() {
    let lower = || vec![Entry::folder("a").mode(0o700), Entry::file("a/old", "1")];
    let (opaque, whiteout) = (Entry::file("a/.wh..wh..opq", ""), Entry::file(".wh.a", ""));

    let one = tree_of(&[lower(), vec![opaque.clone(), whiteout.clone()]]);
    let other = tree_of(&[lower(), vec![whiteout, opaque]]);

    assert_eq!(one.paths(), ["a"]);
    assert_eq!(one.get("a").mode, 0o755);
    assert_eq!(one, other);
}

#[test]
fn other_marks_of_aufs_are_left_out() {
    let tree = tree_of(&[vec![
        Entry::file(".wh..wh.aufs", ""),
        Entry::folder(".wh..wh.plnk"),
        Entry::file(".wh..wh.plnk/12.34", "x"),
        Entry::file("d/.wh..wh.orph/x", "x"),
        Entry::file("a", "x"),
    ]]);

    assert_eq!(tree.paths(), ["a"]);
}

#[test]
fn any_type_replaces_any_other() {
    let kinds: [fn(&str) -> Vec<Entry>; 5] = [
        |path| vec![Entry::file(path, "f")],
        |path| vec![Entry::folder(path), Entry::file(format!("{path}/in"), "x")],
        |path| vec![Entry::symlink(path, "nowhere")],
        |path| vec![Entry::new(b'6', path)],
        |path| vec![Entry::new(b'3', path)],
    ];
    let empty: fn(&str) -> Vec<Entry> = |path| vec![Entry::folder(path)];
    let (mut lower, mut upper, mut same) = (vec![], vec![], vec![]);
    for (i, old) in kinds.iter().enumerate() {
        for (j, new) in kinds.iter().enumerate() {
            let path = format!("{i}{j}");
            lower.extend(old(&path));
            upper.extend(new(&path));
            // What is in a folder of the same layer would be lost.
            let old = if i == 1 && j != 1 { &empty } else { old };
            same.extend(old(&path).into_iter().chain(new(&path)));
        }
    }

    let two = tree_of(&[lower, upper]);
    let one = tree_of(&[same]);

    for (path, found) in &two.0 {
        if let [_, to] = path[..] {
            let right = matches!(
                (to, &found.kind),
                (b'0', Kind::File(_))
                    | (b'1', Kind::Folder)
                    | (b'2', Kind::Symlink(_))
                    | (b'3', Kind::Fifo)
                    | (b'4', Kind::CharDevice(..))
            );
            assert!(right, "{}: {found:?}", path.escape_ascii());
        }
    }
    assert_eq!(two.paths(), one.paths());
    assert_eq!(two.paths().len(), 25 + 5);
}

#[test]
fn missing_parents_are_made() {
    let tree = tree_of(&[vec![
        Entry::file("a/b/c", "x"),
        Entry::folder("a").mode(0o700),
    ]]);

    assert_eq!(tree.get("a/b").kind, Kind::Folder);
    assert_eq!(
        (tree.get("a/b").mode, tree.get("a/b").mtime),
        (0o755, (0, 0))
    );
    assert_eq!(tree.get("a").mode, 0o700);
    assert_eq!((tree.get("").mode, tree.get("").mtime), (0o755, (0, 0)));
}

#[test]
fn a_file_in_the_way_of_a_folder_gives_way() {
    let tree = tree_of(&[
        vec![Entry::file("a", "1"), Entry::file("b", "1")],
        vec![Entry::file("a/in", "2"), Entry::file("b/.wh.x", "")],
    ]);

    assert_eq!(tree.paths(), ["a", "a/in", "b"]);
}

#[test]
fn hard_links_share_their_file_within_and_across_layers() {
    let tree = tree_of(&[
        vec![
            Entry::file("bin/app", "app").mode(0o755),
            // No parent has an entry.
            Entry::hard_link("d/e/app", "bin/app"),
            Entry::symlink("l", "bin/app"),
            Entry::hard_link("l2", "/l"),
        ],
        vec![
            Entry::hard_link("third", "./bin/app"),
            Entry::file(".wh.bin", ""),
            Entry::hard_link("fourth", "third").mode(0o600).owner(1, 1),
        ],
    ]);

    let nid = tree.get("d/e/app").nid;
    for path in ["d/e/app", "third", "fourth"] {
        let found = tree.get(path);
        assert_eq!(
            (found.nid, found.links, found.mode),
            (nid, 3, 0o755),
            "{path}"
        );
        assert_eq!(tree.text(path), "app");
    }
    assert_eq!(tree.get("l2").kind, Kind::Symlink(b"bin/app".to_vec()));
    assert_eq!(tree.get("l2").nid, tree.get("l").nid);
}

#[test]
fn a_hard_link_may_replace_what_its_target_is_found_by() {
    let lower = vec![Entry::file("a/f", "x")];
    let upper = vec![Entry::hard_link("a", "a/f"), Entry::hard_link("a", "a")];
    let tree = tree_of(&[lower, upper]);

    assert_eq!(tree.paths(), ["a"]);
    assert_eq!((tree.text("a"), tree.get("a").links), ("x".into(), 1));

    let tree = tree_of(&[
        vec![Entry::file("a", "x")],
        vec![Entry::hard_link("a/in", "a")],
    ]);

    assert_eq!(tree.paths(), ["a", "a/in"]);
    assert_eq!((tree.text("a/in"), tree.get("a/in").links), ("x".into(), 1));
}

#[test]
fn hard_links_to_nothing_or_to_folders_are_refused() {
    let error = refusal(&[Entry::hard_link("a", "b")]);
    assert!(
        error
            .to_string()
            .contains("\"a\" is a hard link to a file that does not exist")
    );
    for (target, expected) in [
        ("b", EntryProblem::MissingLinkTarget),
        ("no/b", EntryProblem::MissingLinkTarget),
        ("d", EntryProblem::LinkToFolder),
        ("/", EntryProblem::LinkToFolder),
        ("../d", EntryProblem::OutsideRoot),
        ("", EntryProblem::EmptyLink),
    ] {
        let error = refusal(&[Entry::folder("d"), Entry::hard_link("a", target)]);
        assert_eq!(problem(error), expected, "{target}");
    }
}

#[test]
fn a_later_entry_of_the_same_name_counts() {
    let tree = tree_of(&[vec![
        Entry::file("a", "first").owner(1, 1),
        Entry::file("./a", "second"),
        Entry::file("x/../a", "third").owner(3, 3),
    ]]);

    assert_eq!(tree.paths(), ["a"]);
    assert_eq!((tree.text("a"), tree.get("a").uid), ("third".into(), 3));
}

#[test]
fn names_are_found_through_symbolic_links_inside_the_image() {
    let tree = tree_of(&[
        vec![
            Entry::folder("usr/lib").mode(0o711),
            Entry::symlink("lib", "usr/lib"),
            Entry::symlink("usr/up", "../../../../usr/./lib/"),
            Entry::symlink("usr/local/abs", "/lib"),
            Entry::symlink("ahead", "not/there/yet"),
        ],
        vec![
            Entry::file("lib/1", ""),
            Entry::file("usr/up/2", ""),
            Entry::file("usr/local/abs/3", ""),
            Entry::file("ahead/4", ""),
            Entry::hard_link("5", "lib/1"),
            Entry::file("usr/local/abs/.wh.2", ""),
        ],
        vec![Entry::file("lib/.wh.1", "")],
    ]);

    assert_eq!(
        tree.paths(),
        [
            "5",
            "ahead",
            "lib",
            "not",
            "not/there",
            "not/there/yet",
            "not/there/yet/4",
            "usr",
            "usr/lib",
            "usr/lib/2",
            "usr/lib/3",
            "usr/local",
            "usr/local/abs",
            "usr/up"
        ]
    );
    assert_eq!(tree.get("usr/lib").mode, 0o711);
}

/// All orders of three entries.
fn orders(entries: &[Entry; 3]) -> Vec<Vec<Entry>> {
    [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ]
    .map(|order| order.map(|at: usize| entries[at].clone()).to_vec())
    .to_vec()
}

#[test]
fn a_link_gives_way_to_a_folder_where_the_layer_brings_a_file_at_its_end() {
    let lower = || {
        vec![
            Entry::folder("a").mode(0o700),
            Entry::file("a/old", "1"),
            Entry::symlink("c", "a"),
        ]
    };
    let upper = [
        Entry::file("a", "2"),
        Entry::file("c/g", "2"),
        Entry::file("c/d/h", "2"),
    ];

    let through_another = [
        Entry::file("a", "2"),
        Entry::file("c/g", "2"),
        Entry::file("e/f", "2"),
    ];
    for upper in orders(&through_another) {
        let lower = [lower(), vec![Entry::symlink("e", "c")]].concat();
        let tree = tree_of(&[lower, upper]);

        // `e` may still lead to `c`.
        for name in ["a", "c/g"] {
            assert_eq!(tree.text(name), "2");
        }
        match &tree.get("e").kind {
            Kind::Folder => assert_eq!(tree.text("e/f"), "2"),
            _ => assert_eq!(tree.text("c/f"), "2"),
        }
    }
    for upper in orders(&upper) {
        let tree = tree_of(&[lower(), upper]);

        assert_eq!(tree.paths(), ["a", "c", "c/d", "c/d/h", "c/g"]);
        assert_eq!((tree.text("a"), tree.text("c/g")), ("2".into(), "2".into()));
        assert_eq!((tree.get("c").mode, tree.get("c/d").mode), (0o755, 0o755));
    }
}

#[test]
fn a_link_gives_way_to_a_folder_where_two_files_of_a_layer_would_be_one() {
    let lower = || {
        vec![
            Entry::file("a/old", "1"),
            Entry::symlink("c", "a"),
            Entry::symlink("e", "c"),
        ]
    };
    let upper = [
        Entry::file("a/g", "2a"),
        Entry::file("c/g", "2c"),
        Entry::file("e/g", "2e"),
    ];

    for upper in orders(&upper) {
        let tree = tree_of(&[lower(), upper]);

        assert_eq!(tree.paths(), ["a", "a/g", "a/old", "c", "c/g", "e", "e/g"]);
        for name in ["a", "c", "e"] {
            assert_eq!(tree.text(format!("{name}/g")), format!("2{name}"));
        }
    }
}

#[test]
fn a_link_gives_way_to_a_folder_where_it_leads_to_a_file() {
    let tree = tree_of(&[
        vec![Entry::file("t", "1"), Entry::symlink("c", "t")],
        vec![Entry::file("c/g", "2")],
    ]);

    assert_eq!(tree.paths(), ["c", "c/g", "t"]);

    // Or to its own place.
    let tree = tree_of(&[
        vec![Entry::symlink("c", "..")],
        vec![Entry::file("c/c", "2")],
    ]);

    assert_eq!(tree.paths(), ["c", "c/c"]);
}

#[test]
fn a_link_that_becomes_a_folder_takes_along_what_came_through_it() {
    let lower = vec![
        Entry::file("usr/lib/old", "1"),
        Entry::symlink("lib", "usr/lib"),
    ];
    let upper = vec![
        Entry::folder("lib/d").mode(0o711),
        Entry::file("lib/d/f", "2"),
        Entry::hard_link("lib/h", "usr/lib/d/f"),
        Entry::symlink("lib/s", "d/f"),
        Entry::file("usr/lib/own", "2"),
        Entry::folder("lib").mode(0o700),
    ];

    let tree = tree_of(&[lower, upper]);

    assert_eq!(
        tree.paths(),
        [
            "lib",
            "lib/d",
            "lib/d/f",
            "lib/h",
            "lib/s",
            "usr",
            "usr/lib",
            "usr/lib/old",
            "usr/lib/own"
        ]
    );
    assert_eq!(
        (tree.get("lib").mode, tree.get("lib/d").mode),
        (0o700, 0o711)
    );
    assert_eq!(tree.get("lib/h").nid, tree.get("lib/d/f").nid);
}

#[test]
fn a_layer_that_loses_an_entry_of_its_own_is_refused() {
    let lower = [
        Entry::file("a/old", "1"),
        Entry::symlink("c", "a"),
        Entry::symlink("e", "c"),
        Entry::folder("x"),
    ];
    let file = |path: &str| Entry::file(path, "2");
    for (upper, lost, expected) in [
        (vec![file("b/f"), file("b")], "b/f", EntryProblem::Lost),
        (vec![file("b"), file("b/f")], "b/f", EntryProblem::BelowFile),
        (
            vec![file("b/f"), Entry::symlink("b", "x")],
            "b/f",
            EntryProblem::Lost,
        ),
        // The link is whited out, replaced, or must stay for what was hidden by it.
        (vec![file("c/g"), file(".wh.c")], "c/g", EntryProblem::Lost),
        (
            vec![file("c/g"), file(".wh.c"), file("a")],
            "c/g",
            EntryProblem::Lost,
        ),
        (vec![file("c/g"), file("c")], "c/g", EntryProblem::Lost),
        (
            vec![file("c/.wh.old"), file("c/g"), file("a")],
            "c/g",
            EntryProblem::Lost,
        ),
        (vec![file("c/old"), file("a")], "c/old", EntryProblem::Lost),
        // The way that is lost leads on to a link without an end.
        (
            vec![
                file("b/o"),
                Entry::symlink("b", "o"),
                Entry::symlink("o", "o"),
                Entry::folder("c"),
            ],
            "b/o",
            EntryProblem::Lost,
        ),
        // A link of the layer itself is no folder.
        (
            vec![Entry::symlink("l", "x"), file("l/g"), file("x/g")],
            "l/g",
            EntryProblem::Lost,
        ),
        (
            vec![file("b"), Entry::symlink("l", "b"), file("l/g")],
            "l/g",
            EntryProblem::BelowFile,
        ),
    ] {
        let told = format!("{upper:?}");
        let error = convert(&[layer(&lower), layer(&upper)]).err().expect(&told);

        let ConvertError::Entry { path, problem } = error else {
            panic!("{error}: {told}");
        };
        assert_eq!((path.as_str(), problem), (lost, expected), "{told}");
    }
}

#[test]
fn an_entry_that_comes_again_is_not_lost() {
    let tree = tree_of(&[
        vec![Entry::folder("x"), Entry::symlink("c", "x")],
        vec![
            Entry::file("b/f", "first"),
            Entry::symlink("b", "x"),
            Entry::file("b/f", "second"),
            Entry::file("c/g", "first"),
            Entry::file("c/g", "second"),
            Entry::file("c/h", "first"),
            Entry::symlink("c", "./x"),
        ],
    ]);

    assert_eq!(tree.paths(), ["b", "c", "x", "x/f", "x/g", "x/h"]);
    assert_eq!(
        (tree.text("x/f"), tree.text("x/g")),
        ("second".into(), "second".into())
    );
}

#[test]
fn a_link_at_the_end_of_a_name_is_replaced_and_not_followed() {
    let tree = tree_of(&[
        vec![
            Entry::folder("d"),
            Entry::symlink("l", "d"),
            Entry::symlink("m", "d"),
        ],
        vec![Entry::file("l", "x"), Entry::folder("m")],
    ]);

    assert_eq!(tree.paths(), ["d", "l", "m"]);
    assert_eq!(tree.text("l"), "x");
    assert_eq!(tree.get("m").kind, Kind::Folder);
}

#[test]
fn loops_of_symbolic_links_are_refused() {
    let loops = [Entry::symlink("a", "b"), Entry::symlink("b", "a")];
    let error = refusal(&[&loops[..], &[Entry::file("a/x", "")]].concat());
    assert_eq!(problem(error), EntryProblem::SymlinkLoop);

    let error = refusal(&[&loops[..], &[Entry::hard_link("x", "a/y")]].concat());
    assert_eq!(problem(error), EntryProblem::SymlinkLoop);
}

#[test]
fn links_that_double_at_each_step_end_in_an_error_soon() {
    let mut entries = vec![Entry::symlink("l0", "d")];
    for n in 1..30 {
        let before = format!("/l{}/../", n - 1);
        entries.push(Entry::symlink(format!("l{n}"), before.repeat(200) + "d"));
    }
    entries.push(Entry::file("l29/x", ""));

    assert_eq!(problem(refusal(&entries)), EntryProblem::SymlinkLoop);
}

#[test]
fn empty_layers_and_images_are_fine() {
    let image = convert(&[]).unwrap();
    image.fsck();
    assert_eq!(image.tree().paths(), [""; 0]);
    assert_eq!(image.summary.inodes, 1);

    let layers = [
        layer(&[]),
        layer(&[Entry::file("a", "x")]),
        Vec::new(),
        layer(&[]),
    ];
    let image = convert(&layers).unwrap();
    image.fsck();
    assert_eq!(image.tree().paths(), ["a"]);
    let entries: Vec<_> = image.layers.iter().map(|layer| layer.entries).collect();
    assert_eq!(entries, [0, 1, 0, 0]);
}
