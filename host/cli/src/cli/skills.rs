//! The skills that are there, for the verbs that take them by name.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use skillhost_catalog::{Catalog, CatalogEntry, CatalogError, Source, SourceKind};
use skillhost_policy::Policy;
use skillhost_skill::SkillFolder;

use super::exit::Exit;
use super::places::Places;
use super::{Failure, show};

/// Where skills are looked for.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Skills")]
pub(crate) struct Skills {
    /// A folder of skills, which comes before the project's and yours (repeatable)
    #[arg(long = "skills", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

/// What a name on the command line stands for.
pub(crate) enum Named {
    /// A folder, which the operator named.
    Path(PathBuf),
    /// A skill of the catalogue.
    Entry(CatalogEntry),
}

impl Named {
    /// The skill's folder.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Named::Path(path) => path,
            Named::Entry(entry) => &entry.folder,
        }
    }

    /// The folder with its source, as the host loads it.
    pub(crate) fn skill_folder(&self) -> SkillFolder<'_> {
        match self {
            Named::Path(path) => path.into(),
            Named::Entry(entry) => entry.into(),
        }
    }

    /// Tells where the policy has a section for the name of a folder that was given by its path:
    /// such a section grants it nothing.
    pub(crate) fn tell_of_sections(&self, policy: &Policy) {
        let Named::Path(path) = self else { return };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if policy.grants_by_name(&name) {
            let fix = format!("to run the skill of the catalogue: skillhost run {name}");
            show::warning(
                &format!(
                    "the policy's section for {name} grants nothing to a folder that is given by its path"
                ),
                Some(&fix),
            );
        }
    }
}

/// The folders of a project, or of a user, that hold skills.
const STANDARD: [&str; 2] = [".agents/skills", ".claude/skills"];

impl Skills {
    /// Finds the skills.
    pub(crate) fn open(&self, places: &Places, policy: &Policy) -> Result<Catalog, Failure> {
        let catalog =
            Catalog::open(self.sources(places, policy), Some(&places.cache)).map_err(|error| {
                match error {
                    CatalogError::Folder { .. } => Failure::new(Exit::Usage, error.to_string()),
                    CatalogError::Index(_) => Failure::new(Exit::Io, error.to_string()),
                }
            })?;
        let enabled = places.approvals().enabled_filter(policy).map_err(super::ask::failure)?;
        catalog.set_enabled(move |entry| enabled(&entry.name, entry.network));
        Ok(catalog)
    }

    /// The folders that skills run from, for a host to keep guests from writing them.
    pub(crate) fn folders(&self, places: &Places, policy: &Policy) -> Vec<PathBuf> {
        self.sources(places, policy).into_iter().map(|source| source.folder).collect()
    }

    /// Where to look, in the order of precedence: of two skills of one name, the first counts.
    fn sources(&self, places: &Places, policy: &Policy) -> Vec<Source> {
        let mut sources = Vec::new();
        let is_named = |folder: &Path| {
            policy
                .skill_folders
                .iter()
                .any(|named| std::path::absolute(named).is_ok_and(|named| named == folder))
        };
        let mut add = |folder: PathBuf, kind| {
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            // An operator who names a folder in the policy vouches for it, wherever it lies.
            let kind = if kind != SourceKind::Flag && is_named(&folder) {
                SourceKind::Policy
            } else {
                kind
            };
            if !sources.iter().any(|source: &Source| source.folder == folder) {
                sources.push(Source { folder, kind });
            }
        };
        self.folders.iter().for_each(|folder| add(folder.clone(), SourceKind::Flag));
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

    /// Finds the skill that an argument names: a folder where it is a path, else the catalogue's
    /// skill of that name. A folder that happens to have the name and lies in the current folder is
    /// never taken for it.
    pub(crate) fn folder(
        &self,
        named: &Path,
        places: &Places,
        policy: &Policy,
    ) -> Result<Named, Failure> {
        if is_path(named) {
            return Ok(Named::Path(named.to_owned()));
        }
        let entry = self.find(&named.to_string_lossy(), &self.open(places, policy)?)?;
        show::note(&format!("{} is {}", entry.name, entry.folder.display()));
        Ok(Named::Entry(entry))
    }

    /// Finds the catalogue's skill of a name.
    pub(crate) fn find(&self, name: &str, catalog: &Catalog) -> Result<CatalogEntry, Failure> {
        if let Some(entry) = catalog.get(name) {
            return Ok(entry);
        }
        let here = folder_here(Path::new(name));
        let fix =
            here.or_else(|| near(name, catalog)).unwrap_or_else(|| "skillhost search QUERY".into());
        Err(Failure::new(Exit::Usage, format!("the catalogue has no skill `{name}`")).fix(fix))
    }
}

/// Checks that an argument of a command that does not use the catalogue is a path, so that the same
/// argument never means two skills.
pub(crate) fn require_path(folder: &Path) -> Result<(), Failure> {
    if is_path(folder) {
        return Ok(());
    }
    let message =
        format!("`{}` is a name; a skill's folder is written with a `/`", folder.display());
    Err(Failure::new(Exit::Usage, message)
        .fix(folder_here(folder).unwrap_or_else(|| "./FOLDER, or an absolute path".into())))
}

/// Whether an argument is a path rather than a name. The empty one is no name either: the loader
/// refuses it.
fn is_path(argument: &Path) -> bool {
    let bytes = argument.as_os_str().as_bytes();
    bytes.contains(&b'/') || matches!(bytes, b"" | b"." | b"..")
}

/// The question whether the folder of that name was meant, where there is one.
fn folder_here(name: &Path) -> Option<String> {
    (!is_path(name) && name.is_dir()).then(|| format!("did you mean `./{}`?", name.display()))
}

/// The name that was probably meant.
fn near(name: &str, catalog: &Catalog) -> Option<String> {
    let entries = catalog.entries();
    let (slips, near) =
        entries.iter().map(|entry| (strsim::osa_distance(name, &entry.name), &entry.name)).min()?;
    (slips * 3 <= name.chars().count()).then(|| format!("is it {near}?"))
}

/// The project that is worked in: the repository that holds this folder, else this folder. The home
/// folder is none.
fn project(home: &Path) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the command line is used in a folder")]
    let here = std::env::current_dir().ok()?;
    let repository = here
        .ancestors()
        .take_while(|folder| *folder != home)
        .find(|folder| folder.join(".git").exists());
    Some(repository.unwrap_or(&here).to_owned()).filter(|project| project != home)
}
