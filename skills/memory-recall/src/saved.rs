//! Reads saved notes and exported conversations from files.

use std::io;

use crate::{conversations, index};

/// Limits of one recall: the number of folders and of files, the bytes of each file, the bytes of
/// one that may be an export of conversations, those of all files, and the number of messages.
const FOLDERS_MAX: usize = 10_000;
const FILES_MAX: usize = 2_000;
const BYTES_MAX: u64 = 1 << 20;
const EXPORT_MAX: u64 = 32 << 20;
const TOTAL_MAX: u64 = 64 << 20;
const MESSAGES_MAX: usize = 100_000;

/// The files that are searched: the host's, and in tests a map.
pub(crate) trait Files {
    /// Returns what is at a path, after following links.
    async fn find(&self, path: &str) -> io::Result<Found>;
    /// Lists a folder. A link is not a folder here, whatever it leads to.
    async fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;
    /// Reads a file.
    async fn read(&self, path: &str) -> io::Result<Vec<u8>>;
}

/// What is at a path.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    Folder,
    /// A file of this number of bytes.
    File(u64),
    /// A device or a pipe.
    Other,
}

/// An entry of a folder.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

/// The texts of files, each with its source.
#[derive(Default)]
pub(crate) struct Saved {
    pub(crate) texts: Vec<(String, String)>,
    messages: usize,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
    /// The numbers of folders, of files and of their bytes.
    folders: usize,
    files: usize,
    total: u64,
}

/// Why a file was not added.
enum Failure {
    Unreadable(io::Error),
    /// There is too much to search.
    Limit(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Unreadable(error)
    }
}

impl Saved {
    /// Reads a file, or all files of the supported types below a folder. Below it, links to folders
    /// are not followed, because they may lead to a folder that contains them.
    ///
    /// # Errors
    /// Returns an error if the path cannot be read, or there is too much to search. Below the path,
    /// what cannot be read is only noted.
    pub(crate) async fn read(files: &impl Files, path: &str) -> Result<Saved, String> {
        let path = path.trim_end_matches('/');
        let mut saved = Saved::default();
        let mut todo = Vec::new();
        match files.find(path).await.map_err(|error| error.to_string())? {
            Found::Folder => {
                let entries = files.list(path).await.map_err(|error| error.to_string())?;
                todo.extend(below(path, entries));
            }
            _ => saved.file(files, path).await.map_err(|failure| match failure {
                Failure::Unreadable(error) => error.to_string(),
                Failure::Limit(message) => message,
            })?,
        }
        while let Some((path, is_folder)) = todo.pop() {
            let read = if is_folder {
                saved.folder(files, &path).await.map(|entries| todo.extend(below(&path, entries)))
            } else {
                saved.file(files, &path).await
            };
            match read {
                Ok(()) => {}
                Err(Failure::Unreadable(error)) => saved.note_unreadable(&path, &error),
                Err(Failure::Limit(message)) => return Err(message),
            }
        }
        Ok(saved)
    }

    async fn folder(&mut self, files: &impl Files, path: &str) -> Result<Vec<Entry>, Failure> {
        self.folders += 1;
        if self.folders > FOLDERS_MAX {
            let message =
                format!("there are more than {FOLDERS_MAX} folders: use a smaller folder");
            return Err(Failure::Limit(message));
        }
        Ok(files.list(path).await?)
    }

    async fn file(&mut self, files: &impl Files, path: &str) -> Result<(), Failure> {
        let Some(kind) = FileKind::of(path) else { return Ok(()) };
        // Unreadable files count too: each costs a call of the host.
        self.files += 1;
        if self.files > FILES_MAX {
            let message = format!("there are more than {FILES_MAX} files: use a smaller folder");
            return Err(Failure::Limit(message));
        }
        let Found::File(bytes) = files.find(path).await? else { return Ok(()) };
        if bytes > kind.limit() {
            let limit = kind.limit() >> 20;
            self.notes.push(format!("{path} is larger than {limit} MiB, and was not searched"));
            return Ok(());
        }
        self.total += bytes;
        if self.total > TOTAL_MAX {
            let limit = TOTAL_MAX >> 20;
            let message = format!("the files have more than {limit} MiB: use a smaller folder");
            return Err(Failure::Limit(message));
        }
        let bytes = files.read(path).await?;
        self.add(path, kind, &String::from_utf8_lossy(&bytes));
        Ok(())
    }

    fn add(&mut self, path: &str, kind: FileKind, text: &str) {
        let room = MESSAGES_MAX - self.messages;
        let export = match kind {
            FileKind::Text => None,
            FileKind::Json => conversations::read(text, false, room),
            FileKind::JsonLines => conversations::read(text, true, room),
        };
        let Some(export) = export else {
            if text.len() as u64 > BYTES_MAX {
                let limit = BYTES_MAX >> 20;
                self.notes.push(format!(
                    "{path} is larger than {limit} MiB and holds no conversations of a known \
                     format, and was not searched"
                ));
            } else {
                self.texts.extend(in_parts(path, text));
            }
            return;
        };
        self.messages += export.messages.len();
        self.notes.extend(export.notes.iter().map(|note| format!("{path}: {note}")));
        for message in export.messages {
            self.texts.extend(in_parts(&format!("{path}: {}", message.source()), &message.text));
        }
    }

    fn note_unreadable(&mut self, path: &str, error: &io::Error) {
        // The errors of the host name the path too: `open /workspace/a.md: not permitted`.
        let error = error.to_string();
        let why = error.rsplit_once(": ").map_or(error.as_str(), |(_, why)| why);
        self.notes.push(format!("{path} cannot be read: {why}, and was not searched"));
    }
}

/// The paths of entries, each with whether it is a folder, the first one last.
fn below(folder: &str, entries: Vec<Entry>) -> impl Iterator<Item = (String, bool)> {
    entries
        .into_iter()
        .rev()
        .map(move |entry| (format!("{folder}/{}", entry.name), entry.is_folder))
}

fn in_parts(source: &str, text: &str) -> Vec<(String, String)> {
    index::parts(text).into_iter().map(|part| (source.to_owned(), part.to_owned())).collect()
}

/// The files that are searched, by their extensions.
#[derive(Clone, Copy)]
enum FileKind {
    Text,
    Json,
    JsonLines,
}

impl FileKind {
    fn of(path: &str) -> Option<FileKind> {
        match path.rsplit_once('.')?.1 {
            "md" | "txt" => Some(FileKind::Text),
            "json" => Some(FileKind::Json),
            "jsonl" => Some(FileKind::JsonLines),
            _ => None,
        }
    }

    fn limit(self) -> u64 {
        match self {
            FileKind::Text => BYTES_MAX,
            FileKind::Json | FileKind::JsonLines => EXPORT_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// What is at a path of the tests' files.
    #[derive(Clone)]
    enum Node {
        Folder,
        File(&'static str),
        Link(&'static str),
        Forbidden { is_folder: bool },
    }
    use Node::{File, Folder, Forbidden, Link};

    struct Tree(BTreeMap<String, Node>);

    impl Tree {
        fn new(nodes: &[(&str, Node)]) -> Tree {
            Tree(nodes.iter().map(|(path, node)| ((*path).to_owned(), node.clone())).collect())
        }

        fn get(&self, path: &str) -> io::Result<&Node> {
            let error = |kind, why| Err(io::Error::new(kind, format!("stat {path}: {why}")));
            match self.0.get(path) {
                None => error(io::ErrorKind::NotFound, "no such file or folder"),
                Some(Link(target)) => self.get(target),
                Some(Forbidden { is_folder: false }) => {
                    error(io::ErrorKind::PermissionDenied, "not permitted")
                }
                Some(node) => Ok(node),
            }
        }
    }

    impl Files for Tree {
        async fn find(&self, path: &str) -> io::Result<Found> {
            Ok(match self.get(path)? {
                Folder | Forbidden { .. } => Found::Folder,
                File(text) => Found::File(text.len() as u64),
                Link(_) => Found::Other,
            })
        }

        async fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
            if let Forbidden { .. } = self.get(folder)? {
                let error = format!("list {folder}: not permitted");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
            }
            let prefix = format!("{folder}/");
            let inside = self.0.range(prefix.clone()..);
            let inside = inside.take_while(|(path, _)| path.starts_with(&prefix));
            let entries = inside.map(|(path, node)| Entry {
                name: path[prefix.len()..].to_owned(),
                is_folder: matches!(node, Folder | Forbidden { is_folder: true }),
            });
            Ok(entries.filter(|entry| !entry.name.contains('/')).collect())
        }

        async fn read(&self, path: &str) -> io::Result<Vec<u8>> {
            match self.get(path)? {
                File(text) => Ok(text.as_bytes().to_vec()),
                _ => Err(io::Error::other(format!("open {path}: not a file"))),
            }
        }
    }

    fn read(tree: &Tree, path: &str) -> Result<Saved, String> {
        let waker = Waker::noop();
        match pin!(Saved::read(tree, path)).poll(&mut Context::from_waker(waker)) {
            Poll::Ready(read) => read,
            Poll::Pending => panic!("the tests' files need no host"),
        }
    }

    fn sources(saved: &Saved) -> Vec<&str> {
        saved.texts.iter().map(|(source, _)| source.as_str()).collect()
    }

    #[test]
    fn what_cannot_be_read_below_a_folder_is_noted() {
        let tree = Tree::new(&[
            ("n", Folder),
            ("n/.#b.md", Link("user@host:1")),
            ("n/.venv", Folder),
            ("n/.venv/python", Link("/usr/bin/python3")),
            ("n/a.md", File("tea")),
            ("n/forbidden", Forbidden { is_folder: true }),
            ("n/forbidden.txt", Forbidden { is_folder: false }),
            ("n/z", Folder),
            ("n/z/z.md", File("coffee")),
        ]);
        let saved = read(&tree, "n/").unwrap();
        assert_eq!(sources(&saved), ["n/a.md", "n/z/z.md"]);
        assert_eq!(
            saved.notes,
            [
                "n/.#b.md cannot be read: no such file or folder, and was not searched",
                "n/forbidden cannot be read: not permitted, and was not searched",
                "n/forbidden.txt cannot be read: not permitted, and was not searched",
            ]
        );
    }

    #[test]
    fn links_to_files_are_followed_and_links_to_folders_are_not() {
        let tree = Tree::new(&[
            ("n", Folder),
            ("n/a.md", File("tea")),
            ("n/b.md", Link("n/a.md")),
            ("n/loop", Link("n")),
            ("n/loop.md", Link("n")),
            ("link", Link("n")),
        ]);
        let saved = read(&tree, "n").unwrap();
        assert_eq!((sources(&saved), saved.notes.len()), (vec!["n/a.md", "n/b.md"], 0));
    }

    #[test]
    fn named_path_must_be_readable() {
        let tree = Tree::new(&[
            ("a.md", File("tea")),
            ("b.md", Link("nowhere")),
            ("c", Forbidden { is_folder: true }),
            ("d.md", Forbidden { is_folder: false }),
            ("e", Link("f")),
            ("f", Folder),
        ]);
        assert_eq!(sources(&read(&tree, "a.md").unwrap()), ["a.md"]);
        assert!(read(&tree, "e").is_ok(), "a named link is followed");
        for (path, error) in [
            ("b.md", "stat nowhere: no such file or folder"),
            ("c", "list c: not permitted"),
            ("d.md", "stat d.md: not permitted"),
        ] {
            assert_eq!(read(&tree, path).err().as_deref(), Some(error));
        }
    }

    #[test]
    fn folders_and_files_are_limited() {
        for (max, suffix, node, what) in
            [(FOLDERS_MAX, "", Folder, "folders"), (FILES_MAX, ".md", File("tea"), "files")]
        {
            let mut tree = Tree::new(&[("n", Folder)]);
            for number in 0..max {
                tree.0.insert(format!("n/{number}{suffix}"), node.clone());
            }
            assert!(read(&tree, "n").is_ok());
            tree.0.insert(format!("n/{max}{suffix}"), node);
            let expected = format!("there are more than {max} {what}: use a smaller folder");
            assert_eq!(read(&tree, "n").err(), Some(expected));
        }
    }
}
