//! `git`, limited to reading a repository. Commands that write or use the network end with an
//! error.

mod arguments;
mod commit;
mod difference;
mod ignore;
mod index;
mod log;
mod log_options;
mod names;
mod objects;
mod repository;
mod status;
mod tags;
mod trees;
mod walk;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bashkit::time::{SystemTime, UNIX_EPOCH};
use bashkit::{Command, CommandContext, CommandStatus, Result};

use arguments::{Arguments, is_under};
use difference::Show;
use log_options::LogOptions;
use objects::Kind;
use repository::{Repository, normalize};
use trees::{compare, detect_renames};

pub(super) struct Git;

/// The version of the git that this one is tested against.
const VERSION: &str = "git version 2.47.0 (reads only)\n";

/// The supported commands.
const READS: &str = "branch cat-file config describe diff log ls-files ls-tree merge-base remote rev-list rev-parse show show-ref status symbolic-ref tag";

/// Commands of git that are not supported: they write, use the network, or are missing here.
const WRITES: &str = "add am apply archive bisect bundle checkout cherry-pick clean commit commit-tree fast-import filter-branch gc hash-object init \
     maintenance merge mktag mktree mv notes prune read-tree rebase reflog repack replace reset restore revert rm sparse-checkout stash submodule switch \
     update-index update-ref worktree write-tree";
const REMOTE: &str = "clone fetch ls-remote pull push request-pull send-email send-pack";
const MORE: &str = "blame annotate check-attr check-ignore count-objects diff-files diff-index diff-tree for-each-ref format-patch fsck grep help \
     range-diff shortlog show-branch var verify-commit verify-tag whatchanged";

/// The result of a command: its output and exit code.
struct CommandResult {
    out: Vec<u8>,
    code: i32,
}

impl From<String> for CommandResult {
    fn from(text: String) -> CommandResult {
        CommandResult { out: text.into_bytes(), code: 0 }
    }
}

impl From<Vec<u8>> for CommandResult {
    fn from(out: Vec<u8>) -> CommandResult {
        CommandResult { out, code: 0 }
    }
}

#[async_trait]
impl Command for Git {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        match run(&context).await {
            Ok(CommandResult { out, code }) => {
                context.stdout.write_all(&out).await?;
                Ok(CommandStatus::with_code(code))
            }
            Err(message) => {
                // The prefix of the message determines the exit code, as in git.
                let code = match () {
                    () if message.starts_with("fatal: ") => 128,
                    () if message.starts_with("error: No such remote ") => 2,
                    () => 1,
                };
                let end = if message.is_empty() { "" } else { "\n" };
                context.stderr.write_all(format!("{message}{end}").as_bytes()).await?;
                Ok(CommandStatus::with_code(code))
            }
        }
    }
}

async fn run(context: &CommandContext<'_>) -> std::result::Result<CommandResult, String> {
    let (mut cwd, mut settings): (PathBuf, Vec<(String, String)>) =
        (context.cwd.to_owned(), Vec::new());
    let mut rest = context.args.iter();
    let command = loop {
        match rest.next().map(String::as_str) {
            Some("-C") => {
                cwd =
                    normalize(&cwd.join(rest.next().ok_or("error: option `-C' requires a value")?))
            }
            Some("-c") => {
                let (key, value) = rest
                    .next()
                    .and_then(|pair| pair.split_once('='))
                    .ok_or("error: option `-c' is KEY=VALUE")?;
                settings.push((repository::Config::key(key), value.to_owned()));
            }
            Some(
                "--no-pager"
                | "-P"
                | "--no-optional-locks"
                | "--no-replace-objects"
                | "--literal-pathspecs",
            ) => {}
            Some("--version" | "-v" | "version") => return Ok(VERSION.to_owned().into()),
            Some(option) if option.starts_with('-') => {
                return Err(format!("fatal: this git does not support the option '{option}'"));
            }
            Some(command) => break command,
            None => {
                return Err("usage: git [-C <path>] [-c <name>=<value>] <command> [<args>]".into());
            }
        }
    };
    let args: Vec<String> = rest.cloned().collect();
    let named = |list: &str| list.split_whitespace().any(|name| name == command);
    if named(WRITES) {
        return Err(format!(
            "fatal: 'git {command}' writes to the repository, but git can only read here"
        ));
    }
    if named(REMOTE) {
        return Err(format!(
            "fatal: 'git {command}' uses the network, but git can only read the local repository here"
        ));
    }
    if named(MORE) {
        return Err(format!(
            "fatal: 'git {command}' is not supported by this git, which has only basic commands for reading"
        ));
    }
    if !named(READS) {
        return Err(format!("git: '{command}' is not a git command. See 'git --help'."));
    }
    let home = context.env.get("HOME").map(String::as_str);
    let mut repository = Repository::find(context.fs.clone(), &cwd, home).await?;
    repository.config.0.extend(settings);
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    match command {
        "log" => log(&mut repository, &args, now).await,
        "show" => show(&mut repository, &args, now).await,
        "rev-list" => rev_list(&mut repository, &args, now).await,
        "diff" => diff(&mut repository, &args).await,
        "status" => repository.status(&args).await,
        "ls-files" => repository.ls_files(&args).await,
        "rev-parse" => repository.rev_parse(&args).await,
        "branch" => repository.branch(&args).await,
        "tag" => repository.tag(&args).await,
        "describe" => repository.describe(&args).await,
        "config" => repository.config(&args),
        "remote" => repository.remote(&args),
        "symbolic-ref" => repository.symbolic_ref(&args).await,
        "show-ref" => repository.show_ref(&args).await,
        "merge-base" => repository.merge_base(&args).await,
        "cat-file" => cat_file(&mut repository, &args).await,
        _ => ls_tree(&mut repository, &args).await,
    }
}

async fn log(
    repository: &mut Repository,
    args: &[String],
    now: i64,
) -> std::result::Result<CommandResult, String> {
    let mut options = LogOptions::parse(args, repository, now).await?;
    if options.include.is_empty() {
        let head = repository.head().await.unwrap_or_default();
        let unborn = || {
            format!(
                "fatal: your current branch '{}' does not have any commits yet",
                head.trim_start_matches("refs/heads/")
            )
        };
        options.include.push(repository.reference("HEAD").await.ok_or_else(unborn)?);
    }
    let commits = repository.walk(&options).await?;
    Ok(repository.log(&commits, &options).await?.into())
}

async fn rev_list(
    repository: &mut Repository,
    args: &[String],
    now: i64,
) -> std::result::Result<CommandResult, String> {
    let options = LogOptions::parse(args, repository, now).await?;
    if options.include.is_empty() {
        return Err("usage: git rev-list [<options>] <commit>... [--] [<path>...]".into());
    }
    let commits = repository.walk(&options).await?;
    if options.count {
        return Ok(format!("{}\n", commits.len()).into());
    }
    Ok(commits.iter().map(|commit| format!("{}\n", commit.id)).collect::<String>().into())
}

async fn show(
    repository: &mut Repository,
    args: &[String],
    now: i64,
) -> std::result::Result<CommandResult, String> {
    let mut options = LogOptions::parse(args, repository, now).await?;
    options.merges = true;
    if options.include.is_empty() {
        options.include.push(repository.revision("HEAD").await?);
    }
    if !options.show.is_any() {
        options.show.patch = true;
    }
    let mut out = Vec::new();
    for (nth, id) in options.include.clone().into_iter().enumerate() {
        let object = repository.object(id).await?;
        let gap: &[u8] = if nth > 0 { b"\n" } else { b"" };
        match object.kind {
            Kind::Blob => out.extend(&object.data),
            Kind::Tree => {
                out.extend(gap);
                out.extend(
                    format!("tree {}\n\n", options.words.get(nth).map_or("", String::as_str))
                        .bytes(),
                );
                for entry in trees::entries(&object.data) {
                    out.extend(&entry.name);
                    out.extend(if entry.mode >> 12 == 4 { &b"/\n"[..] } else { b"\n" });
                }
            }
            Kind::Tag | Kind::Commit => {
                out.extend(gap);
                if object.kind == Kind::Tag {
                    out.extend(tags::tag_head(&object.data, now).bytes());
                }
                let commit = repository.peeled(id, Some(Kind::Commit)).await?;
                let commit = repository.commit(commit).await?;
                out.extend(repository.log(&[commit], &options).await?);
            }
        }
    }
    Ok(out.into())
}

async fn diff(
    repository: &mut Repository,
    args: &[String],
) -> std::result::Result<CommandResult, String> {
    let (mut show, mut staged, mut quiet, mut code) = (Show::default(), false, false, false);
    let mut arguments = Arguments::new(args, &["-U", "--unified"]);
    while let Some((option, value)) = arguments.option()? {
        match (option.as_str(), value) {
            ("--cached" | "--staged", None) => staged = true,
            ("--quiet", None) => (quiet, code) = (true, true),
            ("--exit-code", None) => code = true,
            ("-U", Some(count)) => {
                if !show.option(&format!("-U{count}")) {
                    return Err(arguments.unknown());
                }
            }
            _ if show.option(&arguments.written) => {}
            _ => return Err(arguments.unknown()),
        }
    }
    let (revisions, paths) = arguments.revisions(repository).await?;
    let (include, exclude) = (&revisions.include, &revisions.exclude);
    let index = repository.index().await?;
    let mut changed = match (include.as_slice(), exclude.as_slice()) {
        ([], []) if !staged => repository.unstaged(&index).await?,
        ([], []) | ([_], []) if staged => {
            let against = match include.first() {
                Some(id) => Some(*id),
                None => repository.reference("HEAD").await,
            };
            let tree = match against {
                Some(id) => Some(repository.tree(id).await?),
                None => None,
            };
            compare(&repository.files(tree).await?, &index::files(&index))
        }
        ([one], []) => {
            let tree = repository.tree(*one).await?;
            let (old, mut new) = (repository.files(Some(tree)).await?, index::files(&index));
            for one in repository.unstaged(&index).await? {
                match one.new {
                    Some(item) => new.insert(one.path, item),
                    None => new.remove(&one.path),
                };
            }
            compare(&old, &new)
        }
        ([_, new], [base]) | ([base, new], []) | ([new], [base]) => {
            let (base, new) = (repository.tree(*base).await?, repository.tree(*new).await?);
            repository.between(Some(base), Some(new)).await?
        }
        _ => return Err("fatal: this git compares at most two revisions".into()),
    };
    changed.retain(|one| is_under(&one.path, &paths));
    let changed = detect_renames(changed);
    if !show.is_any() {
        show.patch = true;
    }
    let out = if quiet { Vec::new() } else { repository.show(&changed, &show).await? };
    Ok(CommandResult { out, code: i32::from(code && !changed.is_empty()) })
}

async fn cat_file(
    repository: &mut Repository,
    args: &[String],
) -> std::result::Result<CommandResult, String> {
    let [option, name] = args else {
        return Err("usage: git cat-file (-e | -p | -t | -s | <type>) <object>".into());
    };
    let id = match repository.revision(name).await {
        Ok(id) => id,
        Err(_) if option == "-e" => return Ok(CommandResult { out: Vec::new(), code: 1 }),
        Err(_) => return Err(format!("fatal: Not a valid object name {name}")),
    };
    let object = repository.object(id).await?;
    Ok(match option.as_str() {
        "-e" => Vec::new().into(),
        "-t" => format!("{}\n", object.kind.name()).into(),
        "-s" => format!("{}\n", object.data.len()).into(),
        "-p" if object.kind == Kind::Tree => tree_lines(&object.data, "").concat().into(),
        option if option == "-p" || option == object.kind.name() => object.data.clone().into(),
        option => return Err(format!("fatal: this git does not support the option '{option}'")),
    })
}

fn tree_lines(data: &[u8], folder: &str) -> Vec<String> {
    let kind = |mode: u32| match mode >> 12 {
        4 => "tree",
        0o16 => "commit",
        _ => "blob",
    };
    let line = |entry: &trees::Entry| {
        let path = format!("{folder}{}", String::from_utf8_lossy(&entry.name));
        format!(
            "{:06o} {} {}\t{}\n",
            entry.mode,
            kind(entry.mode),
            entry.id,
            trees::quote_path(&path)
        )
    };
    trees::entries(data).iter().map(line).collect()
}

async fn ls_tree(
    repository: &mut Repository,
    args: &[String],
) -> std::result::Result<CommandResult, String> {
    let (mut recursive, mut names) = (false, false);
    let mut arguments = Arguments::new(args, &[]);
    while let Some((option, _)) = arguments.option()? {
        match option.as_str() {
            "-r" => recursive = true,
            "--name-only" | "--name-status" => names = true,
            "--full-tree" | "--full-name" => {}
            _ => return Err(arguments.unknown()),
        }
    }
    let operands = arguments.operands();
    let Some((revision, paths)) = operands.split_first() else {
        return Err("usage: git ls-tree [<options>] <tree-ish> [<path>...]".into());
    };
    let revision = repository.revision(revision).await?;
    let tree = repository.tree(revision).await?;
    let mut lines = Vec::new();
    if recursive {
        for (path, item) in repository.files(Some(tree)).await? {
            if is_under(&path, paths) {
                let kind = if item.mode == trees::SUBMODULE { "commit" } else { "blob" };
                lines.push(format!(
                    "{:06o} {kind} {}\t{}\n",
                    item.mode,
                    item.id,
                    trees::quote_path(&path)
                ));
            }
        }
    } else {
        let object = repository.object(tree).await?;
        lines = tree_lines(&object.data, "");
        lines.retain(|line| {
            paths.is_empty()
                || paths
                    .iter()
                    .any(|path| line.ends_with(&format!("\t{}\n", path.trim_end_matches('/'))))
        });
    }
    if names {
        lines = lines
            .iter()
            .filter_map(|line| line.split_once('\t'))
            .map(|(_, name)| name.to_owned())
            .collect();
    }
    Ok(lines.concat().into())
}

/// Returns a path relative to a folder. Both are absolute.
fn relative(path: &Path, from: &Path) -> String {
    let same = path.components().zip(from.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(same).map(|_| "..".to_owned());
    let down =
        path.components().skip(same).map(|part| part.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    if parts.is_empty() { "./".into() } else { parts.join("/") }
}
