//! Which skills an argument names, and where skills are looked for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use skillhost_catalog::{Catalog, CatalogEntry, Source, SourceKind};
use skillhost_policy::Origin;
use skillhost_policy::diagnostic::quoted;
use skillhost_skill::SkillFolder;

use crate::context::{Context, SKILLS_VARIABLE};
use crate::error::CliError;
use crate::{output, sources};

/// Where skills are looked for.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Skills")]
pub(crate) struct Skills {
    /// Look for skills in this folder first, before the project's and yours (repeatable)
    #[arg(long = "skills", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Whether only skills of lock files exist.
    #[arg(skip)]
    pub(crate) frozen: bool,
}

/// A selection of skills.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Skills")]
pub(crate) struct Tags {
    /// Use only skills that have this tag in metadata.tags or metadata.category (repeatable; one of
    /// the tags is enough)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl Tags {
    pub(crate) fn names(&self) -> &[String] {
        &self.tags
    }
}

/// The skill that an argument names.
pub(crate) enum SkillRef {
    /// A folder, which the operator named.
    Path(PathBuf),
    /// A skill of the catalog.
    Entry(CatalogEntry),
}

impl SkillRef {
    /// The skill's folder.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            SkillRef::Path(path) => path,
            SkillRef::Entry(entry) => &entry.folder,
        }
    }

    /// The skill's name: that of its folder.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match self {
            SkillRef::Path(path) => path.file_name().unwrap_or_default().to_string_lossy(),
            SkillRef::Entry(entry) => Cow::Borrowed(&*entry.name),
        }
    }

    /// The folder and its source, as the host loads them.
    pub(crate) fn skill_folder(&self) -> SkillFolder<'_> {
        match self {
            SkillRef::Path(path) => path.into(),
            SkillRef::Entry(entry) => entry.into(),
        }
    }

    /// Warns if the policy has a section for the name of a folder that was given by its path: such
    /// a section grants the folder nothing.
    pub(crate) fn warn_of_sections(&self, skills: &Skills, context: &Context) {
        let SkillRef::Path(folder) = self else { return };
        let name = self.name();
        if context.policy.grants_by_name(&name) {
            let message = format!(
                "the policy's section for {name} grants nothing to a folder given by its path"
            );
            let is_installed =
                context.catalog(skills).is_ok_and(|catalog| catalog.get(&name).is_some());
            let fix = match by_name(folder) {
                _ if is_installed => {
                    format!("to run the installed skill: skillhost run {}", quoted(&name))
                }
                Some(command) => {
                    format!("run it by its name, `{command}`, or put the entries below `default:`")
                }
                None => "put the entries below `default:`".to_owned(),
            };
            output::warning(&message, Some(&fix));
        }
    }
}

/// Returns the command that runs the skill in a folder by its name.
pub(crate) fn by_name(folder: &Path) -> Option<String> {
    let name = folder.file_name()?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let words = [name.to_string_lossy(), parent.unwrap_or(Path::new(".")).to_string_lossy()];
    let [name, parent] = words.map(|word| quoted(&word));
    Some(format!("skillhost run {name} --skills {parent}"))
}

/// Folders that hold the skills of a project or of a user.
pub(crate) const STANDARD: [&str; 2] = [".agents/skills", ".claude/skills"];

impl Skills {
    /// Whether no folder was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// The same folders, whatever the current folder is.
    pub(crate) fn absolute(&self) -> Skills {
        let absolute = |folder: &PathBuf| std::path::absolute(folder).unwrap_or(folder.clone());
        Skills { folders: self.folders.iter().map(absolute).collect(), frozen: self.frozen }
    }

    /// Where to look for skills, in order of precedence: the first of two skills with one name
    /// shadows the other.
    pub(crate) fn sources(&self, context: &Context) -> Vec<Source> {
        let Context { places, policy } = context;
        let mut sources = Vec::new();
        let is_named = |folder: &Path| {
            policy
                .skill_folders
                .iter()
                .any(|named| std::path::absolute(named).is_ok_and(|named| named == folder))
        };
        let mut add = |folder: PathBuf, kind| {
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            // An operator who names a folder in the policy vouches for it, wherever it is.
            let kind = if kind != SourceKind::Flag && is_named(&folder) {
                SourceKind::Policy
            } else {
                kind
            };
            if !sources.iter().any(|source: &Source| source.folder == folder) {
                sources.push(Source::new(folder, kind));
            }
        };
        self.folders.iter().for_each(|folder| add(folder.clone(), SourceKind::Flag));
        #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
        let of_agent = std::env::var_os(SKILLS_VARIABLE).filter(|folder| !folder.is_empty());
        of_agent.into_iter().for_each(|folder| add(folder.into(), SourceKind::Flag));
        let project = project(&places.home);
        project
            .iter()
            .flat_map(|project| STANDARD.map(|name| project.join(name)))
            .for_each(|folder| add(folder, SourceKind::Project));
        STANDARD.into_iter().for_each(|name| add(places.home.join(name), SourceKind::User));
        policy.skill_folders.iter().for_each(|folder| add(folder.clone(), SourceKind::Policy));
        places.built_in_skills().into_iter().for_each(|folder| add(folder, SourceKind::BuiltIn));
        sources
    }

    /// Where to look for skills, with those that were fetched. With `frozen`, only those.
    pub(crate) fn all_sources(&self, context: &Context) -> Result<Vec<Source>, CliError> {
        let fetched = sources::installed(&context.places, self.frozen)?;
        if self.frozen {
            return Ok(fetched);
        }
        let mut all = self.sources(context);
        let at = all.iter().rposition(|source| source.kind <= SourceKind::User);
        let after = at.map_or(0, |at| at + 1);
        all.splice(after..after, fetched);
        Ok(all)
    }

    /// Warns of sections of the policy that apply to no skill, but whose name resembles a skill's:
    /// what they grant or restrict has no effect. If `run` names the skill that runs, only sections
    /// that resemble that name count, because looking for all skills takes longer than a start.
    pub(crate) fn warn_of_unknown_sections(&self, run: Option<&str>, context: &Context) {
        let concerns_run = |name: &str| {
            run.is_none_or(|run| name != run && is_similar(name, strsim::osa_distance(name, run)))
        };
        let layers = context.policy.layers.iter();
        let sections: BTreeMap<&str, &str> = layers
            .filter_map(|layer| {
                let name = layer.applies_to.as_ref().filter(|name| name.is_literal())?.pattern();
                Some((name, layer.place.as_deref()?))
            })
            .filter(|(name, _)| concerns_run(name))
            .collect();
        if sections.is_empty() || output::is_quiet() {
            return;
        }
        let Ok(catalog) = context.catalog(self) else { return };
        for (name, place) in sections {
            if catalog.get(name).is_none()
                && let Some(similar) = similar_name(name, &catalog)
            {
                let message = format!("{place}: no skill is called `{name}`; {similar}");
                output::warning(&message, None);
            }
        }
    }

    /// Warns of folders that the policy names and that do not exist: those of skills and, since a
    /// run reports its own, of mounts if `mounts` is set.
    pub(crate) fn warn_of_missing_folders(&self, context: &Context, mounts: bool) {
        let policy = &context.policy;
        let file = policy.layers.iter().find_map(|layer| match &layer.origin {
            Origin::File(path) => Some(path.display().to_string()),
            Origin::BuiltIn | Origin::CommandLine => None,
        });
        let skills = policy
            .skill_folders
            .iter()
            .map(|folder| (file.as_deref().unwrap_or("the policy"), "`skill-folders`", folder));
        let rules = policy
            .layers
            .iter()
            .filter(|layer| mounts && matches!(layer.origin, Origin::File(_)))
            .flat_map(|layer| &layer.mounts)
            .map(|rule| (rule.place.as_str(), "a mount", &rule.mount.host));
        let missing: BTreeSet<_> =
            skills.chain(rules).filter(|(.., path)| !path.exists()).collect();
        for (place, by, folder) in missing {
            let folder = folder.display();
            output::warning(&format!("{place}: {by} names {folder}, which does not exist"), None);
        }
    }

    /// Resolves an argument: a path is a folder, anything else is the name of a skill in the
    /// catalog. A folder in the current directory that happens to have the name is never used.
    pub(crate) fn resolve(&self, argument: &Path, context: &Context) -> Result<SkillRef, CliError> {
        if is_path(argument) && self.frozen {
            let message = format!(
                "{} is a folder, and --frozen allows only locked skills",
                argument.display()
            );
            return Err(CliError::usage(message).fix("name a skill of skills.lock: skillhost list"));
        }
        if is_path(argument) {
            output::info(|| format!("skill: {}, a folder", argument.display()));
            return Ok(SkillRef::Path(argument.to_owned()));
        }
        let entry = find(&argument.to_string_lossy(), &context.catalog(self)?)?;
        output::note(&format!("{} is {}", entry.name, entry.folder.display()));
        Ok(SkillRef::Entry(entry))
    }
}

/// Finds the skill of a name in a catalog.
pub(crate) fn find(name: &str, catalog: &Catalog) -> Result<CatalogEntry, CliError> {
    if let Some(entry) = catalog.get(name) {
        return Ok(entry);
    }
    let fix = folder_here(Path::new(name))
        .or_else(|| similar_name(name, catalog))
        .unwrap_or_else(|| "skillhost search QUERY".into());
    Err(CliError::usage(format!("no skill `{name}`")).code("no-skill").fix(fix))
}

/// Refuses an argument that is a name, for a command that does not use the catalog: otherwise one
/// argument could mean two skills.
pub(crate) fn require_path(folder: &Path) -> Result<(), CliError> {
    if is_path(folder) {
        return Ok(());
    }
    let message = format!("`{}` is a name; write a skill's folder with a `/`", folder.display());
    let fix = folder_here(folder).unwrap_or_else(|| "./FOLDER, or an absolute path".into());
    Err(CliError::usage(message).fix(fix))
}

/// Whether an argument is a path rather than a name. The empty argument counts as a path, which the
/// loader refuses.
fn is_path(argument: &Path) -> bool {
    let bytes = argument.as_os_str().as_bytes();
    bytes.contains(&b'/') || matches!(bytes, b"" | b"." | b"..")
}

/// Asks whether the folder of that name was meant, if there is one.
fn folder_here(name: &Path) -> Option<String> {
    let folder = || quoted(&Path::new(".").join(name).to_string_lossy());
    (!is_path(name) && name.is_dir()).then(|| format!("did you mean `{}`?", folder()))
}

/// Asks whether the most similar name was meant, if one is similar enough.
pub(crate) fn similar_name(name: &str, catalog: &Catalog) -> Option<String> {
    let entries = catalog.entries();
    let (distance, similar) =
        entries.iter().map(|entry| (strsim::osa_distance(name, &entry.name), &entry.name)).min()?;
    is_similar(name, distance).then(|| format!("did you mean `{similar}`?"))
}

/// Checks whether this many edits may be a slip in typing a name.
fn is_similar(name: &str, edits: usize) -> bool {
    edits * 3 <= name.chars().count()
}

/// The current project: the repository that holds the current directory, else that directory.
/// Never the home folder.
pub(crate) fn project(home: &Path) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the command line is used in a folder")]
    let here = std::env::current_dir().ok()?;
    let repository = here
        .ancestors()
        .take_while(|folder| *folder != home)
        .find(|folder| folder.join(".git").exists());
    Some(repository.unwrap_or(&here).to_owned()).filter(|project| project != home)
}
