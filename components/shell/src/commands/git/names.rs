//! Names: `rev-parse`, branches, remotes and configuration.

use super::arguments::Arguments;
use super::ignore::glob;
use super::objects::Kind;
use super::repository::{Config, Repository};
use super::{CommandResult, relative};

impl Repository {
    pub(super) async fn rev_parse(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut out, mut quiet, mut verify, mut short, mut named, mut full) =
            (String::new(), false, false, None, false, false);
        for arg in args {
            let path = |path: &std::path::Path| path.display().to_string();
            let line = match arg.as_str() {
                "--show-toplevel" => path(self.work()?),
                "--git-dir" | "--absolute-git-dir" => {
                    // git prints the relative path where it is short.
                    let plain = self.work.as_deref() == Some(&self.cwd)
                        && self.folder == self.cwd.join(".git")
                        && arg == "--git-dir";
                    if plain { ".git".into() } else { path(&self.folder) }
                }
                "--git-common-dir" => {
                    let plain = self.common == self.cwd.join(".git");
                    if plain { ".git".into() } else { relative(&self.common, &self.cwd) }
                }
                "--is-inside-work-tree" => self.work.is_some().to_string(),
                "--is-inside-git-dir" => self.cwd.starts_with(&self.folder).to_string(),
                "--is-bare-repository" => self.work.is_none().to_string(),
                "--is-shallow-repository" => {
                    self.fs.exists(&self.common.join("shallow")).await.unwrap_or(false).to_string()
                }
                "--show-object-format" => "sha1".into(),
                "--show-prefix" => match self.below_root(".")? {
                    below if below.is_empty() => below,
                    below => format!("{below}/"),
                },
                "--show-cdup" => match relative(self.work()?, &self.cwd) {
                    up if up == "./" => String::new(),
                    up => format!("{up}/"),
                },
                "-q" | "--quiet" => {
                    quiet = true;
                    continue;
                }
                "--verify" => {
                    verify = true;
                    continue;
                }
                "--short" => {
                    short = Some(0);
                    continue;
                }
                "--abbrev-ref" | "--abbrev-ref=strict" | "--abbrev-ref=loose" => {
                    named = true;
                    continue;
                }
                "--symbolic-full-name" => {
                    full = true;
                    continue;
                }
                "--" => continue,
                option if option.starts_with("--short=") => {
                    short = option["--short=".len()..].parse().ok();
                    continue;
                }
                option if option.starts_with('-') => {
                    return Err(format!("fatal: this git does not support the option '{option}'"));
                }
                word => {
                    let found = if named || full {
                        self.name_of(word, full).await
                    } else {
                        self.id_of(word, short).await
                    };
                    match found {
                        Ok(line) => line,
                        Err(_) if quiet => return Err(String::new()),
                        Err(_) if verify || short.is_some() => {
                            return Err("fatal: Needed a single revision".into());
                        }
                        // git writes the unresolved word to stdout as well.
                        Err(error) => return Err(error),
                    }
                }
            };
            out += &format!("{line}\n");
        }
        Ok(out.into())
    }

    async fn id_of(&mut self, word: &str, short: Option<usize>) -> Result<String, String> {
        if let Some((from, to)) = word.split_once("..").filter(|(_, to)| !to.starts_with('.')) {
            let or_head =
                |text: &str| if text.is_empty() { "HEAD".to_owned() } else { text.to_owned() };
            return Ok(format!(
                "{}\n^{}",
                self.revision(&or_head(to)).await?,
                self.revision(&or_head(from)).await?
            ));
        }
        let id = self.revision(word).await?;
        Ok(match short {
            None => id.to_string(),
            Some(0) => self.short(id).await,
            Some(least) => self.short_from(id, least).await,
        })
    }

    async fn name_of(&mut self, word: &str, full: bool) -> Result<String, String> {
        let word = if word == "@" { "HEAD" } else { word };
        let name = match word.strip_suffix("@{u}").or_else(|| word.strip_suffix("@{upstream}")) {
            Some(branch) => {
                let head = self.head().await;
                let of = if branch.is_empty() || branch == "HEAD" {
                    head
                } else {
                    Some(format!("refs/heads/{branch}"))
                };
                let of = of.ok_or("fatal: HEAD does not point to a branch")?;
                let short = of.trim_start_matches("refs/heads/").to_owned();
                self.upstream(&of)
                    .ok_or_else(|| format!("fatal: no upstream configured for branch '{short}'"))?
            }
            None if word == "HEAD" => {
                self.revision(word).await?;
                self.head().await.unwrap_or_else(|| "HEAD".into())
            }
            None => {
                self.revision(word).await?;
                self.full_name(word).await.unwrap_or_default()
            }
        };
        Ok(if full { name } else { short_name(&name).to_owned() })
    }

    pub(super) async fn branch(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut below, mut verbose, mut format, mut list) =
            (vec!["refs/heads/"], false, None, false);
        let mut arguments = Arguments::new(args, &["--format", "--sort"]);
        while let Some((option, value)) = arguments.option()? {
            match (option.as_str(), value) {
                ("--show-current", None) => {
                    let head = self.head().await.unwrap_or_default();
                    let name = short_name(&head);
                    return Ok(
                        if name.is_empty() { String::new() } else { format!("{name}\n") }.into()
                    );
                }
                ("-a" | "--all", None) => below = vec!["refs/heads/", "refs/remotes/"],
                ("-r" | "--remotes", None) => below = vec!["refs/remotes/"],
                ("-l" | "--list", None) => list = true,
                ("-v" | "--verbose", None) => verbose = true,
                ("--no-color" | "--no-column", None) => {}
                ("--format", Some(text)) => format = Some(text),
                (
                    "-d" | "-D" | "-m" | "-M" | "-c" | "-C" | "-f" | "-u" | "--delete" | "--move"
                    | "--copy" | "--set-upstream-to" | "--unset-upstream",
                    _,
                ) => {
                    return Err(
                        "fatal: 'git branch' writes to the repository, but git can only read here"
                            .into(),
                    );
                }
                _ => return Err(arguments.unknown()),
            }
        }
        let patterns = arguments.operands();
        if !patterns.is_empty() && !list {
            return Err("fatal: 'git branch' creates a branch, but git can only read here".into());
        }
        let head = self.head().await;
        let both = below.len() > 1;
        let mut rows = Vec::new();
        if head.is_none() && below[0] == "refs/heads/" && !list {
            let id = self.revision("HEAD").await?;
            let label = self
                .detached()
                .await?
                .map_or("(no branch)".into(), |(at, name)| format!("(HEAD detached {at} {name})"));
            rows.push(('*', label, id, String::new()));
        }
        for folder in below {
            for (name, id) in self.references(folder).await {
                let mark = if Some(&name) == head.as_ref() { '*' } else { ' ' };
                let label = if both && folder == "refs/remotes/" {
                    &name["refs/".len()..]
                } else {
                    &name[folder.len()..]
                };
                let short = &name[folder.len()..];
                if !patterns.is_empty()
                    && !patterns.iter().any(|pattern| {
                        glob(pattern.replace('*', "**").as_bytes(), short.as_bytes())
                    })
                {
                    continue;
                }
                let to = match name.ends_with("/HEAD") && folder == "refs/remotes/" {
                    true => super::repository::text_of(&*self.fs, &self.common.join(&name)).await,
                    false => None,
                };
                let to = to.and_then(|text| {
                    text.trim().strip_prefix("ref: refs/remotes/").map(|to| format!(" -> {to}"))
                });
                rows.push((mark, label.to_owned(), id, to.unwrap_or_default()));
            }
        }
        let width = rows.iter().map(|(_, label, ..)| label.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (mark, label, id, to) in rows {
            if let Some(format) = &format {
                let text = format
                    .replace("%(refname:short)", &label)
                    .replace("%(objectname:short)", &self.short(id).await);
                let text = text
                    .replace("%(objectname)", &id.to_string())
                    .replace("%(HEAD)", &mark.to_string());
                if text.contains("%(") {
                    return Err(format!("fatal: this git does not support the format '{format}'"));
                }
                out += &format!("{text}\n");
            } else if verbose && to.is_empty() {
                let commit = self.commit(id).await?;
                let pad = " ".repeat(width - label.chars().count());
                let counts = match self.tracking(Some(format!("refs/heads/{label}"))).await? {
                    Some((_, None)) => " [gone]".into(),
                    Some((_, Some(counts))) => super::status::ahead(counts),
                    None => String::new(),
                };
                out += &format!(
                    "{mark} {label}{pad} {}{counts} {}\n",
                    self.short(id).await,
                    commit.subject()
                );
            } else {
                out += &format!("{mark} {label}{to}\n");
            }
        }
        Ok(out.into())
    }

    pub(super) fn config(&self, args: &[String]) -> Result<CommandResult, String> {
        let mut words = Vec::new();
        let (mut list, mut all, mut default) = (false, false, None);
        for arg in args {
            match arg.as_str() {
                "--get" | "get" | "--local" | "--global" | "--system" | "--includes"
                | "--type=bool" | "--bool" | "--type=path" => {}
                "--get-all" => all = true,
                "-l" | "--list" | "list" => list = true,
                option if option.starts_with("--default=") => {
                    default = Some(option["--default=".len()..].to_owned())
                }
                "--unset" | "--add" | "--replace-all" | "set" | "unset" | "--unset-all" | "-e"
                | "--edit" => {
                    return Err(
                        "fatal: 'git config' writes to the repository, but git can only read here"
                            .into(),
                    );
                }
                option if option.starts_with('-') => {
                    return Err(format!("fatal: this git does not support the option '{option}'"));
                }
                word => words.push(word),
            }
        }
        if list {
            return Ok(self
                .config
                .0
                .iter()
                .map(|(key, value)| format!("{key}={value}\n"))
                .collect::<String>()
                .into());
        }
        match words[..] {
            [key] if !key.contains('.') => {
                Err(format!("error: key does not contain a section: {key}"))
            }
            [key] => {
                let key = Config::key(key);
                let mut values: Vec<&str> = self
                    .config
                    .0
                    .iter()
                    .filter(|(name, _)| *name == key)
                    .map(|(_, value)| value.as_str())
                    .collect();
                if !all && values.len() > 1 {
                    values.drain(..values.len() - 1);
                }
                values.extend(default.as_deref().filter(|_| values.is_empty()));
                let code = i32::from(values.is_empty());
                Ok(CommandResult {
                    out: values
                        .iter()
                        .map(|value| format!("{value}\n"))
                        .collect::<String>()
                        .into_bytes(),
                    code,
                })
            }
            [_, _] => {
                Err("fatal: 'git config' writes to the repository, but git can only read here"
                    .into())
            }
            _ => Err("usage: git config [--get] <name>".into()),
        }
    }

    pub(super) fn remote(&self, args: &[String]) -> Result<CommandResult, String> {
        let urls = |name: &str| {
            let key = format!("remote.{name}.url");
            self.config.0.iter().find(|(known, _)| *known == key).map(|(_, url)| url.clone())
        };
        let mut names: Vec<&str> = self
            .config
            .0
            .iter()
            .filter_map(|(key, _)| key.strip_prefix("remote.")?.strip_suffix(".url"))
            .collect();
        names.sort_unstable();
        names.dedup();
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match words[..] {
            [] => Ok(names.iter().map(|name| format!("{name}\n")).collect::<String>().into()),
            ["-v" | "--verbose"] => {
                let push = |name: &str| {
                    self.config
                        .get(&format!("remote.{name}.pushurl"))
                        .map(str::to_owned)
                        .or_else(|| urls(name))
                };
                let line = |name: &&str| {
                    let (fetch, push) =
                        (urls(name).unwrap_or_default(), push(name).unwrap_or_default());
                    format!("{name}\t{fetch} (fetch)\n{name}\t{push} (push)\n")
                };
                Ok(names.iter().map(line).collect::<String>().into())
            }
            ["get-url", name] | ["get-url", "--push", name] => match urls(name) {
                Some(url) => Ok(format!("{url}\n").into()),
                None => Err(format!("error: No such remote '{name}'")),
            },
            [verb, ..] => Err(format!(
                "fatal: 'git remote {verb}' is not supported: git can only read the repository here"
            )),
        }
    }

    pub(super) async fn symbolic_ref(&self, args: &[String]) -> Result<CommandResult, String> {
        let (mut short, mut words) = (false, Vec::new());
        for arg in args {
            match arg.as_str() {
                "--short" => short = true,
                "-q" | "--quiet" => {}
                option if option.starts_with('-') => {
                    return Err(format!("fatal: this git does not support the option '{option}'"));
                }
                word => words.push(word),
            }
        }
        let [name] = words[..] else {
            return Err(
                "fatal: 'git symbolic-ref' with a target writes, but git can only read here".into(),
            );
        };
        let text = super::repository::text_of(&*self.fs, &self.common.join(name)).await;
        let head = if name == "HEAD" {
            self.head().await
        } else {
            text.and_then(|text| Some(text.trim().strip_prefix("ref: ")?.to_owned()))
        };
        let target = head.ok_or_else(|| format!("fatal: ref {name} is not a symbolic ref"))?;
        Ok(format!("{}\n", if short { short_name(&target) } else { &target }).into())
    }

    pub(super) async fn show_ref(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut below, mut verify, mut quiet) = ("refs/", false, false);
        let mut arguments = Arguments::new(args, &[]);
        while let Some((option, _)) = arguments.option()? {
            match option.as_str() {
                "--heads" | "--branches" => below = "refs/heads/",
                "--tags" => below = "refs/tags/",
                "--verify" => verify = true,
                "-q" | "--quiet" => quiet = true,
                _ => return Err(arguments.unknown()),
            }
        }
        let wanted = arguments.operands();
        let fits = |name: &str| {
            let ends = |pattern: &String| {
                name == pattern || !verify && name.ends_with(&format!("/{pattern}"))
            };
            wanted.is_empty() || wanted.iter().any(ends)
        };
        let found: Vec<_> =
            self.references(below).await.into_iter().filter(|(name, _)| fits(name)).collect();
        if let Some(name) = wanted.first().filter(|_| verify && !quiet && found.is_empty()) {
            return Err(format!("fatal: '{name}' - not a valid ref"));
        }
        let lines: String =
            found.iter().filter(|_| !quiet).map(|(name, id)| format!("{id} {name}\n")).collect();
        Ok(CommandResult { out: lines.into_bytes(), code: i32::from(found.is_empty()) })
    }

    pub(super) async fn merge_base(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (ancestor, words) = match args {
            [option, rest @ ..] if option == "--is-ancestor" => (true, rest),
            all => (false, all),
        };
        let [one, other] = words else {
            return Err("usage: git merge-base [--is-ancestor] <commit> <commit>".into());
        };
        let (one, other) = (self.revision(one).await?, self.revision(other).await?);
        let (one, other) = (
            self.peeled(one, Some(Kind::Commit)).await?,
            self.peeled(other, Some(Kind::Commit)).await?,
        );
        if ancestor {
            return Ok(CommandResult {
                out: Vec::new(),
                code: i32::from(!self.ancestors(&[other]).await?.contains(&one)),
            });
        }
        let base = self.base(one, other).await?;
        Ok(CommandResult {
            out: base.map(|id| format!("{id}\n")).unwrap_or_default().into_bytes(),
            code: i32::from(base.is_none()),
        })
    }
}

fn short_name(name: &str) -> &str {
    ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/"]
        .iter()
        .find_map(|form| name.strip_prefix(form))
        .unwrap_or(name)
}
